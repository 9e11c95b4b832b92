/* The next agent answers what a killed agent has left, each step once. */

#include "tests/support/job.h"
#include "tests/support/marks.h"
#include "tests/support/proc.h"
#include "wire/step.h"

#define INTERRUPTED "interrupted: the agent ended while this step was running"

static cJSON *counted_step(struct job *job, const char *then) {
  return marks_step(job, job_format(job, "ran; echo one; echo two; %s", then));
}

/* Takes the oldest step of `in`, as an agent that no longer exists. */
static void take(struct job *job) {
  job_do(job, "LMOVE sandbox:%s:in sandbox:%s:inflight RIGHT LEFT", job->id, job->id);
}

static void put_inflight(struct job *job, const cJSON *step) {
  job_push(job, step);
  take(job);
}

JOB_TEST(the_next_agent_answers_the_started_step_and_runs_the_others) {
  job->schema_version = 2;
  const cJSON *running = counted_step(job, job_format(job, "exec %s", job_sleep(job, 600)));
  const cJSON *first = counted_step(job, "echo first");
  const cJSON *second = counted_step(job, "echo second");
  job_push(job, running);
  job_push(job, first);
  job_push(job, second);
  job_wait_event(job, running, "stdout", "two");
  job_wait_length(job, "inflight", 2);
  job_kill_agent(job);
  job_start_agent(job, NULL);
  const cJSON *result = job_expect_answer(job, running, -1, INTERRUPTED, NULL);
  assert_int_equal(job_event_count(result), 3);
  assert_int_equal(cJSON_GetArraySize(job_events(job, running)), 3);
  job_expect_answer(job, first, 0, NULL, "one\ntwo\nfirst\n");
  job_expect_answer(job, second, 0, NULL, "one\ntwo\nsecond\n");
  assert_int_equal(marks_count(job), 3);
  agent_process_wait_log(job->agent, INTERRUPTED);
  job_expect_nothing_left(job);
}

/* Only the agent dies, for example because of the out-of-memory killer. */
static void kill_only_agent(struct job *job) {
  assert_int_equal(kill(agent_process_pid(job->agent), SIGKILL), 0);
  assert_int_equal(agent_process_wait(job->agent, WAIT_BOUND_MS), -SIGKILL);
}

JOB_TEST(an_interrupted_step_has_ended_before_it_is_answered) {
  const char *earlier = job_sleep(job, 600), *tagged = job_sleep(job, 600),
             *cleared = job_sleep(job, 600);
  job_run(job, job_script(job, job_format(job, "setsid %s >/dev/null 2>&1 &", earlier)));
  const char *script = job_format(job,
                                  "setsid sh -c 'trap \"\" TERM; %s & env -i %s & wait' & "
                                  "echo up; wait",
                                  tagged, cleared);
  const cJSON *step = job_push_until(job, job_script(job, script), "up");
  assert_true(proc_wait_for(tagged, WAIT_BOUND_MS) > 0);
  assert_true(proc_wait_for(cleared, WAIT_BOUND_MS) > 0);
  kill_only_agent(job);
  job_start_agent(job, NULL);
  const cJSON *after = job_push_echo(job, "after");
  job_expect_answer(job, step, -1, INTERRUPTED, NULL);
  assert_int_equal(proc_find(tagged), 0);
  assert_int_equal(proc_find(cleared), 0);
  job_expect_answer(job, after, 0, NULL, "after\n");
  assert_int_equal(proc_find(earlier), 0); /* background processes of a finished step ended, too */
  job_expect_nothing_left(job);
}

/* Even if the other agent has the same job id, at another server, and runs a step of the same
   id. */
