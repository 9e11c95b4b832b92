/* The Redis door with an engine and a Redis in the test's loop, in real time: whatever runs a
   command. Limits are in test_redis_door_time.c. */
#include "agent/doors/redis/door.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "agent/exit_code.h"
#include "tests/support/gate.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/redis_door_owner.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define BEGUN "( +started started )"
#define ANSWERED "( completed result -inflight -started )"

static void told(struct redis_door_owner *owner, const char *expected) {
  assert_string_equal(door_owner_story(owner), expected);
  redis_store_forget_executed(owner->store);
}

/* --- the start ------------------------------------------------------------------------------- */

/* At no time a job has an owner and no heartbeat, and no step is claimed by one who is not it. */
NEW_DOOR_TEST(the_job_is_taken_over_before_a_step_is_claimed) {
  door_owner_push_script(owner, "s-1", "true");
  door_owner_make(owner);
  door_owner_await_results(owner, 1);
  const char *executed = redis_store_executed(owner->store);
  const char *committed = strstr(executed, "out SET sandbox:j:committed 1:");
  const char *heartbeat = strstr(executed, "out SET sandbox:j:heartbeat {\"Ts\":");
  const char *claim = strstr(executed, "in BLMOVE ");
  assert_non_null(committed);
  assert_non_null(heartbeat);
  assert_non_null(claim);
  assert_true(strncmp(executed, "out MULTI\n", 10) == 0);
  assert_true(committed < claim && heartbeat < claim);
  assert_true(heartbeat < strstr(executed, "out EXEC\n")); /* in one transaction */
  door_owner_logged_once(owner, "started: pid ");
}

NEW_DOOR_TEST(a_redis_that_comes_later_is_waited_for) {
  door_owner_push_script(owner, "s-1", "true");
  redis_store_go_away(owner->store);
  door_owner_make(owner);
  loop_settle(&owner->loop);
  redis_store_come_back(owner->store);
  door_owner_await_results(owner, 1);
}

/* --- a step's way ---------------------------------------------------------------------------- */

DOOR_TEST(a_step_is_claimed_begun_and_answered_in_order) {
  door_owner_push_script(owner, "s-1", "true");
  door_owner_await_results(owner, 1);
  assert_int_equal(strncmp(redis_store_executed(owner->store), "in BLMOVE {", 11), 0);
  told(owner, BEGUN " " ANSWERED);
  door_owner_has_once(owner, "results", "\"stepId\":\"s-1\",\"exitCode\":0");
  door_owner_lacks(owner, "inflight");
  door_owner_lacks(owner, "started");
}

DOOR_TEST(output_is_in_the_stream_before_the_result) {
  door_owner_push_script(owner, "s-1", "echo one; " GATE("$D/go") "echo two >&2; exit 3");
  door_owner_await(owner, "events", "\"line\":\"one\"");
  assert_string_equal(redis_store_value(owner->store, "sandbox:j:started"), "s-1\n");
  door_owner_open_gate(owner, "go");
  door_owner_await_results(owner, 1);
  const char *story = door_owner_story(owner);
  assert_int_equal(strncmp(story, BEGUN " ( stdout ) ", strlen(BEGUN " ( stdout ) ")), 0);
  assert_true(strstr(story, "stderr") < strstr(story, "completed result"));
  door_owner_has_once(owner, "results", "\"exitCode\":3");
}

/* The command exists meanwhile, and waits. */
DOOR_TEST(a_command_executes_when_its_start_is_acknowledged) {
  redis_store_hold(owner->store, "out");
  door_owner_push_script(owner, "s-1", "touch $D/ran");
  door_owner_await(owner, "inflight", "s-1");
  for (int i = 0; i < 10; i++) {
    usleep(10000);
    loop_settle(&owner->loop);
  }
  assert_false(door_owner_has(owner, "ran"));
  redis_store_hold(owner->store, NULL);
  door_owner_await_results(owner, 1);
  assert_true(door_owner_has(owner, "ran"));
}

