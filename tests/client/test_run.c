/* sandbox run: the output and the exit code of a step, and nothing that belongs to others. */

#include "tests/support/proc.h"
#include "tests/support/sandbox_client.h"
#include "tests/test.h"

TEST_OVERLAP(4)

JOB_TEST(a_step_is_not_pushed_without_the_rights_to_follow_it) {
  static const char *const missing[] = {"xread", "lrange", "lrem", "xrevrange"};
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
    job_do(job, "ACL SETUSER narrow reset on nopass ~sandbox:* +@all -%s", missing[i]);
    sandbox_expect(job, "$S -u redis://narrow:x@127.0.0.1:${REDIS_URL##*:} run -- touch pushed",
                   125, "", NULL);
  }
  sandbox_expect(job, "$S run -- test ! -e pushed", 0, "", "");
  assert_int_equal(job_ask_number(job, "LLEN sandbox:%s:results", job->id), 0);
}

JOB_TEST(run_prints_the_output_and_exits_with_the_code) {
  sandbox_expect(job, "$S run -- sh -c 'echo a; echo b >&2; exit 3'", 3, "a\n", "b\n");
  sandbox_expect(job, "$S run -c 'echo $0; exit 0'", 0, "sh\n", "");
  sandbox_expect(job, "$S run -- sh -c 'kill -TERM $$'", 128 + SIGTERM, "", NULL);
  sandbox_expect(job, "$S run -t 1 -- sleep 60", 124, "", NULL);
  sandbox_expect(job, "$S run -- no-such-command", 127, "",
                 "sandbox: no-such-command: command not found on PATH\n");
  sandbox_expect(job, "$S run -- /etc/passwd", 126, "", NULL);
}

/* The line also has the id and the time. */
static void expect_reason(struct job *job, const char *script, const char *reason) {
  static const char *const shorten = "2>&1 | sed -E 's/^✗ [0-9a-f]{4} (.*) after .*/\\1/'";
  sandbox_expect(job, job_format(job, "{ %s; } %s", script, shorten), 0, reason, "");
}

JOB_TEST(a_step_that_does_not_end_by_itself_says_so) {
  expect_reason(job, "$S run -- sh -c 'kill -TERM $$'", "killed by SIGTERM\n");
  expect_reason(job, "$S run -t 1 -- sleep 60", "timed out\n");
  expect_reason(job, "$S -q run -t 1 -- sleep 60", "");
  expect_reason(job, "$S run -c 'exit 130'", "");
  expect_reason(job,
                "$S run -- sleep 60 & p=$!; until $S cancel --running 2>&1 | grep -q cancelling; "
                "do :; done; wait",
                "cancelled: by a cancel step\n");
}

JOB_TEST(run_sets_directory_variables_and_input) {
  sandbox_expect(job, "$S run -w /usr -- pwd", 0, "/usr\n", "");
  sandbox_expect(job, "B=two $S run -e A=one -e B -c 'echo $A $B'", 0, "one two\n", "");
  sandbox_expect(job, "printf 'x\\ny' | $S run -i -- cat", 0, "x\ny\n", "");
  sandbox_expect(job, "printf '\\377' | $S run -i -- cat", 125, "",
                 "sandbox: standard input is not UTF-8: copy it with sandbox cp\n");
}

JOB_TEST(wrong_usage_exits_with_64) {
  sandbox_expect(job, "$S run", 64, "", NULL);
  sandbox_expect(job, "$S run -t x -- true", 64, "", NULL);
  sandbox_expect(job, "$S fly", 64, "",
                 "sandbox: unknown command 'fly'; sandbox --help lists them\n");
}

