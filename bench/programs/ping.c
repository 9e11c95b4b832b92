/*
 * The least that a program can do before it waits for a job's steps: connects, says PING, and asks
 * for one as an agent does.
 *
 *   ping PORT JOB
 */
#include <hiredis/hiredis.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  if (argc != 3)
    return 64;
  redisContext *redis = redisConnect("127.0.0.1", (int)strtol(argv[1], NULL, 10));
  if (redis == NULL || redis->err != 0 || redisCommand(redis, "PING") == NULL)
    return 1;
  void *step = redisCommand(redis, "BLMOVE sandbox:%s:in sandbox:%s:inflight RIGHT LEFT 0", argv[2],
                            argv[2]);
  return step == NULL;
}
