/* sandbox follow: live and old output of steps, and the files that it writes. */

#include "tests/support/proc.h"
#include "tests/support/sandbox_client.h"
#include "tests/test.h"

#define ID "11111111-aaaa-4aaa-8aaa-000000000001"
#define OTHER "11111111-bbbb-4aaa-8aaa-000000000002"

static void run_script(struct job *job, const char *id, const char *script) {
  sandbox_expect(job, job_format(job, "$S run --id %s -c '%s' >&2; exit 0", id, script), 0, "",
                 NULL);
}

JOB_TEST(follow_shows_a_step_that_has_ended_and_exits_with_its_code) {
  run_script(job, ID, "echo a; echo b; echo c; exit 3");
  run_script(job, "22222222-aaaa-4aaa-8aaa-000000000001", "echo e >&2");
  sandbox_expect(job, "$S follow 1111", 3, "a\nb\nc\n", "");
  sandbox_expect(job, "$S follow 2", 0, "", "e\n");
  sandbox_expect(job, "$S follow " ID " -n 1", 3, "c\n", "");
  sandbox_expect(job, "$S follow -n 2 1111", 3, "b\nc\n", "");
  sandbox_expect(job, "$S follow -n 0 1111", 3, "", "");
  sandbox_expect(job, "$S follow --since 1h 1111", 3, "a\nb\nc\n", "");
  sandbox_expect(job, "$S follow --since 0s 1111", 3, "", "");
  sandbox_expect(job, "$S --json follow 1111 | grep -o 'exit=.*False'", 0,
                 "exit=3 timedOut=False\n", "");
  job_wait_length(job, "results", 0);
  sandbox_expect(job, "$S run --id " OTHER " -t 1 -- sleep 60", 124, "", NULL);
  sandbox_expect(job, "$S follow " OTHER, 124, "", NULL);
}

JOB_TEST(a_prefix_must_belong_to_one_step) {
  run_script(job, ID, "echo a");
  run_script(job, OTHER, "echo b");
  sandbox_expect(job, "$S follow 1111", 125, "",
                 "sandbox: several steps begin with '1111': give more of the ID\n");
  sandbox_expect(job, "$S follow 11111111-B", 0, "b\n", "");
  sandbox_expect(job, "$S follow 3333", 125, "",
                 "sandbox: no step that waits, runs, or has events begins with '3333'\n");
  sandbox_expect(job, "$S follow 1111 --all", 64, "", NULL);
  sandbox_expect(job, "$S follow --html x", 64, "", NULL);
  sandbox_expect(job, "$S follow --since 5", 64, "", NULL);
}

JOB_TEST(a_complete_id_wins_over_longer_ones) {
  static const char *const ended[] = {"13", "1", "12"}, *const waiting[] = {"20", "2", "21", "22"};
  for (size_t i = 0; i < sizeof ended / sizeof *ended; i++) {
    job_push_json(
        job, job_format(job, "{'stepId':'%s','command':'echo','args':['%s']}", ended[i], ended[i]));
    (void)job_result(job);
  }
  sandbox_expect(job, "$S follow 1", 0, "1\n", "");
  (void)job_push_endless(job, job_sleep(job, 600));
  for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++)
    job_push_json(job, job_format(job, "{'stepId':'%s','command':'true'}", waiting[i]));
  sandbox_expect(job, "$S cancel 2", 0, "", "cancelling 2\n");
  assert_string_equal(job_text(job_result(job), "stepId"), "2");
  sandbox_expect(job, "$S cancel 2", 125, "",
                 "sandbox: 3 steps begin with '2': give more of the ID\n");
}

JOB_TEST(follow_waits_for_a_step_and_shows_it_to_its_end) {
  const char *sleep = job_sleep(job, 600);
  (void)job_push_until(job, job_script(job, job_format(job, "echo up; %s", sleep)), "up");
  sandbox_expect(job, "$S run --detach --id " ID " -c 'echo mine; exit 4'", 0, NULL, "");
  struct agent_process *follow = sandbox_start(job, "exec $S follow 1111");
  sandbox_expect(job, "$S cancel --running", 0, "", NULL);
  assert_int_equal(agent_process_wait(follow, WAIT_BOUND_MS), 4);
  assert_string_equal(agent_process_output(follow), "mine\n");
  agent_process_free(follow);
}

JOB_TEST(follow_ends_if_its_step_never_runs) {
  const char *sleep = job_sleep(job, 600);
  (void)job_push_until(job, job_script(job, job_format(job, "echo up; %s", sleep)), "up");
  sandbox_expect(job, "$S run --detach --id " ID " -- true", 0, NULL, "");
  struct agent_process *follow = sandbox_start(job, "exec $S follow 1111");
  sandbox_expect(job, "$S cancel 1111", 0, "", NULL);
  assert_int_equal(agent_process_wait(follow, WAIT_BOUND_MS), 125);
  agent_process_free(follow);
}