/* Flags after the command that is run belong to it. */
JOB_TEST(flags_may_follow_the_command) {
  sandbox_expect(job,
                 "J=$JOB_ID U=$REDIS_URL; unset JOB_ID REDIS_URL; $S run -j $J -u $U -- echo a", 0,
                 "a\n", "");
  sandbox_expect(job, "$S run --json -- true | wc -l", 0, "3\n", "");
  sandbox_expect(job, "JOB_ID=\"$JOB_ID\n\" REDIS_URL=\"$REDIS_URL\r\n\"; $S run -- echo a", 0,
                 "a\n", "");
  sandbox_expect(job, "$S run -w / echo --json -q -j 4", 0, "--json -q -j 4\n", "");
  sandbox_expect(job, "$S run -- echo --json -u redis://a:b@c", 0, "--json -u redis://a:b@c\n", "");
  sandbox_expect(job, "$S ps --json -j none", 0, "[]\n", "");
}

JOB_TEST(output_to_a_full_disk_is_an_error) {
  sandbox_expect(job, "$S --help >/dev/full", 125, "", NULL);
  sandbox_expect(job, "$S ps >/dev/full", 125, "", NULL);
}

/* The client reconnects after each refusal. */
JOB_TEST_NO_AGENT(a_full_redis_ends_run) {
  job_do(job, "CONFIG SET maxmemory-policy noeviction");
  job_do(job, "CONFIG SET maxmemory 1");
  sandbox_expect(job, "$S run --detach -- true", 125, "", NULL);
  job_do(job, "CONFIG SET maxmemory 0");
}

static void expect_end(struct job *job, int exit_code, const char *end, int code,
                       const char *errors) {
  const char *id = "11111111-aaaa-4aaa-8aaa-000000000001";
  job_do(job, "SET sandbox:%s:heartbeat {}", job->id);
  struct agent_process *client =
      sandbox_start(job, job_format(job, "exec $S run --id %s -- x", id));
  job_wait_length(job, "in", 1);
  const char *result = job_json(job, "{'stepId':'%s','exitCode':%d,%s}", id, exit_code, end);
  job_do(job, "LPUSH sandbox:%s:results %s", job->id, result);
  const char *event = job_json(job,
                               "{'stepId':'%s','seq':1,'kind':'completed',"
                               "'line':'exit=%d timedOut=False'}",
                               id, exit_code);
  job_do(job, "XADD sandbox:%s:events * data %s", job->id, event);
  job_do(job, "DEL sandbox:%s:in", job->id);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), code);
  assert_string_equal(agent_process_log(client), errors);
  agent_process_free(client);
}

/* exit(3) only uses the lower 8 bits. */
JOB_TEST_NO_AGENT(an_exit_code_out_of_range_is_an_error) {
  expect_end(job, 256, "'end':{}", 125, "sandbox: not run\n");
}

JOB_TEST_NO_AGENT(a_step_that_was_killed_for_its_memory_says_so) {
  expect_end(job, 137,
             "'errorMessage':'the memory was exhausted\\nout','end':{'cause':'memoryLimit'}", 137,
             "✗ 1111 the memory was exhausted\n");
  expect_end(job, 1, "'end':{'cause':'exited','oomKilled':true}", 1,
             "✗ 1111 exit 1, out of memory\n");
}

JOB_TEST(the_json_option_prints_the_events_and_the_result) {
  struct agent_process *client = sandbox_start(job, "$S --json run -- sh -c 'echo a; exit 3'");
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 3);
  const char *line = agent_process_output(client);
  static const char *const kinds[] = {"\"started\"", "\"stdout\"", "\"completed\"",
                                      "{\"result\":{\"schemaVersion\":1"};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const char *end = strchr(line, '\n'), *kind = strstr(line, kinds[i]);
    assert_true(end != NULL && kind != NULL && kind < end);
    line = end + 1;
  }
  assert_string_equal(line, "");
  agent_process_free(client);
}

