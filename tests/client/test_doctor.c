/* sandbox doctor: what is wrong, and what mends it. */
#include <string.h>

#include "tests/support/sandbox_client.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* A line of its output begins so, and has the fix. */
static void expect_finding(struct job *job, const char *command, int code, const char *beginning,
                           const char *fix) {
  struct agent_process *client = sandbox_start(job, command);
  assert_int_equal(agent_process_wait(client, WAIT_BOUND_MS), code);
  const char *line = strstr(agent_process_output(client), beginning);
  if (line == NULL)
    job_fail(job, "no '%s' in\n%s", beginning, agent_process_output(client));
  const char *end = strchr(line, '\n'), *found = strstr(line, fix);
  if (found == NULL || found > end)
    job_fail(job, "no '%s' in\n%s", fix, agent_process_output(client));
  assert_null(strstr(agent_process_output(client), "s3cret"));
  agent_process_free(client);
}

JOB_TEST(all_is_well) {
  sandbox_expect(job, "$S doctor | cut -c1-3 | sort -u", 0, "✓\n", "");
  sandbox_expect(job,
                 "$S doctor --json | grep -v '^{\"level\":\"ok\",\"text\":\".*\",\"fix\":null}$'",
                 1, "", "");
  expect_finding(job, "$S doctor", 0, "✓ agent ", "; its clock is 0.0s ");
}

JOB_TEST(rights_that_lack_are_named) {
  job_do(job,
         "ACL SETUSER narrow on >s3cret ~sandbox:* +get +llen +lpush +lrem +xread +acl|dryrun");
  const char *command = "$S -u redis://narrow:s3cret@127.0.0.1:${REDIS_URL##*:} doctor";
  expect_finding(job, command, 1, "✗ ACL: the user may not LRANGE, XREVRANGE",
                 "→ ACL SETUSER narrow +lrange +xrevrange");
  job_do(job, "ACL SETUSER narrow -acl");
  expect_finding(job, command, 1, "✗ ACL: the user may not LRANGE, XREVRANGE",
                 "→ ACL SETUSER narrow +lrange +xrevrange");
  job_do(job, "ACL SETUSER narrow resetkeys ~other:* +@all");
  expect_finding(job, command, 1, "✗ ACL: the user may not use the job's keys",
                 "→ ACL SETUSER narrow ~sandbox:");
}

JOB_TEST(a_server_that_is_not_there_is_a_finding) {
  expect_finding(job, "$S -u redis://127.0.0.1:1 doctor", 1, "✗ cannot connect to 127.0.0.1:1",
                 "→ start redis-server");
  expect_finding(job, "$S -u redis://u:s3cret@127.0.0.1:${REDIS_URL##*:} doctor", 1, "✗ redis at",
                 "→ -u redis://USER:PASSWORD@");
}

JOB_TEST_NO_AGENT(what_nobody_answers_is_a_finding) {
  const char *in = job_format(job, "sandbox:%s:inflight", job->id);
  expect_finding(job, "$S doctor", 0, "! no agent: no heartbeat, and no step waits", "→ agent ");
  job_do(job, "LPUSH %s %s", in, "{}");
  job_do(job, "SET %s %s", job_format(job, "sandbox:%s:started", job->id), "x");
  expect_finding(job, "$S doctor", 1, "✗ no agent: no heartbeat, and 1 step was taken and not",
                 "as interrupted   → agent ");
}

/* An agent ends by it. */
JOB_TEST_NO_AGENT(a_key_of_a_wrong_type_is_a_finding) {
  job_do(job, "SET %s x", job_format(job, "sandbox:%s:results", job->id));
  expect_finding(job, "$S doctor", 1, job_format(job, "✗ sandbox:%s:results is a string", job->id),
                 "→ RENAME");
}

JOB_TEST(what_a_server_does_not_read_is_a_warning) {
  job_do(job, "EVAL %s 0",
         job_format(job,
                    "for i=1,1204 do redis.call('lpush','sandbox:%s:results','x') end "
                    "for i=1,9950 do redis.call('xadd','sandbox:%s:events','*','data','{}') end",
                    job->id, job->id));
  expect_finding(job, "$S doctor", 0, "! 1,204 results wait", "→ LRANGE");
  expect_finding(job, "$S doctor", 0, "! events: 9,950 of 10,000, oldest ",
                 "→ agent --events-maxlen");
}

JOB_TEST(a_server_that_evicts_is_a_finding) {
  job_do(job, "CONFIG SET maxmemory-policy volatile-lru");
  expect_finding(job, "$S doctor", 0, "! maxmemory-policy volatile-lru",
                 "→ CONFIG SET maxmemory-policy noeviction");
  job_do(job, "CONFIG SET maxmemory 1gb");
  expect_finding(job, "$S doctor", 1, "✗ maxmemory-policy volatile-lru",
                 "→ CONFIG SET maxmemory-policy noeviction");
}

JOB_TEST_NO_AGENT(without_a_job_it_looks_at_the_server) {
  expect_finding(job, "env -u JOB_ID $S doctor", 0, "! no job was looked at", "→ sandbox -j JOB");
}
