/* sandbox over HTTP: the commands have the output and the exit codes that they have with Redis
   (docs/client.md). */

#include "tests/support/http_sandbox.h"
#include "tests/support/http_steps.h"
#include "tests/support/proc.h"
#include "tests/test.h"

TEST_OVERLAP(4)

#define KEY "0123456789abcdef-key"

/* --- run -------------------------------------------------------------------------------------- */

HTTP_TEST(run_prints_the_output_and_exits_with_the_code) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http, "$S run -- sh -c 'echo a; echo b >&2; exit 3'", 3, "a\n", "b\n");
  http_sandbox_expect(http, "$S run -c 'echo $0; exit 0'", 0, "sh\n", "");
  http_sandbox_expect(http, "$S run -- sh -c 'kill -TERM $$'", 128 + SIGTERM, "", NULL);
  http_sandbox_expect(http, "$S run -t 1 -- sleep 60", 124, "", NULL);
  http_sandbox_expect(http, "$S run -- no-such-command", 127, "",
                      "sandbox: no-such-command: command not found on PATH\n");
  http_sandbox_expect(http, "$S run -- /etc/passwd", 126, "", NULL);
}

HTTP_TEST(the_agent_may_listen_on_a_port) {
  http_agent_start_tcp(http, NULL, NULL);
  http_sandbox_expect(http, "$S run -- echo a", 0, "a\n", "");
  http_sandbox_expect(http, "unset SANDBOX_URL; $S -u http://localhost:${U##*:}/ run -- echo a", 0,
                      "a\n", "");
}

HTTP_TEST(run_sets_directory_variables_and_input) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http, "$S run -w /usr -- pwd", 0, "/usr\n", "");
  http_sandbox_expect(http, "B=two $S run -e A=one -e B -c 'echo $A $B'", 0, "one two\n", "");
  http_sandbox_expect(http, "printf 'x\\ny' | $S run -i -- cat", 0, "x\ny", "");
}

HTTP_TEST(a_relative_directory_begins_where_steps_start) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(
      http, "test \"$($S run -w .. -- pwd)\" = \"$(cd $($S run -- pwd)/.. && pwd)\"", 0, "", "");
}

HTTP_TEST(every_byte_of_the_output_arrives) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http,
                      "head -c 3000000 /dev/urandom >$HTTP_DIRECTORY/bytes; "
                      "$S run -- cat $HTTP_DIRECTORY/bytes | cmp - $HTTP_DIRECTORY/bytes",
                      0, "", "");
}

/* The agent waits only for a reader that is connected. */
HTTP_TEST(the_first_lines_of_a_fast_command_arrive) {
  static const char *const arguments[] = {"--events-maxlen", "100", NULL};
  http_agent_start(http, arguments, NULL);
  http_sandbox_expect(http,
                      "for i in $(seq 20); do $S run --text -- seq 3000 | wc -l; done | sort -u", 0,
                      "3000\n", "");
}

HTTP_TEST(json_has_each_event_and_the_result) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http,
                      "$S --json run -- echo a | sed -E 's/.*\"(kind|exitCode)\":([^,]*).*/\\2/'",
                      0, "\"started\"\n\"stdout\"\n\"completed\"\n0\n", "");
}

HTTP_TEST(a_detached_step_runs_on_and_can_be_followed) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http,
                      "id=$($S run --detach -- sh -c 'echo one; echo two; exit 4'); "
                      "$S follow $id",
                      4, "one\ntwo\n", "");
}

HTTP_TEST(run_says_for_which_step_it_waits) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  struct agent_process *client = http_sandbox_start(http, "$S run -- echo a 2>&1");
  http_sandbox_wait_output(client, "waiting for step gate (sh, running");
  http_agent_open_gate(http, "gate");
  http_sandbox_expect_end(client, 0, NULL, "");
}

/* --- cancel, ps, shutdown --------------------------------------------------------------------- */