JOB_TEST(the_next_agent_spares_processes_of_a_living_agent) {
  struct job *other = job_new(redis_server_start(NULL));
  strcpy(other->id, job->id);
  job_start_agent(other, NULL);
  const char *sleep = job_sleep(job, 600), *others = job_sleep(job, 601);
  const cJSON *step = job_push_endless(job, sleep);
  cJSON *twin = job_script(other, job_format(other, "(setsid %s &); %s", others, others));
  cJSON_ReplaceItemInObject(twin, "stepId", cJSON_CreateString(job_text(step, "stepId")));
  job_push(other, twin);
  pid_t left = proc_wait_for(others, WAIT_BOUND_MS);
  kill_only_agent(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, step, -1, INTERRUPTED, NULL);
  job_expect_nothing_left(job);
  assert_true(left > 0);
  assert_int_not_equal(proc_find(others), 0);
  job_push_cancel(other, twin);
  job_expect_answer(other, twin, -1, "cancelled: by a cancel step", NULL);
  job_free(other);
}

JOB_TEST(only_one_of_several_agents_answers_an_interrupted_step) {
  const cJSON *running = counted_step(job, job_format(job, "exec %s", job_sleep(job, 600)));
  job_push_until(job, running, "two");
  job_kill_agent(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, running, -1, INTERRUPTED, NULL);
  job_kill_agent(job);
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  assert_int_equal(marks_count(job), 1);
  job_expect_nothing_left(job);
}

/* Redis executes both commands before it writes to anybody: the step is taken before the command
   takes effect. */
static void push_together(struct job *job, const cJSON *step, const char *command) {
  char *payload = cJSON_PrintUnformatted(step);
  redisAppendCommand(job->redis, "LPUSH sandbox:%s:in %s", job->id, payload);
  redisAppendCommand(job->redis, command);
  free(payload);
  for (int i = 0; i < 2; i++) {
    redisReply *reply;
    assert_int_equal(redisGetReply(job->redis, (void **)&reply), REDIS_OK);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
  }
}

#define PAUSE "CLIENT PAUSE 600000 WRITE"
/* Closes the connections before the step is sent to the agent. */
#define LOSE "CLIENT KILL TYPE normal SKIPME yes"

static bool agent_is_forgotten(void *context) {
  return strstr(job_ask_text(context, "CLIENT LIST"), "name=sandbox:") == NULL;
}

JOB_TEST(a_step_taken_but_not_started_runs) {
  const cJSON *step = counted_step(job, "true");
  job_run(job, job_step(job, "true", NULL));
  push_together(job, step, PAUSE);
  assert_int_equal(job_length(job, "inflight"), 1);
  assert_int_equal(job_length(job, "in"), 0);
  job_kill_agent(job);
  assert_int_equal(marks_count(job), 0);
  /* Otherwise Redis would still execute the commands that the agent has sent. */
  assert_true(wait_until(agent_is_forgotten, job, WAIT_BOUND_MS));
  job_do(job, "CLIENT UNPAUSE");
  job_start_agent(job, NULL);
  assert_int_equal(job_event_count(job_expect_answer(job, step, 0, NULL, "one\ntwo\n")), 4);
  assert_int_equal(marks_count(job), 1);
  assert_int_equal(cJSON_GetArraySize(job_events(job, step)), 4);
  job_expect_nothing_left(job);
}

/* The result was lost with the agent, so the next agent cannot know that the step has ended. */
JOB_TEST(a_step_that_ended_without_a_delivered_result_is_interrupted) {
  const cJSON *step = counted_step(job, "gate");
  job_push_until(job, step, "two");
  job_do(job, PAUSE);
  marks_open_gate(job, "");
  agent_process_wait_log(job->agent, "exit=0");
  job_kill_agent(job);
  assert_true(wait_until(agent_is_forgotten, job, WAIT_BOUND_MS));
  job_do(job, "CLIENT UNPAUSE");
  job_start_agent(job, NULL);
  assert_int_equal(job_event_count(job_expect_answer(job, step, -1, INTERRUPTED, NULL)), 3);
  assert_int_equal(marks_count(job), 1);
  job_expect_nothing_left(job);
}

