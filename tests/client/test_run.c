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
  sandbox_expect(job, "B=two $S run -e A=0 -e A=one -e B -e NONE -c 'echo $A $B ${NONE-unset}'", 0,
                 "one two unset\n", "");
  sandbox_expect(job, "printf 'x\\ny' | $S run -i -- cat", 0, "x\ny", "");
  sandbox_expect(job, "printf '\\377' | $S run -i -- cat", 125, "",
                 "sandbox: standard input is not UTF-8: copy it with sandbox cp\n");
}

/* Otherwise the command would get another argument than the user has written. */
JOB_TEST(run_rejects_arguments_that_are_not_utf_8) {
  static const struct {
    const char *words, *error;
  } cases[] = {{"run -- touch a \"pushed$B\"", "argument 2 is not UTF-8: pushed\xFF"},
               {"run -c \"touch pushed$B\"", "-c is not UTF-8: touch pushed\xFF"},
               {"run -e \"A=$B\" -- touch pushed", "-e A is not UTF-8"},
               {"run -e E -- touch pushed", "-e E is not UTF-8"},
               {"run -w \"/$B\" -- touch pushed", "-w is not UTF-8: /\xFF"},
               {"-j \"$B\" run -- touch pushed", "-j is not UTF-8: \xFF"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    sandbox_expect(
        job, job_format(job, "B=$(printf '\\377'); export E=$B; timeout 9 $S %s", cases[i].words),
        125, "", job_format(job, "sandbox: %s\n", cases[i].error));
  assert_int_equal(job_ask_number(job, "EXISTS sandbox:%s:events", job->id), 0);
}

/* Before it connects: no Redis listens there. */
JOB_TEST_NO_AGENT(wrong_usage_names_the_wrong_word_and_the_reason) {
  static const struct {
    const char *words, *error;
  } cases[] = {
      {"run", "run: a command or -c SCRIPT is missing; sandbox run --help"},
      {"run -c true ls", "run: -c takes no command: 'ls'; sandbox run --help"},
      {"run -t x -- true",
       "run: -t: not a time such as 30, 30s, 5m or 2h: 'x'; sandbox run --help"},
      {"run --timeout 0 true", "run: -t: not a time such as 30, 30s, 5m or 2h: '0'; "
                               "sandbox run --help"},
      {"run -e =x true", "run: -e: no name before the '=': '=x'; sandbox run --help"},
      {"run --id 7f3a true", "run: --id: not a GUID: '7f3a'; sandbox run --help"},
      {"run -xy true", "run: unknown option '-x'; sandbox run --help"},
      {"run --fly true", "run: unknown option '--fly'; sandbox run --help"},
      {"run --timeout", "run: '--timeout' needs a value; sandbox run --help"},
      {"run -c", "run: '-c' needs a value; sandbox run --help"},
      {"grep -iA", "grep: '-A' needs a value; sandbox grep --help"},
      {"-j", "'-j' needs a value; sandbox --help"},
      {"ps --json=1", "ps: '--json' takes no value; sandbox ps --help"},
      {"edit --all=1 x", "edit: '--all' takes no value; sandbox edit --help"},
      {"follow --since 5", "follow: --since: not an age such as 30s, 5m, 2h or 1d: '5'; "
                           "sandbox follow --help"},
      {"follow --html x", "follow: --html needs the ID of a step; sandbox follow --help"},
      {"follow a b", "follow: unexpected word 'b'; sandbox follow --help"},
      {"cancel", "cancel: ID is missing; sandbox cancel --help"},
      {"cancel --all 7f3a", "cancel: unexpected word '7f3a'; sandbox cancel --help"},
      {"read", "read: PATH is missing; sandbox read --help"},
      {"read -l 0 x", "read: -l: not FROM or FROM:COUNT, from 1: '0'; sandbox read --help"},
      {"grep -A x y", "grep: -A: not a number of lines: 'x'; sandbox grep --help"},
      {"ps x", "ps: unexpected word 'x'; sandbox ps --help"},
      {"cp a b", "cp: SRC or DST must begin with ':', and not both; sandbox cp --help"},
      {"shutdown --later", "shutdown: unknown option '--later'; sandbox shutdown --help"},
      {"--color purple ps", "--color: not auto, always or never: 'purple'; sandbox --help"},
      {"--fly ps", "unknown option '--fly'; sandbox --help"},
      {"fly", "unknown command 'fly'; sandbox --help lists them"},
      {"help fly", "unknown command 'fly'; sandbox --help lists them"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    sandbox_expect(job, job_format(job, "REDIS_URL=redis://127.0.0.1:1 $S %s", cases[i].words), 64,
                   "", job_format(job, "sandbox: %s\n", cases[i].error));
  sandbox_expect(job, "REDIS_URL= $S ps", 64, "",
                 "sandbox: no Redis URL: pass -u URL, or set REDIS_URL\n");
}

/* Completion offers every option. */
JOB_TEST_NO_AGENT(the_help_of_each_command_lists_its_options_and_two_examples) {
  sandbox_expect(job,
                 "unset REDIS_URL; H=$($S --help); "
                 "for c in $(echo \"$H\" | sed -n 's/^  \\([a-z]*\\)  .*/\\1/p'); do "
                 "  h=$($S $c --help); [ \"$h\" = \"$($S help $c)\" ] || echo $c: help; "
                 "  [ \"$h\" = \"$($S $c -h)\" ] || echo $c: -h; "
                 "  [ $(echo \"$h\" | grep -c \"^  .*sandbox .*$c\") -ge 2 ] || echo $c: examples; "
                 "  for o in $(sed -n \"s/^  $c:\\*) _sandbox_offer / /p; /^  $c:\\*)$/{n;p}\" "
                 "completion/sandbox.bash | grep -o -- "
                 "    ' -[-a-z]*[a-z]' | grep -vw json); do "
                 "    echo \"$h\" | grep -qwe \"$o\" || echo $c: $o; done; done; "
                 "[ \"$H\" = \"$($S help)\" ] && $S -V | grep -c '^sandbox [0-9]'",
                 0, "1\n", "");
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
  sandbox_expect(job, "$S ps --json -j none && $S ps --job-id=none --json", 0, "[]\n[]\n", "");
  sandbox_expect(job, "$S run --workdir / --env=A=b --timeout 5m -c 'pwd; echo $A'", 0, "/\nb\n",
                 "");
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
      sandbox_start(job, job_format(job, "exec $S run --text --id %s -- x", id));
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
  sandbox_expect(job, "$S run --detach -w a/b -- true", 125, "",
                 "sandbox: -w a/b is relative, and without a heartbeat it is unknown where steps "
                 "start: give an absolute path\n");
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
                 "sandbox: cannot write to standard output: No space left on device\n");
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

JOB_TEST_NO_AGENT(a_step_that_the_agent_does_not_take_says_so) {
  job_do(job, "SET sandbox:%s:heartbeat {}", job->id);
  struct agent_process *client =
      sandbox_start(job, "exec $S run --id 11111111-aaaa-4aaa-8aaa-000000000001 -- true");
  agent_process_wait_log(client, "1111 waits for the agent\n");
  agent_process_free(client);
}