HTTP_TEST(an_interrupt_cancels_the_step) {
  http_agent_start(http, NULL, NULL);
  struct agent_process *client = http_sandbox_start(
      http, "exec $S run -- sh -c 'trap \"echo ended; exit\" TERM; echo up; sleep 60 & wait'");
  http_sandbox_wait_output(client, "up");
  assert_int_equal(kill(agent_process_pid(client), SIGINT), 0);
  http_sandbox_expect_end(client, 130, "up\nended\n", NULL);
  http_sandbox_expect(http, "$S ps --json", 0, "[]\n", "");
}

HTTP_TEST(a_step_that_is_cancelled_before_it_runs_says_so) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  struct agent_process *client = http_sandbox_start(http, "exec $S --json run -- true 2>&1");
  http_sandbox_expect(http, "until $S cancel --waiting 2>&1 | grep -q cancelling; do :; done", 0,
                      "", "");
  http_sandbox_wait_output(client, "{\"result\":{");
  http_sandbox_expect_end(client, 130, NULL, NULL);
}

HTTP_TEST(a_reader_that_leaves_cancels_the_step) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http,
                      "$S run -- yes 2>&1 | head -n 1; until test $($S ps --json) = '[]'; do "
                      ":; done",
                      0, "y\n", "");
}

HTTP_TEST(ps_lists_the_running_step_and_the_waiting_ones) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "abcdef", "{\"command\":\"true\"}");
  (void)http_steps_put(http, "abcxyz", "{\"kind\":\"readFile\",\"path\":\"/etc/passwd\"}");
  http_sandbox_expect(http, "$S ps | sed -n '2,$s/  */ /gp' | sed 's/[0-9]*s sh/0s sh/'", 0,
                      "ID KIND STATE SINCE COMMAND\ngate run running 0s sh\n"
                      "abcd run waiting 1 true\nabcx readFile waiting 2 /etc/passwd\n",
                      "");
  http_sandbox_expect(
      http, "$S ps --json | sed -E 's/\"since\":\"[^\"]*\"/S/'", 0,
      "[{\"id\":\"gate\",\"kind\":\"run\",\"state\":\"running\",S,"
      "\"target\":\"sh\"},{\"id\":\"abcdef\",\"kind\":\"run\",\"state\":\"waiting\","
      "\"since\":null,\"target\":\"true\"},{\"id\":\"abcxyz\",\"kind\":\"readFile\","
      "\"state\":\"waiting\",\"since\":null,\"target\":\"/etc/passwd\"}]\n",
      "");
}

HTTP_TEST(cancel_leaves_a_shutdown_alone) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  (void)http_steps_put(http, "end", "{\"kind\":\"shutdown\"}");
  http_sandbox_expect(http, "$S cancel end", 125, "",
                      "sandbox: the agent answers 409: a shutdown cannot be cancelled\n");
  http_sandbox_expect(http, "$S cancel --waiting", 0, "", "nothing to cancel\n");
  http_sandbox_expect(http, "$S cancel --all", 0, "", "cancelling gate\n");
  (void)http_steps_result(http, "gate");
}

HTTP_TEST(cancel_ends_steps_by_prefix_or_in_groups) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  for (int i = 0; i < 3; i++)
    (void)http_steps_put(http, formatted("wait-%d", i), "{\"command\":\"true\"}");
  http_sandbox_expect(http, "$S cancel wait", 125, "",
                      "sandbox: 3 steps begin with 'wait': give more of the ID\n");
  http_sandbox_expect(http, "$S cancel wait-1", 0, "", "cancelling wait-1\n");
  http_sandbox_expect(http, "$S cancel --waiting", 0, "", NULL);
  http_sandbox_expect(http, "$S ps --json | grep -o '\"id\":\"[^\"]*\"'", 0, "\"id\":\"gate\"\n",
                      "");
  http_sandbox_expect(http, "$S cancel --running", 0, "", "cancelling gate\n");
  assert_string_equal(http_steps_text(http_steps_result(http, "gate"), "errorMessage"),
                      "cancelled: by a cancel step");
  http_sandbox_expect(http, "$S cancel nobody", 125, "", NULL);
}

HTTP_TEST(shutdown_ends_the_agent) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  http_sandbox_expect(http, "$S shutdown --now", 0, "", NULL);
  (void)http_steps_result(http, "gate");
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), 0);
}

/* --- follow ----------------------------------------------------------------------------------- */