JOB_TEST(an_interrupt_of_follow_stops_no_step) {
  const char *sleep = job_sleep(job, 600);
  run_script(job, OTHER, "echo before");
  struct agent_process *follow = sandbox_start(job, "exec $S follow -n 1");
  sandbox_wait_output(follow, "before\n");
  (void)job_push_until(job, job_script(job, job_format(job, "echo up; %s", sleep)), "up");
  sandbox_wait_output(follow, "before\nup\n");
  assert_int_equal(kill(agent_process_pid(follow), SIGINT), 0);
  assert_int_equal(agent_process_wait(follow, WAIT_BOUND_MS), 130);
  assert_true(proc_wait_for(sleep, WAIT_BOUND_MS) > 0);
  agent_process_free(follow);
}

static void add_event_json(struct job *job, const char *quoted) {
  const char *json = job_json(job, "%s", quoted);
  job_do(job, "XADD sandbox:%s:events * data %b", job->id, json, strlen(json));
}

/* Adds an event of a step that no agent has run. */
static void add_event(struct job *job, const char *id, int seq, const char *kind, const char *line,
                      const char *more) {
  add_event_json(job, job_format(job,
                                 "{'schemaVersion':1,'stepId':'%s','kind':'%s','line':'%s',"
                                 "'timestamp':'2026-05-05T10:00:0%d.500+00:00','seq':%d%s}",
                                 id, kind, line, seq % 10, seq, more));
}

#define MISSING(LINES) "sandbox: " LINES " missing: the stream was trimmed\n"

JOB_TEST_NO_AGENT(trimmed_lines_are_counted) {
  add_event(job, ID, 1206, "stdout", "x", "");
  add_event_json(job, "{'stepId':'" ID "','kind':'resized','size':{'rows':[24]},'seq':1207}");
  add_event(job, ID, 1209, "stdout", "y", "");
  add_event(job, ID, 1210, "completed", "exit=0 timedOut=False", "");
  sandbox_expect(job, "$S follow 1111", 0, "x\ny\n",
                 MISSING("1,204 lines are") MISSING("1 line is"));
  sandbox_expect(job, "$S -q --json follow 1111 | wc -l", 0, "4\n",
                 MISSING("1,204 lines are") MISSING("1 line is"));
  sandbox_expect(job, "$S follow -n 2 1111", 0, "x\ny\n", MISSING("1 line is"));
  sandbox_expect(job, "$S follow -n 3 1111", 0, "x\ny\n",
                 MISSING("1,204 lines are") MISSING("1 line is"));
}

/* The reader was so slow that the first lines of the next steps were trimmed. */
JOB_TEST_NO_AGENT(trimmed_lines_of_the_next_steps_are_counted) {
  add_event(job, ID, 20, "stdout", "a", "");
  struct agent_process *follow = sandbox_start(job, "exec $S -q follow");
  job_wait_text(job, "CLIENT LIST", "cmd=xread"); /* it has chosen the first event */
  add_event(job, ID, 21, "stdout", "b", "");
  add_event(job, ID, 22, "completed", "exit=0 timedOut=False", "");
  add_event(job, OTHER, 7, "stdout", "c", "");
  sandbox_wait_output(follow, "b\nc\n");
  assert_string_equal(agent_process_log(follow), MISSING("5 lines are"));
  agent_process_free(follow);
}

/* The agent's clock, which makes the timestamps, may be wrong. */
JOB_TEST_NO_AGENT(an_age_is_measured_by_the_clock_of_redis) {
  add_event(job, ID, 1, "stdout", "new", "");
  add_event(job, ID, 2, "completed", "exit=0 timedOut=False", "");
  sandbox_expect(job, "$S follow --since 1h 1111", 0, "new\n", "");
}

JOB_TEST_NO_AGENT(a_stream_that_begins_again_is_read_from_its_beginning) {
  const char *key = job_format(job, "sandbox:%s:events", job->id);
  const char *last = job_json(job, "{'stepId':'" ID "','kind':'stdout','line':'a','seq':2}");
  job_do(job, "XADD %s 99999999999999-0 data %s", key, last);
  struct agent_process *follow = sandbox_start(job, "exec $S follow -n 1");
  sandbox_wait_output(follow, "a\n");
  job_do(job, "DEL %s", key);
  add_event(job, ID, 3, "stdout", "b", "");
  sandbox_wait_output(follow, "a\nb\n");
  assert_string_equal(agent_process_log(follow),
                      "the stream of events begins again: lines may be missing\n");
  agent_process_free(follow);
}

