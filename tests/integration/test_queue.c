/* Many waiting steps: no step is lost, their order is kept, and their cost is bounded. */

#include "tests/support/crowd.h"
#include "tests/support/job.h"
#include "tests/support/marks.h"

enum { STEPS = 1000, SETTLED = 100, WITH_BACKGROUND = 50 };

/* A step looks at the agent, the parent of its supervisor: resident KiB and open descriptors.
   The lowest of several counts, because at first the agent may not have closed its ends of the
   pipes. */
static const char look_at_agent[] =
    "agent=$(sed 's/.*) . \\([0-9]*\\) .*/\\1/' /proc/$PPID/stat); "
    "sed -n 's/^VmRSS:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/$agent/status; "
    "for i in 1 2 3 4 5 6 7 8; do ls /proc/$agent/fd | wc -l; done | sort -n | head -n 1";

struct figures {
  long rss_kib;
  long descriptors;
};

static struct figures figures_in(struct job *job, const cJSON *result) {
  struct figures figures = {0};
  const char *output = job_text(result, "outputContent");
  if (sscanf(output, "%ld\n%ld", &figures.rss_kib, &figures.descriptors) != 2)
    job_fail(job, "no figures in `%s`", output);
  return figures;
}

static cJSON *step_number(struct job *job, int number, const char *sleep) {
  if (number == 1 || number == SETTLED || number == STEPS)
    return job_script(job, look_at_agent);
  if (number == WITH_BACKGROUND)
    return job_script(job, job_format(job, "%s >/dev/null 2>&1 & echo %d", sleep, number));
  if (number % 3 == 0)
    return job_script(job, job_format(job, "echo %d; echo noise >&2", number));
  return job_step(job, "echo", job_format(job, "%d", number), NULL);
}

static int children_of(const struct job *job) {
  return proc_child_count(agent_process_pid(job->agent), NULL);
}

/* The supervisor of the last step may not wait yet. */
static bool has_two_supervisors(void *context) {
  return children_of(context) == 2;
}

JOB_TEST_NO_AGENT(a_thousand_steps_run_in_order_without_leaks) {
  const char *sleep = job_sleep(job, 600);
  const char **ids = calloc(STEPS + 1, sizeof *ids);
  assert_non_null(ids);
  for (int number = 1; number <= STEPS; number++) {
    const cJSON *step = step_number(job, number, sleep);
    ids[number] = job_text(step, "stepId");
    job_push(job, step);
  }
  job_start_agent(job, NULL);
  struct figures first = {0};
  struct figures settled = {0};
  struct figures last = {0};
  for (int number = 1; number <= STEPS; number++) {
    const cJSON *result = job_result(job);
    if (strcmp(job_text(result, "stepId"), ids[number]) != 0)
      job_fail(job, "result %d is that of %s", number, job_text(result, "stepId"));
    if (number == 1)
      first = figures_in(job, result);
    else if (number == SETTLED)
      settled = figures_in(job, result);
    else if (number == STEPS)
      last = figures_in(job, result);
    else
      job_expect_result(job, result, 0, NULL, job_format(job, "%d\n", number));
  }
  free(ids);

  if (!wait_until(has_two_supervisors, job, WAIT_BOUND_MS))
    job_fail(job, "%d children, where one keeps a sleeper and one waits", children_of(job));
  /* The sleeper's supervisor, which uses two, and the heartbeat's connection may come later. */
  if (last.descriptors < first.descriptors || last.descriptors > first.descriptors + 3)
    job_fail(job, "%ld descriptors at first, %ld at last", first.descriptors, last.descriptors);
  print_message("resident: %ld KiB after step %d, %ld KiB after step %d\n", settled.rss_kib,
                SETTLED, last.rss_kib, STEPS);
  if (agent_process_is_shipped() && last.rss_kib * 10 > settled.rss_kib * 11)
    job_fail(job, "%ld KiB have grown to %ld", settled.rss_kib, last.rss_kib);

  assert_int_not_equal(proc_find(sleep), 0);
  job_shut_down(job);
  assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
}

/* The supervisor of the first step may still be exiting. */
static bool has_one_supervisor(void *context) {
  const struct job *job = context;
  int zombies;
  return proc_child_count(agent_process_pid(job->agent), &zombies) == 1 && zombies == 0;
}

/* A supervisor also reaps orphans. */
JOB_TEST(orphans_leave_no_zombies) {
  const char *sleep = job_sleep(job, 1);
  const char *script = job_format(
      job, "for i in 1 2 3 4 5 6 7 8 9; do setsid sh -c '%s & true' >/dev/null 2>&1; done", sleep);
  job_expect_result(job, job_run(job, job_script(job, script)), 0, NULL, NULL);
  assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
  const cJSON *result = job_run(job, job_script(job, "echo $PPID"));
  pid_t supervisor = (pid_t)atoi(job_text(result, "outputContent"));
  if (!wait_until(has_one_supervisor, job, WAIT_BOUND_MS))
    job_fail(job, "%d children, where one supervisor waits", children_of(job));
  assert_int_equal(proc_child_count(supervisor, NULL), 0);
}

/* One batch for each step, not two: the committed value has the number of batches. */
JOB_TEST_NO_AGENT(a_result_and_the_next_start_share_a_batch) {
  enum { QUEUED = 40 };
  for (int number = 1; number <= QUEUED; number++)
    job_push(job, marks_step(job, job_format(job, "gate %d", number)));
  job_start_agent(job, NULL);
  for (int number = 1; number <= QUEUED; number++) {
    if (number < QUEUED)
      job_wait_length(job, "in", QUEUED - number - 1); /* the next step is fetched */
    marks_open_gate(job, job_format(job, "%d", number));
  }
  job_wait_length(job, "results", QUEUED);
  int windows;
  const char *committed = job_ask_text(job, "GET sandbox:%s:committed", job->id);
  assert_int_equal(sscanf(committed, "%*[^:]:%*[^:]:%d", &windows), 1);
  /* Further batches: the claim, the first start, and refreshes of the keys. */
  assert_in_range(windows, QUEUED, QUEUED + 5);
}