HTTP_TEST(follow_shows_the_running_step_and_the_next_ones) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", "echo before");
  http_steps_wait_events(http, "gate", 2);
  struct agent_process *client = http_sandbox_start(http, "exec $S follow -n 1");
  struct agent_process *all = http_sandbox_start(http, "exec $S follow --all -n 1");
  http_sandbox_wait_output(client, "before\n");
  http_sandbox_wait_output(all, "gate│ before\n");
  for (int i = 0; i < 3; i++)
    (void)http_steps_put(http, formatted("%d", i), http_steps_script(formatted("echo step %d", i)));
  http_agent_open_gate(http, "gate");
  http_sandbox_wait_output(client, "step 2\n");
  http_sandbox_wait_output(all, "2│ step 2\n");
  (void)http_steps_put(http, "late", http_steps_script("echo late"));
  http_sandbox_wait_output(client, "late\n");
  assert_int_equal(kill(agent_process_pid(client), SIGINT), 0);
  http_sandbox_expect_end(client, 130, "before\nstep 0\nstep 1\nstep 2\nlate\n", NULL);
  agent_process_free(all);
}

HTTP_TEST(follow_begins_with_old_lines) {
  http_agent_start(http, NULL, NULL);
  (void)http_steps_run(http, "aa-1", http_steps_script("seq 5"));
  (void)http_steps_run(http, "ab-2", http_steps_script("seq 6 9; exit 3"));
  http_sandbox_expect(http, "$S follow aa", 0, "1\n2\n3\n4\n5\n", "");
  http_sandbox_expect(http, "$S follow -n 2 ab", 3, "8\n9\n", "");
  http_sandbox_expect(http, "$S follow --since 1h ab", 3, "6\n7\n8\n9\n", "");
  http_sandbox_expect(http, "$S follow a", 125, "",
                      "sandbox: several steps begin with 'a': give more of the ID\n");
  http_sandbox_expect(http, "$S follow nobody", 125, "", NULL);
  struct agent_process *client = http_sandbox_start(http, "exec $S follow --all -n 5");
  http_sandbox_wait_output(client, "aa-1│ 5\nab-2│ 6\nab-2│ 7\nab-2│ 8\nab-2│ 9\n");
  assert_true(strncmp(agent_process_output(client), "aa-1│ 5", 7) == 0);
  agent_process_free(client);
}

HTTP_TEST(a_gap_is_reported_and_is_an_error_of_run) {
  static const char *const arguments[] = {"--events-maxlen", "100", NULL};
  http_agent_start(http, arguments, NULL);
  (void)http_steps_run(http, "seq", http_steps_script("seq 5000"));
  http_sandbox_expect(http, "$S follow seq | tail -n 1", 0, "5000\n",
                      "sandbox: 4901 lines are missing\n");
  http_sandbox_expect(http, "$S --json follow seq | grep -c gap", 1, "0\n",
                      "sandbox: 4901 lines are missing\n");
}

/* --- files ------------------------------------------------------------------------------------ */

HTTP_TEST(the_commands_for_files_work) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http,
                      "cd $HTTP_DIRECTORY; f=$PWD/file; echo one two | $S write $f; $S read $f; "
                      "$S edit $f two three >edited; $S read -l 1:1 $f; $S grep thr $f | sed "
                      "s:$f:f:; $S ls $PWD | grep -c '  file$'; $S tree $PWD | grep -c file",
                      0, "one two\n1\tone three\nf:1:one three\n1\n1\n", "");
  http_sandbox_expect(http, "$S grep nothing $HTTP_DIRECTORY/file", 1, "", NULL);
  http_sandbox_expect(http, "$S grep '(' $HTTP_DIRECTORY/file", 2, "", NULL);
  http_sandbox_expect(http, "$S read /nowhere", 1, "", "sandbox: file not found: /nowhere\n");
}

HTTP_TEST(cp_copies_files_and_directories_in_both_directions) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http,
                      "cd $HTTP_DIRECTORY; mkdir -p a/b; head -c 9000000 /dev/urandom >a/big; echo "
                      "x >a/b/x; chmod 700 a/b/x; $S cp a :$PWD/in && $S cp :$PWD/in out && "
                      "diff -r a out && stat -c %a out/b/x; $S cp :$PWD/a/big /dev/stdout | cmp - "
                      "a/big; $S cp a/b/x :$PWD/x2 && cat x2; rm -r a in out",
                      0, "700\nx\n", "");
}

