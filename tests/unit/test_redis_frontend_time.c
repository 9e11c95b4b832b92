/* The time limits of the Redis frontend, in virtual time. */
#include "agent/exit_code.h"
#include "agent/frontends/redis/delivery/flow_control.h"
#include "agent/frontends/redis/frontend.h"
#include "agent/frontends/redis/heartbeat/heartbeat.h"
#include "agent/frontends/redis/heartbeat/run_alive.h"
#include "tests/support/gate.h"
#include "tests/support/logged.h"
#include "tests/support/redis_frontend_owner.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define LIMIT_MS 3000
#define RUNS "runs:alive"

/* How late a timer may seem to be, because a test looks at the clock only now and then. */
enum { LATE_MS = 200 };

static int set_up(void **state) {
  frontend_owner_set_up(state);
  virtual_time_pace_ms = 0;
  struct redis_frontend_owner *owner = *state;
  owner->idle_limit_ms = LIMIT_MS;
  return 0;
}

#define CYCLE_MS (LIMIT_MS / 5)

#define LIMITED_TEST(NAME)                                                                         \
  TEST_WITH(struct redis_frontend_owner *owner, NAME, set_up, frontend_owner_tear_down)

static int set_up_with_a_run(void **state) {
  set_up(state);
  struct redis_frontend_owner *owner = *state;
  owner->options.run_id = "run-7";
  owner->options.run_set = RUNS;
  return 0;
}

#define GUARDED_TEST(NAME)                                                                         \
  TEST_WITH(struct redis_frontend_owner *owner, NAME, set_up_with_a_run, frontend_owner_tear_down)

static void expect_exit_after(struct redis_frontend_owner *owner, int64_t begin_ms,
                              int64_t milliseconds, int exit_code) {
  assert_int_equal(frontend_owner_exit_code(owner), exit_code);
  assert_in_range(virtual_time_ms - begin_ms, milliseconds, milliseconds + LATE_MS);
}

/* --- read-only steps: 100 ms of virtual time must be enough for a process --------------------- */

static void push_read(struct redis_frontend_owner *owner, const char *id) {
  char step[512];
  snprintf(step, sizeof step,
           "{'schemaVersion':1,'stepId':'%s','kind':'readFile','path':'%s/file'}", id,
           owner->loop.directory.path);
  frontend_owner_push(owner, step);
}