JOB_TEST(steps_that_waited_at_a_stop_run_later) {
  const cJSON *running = job_script(job, job_format(job, "exec %s", job_sleep(job, 600)));
  job_push(job, running);
  job_wait_event(job, running, "started", "sh");
  const cJSON *first = job_push_echo(job, "first");
  const cJSON *second = job_push_echo(job, "second");
  job_wait_length(job, "inflight", 2);
  job_stop_agent(job, SIGTERM);
  job_expect_answer(job, running, -1, "cancelled: the agent was stopped by SIGTERM", NULL);
  job_expect_keys(job, "committed", "events", "in", "inflight", NULL);
  job_start_agent(job, NULL);
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_expect_answer(job, second, 0, NULL, "second\n");
  job_expect_nothing_left(job);
}

JOB_TEST_NO_AGENT(the_next_agent_finds_each_kind_of_message) {
  const char *mark = job_path(job, "mark");
  const cJSON *run = job_step(job, "echo", "run", NULL);
  const cJSON *cancelled = job_step(job, "touch", mark, NULL);
  const cJSON *behind = job_step(job, "echo", "behind", NULL);
  job_push_json(job, "{'stepId':'odd',");
  take(job);
  put_inflight(job, run);
  put_inflight(job, cancelled);
  put_inflight(job, job_cancel_of(job, job_text(cancelled, "stepId")));
  job_push_shutdown(job);
  take(job);
  put_inflight(job, behind);
  assert_int_equal(job_length(job, "inflight"), 6);
  job_start_agent(job, NULL);
  job_expect_answer(job, cancelled, -1, "cancelled: by a cancel step", NULL);
  const cJSON *refused = job_result(job);
  assert_string_equal(job_text(refused, "stepId"), "odd");
  assert_int_equal(job_event_count(refused), 0);
  job_expect_answer(job, run, 0, NULL, "run\n");
  job_expect_exit(job, 0);
  assert_int_not_equal(access(mark, F_OK), 0);
  assert_int_equal(job_length(job, "in") + job_length(job, "inflight"), 1);
  job_start_agent(job, NULL);
  job_expect_answer(job, behind, 0, NULL, "behind\n");
  job_expect_nothing_left(job);
}

JOB_TEST_NO_AGENT(a_payload_that_is_too_large_is_rejected_in_its_turn) {
  const cJSON *before = job_step(job, "echo", "before", NULL);
  const cJSON *after = job_step(job, "echo", "after", NULL);
  put_inflight(job, before);
  job_push_larger(job, "large", STEP_PAYLOAD_MAX);
  take(job);
  put_inflight(job, after);
  job_start_agent(job, NULL);
  job_expect_answer(job, before, 0, NULL, "before\n");
  const cJSON *refused = job_result(job);
  assert_string_equal(job_text(refused, "stepId"), "large");
  job_expect_part(job, refused, "errorMessage", "67108864");
  job_expect_answer(job, after, 0, NULL, "after\n");
  job_expect_nothing_left(job);
}

JOB_TEST_NO_AGENT(the_next_agent_finds_more_steps_than_fit_into_memory) {
  enum { TAKEN = 150, PUSHED = 20 };
  const cJSON *steps[TAKEN + PUSHED];
  for (int i = 0; i < TAKEN + PUSHED; i++) {
    steps[i] = job_step(job, "echo", job_format(job, "%d", i), NULL);
    (i < TAKEN ? put_inflight : job_push)(job, steps[i]);
  }
  job_start_agent(job, NULL);
  for (int i = 0; i < TAKEN + PUSHED; i++)
    job_expect_answer(job, steps[i], 0, NULL, job_format(job, "%d\n", i));
  job_expect_nothing_left(job);
}

/* The newest steps are small, so that many are read at once, and 40 of 4 MiB follow. */
JOB_TEST_NO_AGENT(large_steps_of_an_earlier_agent_are_returned_in_bounded_memory) {
  enum { STEPS = 40 + 127, HELD_KIB_MAX = 64 * 1024 };
  job_do(job, "EVAL %s 1 sandbox:%s:inflight",
         "for i = 1, 167 do redis.call('LPUSH', KEYS[1], '{\"stepId\":\"' .. i .. "
         "'\",\"kind\":\"none\",\"pad\":\"' .. string.rep('x', i <= 40 and 4194304 or 1) .. "
         "'\"}') end",
         job->id);
  job_start_agent(job, NULL);
  for (int i = 1; i <= STEPS; i++)
    assert_string_equal(job_text(job_result(job), "stepId"), job_format(job, "%d", i));
  if (agent_process_is_shipped())
    assert_in_range(proc_status_kib(agent_process_pid(job->agent), "VmHWM"), 1, HELD_KIB_MAX);
  job_wait_length(job, "inflight", 0);
}

