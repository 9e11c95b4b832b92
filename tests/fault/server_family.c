/* redis-server is reachable but does not work for a while: it is stopped, is out of memory, or is a
   replica. */

#include "tests/fault/family.h"
#include "tests/test.h"

#define BOUND_MS 120000
#define FREEZE_MS 10000

/* How long the server rejects writes: long enough for several attempts. */
#define REFUSAL_MS 6000

void server_freeze(struct trial *trial) {
  trial_open(trial, trial_start_server(trial, NULL));
  work_push_lines(&trial->work, 300000, 0);
  work_push_read(&trial->work);
  work_push_chunk(&trial->work, 100);
  work_push_lines(&trial->work, 3, 1);
  job_push_shutdown(trial->job);
  trial_start_agent(trial);
  work_wait_events(&trial->work, 2 + trial_random(trial, 40000));
  redis_server_freeze(trial->job->server);
  trial_let_pass(FREEZE_MS);
  redis_server_thaw(trial->job->server);
  trial->tally->cuts++;
  trial_finish(trial, BOUND_MS);
}

static long long used_memory(struct trial *trial) {
  redisReply *reply = redisCommand(trial->job->redis, "INFO memory");
  assert_true(reply != NULL && reply->type == REDIS_REPLY_STRING);
  const char *at = strstr(reply->str, "used_memory:");
  long long used = 0;
  assert_true(at != NULL && sscanf(at, "used_memory:%lld", &used) == 1);
  freeReplyObject(reply);
  return used;
}

/* The limit is far below the used memory. Otherwise a batch would fit now and then, which would end
   the fault. Each connection may log the error once. */
void server_maxmemory(struct trial *trial) {
  trial_open(trial, trial_start_server(trial, NULL));
  work_push_lines(&trial->work, 100000, 0);
  work_push_chunk(&trial->work, 100);
  work_push_lines(&trial->work, 3, 1);
  trial_start_agent(trial);
  work_wait_events(&trial->work, 2 + trial_random(trial, 2000));
  trial_command(trial, "CONFIG SET maxmemory %lld", used_memory(trial) / 2);
  agent_process_wait_log(trial->job->agent, "OOM");
  trial_let_pass(REFUSAL_MS);
  trial_command(trial, "CONFIG SET maxmemory 0");
  trial->tally->cuts++;
  job_push_shutdown(trial->job);
  trial_finish(trial, BOUND_MS);
  trial_expect_log(trial, "OOM", 1, RELAY_ROLES);
}

struct role_sought {
  redisContext *redis;
  const char *role;  /* the beginning of the reply to ROLE */
  const char *state; /* of a replica's connection, or of a primary's first replica */
};

static bool has_role(void *context) {
  const struct role_sought *sought = context;
  redisReply *reply = redisCommand(sought->redis, "INFO replication");
  bool has = reply != NULL && reply->type == REDIS_REPLY_STRING &&
             strstr(reply->str, sought->role) != NULL && strstr(reply->str, sought->state) != NULL;
  freeReplyObject(reply);
  return has;
}

/* Makes `to` the primary and `from` its replica, without losing data. */
static void hand_over(struct redis_server *from, struct redis_server *to) {
  redisContext *old = redis_server_connect(from);
  redisContext *new = redis_server_connect(to);
  assert_true(wait_until(has_role, &(struct role_sought){old, "role:master", "state=online"},
                         WAIT_BOUND_MS));
  redisReply *reply =
      redisCommand(old, "FAILOVER TO 127.0.0.1 %d TIMEOUT 10000", redis_server_port(to));
  assert_true(reply != NULL && reply->type == REDIS_REPLY_STATUS);
  freeReplyObject(reply);
  assert_true(wait_until(has_role, &(struct role_sought){new, "role:master", "state=online"},
                         WAIT_BOUND_MS));
  assert_true(wait_until(
      has_role, &(struct role_sought){old, "role:slave", "master_link_status:up"}, WAIT_BOUND_MS));
  redisFree(old);
  redisFree(new);
}

/* The agent stays connected to its server, which is read-only until it is primary again. */
void server_failover(struct trial *trial) {
  static const char *const quick[] = {"--repl-diskless-sync-delay", "0", NULL};
  trial_open(trial, trial_start_server(trial, quick));
  char port[16];
  snprintf(port, sizeof port, "%d", redis_server_port(trial->job->server));
  const char *const follows[] = {"--replicaof", "127.0.0.1", port, quick[0], quick[1], NULL};
  struct redis_server *second = redis_server_start(follows);
  work_push_lines(&trial->work, 100, 0);
  work_push_script(&trial->work, 20000, "", 0,
                   "i=0; while [ $i -lt 400 ]; do seq $((i*50+1)) $((i*50+50)); i=$((i+1)); "
                   "sleep 0.01; done");
  work_push_read(&trial->work);
  work_push_chunk(&trial->work, 100);
  work_push_lines(&trial->work, 3, 1);
  trial_start_agent(trial);
  work_wait_events(&trial->work, 102 + trial_random(trial, 2000));
  hand_over(trial->job->server, second);
  trial->tally->cuts++;
  agent_process_wait_log(trial->job->agent, "READONLY");
  trial_let_pass(REFUSAL_MS);
  hand_over(second, trial->job->server);
  job_push_shutdown(trial->job);
  trial_finish(trial, BOUND_MS);
  trial_expect_log(trial, "READONLY", 1, RELAY_ROLES);
  redis_server_stop(second);
}
