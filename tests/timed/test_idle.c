/* The idle limit of a program with a short cycle. All agents run at the same time. */

#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/proxy.h"

/* The limit is one cycle. Clocks may differ by EARLY_MS. An agent that misses its limit stays for
   at least 30 cycles, longer than the tests wait: they do not measure how late it exits. */
enum { CYCLE_MS = AGENT_SHORT_IDLE_MS, EARLY_MS = 100 };

/* The duration of a step that exists from the beginning: more than a cycle, or less. */
#define LONG_STEP_S 7
#define SHORT_STEP_S 3

enum {
  BY_FLAG,
  BY_VARIABLE,
  FLAG_WINS,
  AFTER_A_STEP,
  WITHOUT_REDIS,
  OUTPUT_WAITS,
  RESULT_WAITS,
  LINES_WAIT,
  START_WAITS,
  STEP_COUNTS,
  OTHER_CODE,
  OTHER_CODE_WITHOUT_REDIS,
  OTHER_CODE_NEVER_REACHED,
  CASES
};

struct agents {
  struct job *jobs[CASES];
  struct proxy *proxy;       /* of START_WAITS */
  int64_t idle_since[CASES]; /* at the earliest */
  int64_t left_at[CASES];
};

static struct job *begin(struct agents *agents, int which) {
  struct job *job = agents->jobs[which] = job_new(redis_server_start(NULL));
  job->setup.program = agent_process_short_idle();
  agents->idle_since[which] = wait_now_ms();
  return job;
}

/* The variable has the form NAME=value. */
static void start(struct agents *agents, int which, const char *cycles, const char *variable) {
  struct job *job = begin(agents, which);
  const char *const environment[] = {variable, NULL};
  job->setup.environment = environment;
  job_start_agent(job, cycles == NULL ? NULL : "--idle-cycles", cycles, NULL);
}

/* The step exists before the agent, and takes this long. */
static struct job *start_with_step(struct agents *agents, int which, int seconds) {
  struct job *job = begin(agents, which);
  job_push(job, job_step(job, "sleep", job_format(job, "%d", seconds), NULL));
  job_start_agent(job, "--idle-cycles", "1", NULL);
  agents->idle_since[which] += (int64_t)seconds * 1000;
  return job;
}

static bool all_have_left(void *context) {
  struct agents *agents = context;
  bool all = true;
  for (int i = 0; i < CASES; i++) {
    if (agents->left_at[i] != 0)
      continue;
    if (agent_process_is_running(agents->jobs[i]->agent))
      all = false;
    else
      agents->left_at[i] = wait_now_ms();
  }
  return all;
}

/* Redis is killed while the step runs; its last lines may be more than the hold. */
static void start_then_lose_redis(struct agents *agents, int which, const char *hold_bytes,
                                  const char *rest) {
  struct job *job = begin(agents, which);
  job_start_agent(job, "--idle-cycles", "1", "--hold-bytes", hold_bytes, NULL);
  (void)job_push_until(job, marks_step(job, job_format(job, "echo up; gate; %s", rest)), "up");
  redis_server_kill(job->server);
  agents->idle_since[which] = wait_now_ms();
  marks_open_gate(job, "");
}

/* Redis delivers two steps, but never acknowledges the start of the first one. */
static void start_start_waits(struct agents *agents) {
  struct job *job = begin(agents, START_WAITS);
  agents->proxy = proxy_start(redis_server_port(job->server), NULL);
  job_use_port(job, proxy_port(agents->proxy));
  job_start_agent(job, "--idle-cycles", "1", NULL);
  assert_true(wait_until(job_agent_waits, job, WAIT_BOUND_MS));
  proxy_deafen(agents->proxy, RELAY_OUTBOX);
  job_push(job, job_step(job, "true", NULL));
  job_wait_length(job, "inflight", 1);
  job_push(job, job_step(job, "true", NULL));
  job_wait_length(job, "inflight", 2);
  redis_server_kill(job->server);
}

static bool ask_for_delivery(void *context) {
  struct job *job = context;
  assert_int_equal(kill(agent_process_pid(job->agent), SIGUSR1), 0);
  return agent_process_count_log(job->agent, ", 0 bytes not acknowledged") > 0;
}

/* An agent that waits for a step may still wait for the acknowledgement of its take-over. */
static void start_without_redis(struct agents *agents, int which, const char *code) {
  struct job *job = begin(agents, which);
  job_start_agent(job, "--idle-cycles", "1", code == NULL ? NULL : "--idle-exit-code", code, NULL);
  assert_true(wait_until(job_agent_waits, job, WAIT_BOUND_MS));
  assert_true(wait_until(ask_for_delivery, job, WAIT_BOUND_MS));
  redis_server_kill(job->server);
}

static void start_and_never_reach_redis(struct agents *agents) {
  struct job *job = begin(agents, OTHER_CODE_NEVER_REACHED);
  redis_server_kill(job->server);
  job_start_agent(job, "--idle-cycles", "1", "--idle-exit-code", "0", NULL);
}

