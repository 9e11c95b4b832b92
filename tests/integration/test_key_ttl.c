/* The keys of a job expire after its agent has ended, and an orderly end deletes most of them. */

#include "tests/support/job.h"

enum { DEFAULT_SECONDS = 86400 };

static const char *const names[] = {"in", "events", "results", "inflight", "started", "committed"};
enum { NAMES = sizeof names / sizeof *names };

/* Returns milliseconds; -1 if the key does not expire, -2 if it does not exist. */
static long long time_left(struct job *job, const char *name) {
  return job_ask_number(job, "PTTL sandbox:%s:%s", job->id, name);
}

/* One step runs, one is fetched ahead, and there is a result. */
static void fill_keys(struct job *job) {
  const cJSON *step = job_script(job, job_format(job, "echo up; exec %s", job_sleep(job, 600)));
  job_push(job, job_step(job, "true", NULL));
  job_wait_length(job, "results", 1);
  job_push(job, step);
  job_push(job, job_step(job, "true", NULL));
  job_wait_event(job, step, "stdout", "up");
  job_wait_length(job, "inflight", 2);
}

/* One more step waits in `in`. All keys exist except `control`, which is empty. */
static void fill_all_keys(struct job *job) {
  fill_keys(job);
  job_push(job, job_step(job, "true", NULL));
  job_expect_keys(job, "in", "events", "results", "inflight", "started", "committed", "heartbeat",
                  NULL);
}

static bool all_expire(void *context) {
  for (size_t i = 0; i < NAMES; i++)
    if (time_left(context, names[i]) < 0)
      return false;
  return true;
}

struct watch {
  struct job *job;
  int refreshed[NAMES];
  long long left[NAMES];
};

/* The remaining time decreases; if it increases, it was set again. */
static bool all_were_refreshed(void *context) {
  enum { OFTEN = 4 };
  struct watch *watch = context;
  bool all = true;
  for (size_t i = 0; i < NAMES; i++) {
    long long left = time_left(watch->job, names[i]);
    watch->refreshed[i] += left > watch->left[i];
    watch->left[i] = left;
    all &= watch->refreshed[i] > OFTEN;
  }
  return all;
}

/* The heartbeat has its own time to live. */
static bool there_are_none(void *context) {
  redisReply *keys = job_ask(context, "KEYS sandbox:*");
  bool none = keys->elements == 0 ||
              (keys->elements == 1 && strstr(keys->element[0]->str, ":heartbeat") != NULL);
  freeReplyObject(keys);
  return none;
}

JOB_TEST_NO_AGENT(the_keys_expire_after_the_agent_is_killed) {
  job_start_agent(job, "--key-ttl", "6", NULL);
  fill_all_keys(job);
  assert_true(wait_until(all_expire, job, WAIT_BOUND_MS));
  struct watch watch = {.job = job};
  if (!wait_until(all_were_refreshed, &watch, WAIT_BOUND_MS))
    job_fail(job, "a key is not refreshed");
  for (size_t i = 0; i < NAMES; i++)
    assert_in_range(time_left(job, names[i]), 1, 6000);
  job_kill_agent(job);
  assert_true(wait_until(there_are_none, job, WAIT_BOUND_MS));
}

/* `committed` stays for a while, for an agent that was cut off. */
JOB_TEST_NO_AGENT(after_a_shutdown_the_committed_key_lives_at_most_an_hour) {
  static const char *const rows[][2] = {{"0", "3600000"}, {"86400", "3600000"}, {"60", "60000"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    long long most = strtoll(rows[i][1], NULL, 10);
    job_start_agent(job, "--key-ttl", rows[i][0], NULL);
    job_run(job, job_step(job, "true", NULL));
    job_shut_down(job);
    assert_in_range(time_left(job, "committed"), most / 2, most);
  }
}

/* Watches keys that live 4 s, for more than twice as long. Returns false if the machine stood still
   for a while, so that they may have expired. */
static bool stay_alive(struct job *job) {
  static const char *const kept[] = {"events", "results", "committed"};
  int64_t looked_ms = wait_now_ms(), end_ms = looked_ms + 10000;
  while (looked_ms < end_ms) {
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
      long long left = time_left(job, kept[i]);
      if (wait_now_ms() - looked_ms > 1000)
        return false;
      assert_in_range(left, 1, 4000);
    }
    looked_ms = wait_now_ms();
  }
  return true;
}

JOB_TEST_NO_AGENT(an_idle_agent_keeps_the_keys_alive) {
  job_start_agent(job, "--key-ttl", "4", NULL);
  do {
    job_do(job, "DEL sandbox:%s:results", job->id);
    job_push(job, job_step(job, "true", NULL));
    job_wait_length(job, "results", 1);
  } while (!stay_alive(job));
}

JOB_TEST(the_keys_live_a_day_by_default) {
  fill_keys(job);
  /* A key that is created between two refreshes expires after the next step or refresh. */
  static const char *const at_once[] = {"events", "results", "started", "committed"};
  for (size_t i = 0; i < sizeof at_once / sizeof *at_once; i++)
    assert_in_range(time_left(job, at_once[i]), (DEFAULT_SECONDS - 60) * 1000LL,
                    DEFAULT_SECONDS * 1000LL);
}

JOB_TEST_NO_AGENT(a_key_ttl_of_0_keeps_the_keys) {
  job_start_agent(job, "--key-ttl", "0", NULL);
  fill_keys(job);
  for (size_t i = 0; i < NAMES; i++)
    if (strcmp(names[i], "in") != 0)
      assert_int_equal(time_left(job, names[i]), -1);
}

/* The earlier agent has left steps in both lists, events, a result and `committed`. */
JOB_TEST_NO_AGENT(a_key_ttl_of_0_also_keeps_the_keys_of_an_earlier_agent) {
  const cJSON *steps[2];
  job_push(job, job_step(job, "true", NULL));
  for (size_t i = 0; i < 2; i++) {
    steps[i] = job_script(job, job_format(job, "echo up; exec %s", job_sleep(job, 600)));
    job_push(job, steps[i]);
  }
  for (size_t i = 0; i < 2; i++) /* one step is fetched ahead, one waits in `in` */
    job_push(job, job_step(job, "true", NULL));
  job_start_agent(job, "--key-ttl", "1000", NULL);
  job_wait_event(job, steps[0], "stdout", "up");
  assert_true(wait_until(all_expire, job, WAIT_BOUND_MS));
  job_kill_agent(job);
  job_start_agent(job, "--key-ttl", "0", NULL);
  job_wait_event(job, steps[1], "stdout", "up");
  for (size_t i = 0; i < NAMES; i++)
    assert_int_equal(time_left(job, names[i]), -1);
}

JOB_TEST(a_shutdown_leaves_only_keys_that_a_server_reads) {
  job_push(job, job_step(job, "true", NULL));
  job_push(job, job_step(job, "true", NULL));
  job_shut_down(job);
  job_expect_keys(job, "committed", "events", "results", NULL);
  job_result(job);
  job_result(job);
  job_expect_keys(job, "committed", "events", NULL);
}

JOB_TEST(a_signal_leaves_only_keys_that_a_server_reads) {
  (void)job_push_endless(job, job_sleep(job, 600));
  job_stop_agent(job, SIGTERM);
  job_expect_keys(job, "committed", "events", "results", NULL);
}

JOB_TEST(an_agent_without_steps_leaves_only_the_committed_key) {
  job_shut_down(job);
  job_expect_keys(job, "committed", NULL);
}
