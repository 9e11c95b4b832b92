/* The Redis frontend with an engine and a Redis in the test's loop. These tests run commands in
   real time; test_redis_frontend_time.c tests time limits. */
#include "agent/frontends/redis/frontend.h"

#include "agent/exit_code.h"
#include "tests/support/gate.h"
#include "tests/support/redis_frontend_owner.h"
#include "tests/test.h"

/* The process exists before the acknowledgement, but does not execute the command yet. */
FRONTEND_TEST(a_command_executes_after_its_start_is_acknowledged) {
  redis_store_hold(owner->store, "out");
  frontend_owner_push_script(owner, "s-1", "touch $D/ran");
  frontend_owner_await(owner, "inflight", "s-1");
  for (int i = 0; i < 10; i++) {
    usleep(10000);
    loop_settle(&owner->loop);
  }
  assert_false(directory_has(&owner->loop.directory, "ran"));
  redis_store_hold(owner->store, NULL);
  frontend_owner_await_results(owner, 1);
  assert_true(directory_has(&owner->loop.directory, "ran"));
}

/* Enough files that the search takes much longer than REDIS_FRONTEND_READ_MS. */
static void make_much_to_search(const struct redis_frontend_owner *owner) {
  char path[128], link_path[128];
  snprintf(path, sizeof path, "%s/0", owner->loop.directory.path);
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  for (int i = 0; i < 90000; i++)
    fputs("0123456789\n", file);
  fclose(file);
  for (int i = 1; i < 5000; i++) {
    snprintf(link_path, sizeof link_path, "%s/%d", owner->loop.directory.path, i);
    assert_int_equal(link(path, link_path), 0);
  }
}

NEW_FRONTEND_TEST(the_start_of_a_slow_read_only_step_is_announced) {
  char step[512];
  make_much_to_search(owner);
  frontend_owner_begin(owner);
  snprintf(step, sizeof step,
           "{'schemaVersion':1,'stepId':'g-1','kind':'grep','pattern':'[a-f]{3}9','path':'%s'}",
           owner->loop.directory.path);
  frontend_owner_push(owner, step);
  frontend_owner_await(owner, "started", "g-1");
  loop_settle(&owner->loop);
  assert_string_equal(frontend_owner_story(owner), "( +started started )");
  assert_int_equal(frontend_owner_count(owner, "results", "\n"), 0);
  frontend_owner_push_cancel(owner, "g-1");
  frontend_owner_await_results(owner, 1);
  frontend_owner_has_once(owner, "results", "cancelled: by a cancel step");
  frontend_owner_lacks(owner, "started");
  frontend_owner_lacks(owner, "inflight");
}

NEW_FRONTEND_TEST(a_shutdown_waits_for_an_unreachable_redis) {
  frontend_owner_leave_without_redis(owner);
  loop_settle(&owner->loop);
  assert_int_equal(loop_logged(&owner->loop, "undelivered"), 0);
  redis_store_come_back(owner->store);
  assert_int_equal(frontend_owner_exit_code(owner), AGENT_EXIT_SHUTDOWN);
  frontend_owner_has_once(owner, "results", "\n");
  frontend_owner_has_once(owner, "results", "\"exitCode\":5");
  frontend_owner_lacks(owner, "inflight");
  frontend_owner_lacks(owner, "heartbeat");
}

#define RUN_ONCE "[ ! -e $D/ran ] || touch $D/ran-again; touch $D/ran"

/* Runs two steps. The first one has ended, but not in the snapshot that is taken. The second one
   runs until the file "go" exists. */
static struct redis_store_snapshot *begin_second_of_two(struct redis_frontend_owner *owner) {
  frontend_owner_push_script(owner, "s-1", GATE("$D/first") RUN_ONCE);
  frontend_owner_push_script(owner, "s-2", GATE("$D/go"));
  frontend_owner_await(owner, "started", "s-1");
  frontend_owner_await(owner, "inflight", "s-2");
  loop_settle(&owner->loop);
  struct redis_store_snapshot *snapshot = redis_store_snapshot(owner->store);
  loop_open_gate(&owner->loop, "first");
  frontend_owner_await(owner, "started", "s-2");
  loop_settle(&owner->loop);
  return snapshot;
}

/* Restores the snapshot while the consumer's connection is lost. */
static void go_back(struct redis_frontend_owner *owner, struct redis_store_snapshot *snapshot) {
  redis_store_hold(owner->store, "in");
  redis_store_restore(owner->store, snapshot);
  redis_store_snapshot_free(snapshot);
}

