#include <unistd.h>

#include "agent/engine/batcher.h"
#include "agent/engine/run.h"
#include "tests/support/gate.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/step_owner.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* Longer than a test may take: a grace that must not be waited for. */
#define FOREVER_MS 3600000

#define TIMEOUT 600

#define NO_SUCH_COMMAND "{'schemaVersion':1,'stepId':'s','command':'no-such-command'}"

static void run_script(struct step_owner *owner, const char *script) {
  step_owner_start_script(owner, script, TIMEOUT);
  step_owner_wait(owner);
}

static void make_room(struct step_owner *owner) {
  owner->full = false;
  run_resume(owner->run);
}

STEP_TEST(events_come_in_order) {
  step_owner_start_script(owner, "echo one; echo two; printf last", TIMEOUT);
  assert_string_equal(owner->events, "started sh\n");
  assert_string_equal(run_step(owner->run)->step_id, "s-1");
  step_owner_ends(owner, 0, NULL, "one\ntwo\nlast\n");
  assert_string_equal(owner->events, "started sh\nstdout one\nstdout two\nstdout last\n"
                                     "completed exit=0 timedOut=False\n");
  assert_false(owner->result.timed_out);
  assert_true(owner->result.duration_ms >= 0);
  assert_int_equal(owner->timestamps_back, 0);
  assert_int_equal(step_owner_logged(owner, "holds its output"), 0);
}

STEP_TEST(the_step_id_goes_into_json) {
  step_owner_start(owner, quoted("{'schemaVersion':1,'stepId':'a\\'b','command':'true'}"));
  step_owner_wait(owner);
  assert_non_null(strstr(owner->step_id, "a\\\"b"));
}

STEP_TEST(a_failure_tells_the_end_of_both_streams) {
  step_owner_start_script(owner, "echo out; " GATE("$D/go") "echo err >&2; exit 3", TIMEOUT);
  step_owner_expect(owner, "started sh\nstdout out\n");
  gate_open(directory_path(&owner->directory, "go"));
  step_owner_ends(owner, 3, "out\nerr", "out\n");
  assert_string_equal(owner->events, "started sh\nstdout out\nstderr err\n"
                                     "completed exit=3 timedOut=False\n");
}