DOOR_TEST(an_answer_leaves_with_the_next_start) {
  redis_store_hold(owner->store, "in");
  door_owner_push_script(owner, "s-1", GATE("$D/go"));
  door_owner_push_script(owner, "s-2", "true");
  redis_store_hold(owner->store, NULL);
  door_owner_await(owner, "started", "s-1");
  door_owner_await(owner, "inflight", "s-2");
  loop_settle(&owner->loop);
  door_owner_open_gate(owner, "go");
  door_owner_await_results(owner, 2);
  told(owner, BEGUN " ( completed result -inflight -started +started started ) " ANSWERED);
}

DOOR_TEST(a_refused_step_is_answered_without_a_run) {
  door_owner_push(owner, "{'schemaVersion':1,'stepId':'bad','command':7}");
  door_owner_push_script(owner, "s-2", "true");
  door_owner_await_results(owner, 2);
  told(owner, "( result -inflight ) " BEGUN " " ANSWERED);
  door_owner_has_once(owner, "results", "\"stepId\":\"bad\",\"exitCode\":-1");
  door_owner_logged_once(owner, "refused: command: ");
}

/* --- steps that change nothing: see test_redis_door_time.c, too ------------------------------ */

/* Enough to search for much longer than a reading step is kept to itself. */
static void make_much_to_search(const struct redis_door_owner *owner) {
  char path[128], link_path[128];
  snprintf(path, sizeof path, "%s/0", owner->directory.path);
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  for (int i = 0; i < 90000; i++)
    fputs("0123456789\n", file);
  fclose(file);
  for (int i = 1; i < 5000; i++) {
    snprintf(link_path, sizeof link_path, "%s/%d", owner->directory.path, i);
    assert_int_equal(link(path, link_path), 0);
  }
}

NEW_DOOR_TEST(a_reading_step_that_takes_longer_is_made_known) {
  char step[512];
  make_much_to_search(owner);
  door_owner_begin(owner);
  snprintf(step, sizeof step,
           "{'schemaVersion':1,'stepId':'g-1','kind':'grep','pattern':'[a-f]{3}9','path':'%s'}",
           owner->directory.path);
  door_owner_push(owner, step);
  door_owner_await(owner, "started", "g-1");
  loop_settle(&owner->loop);
  told(owner, "( +started started )");
  assert_int_equal(door_owner_count(owner, "results", "\n"), 0);
  door_owner_push(owner, "{'schemaVersion':1,'stepId':'g-1','kind':'cancel'}");
  door_owner_await_results(owner, 1);
  door_owner_has_once(owner, "results", "cancelled: by a cancel step");
  door_owner_lacks(owner, "started");
  door_owner_lacks(owner, "inflight");
}

/* --- cancel ---------------------------------------------------------------------------------- */

static void cancel(struct redis_door_owner *owner, const char *id) {
  char step[128];
  snprintf(step, sizeof step, "{'schemaVersion':1,'stepId':'%s','kind':'cancel'}", id);
  door_owner_push(owner, step);
}

DOOR_TEST(a_cancel_overtakes_what_waits) {
  door_owner_push_script(owner, "s-1", "exec sleep 4031");
  door_owner_push_script(owner, "s-2", "touch $D/ran");
  door_owner_await(owner, "started", "s-1");
  cancel(owner, "s-2"); /* it waits */
  door_owner_await_results(owner, 1);
  door_owner_has_once(owner, "results", "\"stepId\":\"s-2\"");
  door_owner_has_once(owner, "results", "cancelled: by a cancel step");
  door_owner_logged_once(owner, "a step that was waiting will not run");
  cancel(owner, "s-1"); /* it runs */
  door_owner_await_results(owner, 2);
  assert_int_equal(door_owner_count(owner, "results", "cancelled: by a cancel step"), 2);
  cancel(owner, "s-1"); /* it is answered */
  door_owner_await_log(owner, "no such step is running or waiting");
  loop_settle(&owner->loop);
  door_owner_lacks(owner, "inflight");
  assert_false(door_owner_has(owner, "ran"));
}

/* --- the end --------------------------------------------------------------------------------- */

