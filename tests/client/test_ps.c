/* sandbox ps, jobs, top: what jobs do. */

#include "tests/support/sandbox_client.h"
#include "tests/test.h"

/* The output must be this after the replacements of `sed`. */
static void expect_shape(struct job *job, const char *command, const char *sed,
                         const char *output) {
  sandbox_expect(job, job_format(job, "%s | sed -E '%s'", command, sed), 0, output, "");
}

JOB_TEST(the_running_step_is_first_and_waiting_steps_have_places) {
  const char *sleep = job_sleep(job, 600);
  (void)job_push_endless(job, sleep);
  job_push_json(job, "{'stepId':'bbbb2222','kind':'readFile','path':'/a\\u001b[2Jb'}");
  job_push_json(job, "{'stepId':'cccc3333','kind':'grep','pattern':'x'}");
  sandbox_wait_steps(job, 3);
  expect_shape(job, "$S ps",
               "1s/agent [^ ]* pid [0-9]*, alive [0-9]*s ago, redis [0-9.]*/AGENT/;"
               "s/running  [0-9]*s /running  1s /;s/^[0-9a-f-]{4,}( +run)/ID  \\1/;s/ +/ /g;"
               "s/sleep 600[.0-9]*/sleep 600/;"
               "s/JOB [^ ]*/JOB x/",
               "JOB x AGENT results waiting: 0\n"
               "ID KIND STATE SINCE COMMAND\n"
               "ID run running 1s echo up; exec sleep 600\n"
               "bbbb readFile waiting 1 /a\xEF\xBF\xBD[2Jb\n"
               "cccc grep waiting 2 x\n");
  expect_shape(job, "$S ps --json", "s/.*\\},(\\{.id.:.bbbb2222)/\\1/",
               "{\"id\":\"bbbb2222\",\"kind\":\"readFile\",\"state\":\"waiting\",\"since\":null,"
               "\"target\":\"/a\\u001b[2Jb\"},{\"id\":\"cccc3333\",\"kind\":\"grep\",\"state\":"
               "\"waiting\",\"since\":null,\"target\":\"x\"}]\n");
}

JOB_TEST_NO_AGENT(a_long_queue_is_listed_completely) {
  job_do(job, "EVAL %s 0",
         job_format(job,
                    "for i=1,2000 do redis.call('lpush','sandbox:%s:in','{\"stepId\":\"'..i.."
                    "'\",\"command\":\"x\",\"args\":[\"'..string.rep('y',1000)..'\"]}') end",
                    job->id));
  sandbox_expect(job, "$S ps | grep -c waiting", 0, "2001\n", "");
  sandbox_expect(job, "$S ps | sed 1s/,.*// | head -1 | grep -o 'no agent'", 0, "no agent\n", "");
}

JOB_TEST_NO_AGENT(steps_that_were_taken_are_lost_without_an_agent) {
  static const char *const steps[][2] = {
      {"inflight", "{\"stepId\":\"aaaa\",\"command\":\"wc\",\"args\":[\"-c\",\"a b\"]}"},
      {"inflight", "{\"stepId\":\"bbbb\",\"kind\":\"readFile\",\"path\":\"/b\"}"},
      {"in",
       "{\"stepId\":\"cccc\",\"command\":\"/bin/sh\",\"args\":[\"-ec\",\"echo c\\necho d\"]}"}};
  for (size_t i = 0; i < 3; i++)
    job_do(job, "LPUSH sandbox:%s:%s %s", job->id, steps[i][0], steps[i][1]);
  job_do(job, "SET sandbox:%s:started aaaa", job->id);
  expect_shape(job, "$S ps | tail -n 3", "s/ +/ /g",
               "aaaa run lost - wc -c a b\nbbbb readFile lost - /b\ncccc run waiting 1 echo c\n");
  sandbox_expect(job, "$S ps --json | grep -o '\"state\":\"lost\"' | wc -l", 0, "2\n", "");
  sandbox_expect(job, "$S run -- true", 125, "",
                 job_format(job,
                            "sandbox: no agent for %s: no heartbeat, and 1 step waits; "
                            "--detach pushes it anyway\n",
                            job->id));
  expect_shape(job, "$S top --json", "s/.*(.queue.:1,).*/\\1/", "\"queue\":1,\n");
}

JOB_TEST_NO_AGENT(an_id_is_shortened_to_a_unique_prefix) {
  static const char *const ids[] = {"abcdef01", "ffff",     "abcd",
                                    "ABCDEF02", "abcdef01", "0123456789"};
  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
    job_do(job, "LPUSH %s %s", job_format(job, "sandbox:%s:in", job->id),
           job_format(job, "{\"stepId\":\"%s\",\"command\":\"x\"}", ids[i]));
  sandbox_expect(job, "$S ps | awk 'NR > 2 { printf \"%s \", $1 }'", 0,
                 "abcdef01 ffff abcd ABCDEF02 0123 ", "");
}