STEP_TEST(the_first_that_is_known_is_the_message) {
  static const struct {
    const char *promise, *script;
    int exit_code;
    const char *message, *output;
  } rows[] = {
      {"its code", "exit 3", 3, "exited with code 3 and wrote nothing", NULL},
      {"a signal is 128 and its number", "kill -ABRT $$", 134, "killed by signal 6 (SIGABRT)",
       NULL},
      {"output outranks it", "echo out; kill -KILL $$", 137, "out", "out\n"},
      {"over its time outranks output", "echo out; exec sleep 4001", -1, "timed out after 1s",
       "out\n"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool over_time = rows[i].exit_code < 0;
    print_message("%s\n", rows[i].promise);
    step_owner_start_script(owner, rows[i].script, over_time ? 1 : TIMEOUT);
    step_owner_ends(owner, rows[i].exit_code, rows[i].message, rows[i].output);
    assert_int_equal(owner->result.timed_out, over_time);
  }
  assert_string_equal(owner->events, "started sh\nstdout out\ncompleted exit=-1 timedOut=True\n");
}

STEP_TEST(what_cannot_start_is_reported_like_the_rest) {
  owner->full = true;
  step_owner_start(owner, quoted(NO_SUCH_COMMAND));
  assert_true(loop_until(&owner->loop, step_owner_is_stalled, owner));
  run_stop(owner->run, 0, "too late");
  make_room(owner);
  assert_int_equal(owner->done, 0);
  step_owner_wait(owner);
  assert_string_equal(owner->events, "started no-such-command\ncompleted exit=-1 timedOut=False\n");
  assert_int_equal(owner->result.exit_code, -1);
  assert_non_null(strstr(owner->error_message, "no-such-command: command not found"));
  assert_false(owner->result.timed_out);
}

STEP_TEST(a_stop_says_the_first_reason) {
  step_owner_start_script(owner,
                          "trap 'echo term' TERM; echo ready; "
                          "while :; do sleep 0.01; done 2>&-",
                          TIMEOUT);
  step_owner_expect(owner, "started sh\nstdout ready\n");
  run_stop(owner->run, FOREVER_MS, "first");
  step_owner_expect(owner, "started sh\nstdout ready\nstdout term\n");
  run_stop(owner->run, 0, "second");
  step_owner_ends(owner, -1, "first", "ready\nterm\n");
  assert_false(owner->result.timed_out);
}

STEP_TEST(nothing_runs_before_the_start) {
  step_owner_make_script(owner, "touch $D/ran");
  assert_string_equal(owner->events, "started sh\n");
  assert_int_equal(owner->flushes, 1);
  assert_int_equal(owner->flushed_events, 1);
  loop_settle(&owner->loop);
  assert_false(directory_has(&owner->directory, "ran"));
  run_start(owner->run);
  run_start(owner->run); /* again is the same */
  step_owner_wait(owner);
  assert_true(directory_has(&owner->directory, "ran"));
  assert_string_equal(owner->events, "started sh\ncompleted exit=0 timedOut=False\n");
}

STEP_TEST(what_is_stopped_before_its_start_has_not_run) {
  step_owner_make_script(owner, "touch $D/ran");
  run_stop(owner->run, FOREVER_MS, "first");
  assert_int_equal(owner->done, 0); /* never inside a call */
  run_start(owner->run);
  run_stop(owner->run, 0, "second");
  step_owner_ends(owner, -1, "first", NULL);
  assert_string_equal(owner->events, "started sh\ncompleted exit=-1 timedOut=False\n");
  assert_int_equal(owner->result.event_count, 2);
  assert_int_equal(owner->result.duration_ms, 0);
  assert_false(directory_has(&owner->directory, "ran"));
}

STEP_TEST(a_stop_before_the_start_waits_for_room) {
  owner->full = true;
  step_owner_make_script(owner, "true");
  run_stop(owner->run, 0, "stopped");
  assert_true(loop_until(&owner->loop, step_owner_is_stalled, owner));
  assert_int_equal(owner->done, 0);
  make_room(owner);
  step_owner_ends(owner, -1, "stopped", NULL);
}

STEP_TEST(what_was_not_started_can_be_freed) {
  step_owner_make_script(owner, "touch $D/ran");
  run_resume(owner->run); /* nothing waits: nothing happens */
  step_owner_free_run(owner);
  loop_settle(&owner->loop);
  assert_int_equal(owner->done, 0);
  assert_false(directory_has(&owner->directory, "ran"));
}

STEP_TEST(a_stop_that_comes_too_late_changes_nothing) {
  step_owner_start_script(owner, "sleep 4002 & echo hi", TIMEOUT);
  step_owner_expect(owner, "started sh\nstdout hi\n");
  /* The shell is gone or about to go; only the sleep holds the step. */
  step_owner_ends(owner, 0, NULL, "hi\n");
  assert_int_equal(step_owner_logged(owner, "holds its output"), 1);
  assert_true(proc_wait_for("sleep 4002", WAIT_BOUND_MS) > 0);
}

STEP_TEST(a_full_owner_gets_nothing_until_it_says_so) {
  step_owner_start_script(owner, "seq 1 50000; touch $D/written; echo err >&2; exit 2", TIMEOUT);
  owner->full = true;
  loop_settle(&owner->loop);
  assert_string_equal(owner->events, "started sh\n");
  make_room(owner);
  step_owner_wait(owner);
  assert_int_equal(owner->event_count, 50003);
  assert_non_null(strstr(owner->events, "stdout 1\nstdout 2\n"));
  assert_non_null(strstr(owner->events, "stdout 49999\nstdout 50000\n"));
  assert_non_null(strstr(owner->events, "stderr err\n"));
  assert_int_equal(owner->result.exit_code, 2);
}

/* As far as it is taken apart: a read may be a thousand lines. */
STEP_TEST(what_is_read_at_once_leaves_batch_by_batch) {
  run_script(owner, "seq 1 1000");
  assert_int_equal(owner->event_count, 1002);
  assert_in_range(owner->flushes, 1000 / BATCHER_LINES, 1000 / BATCHER_LINES + 10);
}

/* It repeats the output: on top of what is held that would be a megabyte more. */
STEP_TEST(a_result_waits_for_room_of_its_size) {
  owner->room = 5;
  step_owner_start_script(owner, "echo 12345; touch $D/over", TIMEOUT);
  step_owner_await(owner, "over");
  while (!step_owner_is_stalled(owner))
    event_base_loop(owner->loop.base, EVLOOP_ONCE);
  assert_string_equal(owner->events, "started sh\nstdout 12345\n");
  owner->room = 6; /* and the line's end */
  run_resume(owner->run);
  step_owner_ends(owner, 0, NULL, "12345\n");
}

STEP_TEST(everything_may_end_while_the_owner_is_full) {
  step_owner_start_script(owner, "echo one; echo two; printf end; touch $D/over", TIMEOUT);
  owner->full = true;
  step_owner_await(owner, "over");
  loop_settle(&owner->loop);
  assert_string_equal(owner->events, "started sh\n");
  /* Still full, and told twice: nothing happens, and nothing is lost. */
  run_resume(owner->run);
  run_resume(owner->run);
  loop_settle(&owner->loop);
  assert_string_equal(owner->events, "started sh\n");
  make_room(owner);
  assert_int_equal(owner->done, 0); /* never inside a call */
  step_owner_wait(owner);
  assert_string_equal(owner->events, "started sh\nstdout one\nstdout two\nstdout end\n"
                                     "completed exit=0 timedOut=False\n");
}

/* step_owner_wait looks at every number: here are the ways on which one could get lost. */
STEP_TEST(events_are_counted_over_both_streams_and_pauses) {
  step_owner_start_script(owner,
                          "echo one >&2; touch $D/first; " GATE(
                              "$D/more") "seq 1 5000; touch $D/second; echo two >&2; printf end",
                          TIMEOUT);
  owner->full = true;
  step_owner_await(owner, "first");
  loop_settle(&owner->loop);
  assert_string_equal(owner->events, "started sh\n");
  make_room(owner);
  step_owner_expect(owner, "started sh\nstderr one\n");
  owner->full = true;
  gate_open(directory_path(&owner->directory, "more"));
  step_owner_await(owner, "second");
  loop_settle(&owner->loop);
  assert_int_equal(owner->event_count, 2);
  make_room(owner);
  step_owner_wait(owner);
  assert_int_equal(owner->result.event_count, 1 + 1 + 5000 + 2 + 1);
  assert_int_equal(owner->out_of_sequence, 0);
}

static bool the_command_is_reaped(void *context) {
  (void)context;
  return proc_find("sh -c echo one") == 0;
}

STEP_TEST(the_last_lines_may_wait_for_room) {
  step_owner_start_script(owner, "echo one", TIMEOUT);
  owner->full = true;
  assert_true(loop_until(&owner->loop, the_command_is_reaped, NULL));
  make_room(owner);
  owner->full = true; /* full again before it could end */
  loop_settle(&owner->loop);
  assert_int_equal(owner->done, 0);
  make_room(owner);
  step_owner_ends(owner, 0, NULL, "one\n");
}

STEP_TEST(a_line_after_silence_leaves_at_once_and_others_soon) {
  step_owner_start_script(owner, "echo one; " GATE("$D/a") "echo two; " GATE("$D/b") "echo three",
                          TIMEOUT);
  assert_int_equal(owner->flushes, 1); /* started */
  step_owner_expect(owner, "started sh\nstdout one\n");
  gate_open(directory_path(&owner->directory, "a"));
  step_owner_expect(owner, "started sh\nstdout one\nstdout two\n");
  gate_open(directory_path(&owner->directory, "b"));
  step_owner_wait(owner);
  assert_int_equal(owner->event_count, 5);
}

STEP_TEST(a_line_without_end_comes_in_pieces) {
  run_script(owner, "yes | tr -d '[:space:]' | head -c 600000");
  const char *at = owner->events + strlen("started sh\n");
  size_t letters = 0;
  for (int piece = 0; piece < 3; piece++) {
    bool partial = piece < 2;
    assert_int_equal(strncmp(at, partial ? "stdout+" : "stdout ", 7), 0);
    size_t length = strspn(at += 7, "y");
    assert_true(length > 0 && length <= STEP_OWNER_LINE_BYTES);
    letters += length;
    at += length + 1;
  }
  assert_int_equal(letters, 600000);
  assert_string_equal(at, "completed exit=0 timedOut=False\n");
  assert_int_equal(owner->result.output_content_length, 600001);
}