/* The results and steps of a server stay; the client leaves nothing. */
JOB_TEST(run_leaves_the_results_of_a_server_alone) {
  const cJSON *first = job_push_echo(job, "first");
  job_do(job, "LPUSH sandbox:%s:results %s", job->id, "");
  sandbox_expect(job, "$S run -- echo mine", 0, "mine\n", "");
  assert_int_equal(job_ask_number(job, "LREM sandbox:%s:results 0 %s", job->id, ""), 1);
  const cJSON *second = job_push_echo(job, "second");
  sandbox_expect(job, "$S run -- echo mine too", 0, "mine too\n", "");
  job_expect_answer(job, first, 0, NULL, "first\n");
  job_expect_answer(job, second, 0, NULL, "second\n");
  job_wait_length(job, "results", 0);
  job_expect_nothing_left(job);
}

JOB_TEST_NO_AGENT(without_an_agent_run_pushes_nothing) {
  sandbox_expect(job, "$S run -- true", 125, "", NULL);
  job_wait_length(job, "in", 0);
  sandbox_expect(job, "$S run --detach -- true", 0, NULL, "");
  job_wait_length(job, "in", 1);
}

JOB_TEST_NO_AGENT(a_relative_directory_begins_where_steps_start) {
  job_do(job, "SET sandbox:%s:heartbeat %s", job->id, "{\"WorkingDirectory\":\"/srv\"}");
  sandbox_expect(job, "$S run --detach -w a/b -- true", 0, NULL, "");
  const char *step = job_ask_text(job, "LINDEX sandbox:%s:in 0", job->id);
  assert_non_null(strstr(step, "\"workingDirectory\":\"/srv/a/b\""));
}

JOB_TEST(closed_standard_descriptors_are_not_reused) {
  sandbox_expect(job, "$S run -- sh -c 'echo a; echo b >&2; exit 3' 2>&-", 3, "a\n", "");
  sandbox_expect(job, "$S run -- sh -c 'echo a; exit 3' <&-", 3, "a\n", "");
  sandbox_expect(job, "$S run -- sh -c 'exit 3' <&- >&- 2>&-", 3, "", "");
  sandbox_expect(job, "$S ps >&-", 125, "", NULL);
  sandbox_expect(job, "$S run -i -- cat <&-", 0, "", "");
}

JOB_TEST(a_full_disk_is_not_mistaken_for_a_closed_pipe) {
  sandbox_expect(job, "$S run -- echo a >/dev/full", 125, "",
                 "sandbox: cannot write to standard output\n");
}

JOB_TEST_NO_AGENT(run_waits_for_an_agent_that_is_starting) {
  enum { START_MS = 2000 }; /* how long the client waits for the first heartbeat */
  for (bool has_run = false; !has_run; job_shut_down(job)) {
    const int64_t begin_ms = wait_now_ms();
    struct agent_process *client = sandbox_start(job, "unset JOB_ID; $S run -- true");
    job_start_agent(job, NULL);
    job_wait_text(job, job_format(job, "GET sandbox:%s:heartbeat", job->id), "Pid");
    const int64_t took_ms = wait_now_ms() - begin_ms;
    const int code = agent_process_wait(client, WAIT_BOUND_MS);
    agent_process_free(client);
    has_run = code == 0;
    assert_true(has_run || (code == 125 && took_ms >= START_MS / 2)); /* a busy machine */
  }
}

JOB_TEST(a_closed_pipe_cancels_the_step) {
  const char *sleep = job_sleep(job, 600);
  sandbox_expect(job, job_format(job, "$S run -c 'echo a; echo b; %s' | head -n 1", sleep), 0,
                 "a\n", NULL);
  assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
}