/* --- connecting ------------------------------------------------------------------------------- */

HTTP_TEST(the_url_of_an_agent_has_precedence_over_that_of_redis) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http, "REDIS_URL=redis://127.0.0.1:1 $S run -- echo a", 0, "a\n", "");
  http_sandbox_expect(http, "SANDBOX_URL=redis://127.0.0.1:1 $S -u $U run -- echo a", 0, "a\n", "");
  http_sandbox_expect(http, "JOB_ID=other $S -j another run -- echo a", 0, "a\n", "");
}

HTTP_TEST(what_cannot_work_is_wrong_usage) {
  static const char *const commands[] = {"jobs", "top", "doctor"};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    http_sandbox_expect(
        http, formatted("$S %s", commands[i]), 64, "",
        formatted("sandbox: %s needs Redis, and does not work over HTTP\n", commands[i]));
  http_sandbox_expect(http, "$S -u https://127.0.0.1:1 ps", 64, "",
                      "sandbox: https is not supported: use http:// through a tunnel or a proxy\n");
  http_sandbox_expect(http, "$S -u http://127.0.0.1:1/path ps", 64, "", NULL);
  http_sandbox_expect(http, "$S -u http://user:secret@127.0.0.1:1 ps 2>&1 | grep -c secret", 1,
                      "0\n", "");
  http_sandbox_expect(http, "SANDBOX_HTTP_KEY=short $S ps", 64, "",
                      "sandbox: SANDBOX_HTTP_KEY: a key has 16 to 256 characters\n");
}

HTTP_TEST(ping_says_whether_the_agent_is_alive) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http, "$S -q ping", 0, "", "");
  agent_process_free(http->process);
  http->process = NULL;
  http_sandbox_expect(http, "$S -q ping", 1, "", "");
}

/* Each of 64 connections has a request whose body is awaited. */
HTTP_TEST(an_agent_without_capacity_for_a_ping_is_alive) {
  http_agent_start(http, NULL, NULL);
  for (int i = 0; i < 64; i++) {
    struct http_client *client = http_agent_connect(http);
    http_client_send(client, "PUT /steps/1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                             "Content-Length: 9\r\n\r\n");
    assert_int_equal(http_client_response(client)->status, 100);
  }
  http_sandbox_expect(http, "$S -q ping", 0, "", "");
}

HTTP_TEST(the_agent_wants_its_key) {
  static const char *const environment[] = {"SANDBOX_HTTP_KEY=" KEY, NULL};
  http_agent_start(http, NULL, environment);
  http_sandbox_expect(http, "SANDBOX_HTTP_KEY=" KEY " $S run -- echo a", 0, "a\n", "");
  http_sandbox_expect(http, "SANDBOX_HTTP_KEY=" KEY "-wrong $S -q ping", 0, "", "");
  http_sandbox_expect(http, "$S run -- echo a", 125, "",
                      "sandbox: the agent wants a key: set SANDBOX_HTTP_KEY\n");
  http_sandbox_expect(http, "SANDBOX_HTTP_KEY=" KEY "-wrong $S ps", 125, "",
                      "sandbox: the agent wants a key: set SANDBOX_HTTP_KEY\n");
}

HTTP_TEST(the_environment_of_the_client_does_not_show_the_key) {
  static const char *const environment[] = {"SANDBOX_HTTP_KEY=" KEY, NULL};
  http_agent_start(http, NULL, environment);
  struct agent_process *client = http_sandbox_start(
      http, "export SANDBOX_HTTP_KEY=" KEY "; exec $S run -- sh -c 'echo up; sleep 60'");
  http_sandbox_wait_output(client, "up");
  size_t length;
  char *text = proc_read(agent_process_pid(client), "environ", &length);
  assert_non_null(memmem(text, length, "SANDBOX_URL=", 12));
  assert_null(memmem(text, length, KEY, strlen(KEY)));
  free(text);
  agent_process_free(client);
}