/* The payload and the events are missing, and the stream has an event of another step. */
JOB_TEST_NO_AGENT(a_started_step_is_answered_without_its_payload_or_events) {
  const cJSON *other = job_step(job, "echo", "other", NULL);
  put_inflight(job, other);
  job_do(job, "SET sandbox:%s:started lone", job->id);
  job_do(job, "XADD sandbox:%s:events * data %s", job->id, quoted("{'stepId':'another','seq':7}"));
  job_start_agent(job, NULL);
  const cJSON *lone = job_own(job, cJSON_Parse(quoted("{'stepId':'lone'}")));
  const cJSON *result = job_expect_answer(job, lone, -1, INTERRUPTED, NULL);
  assert_int_equal(job_event_count(result), -1);
  (void)job_result_of(job, other);
  job_expect_nothing_left(job);
}

JOB_TEST(the_agent_finds_a_step_lost_on_its_way) {
  job_run(job, job_step(job, "true", NULL));
  for (int round = 0; round < 5; round++) {
    const cJSON *step = job_step(job, "echo", "found", NULL);
    push_together(job, step, LOSE);
    job_expect_answer(job, step, 0, NULL, "found\n");
  }
  job_expect_nothing_left(job);
}

/* The running, the waiting and the lost step have the same bytes, so only their number shows the
   loss. */
JOB_TEST(a_lost_step_is_distinguished_from_equal_steps) {
  const cJSON *step = counted_step(job, "gate");
  job_push_until(job, step, "two");
  job_push(job, step);
  job_wait_length(job, "inflight", 2);
  push_together(job, step, LOSE);
  push_together(job, step, LOSE);
  job_wait_length(job, "in", 2);
  marks_open_gate(job, "");
  for (int i = 0; i < 4; i++)
    job_expect_answer(job, step, 0, NULL, "one\ntwo\n");
  assert_int_equal(marks_count(job), 4);
  job_expect_nothing_left(job);
}

/* --- stray requests ---
   A BLMOVE whose agent is gone still moves a step, which no agent was told of. The agent finds the
   step in its place, and it runs once. */

struct awaited_clients {
  struct job *job;
  int count;
};

static bool are_there(void *context) {
  const struct awaited_clients *awaited = context;
  return job_count_waiting(awaited->job) == awaited->count;
}

static void wait_blocked(struct job *job, int clients) {
  struct awaited_clients awaited = {job, clients};
  if (!wait_until(are_there, &awaited, WAIT_BOUND_MS))
    job_fail(job, "%d connections wait for a step", job_count_waiting(job));
}

/* Leaves a BLMOVE that is older than the one of the agent. */
static redisContext *leave_question(struct job *job) {
  job_start_agent(job, NULL);
  job_run(job, job_step(job, "true", NULL));
  job_shut_down(job);
  redisContext *stray = redis_server_connect(job->server);
  redisAppendCommand(stray, "BLMOVE sandbox:%s:in sandbox:%s:inflight RIGHT LEFT 0", job->id,
                     job->id);
  int done = 0;
  while (done == 0)
    assert_int_equal(redisBufferWrite(stray, &done), REDIS_OK);
  wait_blocked(job, 1);
  job_start_agent(job, NULL);
  wait_blocked(job, 2);
  return stray;
}

/* Leaves a mark with its name each time it runs. */
static cJSON *named_step(struct job *job, const char *name) {
  return marks_step(job, job_format(job, "ran %s; echo %s", name, name));
}