JOB_TEST(each_line_arrives_once_across_lost_connections) {
  struct agent_process *client = sandbox_start(
      job, "$S run -c 'i=0; while [ $i -lt 40 ]; do echo $i; i=$((i + 1)); sleep 0.05; done'");
  for (int i = 0; i < 5; i++) {
    sandbox_wait_output(client, job_format(job, "%d\n", 6 * i));
    job_do(job, "CLIENT KILL TYPE normal SKIPME yes");
  }
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 0);
  const char *line = agent_process_output(client);
  for (int i = 0; i < 40; i++) {
    char expected[8];
    size_t length = (size_t)snprintf(expected, sizeof expected, "%d\n", i);
    assert_int_equal(strncmp(line, expected, length), 0);
    line += length;
  }
  assert_string_equal(line, "");
  agent_process_free(client);
}

JOB_TEST(a_wrong_password_is_not_shown) {
  struct agent_process *client =
      sandbox_start(job, "$S -u redis://user:s3cret-Word@127.0.0.1:$(echo $REDIS_URL | "
                         "sed 's/.*://') run -- true");
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 125);
  assert_null(strstr(agent_process_log(client), "s3cret"));
  assert_non_null(strstr(agent_process_log(client), "WRONGPASS"));
  agent_process_free(client);
}

/* --- at a terminal ---------------------------------------------------------------------------- */

JOB_TEST(the_last_line_says_how_the_step_ended) {
  struct sandbox_terminal *terminal =
      sandbox_terminal_start(job, "exec $S run -- sh -c 'echo a; exit 3'");
  sandbox_terminal_wait(terminal, "a\r\n");
  sandbox_terminal_wait(terminal, "exit 3 after ");
  sandbox_terminal_expect_exit(terminal, 3);
}

JOB_TEST(the_colors_of_a_step_end_with_it) {
  struct sandbox_terminal *terminal = sandbox_terminal_start(
      job, "exec $S --color never -q run -c 'printf \"\\033[0m\\033[31mred\n\"'");
  sandbox_terminal_wait(terminal, "\x1b[0m\x1b[31mred\r\n\x1b[0m");
  sandbox_terminal_expect_exit(terminal, 0);
}

JOB_TEST(control_characters_do_not_reach_a_terminal) {
  struct sandbox_terminal *terminal = sandbox_terminal_start(
      job, "exec $S run -c 'printf \"\\033]0;title\\007a\\033[31mred\\033[0m\\033[2Jb\\n\"'");
  sandbox_terminal_wait(terminal, "\x1b[31mred\x1b[0m");
  sandbox_terminal_wait(terminal, "[2Jb");
  assert_null(strstr(terminal->text, "\x1b]0;"));
  assert_null(strstr(terminal->text, "\x1b[2J"));
  sandbox_terminal_expect_exit(terminal, 0);
}

JOB_TEST(an_interrupt_cancels_the_step) {
  const char *sleep = job_sleep(job, 600);
  struct sandbox_terminal *terminal = sandbox_terminal_start(
      job, job_format(job, "exec $S run -c 'trap \"\" TERM; echo up; %s'", sleep));
  sandbox_terminal_wait(terminal, "up\r\n");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, "cancelling ");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, "is being cancelled");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_expect_exit(terminal, 130);
  assert_true(proc_wait_gone(sleep, WAIT_BOUND_MS));
}

JOB_TEST(a_waiting_step_shows_how_many_are_before_it) {
  const char *sleep = job_sleep(job, 600);
  (void)job_push_endless(job, sleep);
  for (int i = 0; i < 40; i++)
    (void)job_push_echo(job, "waits");
  sandbox_wait_steps(job, 41);
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, "exec $S run -- true");
  sandbox_terminal_wait(terminal, "waiting for step ");
  sandbox_terminal_wait(terminal, " and 40 more (echo up; exec sleep …, running for ");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_expect_exit(terminal, 130);
  struct agent_process *client = sandbox_start(job, "exec $S run -- true");
  agent_process_wait_log(client, " and 40 more (echo up; exec sleep …, running for ");
  assert_int_equal(strncmp(agent_process_log(client), "waiting for step ", 17), 0);
  assert_int_equal(kill(agent_process_pid(client), SIGINT), 0);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 130);
  agent_process_free(client);
}