JOB_TEST(jobs_lists_the_jobs_with_an_agent) {
  job_do(job, "SET %s %s", "sandbox:old one:heartbeat", "{\"Ts\":1,\"Pid\":9}");
  expect_shape(job, "env -u JOB_ID $S jobs | grep old", "s/ +/ /g;s/[0-9]+d[0-9]+h ago/AGE/",
               "old one 0.1.0 or older 9 AGE - - - - - - -\n");
  sandbox_expect(job, "env -u JOB_ID $S jobs --json | wc -l", 0, "2\n", "");
  sandbox_expect(job, "env -u JOB_ID $S top | grep -c -e $JOB_ID -e 'old one'", 0, NULL, "");
  job_do(job, "HSET sandbox:bad:heartbeat a b");
  sandbox_expect(job, "env -u JOB_ID $S jobs --json", 125, NULL,
                 "sandbox: sandbox:bad:heartbeat: WRONGTYPE Operation against a key holding the "
                 "wrong kind of value\n");
  sandbox_expect(job, "env -u JOB_ID $S jobs 2> /dev/null | wc -l", 0, "3\n", "");
  sandbox_expect(job, "env -u JOB_ID $S top | grep -c -e $JOB_ID -e 'bad  *unreadable: see'", 0,
                 "2\n", "");
}

JOB_TEST(ping_says_whether_the_agent_is_alive) {
  job_do(job, "ACL SETUSER prober on nopass ~sandbox:* +@all -scan");
  sandbox_expect(job, "$S -u redis://prober:x@127.0.0.1:${REDIS_URL##*:} -q ping", 0, "", "");
  sandbox_expect(job, "$S -j none ping", 1, "", "none has no agent\n");
  sandbox_expect(job, "unset JOB_ID; $S ping", 64, "",
                 "sandbox: ping needs a job: pass -j JOB, or set JOB_ID\n");
  sandbox_expect(job, "$S -u redis://127.0.0.1:1 ping", 125, "", NULL);
  const char *frozen = job_path(job, "frozen");
  struct agent_process *client = sandbox_start(
      job, job_format(job, "until [ -e %s ]; do sleep 0.02; done; timeout 9 $S ping", frozen));
  redis_server_freeze(job->server);
  (void)job_write(job, "frozen", "", 0644);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 125);
  agent_process_free(client);
  redis_server_thaw(job->server);
}

JOB_TEST(top_prints_one_round_without_a_terminal) {
  const char *sleep = job_sleep(job, 600);
  (void)job_push_endless(job, sleep);
  (void)job_push_echo(job, "waits");
  sandbox_wait_steps(job, 2);
  expect_shape(job, "$S top --json",
               "s/.*(.line.:.sh.,).*(.cpuPercent.:null,).*(.queue.:1,).*/\\1\\2\\3/",
               "\"line\":\"sh\",\"cpuPercent\":null,\"queue\":1,\n");
  expect_shape(job, "$S top | tail -1", "s/ +/ /g;s/^[^ ]* sh [0-9]*s .* 1 -$/good/", "good\n");
}

/* The figures are those of the container, not of the job. */
JOB_TEST_NO_AGENT(jobs_and_top_name_the_container) {
  job_do(job, "SET sandbox:x:heartbeat {}");
  sandbox_expect(job, "$S -j x top | head -n 1 | grep -o 'CONTAINER [A-Z]*'", 0,
                 "CONTAINER CPU\nCONTAINER MEM\n", "");
  sandbox_expect(job, "$S jobs | head -n 1 | grep -o 'CONTAINER [A-Z]*'", 0,
                 "CONTAINER MEM\nCONTAINER CPU\n", "");
}

/* --- at a terminal ---------------------------------------------------------------------------- */

JOB_TEST(top_runs_until_an_interrupt) {
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, "exec $S top");
  sandbox_terminal_wait(terminal, "STEPS/MIN\r\n");
  sandbox_terminal_forget(terminal);
  sandbox_terminal_wait(terminal, "STEPS/MIN\r\n");
  sandbox_terminal_send(terminal, "\x03");
  sandbox_terminal_expect_exit(terminal, 0);
}

JOB_TEST_NO_AGENT(a_terminal_shows_a_long_name_without_its_middle) {
  const char *name = "build-of-a-very-long-branch-name-7f3a91é42";
  job_do(job, "SET sandbox:%s:heartbeat {}", name);
  sandbox_expect(job, job_format(job, "$S jobs | grep -c '^%s '", name), 0, "1\n", "");
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, "exec $S jobs");
  sandbox_terminal_wait(terminal, "\r\nbuild-of-a-…me-7f3a91é42  0.1.0 or older");
  sandbox_terminal_expect_exit(terminal, 0);
}

JOB_TEST(a_row_is_cut_at_the_width_of_the_terminal) {
  job_do(job, "LPUSH %s %s", "sandbox:wide:in",
         "{\"stepId\":\"aaaa\",\"command\":\"0123456789012345678901234567890123456789\"}");
  struct sandbox_terminal *terminal = sandbox_terminal_start(job, "COLUMNS=40 exec $S -j wide ps");
  sandbox_terminal_wait(terminal, "COMMAND\r\naaaa  run   waiting  1      01234567890…\r\n");
  sandbox_terminal_expect_exit(terminal, 0);
}