/* As after Redis was restored from an older copy. */
JOB_TEST_NO_AGENT(a_stream_without_its_newest_entries_is_not_shown_twice) {
  const char *key = job_format(job, "sandbox:%s:events", job->id);
  add_event(job, ID, 1, "stdout", "old", "");
  add_event(job, ID, 2, "completed", "exit=0 timedOut=False", "");
  struct agent_process *follow = sandbox_start(job, "exec $S follow");
  job_wait_text(job, "CLIENT LIST", "cmd=xread"); /* it has chosen the first event */
  add_event(job, OTHER, 3, "stdout", "a", "");
  add_event(job, OTHER, 4, "completed", "exit=0 timedOut=False", "");
  add_event(job, "2", 5, "stdout", "b", "");
  const char *json = job_json(job, "{'stepId':'2','kind':'stdout','line':'c','seq':6}");
  const char *newest = job_ask_text(job, "XADD %s * data %s", key, json);
  sandbox_wait_output(follow, "c\n");
  job_do(job, "XDEL %s %s", key, newest);
  agent_process_wait_log(follow, "begins again");
  add_event(job, "2", 7, "stdout", "d", "");
  sandbox_wait_output(follow, "d\n");
  assert_string_equal(agent_process_output(follow), "a\nb\nc\nd\n");
  agent_process_free(follow);
}

JOB_TEST_NO_AGENT(partial_lines_are_joined_and_each_line_has_its_step_and_time) {
  add_event(job, ID, 1, "started", "sh", "");
  add_event(job, ID, 2, "stdout", "A", ",'partial':true");
  add_event(job, ID, 3, "stderr", "E", "");
  add_event(job, ID, 4, "stdout", "B", "");
  add_event(job, OTHER, 1, "started", "sh", "");
  add_event(job, OTHER, 2, "stdout", "other", "");
  struct agent_process *follow = sandbox_start(job, "exec $S follow --all -n 9 --timestamps");
  sandbox_wait_output(follow, "other\n");
  agent_process_wait_log(follow, "E\n");
  assert_int_equal(kill(agent_process_pid(follow), SIGINT), 0);
  assert_int_equal(agent_process_wait(follow, WAIT_BOUND_MS), 130);
  assert_string_equal(agent_process_output(follow),
                      "1111│ 2026-05-05T10:00:02.500+00:00 AB\n"
                      "11111111-b│ 2026-05-05T10:00:02.500+00:00 other\n");
  assert_string_equal(agent_process_log(follow), "1111│ 2026-05-05T10:00:03.500+00:00 E\n");
  agent_process_free(follow);
}

JOB_TEST(follow_writes_a_complete_page_and_recording) {
  char *page = job_path(job, "out.html"), *cast = job_path(job, "out.cast");
  run_script(job, ID,
             "printf \"\\033[1;31m<a & b>\\033[0m\\033[2Jc\\n\"; sleep 0.1; echo e >&2; exit 3");
  sandbox_expect(job, job_format(job, "$S follow 1111 --html %s --cast %s >&2", page, cast), 3, "",
                 NULL);
  sandbox_expect(job, job_format(job, "grep -o '<title>.*</title>' %s", page), 0,
                 job_format(job, "<title>%s · " ID " · exit 3</title>\n", job->id), "");
  sandbox_expect(job, job_format(job, "grep -o 'class=.o. .*<span.*' %s | sed 's/.*\">//'", page),
                 0, "&lt;a &amp; b&gt;</span>\xEF\xBF\xBD[2Jc</span>\n", NULL);
  sandbox_expect(job,
                 job_format(job,
                            "grep -c 'class=\"b f1\"' %s; grep -c '^<span class=\"e\".*>e<' %s",
                            page, page),
                 0, "1\n1\n", "");
  sandbox_expect(job, job_format(job, "grep -c -e 'src=' -e '<script' -e 'http:' %s", page), 1,
                 "0\n", "");
  sandbox_expect(
      job,
      job_format(job,
                 "head -n 1 %s | grep -c "
                 "'\"version\":2,\"width\":80,\"height\":24,\"timestamp\":[0-9]*,\"title\":'",
                 cast),
      0, "1\n", "");
  sandbox_expect(job, job_format(job, "sed -n '3s/^.[0-9]*[.][0-9]*,//p' %s", cast), 0,
                 "\"o\",\"e\\r\\n\"]\n", "");
  sandbox_expect(job, job_format(job, "ls -A $(dirname %s) | grep -c '^[.]write'", page), 1, "0\n",
                 "");
}

