#include "tests/support/redis_sentinel.h"

#include "tests/test.h"

/* One connection, which is used again and again. */
struct question {
  redisContext *redis;
  size_t expected;
};

/* A known replica is not enough: only one that has answered may be promoted. */
static bool knows_replicas(void *context) {
  const struct question *question = context;
  redisReply *reply = redisCommand(question->redis, "SENTINEL REPLICAS " REDIS_SENTINEL_MASTER);
  bool knows =
      reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == question->expected;
  for (size_t i = 0; knows && i < reply->elements; i++) {
    const redisReply *fields = reply->element[i];
    for (size_t f = 0; f + 1 < fields->elements; f += 2) {
      const char *value = fields->element[f + 1]->str;
      if (strcmp(fields->element[f]->str, "flags") == 0)
        knows &= strcmp(value, "slave") == 0;
      else if (strcmp(fields->element[f]->str, "master-link-status") == 0)
        knows &= strcmp(value, "ok") == 0;
    }
  }
  freeReplyObject(reply);
  return knows;
}

struct redis_server *redis_sentinel_start(const struct redis_server *master, int replicas,
                                          const char *password) {
  static const char *const extra[] = {"--sentinel", NULL};
  char config[512];
  int length = snprintf(config, sizeof config,
                        "sentinel monitor %s 127.0.0.1 %d 1\n"
                        "sentinel down-after-milliseconds %s 60000\n"
                        "sentinel failover-timeout %s 5000\n",
                        REDIS_SENTINEL_MASTER, redis_server_port(master), REDIS_SENTINEL_MASTER,
                        REDIS_SENTINEL_MASTER);
  if (password != NULL)
    snprintf(config + length, sizeof config - (size_t)length,
             "sentinel auth-pass %s %s\nrequirepass %s\n", REDIS_SENTINEL_MASTER, password,
             password);
  struct redis_server *self = redis_server_start_configured(config, extra);
  struct question question = {.redis = redis_server_connect(self), .expected = (size_t)replicas};
  if (password != NULL)
    freeReplyObject(redisCommand(question.redis, "AUTH %s", password));
  if (!wait_until(knows_replicas, &question, WAIT_BOUND_MS))
    fail_msg("the sentinel does not find %d replicas", replicas);
  redisFree(question.redis);
  return self;
}

static bool is_linked(void *context) {
  const struct question *question = context;
  redisReply *reply = redisCommand(question->redis, "INFO replication");
  bool linked = reply != NULL && strstr(reply->str, "master_link_status:up") != NULL;
  freeReplyObject(reply);
  return linked;
}

struct redis_server *redis_sentinel_replica(const struct redis_server *master) {
  struct redis_server *self = redis_server_start(NULL);
  struct question question = {.redis = redis_server_connect(self)};
  freeReplyObject(
      redisCommand(question.redis, "REPLICAOF 127.0.0.1 %d", redis_server_port(master)));
  if (!wait_until(is_linked, &question, WAIT_BOUND_MS))
    fail_msg("the replica does not find its master");
  redisFree(question.redis);
  return self;
}

/* WAIT only counts writes of its own connection. */
void redis_sentinel_catch_up(const struct redis_server *master, int replicas) {
  redisContext *redis = redis_server_connect(master);
  freeReplyObject(redisCommand(redis, "SET caught-up yes"));
  redisReply *reply = redisCommand(redis, "WAIT %d %d", replicas, WAIT_BOUND_MS);
  assert_int_equal(reply->integer, replicas);
  freeReplyObject(reply);
  redisFree(redis);
}

/* With a new connection each time, because a promotion closes open ones. */
static bool is_master(void *context) {
  redisContext *redis = redis_server_connect(context);
  redisReply *reply = redisCommand(redis, "ROLE");
  bool master = reply != NULL && strcmp(reply->element[0]->str, "master") == 0;
  freeReplyObject(reply);
  redisFree(redis);
  return master;
}

/* A sentinel that could not run for a while does nothing for half a minute. */
enum { PROMOTION_MS = 60000 };

void redis_sentinel_fail_over(const struct redis_server *self, const struct redis_server *replica) {
  redisContext *redis = redis_server_connect(self);
  redisReply *reply =
      redisCommand(redis, "SENTINEL SET " REDIS_SENTINEL_MASTER " down-after-milliseconds 500");
  assert_int_equal(reply->type, REDIS_REPLY_STATUS);
  freeReplyObject(reply);
  redisFree(redis);
  if (!wait_until(is_master, (void *)(uintptr_t)replica, PROMOTION_MS))
    fail_msg("the replica was not promoted");
}