static void write_file(const struct redis_frontend_owner *owner, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/file", owner->loop.directory.path);
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

/* The first event has used up the rate limit. The limit allows more later, but no acknowledgement
   wakes the step then. */
LIMITED_TEST(a_read_only_step_is_woken_when_the_rate_limit_allows_more) {
  owner->options.delivery.events_maxlen = 1;
  owner->options.events_pace = 1000;
  write_file(owner, "content");
  frontend_owner_begin(owner);
  virtual_time_ms += 1000;
  virtual_time_pace_ms = 20;
  push_read(owner, "r-1");
  frontend_owner_await_results(owner, 1);
  assert_string_equal(frontend_owner_story(owner), "( started completed result -inflight )");
}

/* The first step after a takeover is compared with Redis, which takes no time. */
LIMITED_TEST(a_step_after_a_takeover_starts_at_once) {
  redis_store_do(owner->store, 3, "SET sandbox:j:committed 1:00000000000000ff:7");
  owner->idle_limit_ms = 0;
  write_file(owner, "content");
  frontend_owner_begin(owner);
  virtual_time_pass(&owner->loop, 3000);
  push_read(owner, "r-1");
  int64_t begin_ms = virtual_time_ms;
  virtual_time_pace_ms = 20;
  frontend_owner_await_results(owner, 1);
  assert_in_range(virtual_time_ms - begin_ms, 0, 500);
}

/* The step is executed although Redis has not acknowledged its start. */
LIMITED_TEST(a_reading_step_does_not_wait_for_redis) {
  write_file(owner, "content");
  frontend_owner_begin(owner);
  redis_store_hold(owner->store, "out");
  virtual_time_pace_ms = 20;
  push_read(owner, "r-1");
  frontend_owner_await(owner, "inflight", "r-1");
  loop_await_log(&owner->loop, "exit=0 in ");
  redis_store_hold(owner->store, NULL);
  frontend_owner_await_results(owner, 1);
}

/* --- flow control ----------------------------------------------------------------------------- */

static void push_sign(struct redis_frontend_owner *owner) {
  redis_store_do(owner->store, 3,
                 "LPUSH sandbox:j:control {\"kind\":\"read\",\"stepId\":\"f-1\",\"seq\":1}");
}

/* The command waits as long as its reader gives signs, and then for FLOW_CONTROL_GONE_MS. */
LIMITED_TEST(a_command_does_not_wait_for_a_silent_reader) {
  owner->options.delivery.events_maxlen = 10;
  owner->idle_limit_ms = 0;
  frontend_owner_begin(owner);
  virtual_time_pace_ms = 20;
  frontend_owner_push(
      owner, "{'stepId':'f-1','flowControl':true,'command':'seq','args':['-f','%01000g','300']}");
  LOOP_UNTIL(&owner->loop, frontend_owner_count(owner, "events", "\n") == 11);
  virtual_time_pace_ms = 0;
  for (int i = 0; i < 8; i++) {
    virtual_time_pass(&owner->loop, 2000);
    push_sign(owner);
  }
  virtual_time_pass(&owner->loop, FLOW_CONTROL_GONE_MS - 500);
  assert_int_equal(frontend_owner_count(owner, "events", "\n"), 12); /* one is read */
  virtual_time_pass(&owner->loop, 500 + 3 * HEARTBEAT_MS);
  virtual_time_pace_ms = 20;
  frontend_owner_await_results(owner, 1);
  assert_int_equal(loop_logged(&owner->loop, "the reader of the running step sends no"), 1);
}

/* While `control` cannot be read, no reader can give a sign. */
LIMITED_TEST(a_reader_is_not_awaited_while_control_cannot_be_read) {
  owner->options.delivery.events_maxlen = 10;
  owner->idle_limit_ms = 0;
  frontend_owner_begin(owner);
  virtual_time_pace_ms = 20;
  frontend_owner_push(
      owner, "{'stepId':'f-1','flowControl':true,'command':'seq','args':['-f','%01000g','300']}");
  LOOP_UNTIL(&owner->loop, frontend_owner_count(owner, "events", "\n") == 11);
  virtual_time_pace_ms = 0;
  redis_store_hold(owner->store, "heartbeat");
  virtual_time_pass(&owner->loop, 5 * FLOW_CONTROL_GONE_MS);
  redis_store_hold(owner->store, NULL);
  virtual_time_pass(&owner->loop, FLOW_CONTROL_GONE_MS - 1000);
  assert_int_equal(frontend_owner_count(owner, "events", "\n"), 11);
  assert_int_equal(loop_logged(&owner->loop, "the reader of the running step sends no"), 0);
}

/* With MAXLEN in each XADD, the agent's user needs no right for XTRIM. */
LIMITED_TEST(without_the_right_for_xtrim_a_takeover_trims_nothing) {
  owner->idle_limit_ms = 0;
  redis_store_do(owner->store, 3, "SET sandbox:j:committed 1:00000000000000ff:7");
  redis_store_inject(owner->store, (struct redis_store_fault){.command = "XTRIM",
                                                              .effect = REDIS_STORE_REFUSES,
                                                              .text = "NOPERM no"});
  frontend_owner_begin(owner);
  virtual_time_pass(&owner->loop, 4 * FLOW_CONTROL_GONE_MS);
  assert_null(engine_leaving(owner->frontend));
  assert_null(strstr(redis_store_value(owner->store, "sandbox:j:heartbeat"), "flowControl"));
}

/* --- the idle limit --------------------------------------------------------------------------- */

GUARDED_TEST(while_the_run_is_alive_the_query_is_repeated) {
  int64_t begin_ms = virtual_time_ms;
  redis_store_do(owner->store, 3, "LPUSH " RUNS " run-7");
  frontend_owner_begin(owner);
  virtual_time_pass(&owner->loop, 2 * LIMIT_MS + LIMIT_MS / 2);
  assert_int_equal(loop_logged(&owner->loop, "run run-7 is alive: continuing to wait"), 2);
  assert_null(engine_leaving(owner->frontend));
  redis_store_do(owner->store, 2, "DEL " RUNS);
  expect_exit_after(owner, begin_ms, 3 * LIMIT_MS, AGENT_EXIT_IDLE);
}

/* An unknown answer is not "no": the agent waits for another cycle, and asks again. */
GUARDED_TEST(after_an_unknown_answer_the_query_is_repeated) {
  int64_t begin_ms = virtual_time_ms;
  owner->options.idle_cycle_ms = CYCLE_MS;
  redis_store_inject(owner->store, (struct redis_store_fault){.command = "SISMEMBER",
                                                              .effect = REDIS_STORE_REFUSES,
                                                              .text = "ERR no"});
  frontend_owner_begin(owner);
  virtual_time_pass(&owner->loop, LIMIT_MS + 2 * CYCLE_MS + CYCLE_MS / 2);
  assert_int_equal(
      loop_logged(&owner->loop, "cannot find out whether run run-7 is in " RUNS ": ERR no"), 3);
  assert_null(engine_leaving(owner->frontend));
  redis_store_inject(owner->store, (struct redis_store_fault){0});
  expect_exit_after(owner, begin_ms, LIMIT_MS + 3 * CYCLE_MS, AGENT_EXIT_IDLE);
}

/* The id is too long and has a line break. */
GUARDED_TEST(the_answer_is_one_line_in_the_log) {
  char execution[4000] = "", shown[256];
  memset(execution, 'r', sizeof execution - 1);
  owner->options.run_id = execution;
  owner->options.run_set = RUNS;
  frontend_owner_begin(owner);
  assert_int_equal(frontend_owner_exit_code(owner), AGENT_EXIT_IDLE);
  snprintf(shown, sizeof shown, "run %.200s is not in", execution);
  frontend_owner_logged_once(owner, shown);
}

GUARDED_TEST(a_step_cancels_the_query) {
  frontend_owner_begin(owner);
  redis_store_hold(owner->store, "guard");
  while (redis_store_connections(owner->store, "guard") == 0)
    virtual_time_pass(&owner->loop, 1000);
  frontend_owner_push_script(owner, "s-1", GATE("$D/go"));
  frontend_owner_await(owner, "started", "s-1");
  virtual_time_pass(&owner->loop, 2 * LIMIT_MS);
  assert_null(engine_leaving(owner->frontend));
  assert_int_equal(redis_store_connections(owner->store, "guard"), 0);
  loop_open_gate(&owner->loop, "go");
  frontend_owner_await_results(owner, 1);
}

/* Without Redis there is no query. */
GUARDED_TEST(the_agent_waits_for_redis_until_the_idle_limit) {
  int64_t begin_ms = virtual_time_ms;
  redis_store_go_away(owner->store);
  frontend_owner_make(owner);
  expect_exit_after(owner, begin_ms, LIMIT_MS, AGENT_EXIT_UNREACHED);
  frontend_owner_logged_once(owner, "waiting for redis until the idle limit, 3 s from now");
  redis_store_come_back(owner->store);
}

LIMITED_TEST(the_connect_timeout_ends_with_the_takeover) {
  owner->idle_limit_ms = 0;
  owner->options.connect_timeout_ms = LIMIT_MS;
  frontend_owner_begin(owner);
  redis_store_go_away(owner->store);
  virtual_time_pass(&owner->loop, 2 * LIMIT_MS);
  assert_null(engine_leaving(owner->frontend));
  redis_store_come_back(owner->store);
}

/* There is no query, because its answer would not bring Redis back. */
GUARDED_TEST(undelivered_output_at_the_idle_limit_is_an_error) {
  frontend_owner_begin(owner);
  redis_store_hold(owner->store, "out");
  frontend_owner_push_script(owner, "s-1", "touch $D/ran");
  frontend_owner_await(owner, "inflight", "s-1");
  assert_int_equal(frontend_owner_exit_code(owner), AGENT_EXIT_ERROR);
  assert_int_equal(loop_logged(&owner->loop, "is alive"), 0);
  assert_int_equal(loop_logged(&owner->loop, "cannot find out"), 0);
  assert_false(directory_has(&owner->loop.directory, "ran"));
}

/* --- the end --------------------------------------------------------------------------------- */

LIMITED_TEST(the_agent_does_not_wait_long_for_the_removal_of_the_heartbeat) {
  frontend_owner_begin(owner);
  virtual_time_pass(&owner->loop, HEARTBEAT_MS);
  redis_store_hold(owner->store, "out");
  int64_t begin_ms = virtual_time_ms;
  engine_leave(owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  assert_int_equal(frontend_owner_exit_code(owner), AGENT_EXIT_SHUTDOWN); /* the key expires */
  assert_in_range(virtual_time_ms - begin_ms, 1000, 3000);
}

LIMITED_TEST(a_graceful_close_ends_at_the_idle_limit) {
  frontend_owner_leave_without_redis(owner);
  int64_t begin_ms = virtual_time_ms;
  expect_exit_after(owner, begin_ms, LIMIT_MS - 10, AGENT_EXIT_ERROR);
  frontend_owner_logged_once(owner, "undelivered result: {");
  frontend_owner_logged_once(owner, "\"exitCode\":5");
}

/* Redis has lost data and does not reply, so `inflight` cannot be compared. */
static void lose_data(struct redis_frontend_owner *owner) {
  frontend_owner_begin(owner);
  redis_store_hold(owner->store, "in");
  redis_store_restore(owner->store, NULL);
  loop_await_log(&owner->loop, "redis has lost acknowledged data");
  redis_store_hold(owner->store, "out");
  loop_settle(&owner->loop);
}

LIMITED_TEST(after_lost_data_a_shutdown_waits_until_the_idle_limit) {
  lose_data(owner);
  redis_store_go_away(owner->store);
  int64_t begin_ms = virtual_time_ms;
  engine_leave(owner->frontend, AGENT_EXIT_SHUTDOWN, "a test");
  expect_exit_after(owner, begin_ms, LIMIT_MS - 10, AGENT_EXIT_SHUTDOWN);
  redis_store_come_back(owner->store);
}

LIMITED_TEST(after_lost_data_a_signal_waits_for_its_time) {
  owner->idle_limit_ms = 0;
  lose_data(owner);
  redis_store_hold(owner->store, "out"); /* connected, without replies */
  int64_t begin_ms = virtual_time_ms;
  engine_signal(owner->engine, 15);
  expect_exit_after(owner, begin_ms, ENGINE_DEADLINE_MS - 10, AGENT_EXIT_SIGNAL + 15);
}

LIMITED_TEST(a_signal_does_not_wait_for_an_unreachable_redis) {
  lose_data(owner);
  redis_store_go_away(owner->store);
  int64_t begin_ms = virtual_time_ms;
  engine_signal(owner->engine, 15);
  expect_exit_after(owner, begin_ms, 0, AGENT_EXIT_SIGNAL + 15);
  redis_store_come_back(owner->store);
}

/* Restored steps are lost at once, and are restored again after pauses. */
LIMITED_TEST(a_redis_that_loses_restored_steps_is_logged_once) {
  owner->idle_limit_ms = 0;
  frontend_owner_begin(owner);
  frontend_owner_push_script(owner, "1", GATE("$D/go") "exit 5");
  frontend_owner_await(owner, "events", "\"kind\":\"started\"");
  redis_store_inject(owner->store, (struct redis_store_fault){.command = "RPUSH sandbox:j:inflight",
                                                              .effect = REDIS_STORE_ANSWERS,
                                                              .text = "+QUEUED\r\n"});
  redis_store_forget_executed(owner->store);
  redis_store_restore(owner->store, NULL);
  virtual_time_pass(&owner->loop, 30000);
  assert_in_range(
      logged_count_in(redis_store_executed(owner->store), "out LREM sandbox:j:inflight"), 2, 33);
  frontend_owner_logged_once(owner, "redis has lost steps that were taken");
  redis_store_inject(owner->store, (struct redis_store_fault){0});
  loop_open_gate(&owner->loop, "go");
  frontend_owner_await_results(owner, 1);
  frontend_owner_has_once(owner, "results", "\"exitCode\":5");
}