DOOR_TEST(a_shutdown_step_ends_the_agent_in_order) {
  door_owner_push_script(owner, "s-1", "true");
  door_owner_push(owner, "{'schemaVersion':1,'stepId':'end','kind':'shutdown'}");
  assert_int_equal(door_owner_exit_code(owner), AGENT_EXIT_SHUTDOWN);
  door_owner_lacks(owner, "heartbeat");
  door_owner_lacks(owner, "inflight");
  door_owner_has_once(owner, "results", "\n");
  const char *story = door_owner_story(owner);
  const char *last = story + strlen(story) - strlen("-inflight ) ( -heartbeat )");
  assert_string_equal(last, "-inflight ) ( -heartbeat )");
  assert_int_equal(redis_store_connections(owner->store, "heartbeat"), 0);
  assert_int_equal(door_owner_logged(owner, "undelivered result"), 0);
}

/* What waits stays with Redis, for the next agent. */
DOOR_TEST(a_signal_answers_what_runs_and_leaves_what_waits) {
  door_owner_push_script(owner, "s-1", "echo ready; exec sleep 4032");
  door_owner_push_script(owner, "s-2", "touch $D/ran");
  door_owner_await(owner, "events", "ready");
  door_owner_await(owner, "inflight", "s-2");
  engine_signal(owner->engine, SIGTERM);
  assert_int_equal(door_owner_exit_code(owner), AGENT_EXIT_SIGNAL + SIGTERM);
  door_owner_has_once(owner, "results", "\n");
  door_owner_has_once(owner, "results", "cancelled: the agent was stopped by SIGTERM");
  door_owner_has_once(owner, "inflight", "\n");
  door_owner_has_once(owner, "inflight", "s-2");
  door_owner_lacks(owner, "heartbeat");
  assert_false(door_owner_has(owner, "ran"));
}

NEW_DOOR_TEST(a_shutdown_waits_for_a_redis_that_is_away) {
  door_owner_leave_without_redis(owner);
  loop_settle(&owner->loop);
  assert_int_equal(door_owner_logged(owner, "undelivered"), 0);
  redis_store_come_back(owner->store);
  assert_int_equal(door_owner_exit_code(owner), AGENT_EXIT_SHUTDOWN);
  door_owner_has_once(owner, "results", "\n");
  door_owner_has_once(owner, "results", "\"exitCode\":5");
  door_owner_lacks(owner, "inflight");
  door_owner_lacks(owner, "heartbeat");
}

NEW_DOOR_TEST(a_signal_does_not_wait_and_logs_what_is_lost) {
  door_owner_leave_without_redis(owner);
  engine_signal(owner->engine, SIGINT);
  assert_int_equal(door_owner_exit_code(owner), AGENT_EXIT_SIGNAL + SIGINT);
  door_owner_logged_once(owner, "what follows did not reach redis");
  door_owner_logged_once(
      owner, "undelivered result: {\"schemaVersion\":1,\"stepId\":\"s-1\",\"exitCode\":5,");
  assert_int_equal(door_owner_count(owner, "results", "\n"), 0);
}

DOOR_TEST(a_second_signal_logs_what_is_lost) {
  door_owner_push_script(owner, "s-1", "true");
  door_owner_push_script(owner, "s-2", "trap `` TERM; touch $D/ready; sleep 3099");
  door_owner_await_file(owner, "ready");
  redis_store_hold(owner->store, "out");
  door_owner_push(owner, "{'schemaVersion':1,'stepId':'bad'}");
  engine_signal(owner->engine, SIGTERM);
  engine_signal(owner->engine, SIGTERM);
  assert_int_equal(door_owner_exit_code(owner), AGENT_EXIT_SIGNAL + SIGTERM);
  door_owner_logged_once(owner, "second signal");
  door_owner_has_once(owner, "results", "\n"); /* of the first */
}

/* --- the agent before, and what Redis loses --------------------------------------------------- */

NEW_DOOR_TEST(what_an_agent_before_had_started_is_answered_and_not_run) {
  door_owner_push_script(owner, "s-1", "touch $D/ran");
  redis_store_do(owner->store, 3, "SET sandbox:j:committed 4:00000000000000aa:9");
  redis_store_do(owner->store, 3, "SET sandbox:j:started s-0");
  redis_store_do(owner->store, 3,
                 quoted("RPUSH sandbox:j:inflight "
                        "{'schemaVersion':1,'stepId':'s-0','command':'true'}"));
  door_owner_make(owner);
  door_owner_await_results(owner, 2);
  const char *results = redis_store_value(owner->store, "sandbox:j:results");
  assert_non_null(strstr(results, "interrupted: the agent ended while this step was running"));
  assert_true(strstr(results, "\"s-1\"") < strstr(results, "\"s-0\"")); /* the head is newer */
  assert_true(door_owner_has(owner, "ran"));
  door_owner_lacks(owner, "inflight");
  assert_int_equal(strncmp(redis_store_value(owner->store, "sandbox:j:committed"), "5:", 2), 0);
}