static const cJSON *start_gated(struct job *job) {
  return job_push_until(job, marks_step(job, "echo up; gate"), "up");
}

JOB_TEST(more_steps_may_wait_than_fit_into_memory) {
  enum { WAITING = 300 };
  const cJSON *running = start_gated(job);
  struct crowd crowd = crowd_push(job, WAITING, 0);
  job_wait_length(job, "inflight", 2);
  assert_int_equal(job_length(job, "in"), WAITING - 1);
  assert_int_equal(job_length(job, "results"), 0);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  crowd_expect(job, &crowd, SIZE_MAX);
  job_expect_nothing_left(job);
}

/* A step of many arguments takes several times the memory of its payload. */
JOB_TEST(waiting_steps_of_small_values_take_bounded_memory) {
  enum { VALUES = 150000, MOST_KIB = (64 + 32) * 1024 };
  const int waiting = agent_process_is_shipped() ? 40 : 4; /* sanitizers are slow */
  const cJSON *running = start_gated(job);
  char *arguments = malloc(4 * VALUES + 1);
  assert_non_null(arguments);
  for (size_t i = 0; i < VALUES; i++)
    memcpy(arguments + 4 * i, "'a',", 5);
  arguments[4 * VALUES - 1] = '\0';
  for (int i = 0; i < waiting; i++)
    job_push_json(
        job, job_format(job, "{'stepId':'many-%d','command':'true','args':[%s]}", i, arguments));
  free(arguments);
  job_wait_length(job, "inflight", 2);
  long most = proc_status_kib(agent_process_pid(job->agent), "VmHWM");
  if (agent_process_is_shipped() && most > MOST_KIB)
    job_fail(job, "%ld KiB were resident", most);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  for (int i = 0; i < waiting; i++)
    assert_string_equal(job_text(job_result(job), "stepId"), job_format(job, "many-%d", i));
}

JOB_TEST(waiting_payloads_take_bounded_memory) {
  enum { WAITING = 80, SIZE = 1 << 20, MOST_KIB = (32 + 16) * 1024 };
  const cJSON *running = start_gated(job);
  struct crowd crowd = crowd_push(job, WAITING, SIZE);
  job_wait_length(job, "inflight", 2);
  long resident = proc_status_kib(agent_process_pid(job->agent), "VmRSS");
  if (agent_process_is_shipped() && resident > MOST_KIB)
    job_fail(job, "%ld KiB are resident", resident);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  crowd_expect(job, &crowd, SIZE_MAX);
  job_shut_down(job);
}

JOB_TEST(the_same_payload_again_is_another_step) {
  enum { TIMES = 5 };
  const cJSON *running = start_gated(job);
  const cJSON *same = job_step(job, "echo", "same", NULL);
  for (int i = 0; i < TIMES; i++)
    job_push(job, same);
  job_push(job, running);
  job_wait_length(job, "inflight", 2);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  for (int i = 0; i < TIMES; i++)
    job_expect_answer(job, same, 0, NULL, "same\n");
  job_expect_answer(job, running, 0, NULL, "up\n");
  assert_int_equal(cJSON_GetArraySize(job_events(job, same)), TIMES * 3);
  job_expect_nothing_left(job);
}

JOB_TEST(a_rejected_step_is_answered_in_its_turn) {
  const cJSON *running = start_gated(job);
  const cJSON *after = job_step(job, "echo", "after", NULL);
  job_push_json(job, "{'stepId':'odd'");
  job_push(job, after);
  job_wait_length(job, "inflight", 2);
  assert_int_equal(job_length(job, "results"), 0);
  marks_open_gate(job, "");
  job_expect_answer(job, running, 0, NULL, "up\n");
  assert_string_equal(job_text(job_result(job), "stepId"), "odd");
  job_expect_answer(job, after, 0, NULL, "after\n");
  job_expect_nothing_left(job);
}

JOB_TEST(a_command_starts_only_after_redis_has_acknowledged) {
  const char *sleep = job_sleep(job, 600);
  const cJSON *step = job_script(job, job_format(job, "exec %s", sleep));
  job_run(job, job_step(job, "true", NULL));
  char *payload = cJSON_PrintUnformatted(step);
  /* Redis executes both commands before it writes to anybody. */
  redisAppendCommand(job->redis, "LPUSH sandbox:%s:in %s", job->id, payload);
  redisAppendCommand(job->redis, "CLIENT PAUSE 600000 WRITE");
  cJSON_free(payload);
  for (int i = 0; i < 2; i++) {
    redisReply *reply;
    assert_int_equal(redisGetReply(job->redis, (void **)&reply), REDIS_OK);
    freeReplyObject(reply);
  }
  assert_int_equal(job_length(job, "inflight"), 1);
  int64_t end = wait_now_ms() + 500;
  while (wait_now_ms() < end)
    assert_int_equal(proc_find(sleep), 0);
  job_do(job, "CLIENT UNPAUSE");
  assert_int_not_equal(proc_wait_for(sleep, WAIT_BOUND_MS), 0);
  assert_string_equal(job_ask_text(job, "GET sandbox:%s:started", job->id),
                      job_text(step, "stepId"));
}

TEST_OVERLAP(3)
