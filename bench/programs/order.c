/* order PORT JOB STEP: the least that a program can do for a step and its result. It connects,
   reads the heartbeat, pushes the step and waits for the result: three round trips. Exits with 0 if
   the result has the exit code 0. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  if (argc != 4)
    return 64;
  redisContext *redis = redisConnect("127.0.0.1", (int)strtol(argv[1], NULL, 10));
  if (redis == NULL || redis->err != 0)
    return 1;
  const redisReply *beat = redisCommand(redis, "GET sandbox:%s:heartbeat", argv[2]);
  const redisReply *pushed = redisCommand(redis, "LPUSH sandbox:%s:in %s", argv[2], argv[3]);
  if (beat == NULL || beat->type != REDIS_REPLY_STRING || pushed == NULL)
    return 1;
  const redisReply *result = redisCommand(redis, "BRPOP sandbox:%s:results 0", argv[2]);
  return result == NULL || result->elements != 2 ||
         strstr(result->element[1]->str, "\"exitCode\":0") == NULL;
}