/* Asserts that `inflight` and `in` have no step that a later agent would run again. */
static void expect_first_answered(const struct redis_frontend_owner *owner) {
  assert_int_equal(frontend_owner_count(owner, "inflight", "\"s-1\""), 0);
  frontend_owner_has_once(owner, "results", "\"stepId\":\"s-1\"");
  frontend_owner_has_once(owner, "results",
                          "lost: the step has run, and redis has lost its result");
  assert_false(directory_has(&owner->loop.directory, "ran-again"));
}

#define WAITING "{'schemaVersion':1,'stepId':'s-3','kind':'run','command':'false'}"

FRONTEND_TEST(a_shutdown_answers_steps_whose_result_was_lost) {
  struct redis_store_snapshot *snapshot = begin_second_of_two(owner);
  frontend_owner_push(owner, "{'schemaVersion':1,'stepId':'end','kind':'shutdown'}");
  frontend_owner_await(owner, "inflight", "end");
  loop_settle(&owner->loop);
  go_back(owner, snapshot);
  loop_await_log(&owner->loop, "redis has lost acknowledged data");
  loop_open_gate(&owner->loop, "go");
  assert_int_equal(frontend_owner_exit_code(owner), AGENT_EXIT_SHUTDOWN);
  expect_first_answered(owner);
  frontend_owner_lacks(owner, "inflight");
  frontend_owner_lacks(owner, "heartbeat");
}

/* Waiting steps stay in `in`. */
FRONTEND_TEST(a_signal_answers_steps_whose_result_was_lost) {
  struct redis_store_snapshot *snapshot = begin_second_of_two(owner);
  frontend_owner_push(owner, WAITING);
  frontend_owner_await(owner, "inflight", "s-3");
  loop_settle(&owner->loop);
  go_back(owner, snapshot);
  loop_await_log(&owner->loop, "redis has lost acknowledged data");
  engine_signal(owner->engine, SIGTERM);
  assert_int_equal(frontend_owner_exit_code(owner), AGENT_EXIT_SIGNAL + SIGTERM);
  expect_first_answered(owner);
  frontend_owner_has_once(owner, "inflight", "\n");
  frontend_owner_has_once(owner, "inflight", "s-3");
}

/* Redis comes back with older data while the agent waits for it. */
FRONTEND_TEST(a_close_answers_steps_whose_result_was_lost) {
  struct redis_store_snapshot *snapshot = begin_second_of_two(owner);
  redis_store_go_away(owner->store);
  loop_open_gate(&owner->loop, "go");
  loop_await_log(&owner->loop, "step=s-2 exit=0 in ");
  engine_leave(owner->frontend, AGENT_EXIT_SHUTDOWN, "shutdown step");
  loop_settle(&owner->loop);
  go_back(owner, snapshot);
  assert_int_equal(frontend_owner_exit_code(owner), AGENT_EXIT_SHUTDOWN);
  expect_first_answered(owner);
  frontend_owner_lacks(owner, "inflight");
}

/* The watch of the batch has noticed the takeover, but Redis answers with the error of the move.
   The heartbeat, which would notice the takeover, gets no answer. */
FRONTEND_TEST(a_batch_with_a_refused_move_is_not_sent_after_a_takeover) {
  frontend_owner_push(owner,
                      "{'stepId':'s-1','replyTo':'r','command':'sh','args':['-c','echo up; " GATE(
                          "$D/go") "exit 3']}");
  frontend_owner_await(owner, "events", "up");
  loop_settle(&owner->loop);
  redis_store_hold(owner->store, "heartbeat");
  redis_store_inject(owner->store, (struct redis_store_fault){.command = "BLMOVE sandbox:j:results",
                                                              .effect = REDIS_STORE_REFUSES,
                                                              .text = "NOPERM no"});
  redis_store_do(owner->store, 3, "SET sandbox:j:committed 9:00000000000000ff:1");
  loop_open_gate(&owner->loop, "go");
  LOOP_UNTIL(&owner->loop, engine_leaving(owner->frontend) != NULL);
  assert_int_equal(redis_store_injected(owner->store), 1);
  frontend_owner_lacks(owner, "results");
  assert_string_equal(redis_store_value(owner->store, "sandbox:j:committed"),
                      "9:00000000000000ff:1\n");
}
