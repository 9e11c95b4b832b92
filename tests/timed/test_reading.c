/* A read-only step that ends within 100 ms, before its start is announced, sends its events and its
   result in one transaction. */

#include "tests/support/job.h"
#include "tests/support/kind_rows.h"

/* The commands of the transactions: "xadd xadd lpush". */
struct transactions {
  char text[4096];
};

/* Reads until the next LPUSH to `results` was executed; each transaction becomes a line. MONITOR
   shows the commands of a transaction when it is executed. */
static void follow(redisContext *monitor, struct transactions *out) {
  bool answered = false, executed = false;
  out->text[0] = '\0';
  while (!answered || !executed) {
    redisReply *line = NULL;
    assert_int_equal(redisGetReply(monitor, (void **)&line), REDIS_OK);
    const char *command = strchr(line->str, ']');
    char name[32] = "";
    assert_non_null(command);
    assert_int_equal(sscanf(command, "] \"%31[^\"]\"", name), 1);
    bool is_answer = strcasecmp(name, "lpush") == 0 && strstr(command, ":results\"") != NULL;
    answered |= is_answer;
    executed = strcasecmp(name, "exec") == 0;
    if (executed)
      strcat(out->text, "\n");
    else if (is_answer || strcasecmp(name, "xadd") == 0)
      strcat(strcat(out->text, name), " ");
    freeReplyObject(line);
    assert_true(strlen(out->text) < sizeof out->text - 64);
  }
}

static const char *const fields[] = {
    "'kind':'readFile','path':'file'",   "'kind':'readBytes','path':'file'",
    "'kind':'listFiles','path':'.'",     "'kind':'grep','path':'.','pattern':'content'",
    "'kind':'directoryTree','path':'.'",
};

/* On a busy machine a step may take longer than 100 ms, and is then announced before. */
static void expect_transaction(struct job *job, const char *field, int exit_code,
                               const char *commands) {
  redisContext *monitor = redis_server_connect(job->server);
  freeReplyObject(redisCommand(monitor, "MONITOR"));
  struct transactions seen = {.text = ""};
  for (int64_t end = wait_now_ms() + WAIT_BOUND_MS;
       strcasecmp(seen.text, commands) != 0 && wait_now_ms() < end;) {
    job_push(job, kind_rows_step(job, field));
    follow(monitor, &seen);
    assert_int_equal(cJSON_GetObjectItem(job_result(job), "exitCode")->valueint, exit_code);
  }
  redisFree(monitor);
  if (strcasecmp(seen.text, commands) != 0)
    job_fail(job, "%s: `%s`", field, seen.text);
}

JOB_TEST(a_read_only_step_is_one_transaction) {
  kind_rows_file(job, "file", "content\n");
  job_run(job, job_step(job, "true", NULL));
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    expect_transaction(job, fields[i], 0, "xadd xadd lpush \n");
}

/* A failure has one more event. */
JOB_TEST(a_failed_read_only_step_is_one_transaction) {
  kind_rows_file(job, "file", "content\n");
  job_run(job, job_step(job, "true", NULL));
  expect_transaction(job, "'kind':'readFile','path':'none'", 1, "xadd xadd xadd lpush \n");
}

/* The start of a kind that changes something is acknowledged before it begins. */
JOB_TEST(a_writing_step_waits_for_the_acknowledgement_of_its_start) {
  static const char *const writing[] = {
      "'kind':'writeFile','path':'new','content':'x'",
      "'kind':'writeBytes','path':'new','content':'eA=='",
      "'kind':'writeBytes','path':'new','content':'eA==','append':true",
  };
  (void)kind_rows_directory(job);
  job_run(job, job_step(job, "true", NULL));
  redisContext *monitor = redis_server_connect(job->server);
  freeReplyObject(redisCommand(monitor, "MONITOR"));
  for (size_t i = 0; i < sizeof writing / sizeof *writing; i++) {
    job_push(job, kind_rows_step(job, writing[i]));
    struct transactions seen;
    follow(monitor, &seen);
    assert_int_equal(strncasecmp(seen.text, "xadd \n", 6), 0);
    job_result(job);
  }
  redisFree(monitor);
}
