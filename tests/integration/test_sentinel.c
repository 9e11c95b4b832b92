/* Sentinels name the master, also after a failover. */

#include "tests/support/job.h"
#include "tests/support/marks.h"

#define MASTER "pipes"
#define PASSWORD "s3cret-Word"

/* --- a sentinel of the test ------------------------------------------------------------------- */

/* One connection, which is used again and again. */
struct question {
  redisContext *redis;
  size_t expected;
};

/* A known replica is not enough: only one that has answered may be promoted. */
static bool knows_replicas(void *context) {
  const struct question *question = context;
  redisReply *reply = redisCommand(question->redis, "SENTINEL REPLICAS " MASTER);
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

/* Starts a sentinel, which decides alone, and waits until it knows the master's replicas. */
static struct redis_server *start_sentinel(const struct redis_server *master, int replicas,
                                           const char *password) {
  static const char *const extra[] = {"--sentinel", NULL};
  char config[512];
  int length = snprintf(config, sizeof config,
                        "sentinel monitor %s 127.0.0.1 %d 1\n"
                        "sentinel down-after-milliseconds %s 60000\n"
                        "sentinel failover-timeout %s 5000\n",
                        MASTER, redis_server_port(master), MASTER, MASTER);
  if (password != NULL)
    snprintf(config + length, sizeof config - (size_t)length,
             "sentinel auth-pass %s %s\nrequirepass %s\n", MASTER, password, password);
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

/* A replica of the master, which has caught up. */
static struct redis_server *start_replica(const struct redis_server *master) {
  struct redis_server *self = redis_server_start(NULL);
  struct question question = {.redis = redis_server_connect(self)};
  freeReplyObject(
      redisCommand(question.redis, "REPLICAOF 127.0.0.1 %d", redis_server_port(master)));
  if (!wait_until(is_linked, &question, WAIT_BOUND_MS))
    fail_msg("the replica does not find its master");
  redisFree(question.redis);
  return self;
}

/* Waits until the replicas have acknowledged all writes of the master. WAIT only counts writes of
   its own connection. */
static void catch_up(const struct redis_server *master, int replicas) {
  redisContext *redis = redis_server_connect(master);
  freeReplyObject(redisCommand(redis, "SET caught-up yes"));
  redisReply *reply = redisCommand(redis, "WAIT %d %d", replicas, WAIT_BOUND_MS);
  assert_int_equal(reply->integer, replicas);
  freeReplyObject(reply);
  redisFree(redis);
}

/* Uses a new connection each time, because a promotion closes open ones. */
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

/* After the master was killed: shortens the sentinel's timeout, which is long enough for a busy
   machine, to half a second. Waits until the replica is promoted. */
static void fail_over(const struct redis_server *self, const struct redis_server *replica) {
  redisContext *redis = redis_server_connect(self);
  redisReply *reply = redisCommand(redis, "SENTINEL SET " MASTER " down-after-milliseconds 500");
  assert_int_equal(reply->type, REDIS_REPLY_STATUS);
  freeReplyObject(reply);
  redisFree(redis);
  if (!wait_until(is_master, (void *)(uintptr_t)replica, PROMOTION_MS))
    fail_msg("the replica was not promoted");
}

/* --- the tests -------------------------------------------------------------------------------- */

struct scene {
  struct redis_server *master;
  struct redis_server *replica;  /* NULL: none */
  struct redis_server *sentinel; /* NULL until it is started */
  struct job *job;
};

static int set_up_master(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  assert_non_null(scene);
  *state = scene;
  scene->master = redis_server_start(NULL);
  scene->job = job_new(scene->master);
  return 0;
}

static int set_up(void **state) {
  set_up_master(state);
  struct scene *scene = *state;
  scene->sentinel = start_sentinel(scene->master, 0, NULL);
  return 0;
}

static int set_up_pair(void **state) {
  set_up_master(state);
  struct scene *scene = *state;
  scene->replica = start_replica(scene->master);
  scene->sentinel = start_sentinel(scene->master, 1, NULL);
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  redis_server_stop(scene->sentinel);
  redis_server_stop(scene->replica);
  job_free(scene->job);
  free(scene);
  return 0;
}

/* `before` has more sentinels and a login, `master` its name and the rest of the URL. */
static void start(struct scene *scene, const char *before, const char *master) {
  struct job *job = scene->job;
  job->url = job_format(job, "%s+sentinel://%s127.0.0.1:%d/%s", redis_server_scheme(), before,
                        redis_server_port(scene->sentinel), master);
  job_start_agent(job, "--verbose", NULL);
}

TEST_WITH(struct scene *scene, the_agent_finds_the_master, set_up, tear_down) {
  static const char *const masters[] = {MASTER, MASTER "/", MASTER "/3"};
  for (int i = 0; i < 3; i++) {
    start(scene, "", masters[i]);
    freeReplyObject(redisCommand(scene->job->redis, "SELECT %d", i < 2 ? 0 : 3));
    job_expect_to_go_on(scene->job);
    job_shut_down(scene->job);
  }
}

/* The first sentinel does not exist, the second server is not a sentinel. */
TEST_WITH(struct scene *scene, the_agent_asks_the_next_sentinel, set_up, tear_down) {
  struct job *job = scene->job;
  start(scene,
        job_format(job, "127.0.0.1:%d,127.0.0.1:%d,", redis_server_free_port(),
                   redis_server_port(scene->master)),
        MASTER);
  job_expect_to_go_on(job);
  job_shut_down(job);
}

TEST_WITH(struct scene *scene, the_agent_skips_a_frozen_sentinel, set_up, tear_down) {
  struct job *job = scene->job;
  struct redis_server *frozen = start_sentinel(scene->master, 0, NULL);
  redis_server_freeze(frozen);
  start(scene, job_format(job, "127.0.0.1:%d,", redis_server_port(frozen)), MASTER);
  job_expect_to_go_on(job);
  job_shut_down(job);
  redis_server_stop(frozen);
}

TEST_WITH(struct scene *scene, the_log_names_an_unknown_master, set_up, tear_down) {
  struct job *job = scene->job;
  start(scene, job_format(job, "127.0.0.1:%d,", redis_server_free_port()), "pipelines");
  agent_process_wait_log(job->agent, "it knows no master 'pipelines'");
  agent_process_wait_log(job->agent, "pipelines at 127.0.0.1:");
}

TEST_WITH(struct scene *scene, a_sentinel_may_require_the_password, set_up_master, tear_down) {
  struct job *job = scene->job;
  freeReplyObject(redisCommand(job->redis, "CONFIG SET requirepass %s", PASSWORD));
  scene->sentinel = start_sentinel(scene->master, 0, PASSWORD);
  start(scene, ":" PASSWORD "@", MASTER);
  job_expect_to_go_on(job);
  job_shut_down(job);
  assert_null(strstr(agent_process_log(job->agent), PASSWORD));
}

/* The sentinel names a server that is not promoted yet, and would refuse writes. */
TEST_WITH(struct scene *scene, the_agent_waits_until_a_replica_is_promoted, set_up_master,
          tear_down) {
  struct job *job = scene->job;
  struct redis_server *other = redis_server_start(NULL);
  freeReplyObject(redisCommand(job->redis, "REPLICAOF 127.0.0.1 %d", redis_server_port(other)));
  /* The sentinel asks only masters for their replicas, and so keeps naming it. */
  scene->sentinel = start_sentinel(scene->master, 0, NULL);
  start(scene, "", MASTER);
  agent_process_wait_log(job->agent, "it is a replica, not yet the master");
  freeReplyObject(redisCommand(job->redis, "REPLICAOF NO ONE"));
  job_expect_to_go_on(job);
  job_shut_down(job);
  redis_server_stop(other);
}

/* The address has the format of StackExchange.Redis. */
static void start_with_options(struct scene *scene, int first_port, int second_port,
                               const char *options) {
  struct job *job = scene->job;
  bool is_secure = strcmp(redis_server_scheme(), "rediss") == 0;
  job->url = job_format(job, "127.0.0.1:%d,127.0.0.1:%d,ssl=%s%s", first_port, second_port,
                        is_secure ? "true" : "false", options);
  job_start_agent(job, "--verbose", NULL);
}

TEST_WITH(struct scene *scene, a_service_name_turns_the_hosts_into_sentinels, set_up, tear_down) {
  start_with_options(scene, redis_server_free_port(), redis_server_port(scene->sentinel),
                     ",serviceName=" MASTER);
  job_expect_to_go_on(scene->job);
  job_shut_down(scene->job);
}

/* A replica among the hosts is not worth a warning. */
TEST_WITH(struct scene *scene, the_agent_finds_the_primary_among_several_hosts, set_up_pair,
          tear_down) {
  struct job *job = scene->job;
  start_with_options(scene, redis_server_port(scene->replica), redis_server_port(scene->master),
                     "");
  job_expect_to_go_on(job);
  assert_null(strstr(agent_process_log(job->agent), "WARN"));
  catch_up(scene->master, 1);
  redis_server_kill(scene->master);
  fail_over(scene->sentinel, scene->replica);
  redisFree(job->redis);
  job->redis = redis_server_connect(scene->replica);
  job_expect_to_go_on(job);
  job_shut_down(job);
}

TEST_WITH(struct scene *scene, the_agent_retries_if_no_host_is_the_primary, set_up_pair,
          tear_down) {
  struct job *job = scene->job;
  int gone = redis_server_free_port();
  start_with_options(scene, gone, redis_server_port(scene->replica), "");
  agent_process_wait_log(
      job->agent,
      job_format(job, "cannot connect to 127.0.0.1:%d: Connection refused; attempt 2", gone));
  job_stop_agent(job, SIGTERM);
}

TEST_WITH(struct scene *scene, the_new_master_gets_all_output_after_a_failover, set_up_pair,
          tear_down) {
  struct job *job = scene->job;
  start(scene, "", MASTER);
  job_expect_to_go_on(job);
  const cJSON *step = job_push_until(job, marks_step(job, "seq 100; gate; seq 101 200"), "100");
  catch_up(scene->master, 1);

  redis_server_kill(scene->master);
  marks_open_gate(job, "");
  fail_over(scene->sentinel, scene->replica);
  redisFree(job->redis);
  job->redis = redis_server_connect(scene->replica);

  const cJSON *result = job_result_of(job, step);
  char *expected = job_format(job, "%*s", 1000, "");
  char *end = expected;
  for (int i = 1; i <= 200; i++)
    end += sprintf(end, "%d\n", i);
  assert_string_equal(job_lines(job, step, "stdout"), expected);
  job_expect_result(job, result, 0, NULL, expected);
  job_expect_to_go_on(job);
  job_shut_down(job);
}
