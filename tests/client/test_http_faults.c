/* sandbox over HTTP: an interrupted connection is only a pause, and an agent that is gone or
   restarted is an error. */

#include "tests/support/cutter.h"
#include "tests/support/http_sandbox.h"
#include "tests/support/http_steps.h"
#include "tests/support/nginx.h"
#include "tests/test.h"

TEST_OVERLAP(4)

/* A run whose first connections are cut. Returns how many were. On a busy machine, the client may
   report the loss, hence -q. */
static int run_cut(struct http_agent *http, struct cutter_plan plan, const char *script,
                   const char *output) {
  const char *path = directory_path(&http->directory, "cut.sock");
  struct cutter *cutter = cutter_start(http->address, path, plan);
  http_sandbox_expect(
      http,
      formatted("export SANDBOX_URL=http+unix://$HTTP_DIRECTORY/cut.sock; S=\"$S -q\"; %s", script),
      0, output, "");
  return cutter_stop(cutter);
}

static const char script_of_lines[] =
    "$S run -- sh -c 'echo x >>$HTTP_DIRECTORY/ran; for i in 1 2 3 4 5 6 7 8 9; do echo $i; done'";
static const char lines[] = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/* Steps in which the position of the cut grows, so that the test takes seconds. */
HTTP_TEST(replies_that_are_cut_at_any_byte_are_only_a_pause) {
  int cuts = 0;
  http_agent_start(http, NULL, NULL);
  for (long byte = 1; byte < 2400; byte += 61)
    cuts += run_cut(http, (struct cutter_plan){.connections = 3, .reply_bytes = byte},
                    script_of_lines, lines);
  assert_true(cuts > 40);
  http_sandbox_expect(http, "sort $HTTP_DIRECTORY/ran | uniq -c | tr -d ' '", 0, "40x\n", "");
}

HTTP_TEST(a_request_that_is_cut_at_any_byte_runs_the_step_once) {
  int cuts = 0;
  http_agent_start(http, NULL, NULL);
  for (long byte = 1; byte < 620; byte += 31)
    cuts += run_cut(http, (struct cutter_plan){.connections = 2, .request_bytes = byte},
                    script_of_lines, lines);
  assert_true(cuts > 20);
  http_sandbox_expect(http, "sort $HTTP_DIRECTORY/ran | uniq -c | tr -d ' '", 0, "20x\n", "");
}

HTTP_TEST(commands_for_files_survive_cut_connections) {
  http_agent_start(http, NULL, NULL);
  for (long byte = 100; byte < 2000; byte += 230)
    (void)run_cut(http, (struct cutter_plan){.connections = 3, .reply_bytes = byte},
                  "f=$HTTP_DIRECTORY/f; echo text | $S write $f && $S read $f; $S ps --json",
                  "text\n[]\n");
}

/* While nobody reads, the agent keeps only the newest events. */
HTTP_TEST(a_gap_in_the_output_is_reported) {
  static const char *const arguments[] = {"--events-maxlen", "100", NULL};
  http_agent_start(http, arguments, NULL);
  const struct cutter_plan plan = {.connections = 2, .reply_bytes = 4000};
  struct cutter *cutter =
      cutter_start(http->address, directory_path(&http->directory, "cut.sock"), plan);
  http_sandbox_expect(http,
                      "cd $HTTP_DIRECTORY; export SANDBOX_URL=http+unix://$PWD/cut.sock; "
                      "$S --json run -- seq 200000 >events 2>errors; echo $?; "
                      "sed -E 's/: [0-9]+ /: N /' errors; grep -c '\"kind\":\"gap\"' events; "
                      "grep -c '\"line\":\"200000\"' events",
                      0, "125\nsandbox: N lines are missing\n0\n1\n", "");
  (void)cutter_stop(cutter);
}

