/* Readers that poll: what they see of fast output. */

#include "tests/support/october_server.h"
#include "tests/test.h"

TEST_OVERLAP(2)

/* Readers and the agent's rate limit are SLOWNESS times slower than in production, where a server
   reads 10,000 entries each 250 ms and the agent prints 20,000 lines a second. On a busy machine a
   read then takes a smaller part of the time. */
enum { SLOWNESS = 5, POLL_MS = SLOWNESS * OCTOBER_POLL_MS };
#define PACE "4000"

/* A later read is due to a busy machine, and proves nothing. */
enum { LATE_MAX_MS = SLOWNESS * 100, ATTEMPTS = 4 };

/* Reads like a server of the first version: 10,000 entries at a time, until `completed` has
   arrived. Returns whether each event arrived. Fails if one is missing although all reads were in
   time. */
static bool polls_all(struct job *job, long long lines, int poll_ms) {
  char last[64] = "0";
  long long seq = 0, lost = 0;
  int late_ms = 0;
  int64_t read_ms = wait_now_ms();
  const struct timespec rhythm = {poll_ms / 1000, poll_ms % 1000 * 1000000L};
  for (bool completed = false; !completed; nanosleep(&rhythm, NULL)) {
    redisReply *reply =
        redisCommand(job->redis, "XREAD COUNT 10000 STREAMS sandbox:%s:events %s", job->id, last);
    assert_non_null(reply);
    int took_ms = (int)(wait_now_ms() - read_ms);
    late_ms = took_ms - poll_ms > late_ms ? took_ms - poll_ms : late_ms;
    read_ms += took_ms;
    for (size_t i = 0;
         reply->type == REDIS_REPLY_ARRAY && i < reply->element[0]->element[1]->elements; i++) {
      const redisReply *entry = reply->element[0]->element[1]->element[i];
      const char *event = entry->element[1]->element[1]->str;
      long long found = strtoll(strstr(event, "\"seq\":") + strlen("\"seq\":"), NULL, 10);
      if (found != seq + 1 && late_ms <= LATE_MAX_MS)
        job_fail(job, "after event %lld comes %s", seq, event);
      lost += found - seq - 1;
      seq = found;
      completed = strstr(event, "\"kind\":\"completed\"") != NULL;
      snprintf(last, sizeof last, "%s", entry->element[0]->str);
    }
    freeReplyObject(reply);
  }
  assert_int_equal(seq, lines + 2);
  return lost == 0;
}

static void expect_all_polled(struct job *job, long long lines, int poll_ms) {
  for (int attempt = 1;; attempt++) {
    const cJSON *step = job_step(job, "seq", job_format(job, "%lld", lines), NULL);
    job_push(job, step);
    bool is_whole = polls_all(job, lines, poll_ms);
    (void)job_result(job);
    if (is_whole)
      return;
    assert_true(attempt < ATTEMPTS);
    job_do(job, "DEL sandbox:%s:events", job->id); /* left by the attempt */
  }
}

/* The server of October has one position in the stream for all steps. */
static bool sees(struct october_server *server, const char *script, const char *expected) {
  const struct october_answer *answer = october_run_script(server, script);
  return answer->started == 1 && answer->completed == 1 && answer->output.text != NULL &&
         strcmp(answer->output.text, expected) == 0;
}

static char *numbers(struct job *job, int last) {
  enum { LINE_MAX = 8 };
  char *text = malloc((size_t)last * LINE_MAX + 1), *end = text;
  assert_non_null(text);
  for (int i = 1; i <= last; i++)
    end += sprintf(end, "%d\n", i);
  return job_own_text(job, text);
}

static void expect_all_of_run(struct october_server *server, int lines) {
  struct job *job = server->job;
  const char *script = job_format(job, "seq %d", lines), *expected = numbers(job, lines);
  october_start_agent(server, "--events-pace", PACE, NULL);
  server->poll_ms = POLL_MS;
  for (int attempt = 1;; attempt++) {
    server->slowest_ms = 0;
    if (sees(server, script, expected) && sees(server, "echo next", "next\n"))
      return;
    if (server->slowest_ms <= LATE_MAX_MS || attempt == ATTEMPTS)
      job_fail(job,
               "not all of %d lines and of the next step are seen; the latest look: %d ms late",
               lines, server->slowest_ms);
    job_do(job, "DEL sandbox:%s:events", job->id); /* left by the attempt */
  }
}

OCTOBER_TEST_NO_AGENT(the_server_of_october_sees_20001_lines_and_the_next_step) {
  expect_all_of_run(server, 20001);
}

OCTOBER_TEST_NO_AGENT(the_server_of_october_sees_50000_lines_and_the_next_step) {
  expect_all_of_run(server, 50000);
}

OCTOBER_TEST_NO_AGENT(the_server_of_october_sees_100000_lines_and_the_next_step) {
  expect_all_of_run(server, 100000);
}

JOB_TEST(a_polling_reader_sees_a_burst) {
  expect_all_polled(job, 31350, OCTOBER_POLL_MS);
}

JOB_TEST_NO_AGENT(a_polling_reader_sees_everything_at_a_rate_limit) {
  job_start_agent(job, "--events-pace", PACE, NULL);
  expect_all_polled(job, 50000, POLL_MS);
}
