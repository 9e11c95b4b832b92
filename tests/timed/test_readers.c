/* Readers that poll: what they see of output that comes faster than they read. */

#include <time.h>

#include "tests/support/job.h"
#include "tests/test.h"

/* As a server of the first version reads: 10,000 entries each 250 ms. Every event of the step is
   there, the last one is `completed`. */
static void expect_all_polled(struct job *job, long long lines) {
  char last[64] = "0";
  long long seq = 0;
  const struct timespec rhythm = {.tv_nsec = 250000000};
  for (bool completed = false; !completed; nanosleep(&rhythm, NULL)) {
    redisReply *reply =
        redisCommand(job->redis, "XREAD COUNT 10000 STREAMS sandbox:%s:events %s", job->id, last);
    assert_non_null(reply);
    for (size_t i = 0;
         reply->type == REDIS_REPLY_ARRAY && i < reply->element[0]->element[1]->elements; i++) {
      const redisReply *entry = reply->element[0]->element[1]->element[i];
      const char *event = entry->element[1]->element[1]->str;
      long long found = strtoll(strstr(event, "\"seq\":") + strlen("\"seq\":"), NULL, 10);
      if (found != ++seq)
        job_fail(job, "after event %lld comes %s", seq - 1, event);
      completed = strstr(event, "\"kind\":\"completed\"") != NULL;
      snprintf(last, sizeof last, "%s", entry->element[0]->str);
    }
    freeReplyObject(reply);
  }
  assert_int_equal(seq, lines + 2);
}

JOB_TEST(a_reader_that_polls_sees_a_burst) {
  job_push(job, job_step(job, "seq", "-f", "+ %.0f of a commit, as git prints it", "31350", NULL));
  expect_all_polled(job, 31350);
}

JOB_TEST_NO_AGENT(at_a_pace_a_reader_that_polls_sees_everything) {
  job_start_agent(job, "--events-pace", "20000", NULL);
  job_push(job, job_step(job, "seq", "100000", NULL));
  expect_all_polled(job, 100000);
}