HTTP_TEST(a_restarted_agent_is_another_one) {
  http_agent_start(http, NULL, NULL);
  struct agent_process *client =
      http_sandbox_start(http, "exec $S run -- sh -c 'echo up; sleep 60'");
  http_sandbox_wait_output(client, "up");
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect_end(client, 125, "up\n",
                          "sandbox: the agent was restarted, and its steps are gone\n");
}

HTTP_TEST(an_agent_that_is_away_for_15_s_is_gone) {
  http_agent_start(http, NULL, NULL);
  struct agent_process *client =
      http_sandbox_start(http, "exec $S run -- sh -c 'echo up; sleep 60'");
  http_sandbox_wait_output(client, "up");
  const int64_t begin_ms = wait_now_ms();
  agent_process_free(http->process);
  http->process = NULL;
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 125);
  assert_true(wait_now_ms() - begin_ms >= 14000);
  assert_int_equal(agent_process_count_log(client, "; retrying for up to 15 s\n"), 1);
  assert_int_equal(agent_process_count_log(client, "sandbox: the agent is gone: cannot reach"), 1);
  agent_process_free(client);
}

HTTP_TEST(an_agent_behind_a_proxy_that_is_away_for_15_s_is_gone) {
  http_agent_start(http, NULL, NULL);
  struct nginx *nginx = nginx_start(&http->directory, "agent.sock", NGINX_KEEPALIVE);
  struct agent_process *client = http_sandbox_start(
      http, formatted("export SANDBOX_URL=http+unix://%s; exec $S run -- sh -c 'echo up; sleep 60'",
                      nginx_address(nginx) + 5));
  http_sandbox_wait_output(client, "up");
  agent_process_free(http->process);
  http->process = NULL;
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 125);
  assert_int_equal(agent_process_count_log(client, "; retrying for up to 15 s\n"), 1);
  assert_int_equal(agent_process_count_log(client, " answers 502, but is no agent\n"), 1);
  agent_process_free(client);
  nginx_stop(nginx);
}

HTTP_TEST(a_reader_without_a_stream_says_that_it_waits) {
  struct http_stream *readers[16];
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  for (size_t i = 0; i < 16; i++)
    readers[i] = http_stream_open(http, "/steps/gate/events", NULL);
  struct agent_process *client = http_sandbox_start(http, "exec $S run -- echo a");
  agent_process_wait_log(client, "the agent cannot serve another reader now (429); retrying\n");
  for (size_t i = 0; i < 16; i++)
    http_stream_free(readers[i]);
  http_agent_open_gate(http, "gate");
  http_sandbox_expect_end(client, 0, "a\n", NULL);
}

HTTP_TEST(an_agent_that_is_not_there_yet_is_awaited) {
  http_agent_start(http, NULL, NULL);
  agent_process_free(http->process);
  http->process = NULL;
  struct agent_process *client =
      http_sandbox_start(http, "$S run -- echo a 2>$HTTP_DIRECTORY/errors");
  http_agent_wait_file(http, "errors");
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect_end(client, 0, "a\n", "");
}

HTTP_TEST(a_full_queue_is_retried) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "gate", ":");
  for (int i = 0; i < 64; i++)
    (void)http_steps_put(http, formatted("%d", i), "{\"command\":\"true\"}");
  struct agent_process *client = http_sandbox_start(http, "$S run -- echo a");
  for (int i = 0; i < 64; i++)
    (void)http_steps_ask(http, 200, "POST", formatted("/steps/%d/cancel", i), NULL, NULL);
  http_agent_open_gate(http, "gate");
  http_sandbox_expect_end(client, 0, "a\n", NULL);
}

/* It may be a proxy whose agent is away. */
HTTP_TEST(a_server_that_is_no_agent_is_named) {
  http_agent_start(http, NULL, NULL);
  http_sandbox_expect(http, "$S -q -u http+unix:///nowhere ping", 1, "", "");
  http_sandbox_expect(http, "$S -u http://127.0.0.1:1 -q ping", 1, "", "");
}