NEW_DOOR_TEST(what_an_agent_before_had_claimed_is_run) {
  redis_store_do(owner->store, 3, "SET sandbox:j:committed 4:00000000000000aa:9");
  redis_store_do(owner->store, 3,
                 quoted("RPUSH sandbox:j:inflight "
                        "{'schemaVersion':1,'stepId':'s-0','command':'false'}"));
  door_owner_make(owner);
  door_owner_await_results(owner, 1);
  door_owner_has_once(owner, "results", "\"exitCode\":1");
}

#define RUN_ONCE "[ ! -e $D/ran ] || touch $D/ran-again; touch $D/ran"

/* It is back as it was, with the step that runs and those that wait. */
DOOR_TEST(what_redis_forgets_is_put_back) {
  door_owner_push_script(owner, "s-1", "echo ready; " GATE("$D/go"));
  door_owner_push_script(owner, "s-2", RUN_ONCE);
  door_owner_await(owner, "events", "ready");
  door_owner_await(owner, "inflight", "s-2");
  loop_settle(&owner->loop);
  redis_store_restore(owner->store, NULL);
  door_owner_await(owner, "started", "s-1");
  door_owner_await(owner, "inflight", "s-1");
  door_owner_await(owner, "inflight", "s-2");
  door_owner_open_gate(owner, "go");
  door_owner_await_results(owner, 2);
  assert_int_equal(door_owner_count(owner, "results", "\"exitCode\":0"), 2);
  door_owner_lacks(owner, "inflight");
  door_owner_lacks(owner, "started");
  assert_true(door_owner_has(owner, "ran"));
  assert_false(door_owner_has(owner, "ran-again"));
}

/* Nobody waits for an answer that came before; but a step that is handed out a second time is not
   run a second time. */
DOOR_TEST(a_step_that_is_handed_out_again_is_not_run_again) {
  door_owner_push_script(owner, "s-1", RUN_ONCE);
  door_owner_await_results(owner, 1);
  redis_store_restore(owner->store, NULL);
  door_owner_push_script(owner, "s-1", RUN_ONCE);
  door_owner_await_results(owner, 1);
  door_owner_has_once(owner, "results", "lost: the step has run, and redis has lost its result");
  door_owner_lacks(owner, "inflight");
}

/* Of two steps the first is over in the end, and Redis has a snapshot in which it is not. The second
   one runs until "go" is there. */
static struct redis_store_snapshot *begin_second_of_two(struct redis_door_owner *owner) {
  door_owner_push_script(owner, "s-1", GATE("$D/first") RUN_ONCE);
  door_owner_push_script(owner, "s-2", GATE("$D/go"));
  door_owner_await(owner, "started", "s-1");
  door_owner_await(owner, "inflight", "s-2");
  loop_settle(&owner->loop);
  struct redis_store_snapshot *snapshot = redis_store_snapshot(owner->store);
  door_owner_open_gate(owner, "first");
  door_owner_await(owner, "started", "s-2");
  loop_settle(&owner->loop);
  return snapshot;
}

/* Redis goes back to it, and the consumer's connection is not there yet. */
static void go_back(struct redis_door_owner *owner, struct redis_store_snapshot *snapshot) {
  redis_store_hold(owner->store, "in");
  redis_store_restore(owner->store, snapshot);
  redis_store_snapshot_free(snapshot);
}

/* It is left to no agent after this one, which would run it again. */
static void expect_first_answered(const struct redis_door_owner *owner) {
  assert_int_equal(door_owner_count(owner, "inflight", "\"s-1\""), 0);
  door_owner_has_once(owner, "results", "\"stepId\":\"s-1\"");
  door_owner_has_once(owner, "results", "lost: the step has run, and redis has lost its result");
  assert_false(door_owner_has(owner, "ran-again"));
}