static int start_all(void **state) {
  struct agents *agents = calloc(1, sizeof *agents);
  assert_non_null(agents);
  *state = agents;
  start_then_lose_redis(agents, LINES_WAIT, "65536", "seq 3000; exit 7");
  start_then_lose_redis(agents, RESULT_WAITS, "4194304", "echo last");
  start_then_lose_redis(agents, OUTPUT_WAITS, "4194304", "exec timeout 1 yes");
  agents->idle_since[OUTPUT_WAITS] += 1000;
  start_start_waits(agents);
  start_without_redis(agents, WITHOUT_REDIS, NULL);
  start_without_redis(agents, OTHER_CODE_WITHOUT_REDIS, "0");
  start_and_never_reach_redis(agents);
  start_with_step(agents, STEP_COUNTS, LONG_STEP_S);
  start_with_step(agents, AFTER_A_STEP, SHORT_STEP_S);
  start(agents, BY_FLAG, "1", NULL);
  start(agents, BY_VARIABLE, NULL, "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES=1");
  start(agents, FLAG_WINS, "1", "AGENTSMITH_SANDBOX_MAX_IDLE_CYCLES=1000");
  job_start_agent(begin(agents, OTHER_CODE), "--idle-cycles", "1", "--idle-exit-code", "125", NULL);
  wait_until(all_have_left, agents, LONG_STEP_S * 1000 + CYCLE_MS + 3 * WAIT_BOUND_MS);
  return 0;
}

static int stop_all(void **state) {
  struct agents *agents = *state;
  for (int i = 0; i < CASES; i++)
    job_free(agents->jobs[i]);
  proxy_stop(agents->proxy);
  free(agents);
  return 0;
}

static void expect_left_in_time(struct agents *agents, int which, int expected) {
  struct job *job = agents->jobs[which];
  if (agents->left_at[which] == 0)
    job_fail(job, "it still runs");
  int code = agent_process_wait(job->agent, 0);
  if (code != expected)
    job_fail(job, "exit code %d, not %d", code, expected);
  int64_t idle = agents->left_at[which] - agents->idle_since[which];
  if (idle < CYCLE_MS - EARLY_MS)
    job_fail(job, "it exited after %lld ms", (long long)idle);
}

TEST(an_idle_agent_exits_at_its_limit) {
  static const struct {
    const char *promise;
    int which, code;
  } rows[] = {{"a flag sets the limit", BY_FLAG, 2},
              {"a variable sets the limit", BY_VARIABLE, 2},
              {"the flag wins over the variable", FLAG_WINS, 2},
              {"a step starts the count again", AFTER_A_STEP, 2},
              {"a running step is not idle", STEP_COUNTS, 2},
              {"time without redis counts", WITHOUT_REDIS, 2},
              {"a flag sets the exit code", OTHER_CODE, 125},
              {"also while redis is away", OTHER_CODE_WITHOUT_REDIS, 0},
              {"but not if redis was never reached", OTHER_CODE_NEVER_REACHED, 2},
              {"output that waits for redis does not keep it", OUTPUT_WAITS, 3},
              {"a step that cannot start does not keep it", START_WAITS, 3}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    print_message("%s\n", rows[i].promise);
    expect_left_in_time(*state, rows[i].which, rows[i].code);
  }
}

TEST(an_idle_agent_deletes_its_heartbeat) {
  struct job *job = ((struct agents *)*state)->jobs[AFTER_A_STEP];
  (void)job_result(job);
  job_expect_keys(job, "committed", "events", NULL);
}

/* The log has the result, because Redis never gets it. */
TEST(an_idle_agent_logs_its_undelivered_result) {
  struct agents *agents = *state;
  expect_left_in_time(agents, RESULT_WAITS, 3);
  const char *log = agent_process_log(agents->jobs[RESULT_WAITS]->agent);
  const char *result = strstr(log, "undelivered result: {");
  assert_non_null(result);
  assert_non_null(strstr(
      result, quoted("'outputContent':'up\\nlast\\n','eventCount':4,'end':{'cause':'exited',")));
}

/* Also if the hold has no capacity for the last lines. */
TEST(an_idle_agent_logs_the_result_of_a_blocked_step) {
  struct agents *agents = *state;
  expect_left_in_time(agents, LINES_WAIT, 3);
  struct job *job = agents->jobs[LINES_WAIT];
  const char *result = strstr(agent_process_log(job->agent), "undelivered result: {");
  if (result == NULL)
    job_fail(job, "no undelivered result in the log");
  assert_non_null(
      strstr(result, quoted("\\n2999\\n3000\\n','eventCount':3003,'end':{'cause':'exited',")));
  assert_non_null(strstr(result, quoted("'exitCode':7,")));
}

TEST_GROUP(start_all, stop_all)
