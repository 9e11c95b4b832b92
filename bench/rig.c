#include "bench/rig.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/latency.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* A reply that takes longer, even to a blocking command, never comes. */
#define ANSWER_BOUND_SECONDS 130

static void init(struct rig *self, bool is_tls) {
  self->server = endpoint_start(&self->endpoint, is_tls);
  self->redis = rig_connect(self);
}

void rig_init(struct rig *self) {
  init(self, false);
}

void rig_init_tls(struct rig *self) {
  init(self, true);
}

void rig_release(struct rig *self) {
  redisFree(self->redis);
  redis_server_stop(self->server);
  endpoint_release(&self->endpoint);
}

redisContext *rig_connect(const struct rig *self) {
  redisContext *redis = redisConnect("127.0.0.1", redis_server_port(self->server));
  if (redis == NULL || redis->err != 0)
    fail_msg("no connection to redis-server over the loopback");
  redisSetTimeout(redis, (struct timeval){.tv_sec = ANSWER_BOUND_SECONDS});
  return redis;
}

void rig_arguments(const struct rig *self, const char *job, const char *const *more,
                   const char *out[RIG_ARGUMENTS_MAX + 1]) {
  const struct endpoint *endpoint = &self->endpoint;
  const char *const first[] = {"--redis-url", endpoint->url, "--job-id",
                               job,           "--cacert",    endpoint->authority};
  size_t count = endpoint->tls == NULL ? 4 : 6;
  memcpy(out, first, count * sizeof *first);
  while (more != NULL && *more != NULL && count < RIG_ARGUMENTS_MAX)
    out[count++] = *more++;
  out[count] = NULL;
}

struct agent_process *rig_start_agent(const struct rig *self, const char *job,
                                      const char *const *more) {
  const char *arguments[RIG_ARGUMENTS_MAX + 1];
  rig_arguments(self, job, more, arguments);
  return agent_process_start(&(struct agent_setup){.arguments = arguments});
}

long rig_info(const struct rig *self, const char *field) {
  char label[64];
  (void)snprintf(label, sizeof label, "\n%s:", field);
  redisReply *reply = redisCommand(self->redis, "INFO");
  const char *found = reply == NULL || reply->str == NULL ? NULL : strstr(reply->str, label);
  long figure = found == NULL ? -1 : strtol(found + strlen(label), NULL, 10);
  if (figure < 0)
    fail_msg("redis-server does not report its %s", field);
  freeReplyObject(reply);
  return figure;
}

struct idle_query {
  const struct rig *rig;
  long wanted;
  long found;
};

/* Counts the connections on which an agent waits for a step. Another one waits for control
   messages. */
static bool find_idle(void *context) {
  struct idle_query *query = context;
  redisAppendCommand(query->rig->redis, "CLIENT LIST");
  redisReply *reply = rig_reply(query->rig->redis);
  query->found = 0;
  char *rest = NULL;
  for (char *line = strtok_r(reply->str, "\n", &rest); line != NULL;
       line = strtok_r(NULL, "\n", &rest))
    query->found += strstr(line, ":in age=") != NULL && strstr(line, " flags=b ") != NULL;
  freeReplyObject(reply);
  return query->found == query->wanted;
}

void rig_wait_idle(const struct rig *self, long agents) {
  struct idle_query query = {.rig = self, .wanted = agents};
  if (!wait_until(find_idle, &query, WAIT_BOUND_MS))
    fail_msg("%ld agents wait for a step, expected %ld", query.found, agents);
}

static redisReply *check(const redisContext *redis, redisReply *reply) {
  if (reply == NULL)
    fail_msg("redis-server: %s", redis->errstr);
  else if (reply->type == REDIS_REPLY_ERROR)
    fail_msg("redis-server: %s", reply->str);
  return reply;
}

void rig_send(redisContext *redis) {
  int done = 0;
  while (done == 0)
    if (redisBufferWrite(redis, &done) != REDIS_OK)
      fail_msg("redis-server: %s", redis->errstr);
}

redisReply *rig_reply(redisContext *redis) {
  void *reply = NULL;
  (void)redisGetReply(redis, &reply);
  return check(redis, reply);
}

long long rig_number(redisContext *redis, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = check(redis, redisvCommand(redis, format, arguments));
  va_end(arguments);
  assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
  long long number = reply->integer;
  freeReplyObject(reply);
  return number;
}

void rig_do(redisContext *redis, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  freeReplyObject(check(redis, redisvCommand(redis, format, arguments)));
  va_end(arguments);
}

/* The IDs are as long as those of existing servers, which are GUIDs. */
void rig_step(char out[RIG_STEP_SIZE], unsigned long number, const char *program,
              const char *arguments) {
  (void)snprintf(out, RIG_STEP_SIZE,
                 "{\"schemaVersion\":1,\"stepId\":\"" RIG_STEP_ID "\","
                 "\"kind\":\"run\",\"command\":\"%s\",\"args\":[%s]}",
                 number, program, arguments);
}

double rig_step_ms(const struct rig *self, redisContext *results, const char *job,
                   const char *step) {
  redisAppendCommand(results, "BRPOP sandbox:%s:results 0", job);
  rig_send(results);
  double begin = latency_now_ms();
  redisAppendCommand(self->redis, "LPUSH sandbox:%s:in %s", job, step);
  rig_send(self->redis);
  redisReply *reply = rig_reply(results);
  double ms = latency_now_ms() - begin;
  if (reply->elements != 2 || strstr(reply->element[1]->str, "\"exitCode\":0") == NULL)
    fail_msg("the step failed: %.400s", reply->elements == 2 ? reply->element[1]->str : "");
  freeReplyObject(reply);
  freeReplyObject(rig_reply(self->redis));
  return ms;
}

void rig_program(char out[PATH_MAX], const char *name) {
  const char *directory = getenv("BENCH_PROGRAMS");
  char path[PATH_MAX];
  (void)snprintf(path, sizeof path, "%s/%s", directory == NULL ? "." : directory, name);
  if (realpath(path, out) == NULL || access(out, X_OK) != 0)
    fail_msg("cannot execute %s; set BENCH_PROGRAMS to the directory of bench/programs", path);
}

void rig_spawn(const char *const *arguments) {
  pid_t pid;
  int status;
  char **argv = (char **)(uintptr_t)arguments;
  if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environ) != 0 ||
      waitpid(pid, &status, 0) != pid || status != 0)
    fail_msg("%s fails", argv[0]);
}