#define WAITING "{'schemaVersion':1,'stepId':'s-3','kind':'run','command':'false'}"

DOOR_TEST(a_shutdown_answers_what_redis_has_forgotten) {
  struct redis_store_snapshot *snapshot = begin_second_of_two(owner);
  door_owner_push(owner, "{'schemaVersion':1,'stepId':'end','kind':'shutdown'}");
  door_owner_await(owner, "inflight", "end");
  loop_settle(&owner->loop);
  go_back(owner, snapshot);
  door_owner_await_log(owner, "redis has lost what it had acknowledged");
  door_owner_open_gate(owner, "go");
  assert_int_equal(door_owner_exit_code(owner), AGENT_EXIT_SHUTDOWN);
  expect_first_answered(owner);
  door_owner_lacks(owner, "inflight");
  door_owner_lacks(owner, "heartbeat");
}

/* And leaves alone what waits. */
DOOR_TEST(a_signal_answers_what_redis_has_forgotten) {
  struct redis_store_snapshot *snapshot = begin_second_of_two(owner);
  door_owner_push(owner, WAITING);
  door_owner_await(owner, "inflight", "s-3");
  loop_settle(&owner->loop);
  go_back(owner, snapshot);
  door_owner_await_log(owner, "redis has lost what it had acknowledged");
  engine_signal(owner->engine, SIGTERM);
  assert_int_equal(door_owner_exit_code(owner), AGENT_EXIT_SIGNAL + SIGTERM);
  expect_first_answered(owner);
  door_owner_has_once(owner, "inflight", "\n");
  door_owner_has_once(owner, "inflight", "s-3");
}

/* It has been waited for, and comes back older. */
DOOR_TEST(a_close_answers_what_redis_has_forgotten) {
  struct redis_store_snapshot *snapshot = begin_second_of_two(owner);
  redis_store_go_away(owner->store);
  door_owner_open_gate(owner, "go");
  door_owner_await_log(owner, "step=s-2 exit=0 in ");
  engine_leave(owner->door, AGENT_EXIT_SHUTDOWN, "shutdown step");
  loop_settle(&owner->loop);
  go_back(owner, snapshot);
  assert_int_equal(door_owner_exit_code(owner), AGENT_EXIT_SHUTDOWN);
  expect_first_answered(owner);
  door_owner_lacks(owner, "inflight");
}

/* --- errors ---------------------------------------------------------------------------------- */

DOOR_TEST(an_error_that_does_not_pass_ends_the_agent) {
  redis_store_refuse(owner->store, "LPUSH sandbox:j:results",
                     "WRONGTYPE Operation against a key holding the wrong kind of value");
  door_owner_push_script(owner, "s-1", "exit 6");
  assert_int_equal(door_owner_exit_code(owner), AGENT_EXIT_ERROR);
  door_owner_logged_once(owner, "LPUSH sandbox:j:results: WRONGTYPE");
  door_owner_logged_once(owner, "undelivered result: {");
  door_owner_logged_once(owner, "\"exitCode\":6");
  /* Nobody knows whose the job is now: its heartbeat is left alone. */
  assert_string_not_equal(redis_store_value(owner->store, "sandbox:j:heartbeat"), "");
}

NEW_DOOR_TEST(a_claim_that_is_refused_ends_the_agent) {
  redis_store_refuse(owner->store, "BLMOVE", "NOPERM this user has no permissions");
  door_owner_make(owner);
  assert_int_equal(door_owner_exit_code(owner), AGENT_EXIT_ERROR);
  door_owner_logged_once(owner, "redis refuses BLMOVE sandbox:j:in: ");
}

TEST(a_dump_says_what_the_door_does, door_owner_set_up, door_owner_tear_down) {
  struct redis_door_owner *owner = *state;
  redis_store_go_away(owner->store);
  door_owner_make(owner);
  engine_signal(owner->engine, SIGUSR1);
  door_owner_logged_once(owner, "state: door redis: open, the job is not taken over yet, 0 bytes");
  redis_store_come_back(owner->store);
  door_owner_push_script(owner, "s-1", "true");
  door_owner_await_results(owner, 1);
  engine_signal(owner->engine, SIGUSR1);
  door_owner_logged_once(owner, "state: door redis: open, connected, 0 bytes not");
}