static cJSON *endless_step(struct job *job, const char *name) {
  return marks_step(job,
                    job_format(job, "ran %s; echo %s; exec %s", name, name, job_sleep(job, 600)));
}

JOB_TEST_NO_AGENT(a_step_moved_by_a_stray_request_runs_first) {
  redisContext *stray = leave_question(job);
  const cJSON *first = named_step(job, "first");
  const cJSON *second = named_step(job, "second");
  job_push(job, first);
  job_push(job, second);
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_expect_answer(job, second, 0, NULL, "second\n");
  redisFree(stray);
  assert_string_equal(marks_read(job), "first\nsecond\n");
  job_expect_nothing_left(job);
}

/* The next agent knows which of the two was running. */
JOB_TEST_NO_AGENT(a_step_moved_by_a_stray_request_runs_at_most_once_after_a_kill) {
  redisContext *stray = leave_question(job);
  const cJSON *first = named_step(job, "first");
  const cJSON *second = endless_step(job, "second");
  const cJSON *third = named_step(job, "third");
  job_push(job, first);
  job_push_until(job, second, "second");
  job_push(job, third);
  job_wait_length(job, "in", 0);
  job_kill_agent(job);
  redisFree(stray);
  job_start_agent(job, NULL);
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_expect_answer(job, second, -1, INTERRUPTED, NULL);
  job_expect_answer(job, third, 0, NULL, "third\n");
  assert_string_equal(marks_read(job), "first\nsecond\nthird\n");
  job_expect_nothing_left(job);
}

/* The removal of the large payload must not remove the step in front of it. */
JOB_TEST_NO_AGENT(a_payload_that_is_too_large_may_follow_a_stray_step) {
  redisContext *stray = leave_question(job);
  const cJSON *first = named_step(job, "first");
  const cJSON *last = named_step(job, "last");
  job_push(job, first);
  job_push_larger(job, "large", STEP_PAYLOAD_MAX);
  job_push(job, last);
  job_expect_answer(job, first, 0, NULL, "first\n");
  assert_string_equal(job_text(job_result(job), "stepId"), "large");
  job_expect_answer(job, last, 0, NULL, "last\n");
  redisFree(stray);
  assert_string_equal(marks_read(job), "first\nlast\n");
  job_expect_nothing_left(job);
}

/* The older agent's BLMOVE gets the first step. */
struct pair {
  struct job *job;
  struct agent_process *older;
};

static bool is_decided(void *context) {
  const struct pair *pair = context;
  return job_count_waiting(pair->job) == 2 || !agent_process_is_running(pair->older);
}

/* Starts another agent beside the one that waits for a step. Returns the older one when both wait.
   On a busy machine, the older one may notice the other and exit before that one waits. */
static struct agent_process *supersede_blocked(struct job *job) {
  for (int i = 1;; i++) {
    struct pair pair = {job, job_start_second_agent(job)};
    assert_true(wait_until(is_decided, &pair, WAIT_BOUND_MS));
    if (job_count_waiting(job) == 2)
      return pair.older;
    assert_true(i < 10);
    assert_int_equal(agent_process_wait(pair.older, WAIT_BOUND_MS), 3);
    agent_process_free(pair.older);
    wait_blocked(job, 1);
  }
}

JOB_TEST(the_stray_request_may_be_that_of_an_earlier_agent) {
  job_run(job, job_step(job, "true", NULL));
  wait_blocked(job, 1);
  struct agent_process *older = supersede_blocked(job);
  const cJSON *first = named_step(job, "first");
  const cJSON *second = endless_step(job, "second");
  job_push(job, first);
  job_push(job, second);
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_wait_event(job, second, "stdout", "second");
  assert_int_equal(agent_process_wait(older, WAIT_BOUND_MS), 3);
  agent_process_free(older);
  job_kill_agent(job);
  job_start_agent(job, NULL);
  job_expect_answer(job, second, -1, INTERRUPTED, NULL);
  assert_string_equal(marks_read(job), "first\nsecond\n");
  job_expect_nothing_left(job);
}

TEST_OVERLAP(3)
