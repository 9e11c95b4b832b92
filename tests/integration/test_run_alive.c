/* The idle limit of an agent with --run-id, of a program with a short cycle: two cycles if the run
   is alive. All agents run at the same time. */

#include "tests/support/job.h"
#include "tests/support/redis_cluster.h"

enum { CYCLE_MS = AGENT_SHORT_IDLE_MS, EARLY_MS = 100 };

#define RUNS "agentsmith:runs:active"
#define ALIVE "run run-7 is alive: continuing to wait"
#define UNKNOWN "cannot find out whether run run-7 is in " RUNS ": "

enum { GOES_ON, BY_VARIABLE, STEP_FOLLOWS, OTHER_TYPE, AWAY, IN_CLUSTER, CASES };

struct agents {
  struct job *jobs[CASES];
  struct redis_cluster *cluster;
  redisContext *runs; /* the node that has the set */
  int64_t idle_since[CASES];
  int64_t left_at[CASES];
};

static void start(struct agents *agents, int which, bool by_variable) {
  struct job *job = agents->jobs[which];
  const char *const environment[] = {
      by_variable ? "AGENTSMITH_RUN_ID=run-7" : "AGENTSMITH_RUN_ID=another", NULL};
  agents->idle_since[which] = wait_now_ms();
  job->setup =
      (struct agent_setup){.program = agent_process_short_idle(), .environment = environment};
  job_start_agent(job, "--idle-cycles", "1", by_variable ? NULL : "--run-id", "run-7", NULL);
}

/* The set and the job are at different nodes. */
static void make_cluster(struct agents *agents) {
  struct redis_cluster *cluster = agents->cluster = redis_cluster_start();
  int of_runs = redis_cluster_owner(cluster, RUNS), of_job = of_runs;
  char id[32];
  for (int i = 0; of_job == of_runs; i++) {
    snprintf(id, sizeof id, "{pipe-%d}", i);
    of_job = redis_cluster_owner(cluster, id);
  }
  struct job *job = agents->jobs[IN_CLUSTER] = job_new(redis_cluster_node(cluster, of_job));
  strcpy(job->id, id);
  agents->runs = redis_server_connect(redis_cluster_node(cluster, of_runs));
  freeReplyObject(redisCommand(agents->runs, "SADD " RUNS " run-7"));
}

static bool has_left(struct agents *agents, int which) {
  if (agents->left_at[which] == 0 && !agent_process_is_running(agents->jobs[which]->agent))
    agents->left_at[which] = wait_now_ms();
  return agents->left_at[which] != 0;
}

static bool all_have_left(void *context) {
  bool all = true;
  for (int i = 0; i < CASES; i++)
    all &= has_left(context, i);
  return all;
}

static bool have_asked(void *context) {
  struct agents *agents = context;
  bool all = true;
  (void)all_have_left(agents);
  for (int i = 0; i < CASES; i++)
    all &= i == BY_VARIABLE || strstr(agent_process_log(agents->jobs[i]->agent),
                                      i == OTHER_TYPE || i == AWAY ? UNKNOWN : ALIVE) != NULL;
  return all;
}

static int start_all(void **state) {
  struct agents *agents = calloc(1, sizeof *agents);
  assert_non_null(agents);
  *state = agents;
  for (int i = 0; i < CASES; i++)
    if (i != IN_CLUSTER)
      agents->jobs[i] = job_new(redis_server_start(NULL));
  job_do(agents->jobs[GOES_ON], "SADD " RUNS " run-7");
  job_do(agents->jobs[BY_VARIABLE], "SADD " RUNS " another");
  job_do(agents->jobs[STEP_FOLLOWS], "SADD " RUNS " run-7");
  job_do(agents->jobs[OTHER_TYPE], "SET " RUNS " run-7");
  job_do(agents->jobs[AWAY], "SADD " RUNS " run-7");
  make_cluster(agents);
  for (int i = 0; i < CASES; i++)
    start(agents, i, i == BY_VARIABLE);
  assert_true(wait_until(job_agent_waits, agents->jobs[AWAY], WAIT_BOUND_MS));
  redis_server_kill(agents->jobs[AWAY]->server);
  (void)wait_until(have_asked, agents, WAIT_BOUND_MS);
  job_do(agents->jobs[GOES_ON], "SREM " RUNS " run-7");
  job_do(agents->jobs[OTHER_TYPE], "DEL " RUNS);
  kill(agent_process_pid(agents->jobs[AWAY]->agent), SIGTERM);
  freeReplyObject(redisCommand(agents->runs, "SREM " RUNS " run-7"));
  struct job *job = agents->jobs[STEP_FOLLOWS];
  if (agent_process_is_running(job->agent)) {
    job_expect_to_go_on(job);
    job_push_shutdown(job);
  }
  (void)wait_until(all_have_left, agents, WAIT_BOUND_MS);
  return 0;
}

static int stop_all(void **state) {
  struct agents *agents = *state;
  agents->jobs[IN_CLUSTER]->server = NULL; /* the cluster's */
  for (int i = 0; i < CASES; i++)
    job_free(agents->jobs[i]);
  redisFree(agents->runs);
  redis_cluster_stop(agents->cluster);
  free(agents);
  return 0;
}

static void expect_left(struct agents *agents, int which, int expected, int cycles,
                        const char *word) {
  struct job *job = agents->jobs[which];
  if (agents->left_at[which] == 0)
    job_fail(job, "it still runs");
  int code = agent_process_wait(job->agent, 0);
  if (code != expected)
    job_fail(job, "exit code %d, not %d", code, expected);
  if (strstr(agent_process_log(job->agent), word) == NULL)
    job_fail(job, "the log lacks `%s`", word);
  int64_t idle = agents->left_at[which] - agents->idle_since[which];
  if (idle < cycles * CYCLE_MS - EARLY_MS)
    job_fail(job, "it exited after %lld ms", (long long)idle);
}

TEST(an_idle_agent_stays_while_its_run_is_listed) {
  expect_left(*state, GOES_ON, 2, 2, ALIVE);
  expect_left(*state, GOES_ON, 2, 2, "run run-7 is not in " RUNS);
}

TEST(an_idle_agent_exits_if_its_run_is_not_listed) {
  expect_left(*state, BY_VARIABLE, 2, 1, "run run-7 is not in " RUNS);
}

/* An error is not the answer "no", and neither is a Redis that is unreachable. */
TEST(an_idle_agent_stays_while_the_answer_is_unknown) {
  expect_left(*state, OTHER_TYPE, 2, 2, "WRONGTYPE");
  expect_left(*state, OTHER_TYPE, 2, 2, "run run-7 is not in " RUNS);
  expect_left(*state, AWAY, 128 + SIGTERM, 1, UNKNOWN);
}

TEST(a_step_after_the_idle_limit_is_executed) {
  expect_left(*state, STEP_FOLLOWS, 0, 1, ALIVE);
}

TEST(the_set_of_runs_may_be_at_another_node) {
  expect_left(*state, IN_CLUSTER, 2, 2, ALIVE);
}

TEST_GROUP(start_all, stop_all)