JOB_TEST_NO_AGENT(the_title_of_a_recording_has_no_control_characters) {
  char *cast = job_path(job, "out.cast");
  add_event(job, ID, 1, "started", "a\\u001b]0;owned\\u0007 b\\u007f\\u009b2J", "");
  add_event(job, ID, 2, "completed", "exit=0 timedOut=False", "");
  sandbox_expect(job, job_format(job, "$S -j '%s' follow 1111 --cast %s", job->id, cast), 0, "",
                 NULL);
  sandbox_expect(job, job_format(job, "head -n 1 %s | sed 's/.*\"title\":\"[^ ]* //'", cast), 0,
                 ID " a\uFFFD]0;owned\uFFFD b\uFFFD\uFFFD2J\"}\n", "");
}

JOB_TEST(an_incomplete_page_does_not_appear) {
  char *page = job_path(job, "out.html");
  const char *sleep = job_sleep(job, 600);
  sandbox_expect(job, job_format(job, "$S run --detach --id " ID " -c 'echo up; %s'", sleep), 0,
                 NULL, "");
  struct agent_process *follow =
      sandbox_start(job, job_format(job, "exec $S follow " ID " --html %s", page));
  sandbox_wait_output(follow, "up\n");
  assert_int_equal(kill(agent_process_pid(follow), SIGINT), 0);
  assert_int_equal(agent_process_wait(follow, WAIT_BOUND_MS), 130);
  sandbox_expect(job,
                 job_format(job, "ls -A $(dirname %s) | grep -c -e '^[.]write' -e out.html", page),
                 1, "0\n", "");
  agent_process_free(follow);
  sandbox_expect(job, "$S follow 1111 --html /dev/null", 125, "",
                 "sandbox: cannot write /dev/null: it is a character device\n");
  const char *link = job_path(job, "link");
  sandbox_expect(job, job_format(job, "ln -s none %s; $S follow 1111 --cast %s", link, link), 125,
                 "", job_format(job, "sandbox: cannot write %s: it is a symbolic link\n", link));
}

/* After its known fields, an event that no agent wrote need not be JSON. */
JOB_TEST_NO_AGENT(an_event_is_one_line_of_json_and_moves_no_cursor) {
  add_event(job, ID, 1, "stdout", "x", ",'more':'\x1b]0;owned\x07\n{}'");
  add_event(job, ID, 2, "completed", "exit=0 timedOut=False", "");
  sandbox_expect(job, "$S --json follow 1111 | wc -l", 0, "2\n", "");
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, "exec $S --json follow 1111");
  sandbox_terminal_wait(terminal, "\"more\":\"\uFFFD]0;owned\uFFFD {}\"}\r\n");
  sandbox_terminal_expect_exit(terminal, 0);
}

JOB_TEST_NO_AGENT(the_id_of_a_waiting_step_moves_no_cursor) {
  job_push_json(job, "{'stepId':'1\\u001bc\\n-of-a-step','command':'true'}");
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, "exec $S follow 1");
  sandbox_terminal_wait(terminal, "1\uFFFDc\uFFFD waits");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_expect_exit(terminal, 130);
}

JOB_TEST(a_terminal_shows_the_step_of_each_line) {
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, "exec $S follow --all -n 1");
  job_wait_text(job, "CLIENT LIST", "cmd=xread"); /* it has chosen the first event */
  run_script(job, ID, "echo a; echo b >&2; exit 3");
  sandbox_terminal_wait(terminal, "\x1b[2m1111 sh\x1b[0m\r\n");
  sandbox_terminal_wait(terminal, "1111│ \x1b[0ma\r\n");
  sandbox_terminal_wait(terminal, "1111│ \x1b[0m\x1b[2mb\x1b[0m\r\n");
  sandbox_terminal_wait(terminal, "✗ 1111 exit 3 after ");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_expect_exit(terminal, 130);
}

JOB_TEST(the_colors_of_a_step_end_with_it_or_at_an_interrupt) {
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, "exec $S -q follow");
  job_wait_text(job, "CLIENT LIST", "cmd=xread");
  run_script(job, ID, "printf \"\\033[31mred\\n\"");
  sandbox_terminal_wait(terminal, "\x1b[31mred\r\n\x1b[0m");
  sandbox_terminal_forget(terminal);
  sandbox_expect(
      job,
      job_format(job, "$S run --detach -c 'printf \"\\033[32mgreen\\n\"; %s'", job_sleep(job, 600)),
      0, NULL, "");
  sandbox_terminal_wait(terminal, "\x1b[32mgreen\r\n");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_wait(terminal, "\x1b[0m");
  sandbox_terminal_expect_exit(terminal, 130);
}
