/* How soon the client says why nothing happens, and how soon it gives up. */

#include "tests/support/sandbox_client.h"
#include "tests/test.h"

enum { REFUSED_MS = 1000, AWAY_MS = 12000, GONE_MS = 60000, CHECK_MS = 3000 };

JOB_TEST_NO_AGENT(a_refused_connection_is_reported_within_1_s) {
  redis_server_kill(job->server);
  const int64_t begin_ms = wait_now_ms();
  struct agent_process *client = sandbox_start(job, "exec $S ps");
  agent_process_wait_log(client, "; retrying for up to 15 s\n");
  assert_true(wait_now_ms() <= begin_ms + REFUSED_MS);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), 125);
  agent_process_free(client);
}

/* The agent has set its last heartbeat up to 2 s before its end. */
JOB_TEST(a_missing_heartbeat_is_reported_after_12_s_and_ends_run_after_60_s) {
  struct agent_process *client = sandbox_start(job, "exec $S run -c 'echo up; exec sleep 600'");
  struct agent_process *follow = sandbox_start(job, "exec $S follow");
  sandbox_wait_output(client, "up\n");
  job_kill_agent(job);
  const int64_t begin_ms = wait_now_ms();
  agent_process_wait_log(client, "no heartbeat for 12 s");
  agent_process_wait_log(follow, "no heartbeat for 12 s");
  const int64_t away_ms = wait_now_ms() - begin_ms;
  assert_int_equal(agent_process_wait(client, GONE_MS + 2 * CHECK_MS), 125);
  const int64_t gone_ms = wait_now_ms() - begin_ms;
  assert_non_null(strstr(agent_process_log(client), " has no result, and may still run\n"));
  print_message("reported after %lld ms, gave up after %lld ms\n", (long long)away_ms,
                (long long)gone_ms);
  assert_in_range(away_ms, AWAY_MS - CHECK_MS, AWAY_MS + CHECK_MS);
  assert_in_range(gone_ms, GONE_MS - CHECK_MS, GONE_MS + CHECK_MS);
  assert_true(agent_process_is_running(follow));
  agent_process_free(client);
  agent_process_free(follow);
}

/* A step that waits has no events. */
JOB_TEST(a_closed_pipe_ends_the_wait_for_a_waiting_step) {
  (void)job_push_endless(job, job_sleep(job, 600));
  const int64_t begin_ms = wait_now_ms();
  sandbox_expect(job, "$S run -- true | true", 0, "", NULL);
  assert_true(wait_now_ms() <= begin_ms + 2 * CHECK_MS);
  sandbox_wait_steps(job, 1);
}

/* Meanwhile the client does not look for the heartbeat. The output is larger than a pipe. */
JOB_TEST(a_reader_that_pauses_is_no_missing_heartbeat) {
  sandbox_expect(job,
                 "{ $S run -c 'yes | head -n 150000 | tr -d \"\\n\" | fold -w 5000; sleep 1; echo; "
                 "echo end' 2>&3 | { sleep 14; tail -n 1; }; } 3>&1",
                 0, "end\n", "");
}
