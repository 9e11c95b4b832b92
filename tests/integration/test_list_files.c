/* listFiles: wire/PROTOCOL.md. */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/events.h"
#include "tests/support/kind_rows.h"
#include "tests/test.h"

#define LIST "'kind':'listFiles','path':"

static void run(struct job *job, const struct kind_row *rows, size_t count) {
  job_start_agent(job, NULL);
  kind_rows_run(job, rows, count);
}

/* Its time of modification is so many seconds and milliseconds after 1970. */
static void age(struct job *job, const char *name, time_t seconds, long milliseconds) {
  struct timespec times[2] = {{.tv_sec = seconds, .tv_nsec = milliseconds * 1000000}};
  times[1] = times[0];
  assert_int_equal(utimensat(AT_FDCWD, kind_rows_path(job, name), times, AT_SYMLINK_NOFOLLOW), 0);
}

JOB_TEST_NO_AGENT(entries_are_as_in_the_contract) {
  kind_rows_file(job, "b", "four");
  kind_rows_file(job, "a/deep", "");
  kind_rows_file(job, ".hidden", "x");
  kind_rows_file(job, "quote\"\n", "12");
  age(job, "a/deep", 3, 0);
  age(job, "b", 1777975200, 123);
  age(job, "a", 1, 0);
  age(job, ".hidden", 2, 0);
  age(job, "quote\"\n", 0, 999);
#define A "{'path':'$D/a','mtime':'1970-01-01T00:00:01.000+00:00','is_directory':true}"
#define B                                                                                          \
  "{'path':'$D/b','size_bytes':4,'mtime':'2026-05-05T10:00:00.123+00:00',"                         \
  "'is_directory':false}"
#define HIDDEN                                                                                     \
  "{'path':'$D/.hidden','size_bytes':1,'mtime':'1970-01-01T00:00:02.000+00:00',"                   \
  "'is_directory':false}"
#define QUOTE                                                                                      \
  "{'path':'$D/quote\\'\\n','size_bytes':2,'mtime':'1970-01-01T00:00:00.999+00:00',"               \
  "'is_directory':false}"
#define DEEP                                                                                       \
  "{'path':'$D/a/deep','size_bytes':0,'mtime':'1970-01-01T00:00:03.000+00:00',"                    \
  "'is_directory':false}"
  static const struct kind_row rows[] = {
      {LIST "'.'", 0, "[" HIDDEN "," A "," B "," QUOTE "]", NULL},
      {LIST "'$D'", 0, "[" HIDDEN "," A "," B "," QUOTE "]", NULL},
      {LIST "'$D/.//','maxDepth':0", 0, "[" HIDDEN "," A "," B "," QUOTE "]", NULL},
      {LIST "'.','maxDepth':2", 0, "[" HIDDEN "," A "," DEEP "," B "," QUOTE "]", NULL},
      {LIST "'.','sortBy':'mtime'", 0, "[" B "," HIDDEN "," A "," QUOTE "]", NULL},
      {LIST "'.','sortBy':'mtime','maxDepth':9", 0, "[" B "," DEEP "," HIDDEN "," A "," QUOTE "]",
       NULL},
      {LIST "'a','sortBy':'name'", 0, "[" DEEP "]", NULL},
      {LIST "'a','withSizes':false", 0,
       "[{'path':'$D/a/deep','mtime':'1970-01-01T00:00:03.000+00:00',"
       "'is_directory':false}]",
       NULL},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(the_largest_come_first) {
  kind_rows_file(job, "d/small", "1");
  kind_rows_file(job, "d/large", "1234567890");
  kind_rows_file(job, "d/medium", "12345");
  job_start_agent(job, NULL);
  const cJSON *result = job_run(job, kind_rows_step(job, LIST "'d','sortBy':'size'"));
  const cJSON *entries = job_own(job, cJSON_Parse(job_text(result, "outputContent")));
  static const char *const names[] = {"d/large", "d/medium", "d/small"};
  assert_int_equal(cJSON_GetArraySize(entries), 3);
  for (int i = 0; i < 3; i++)
    assert_string_equal(job_text(cJSON_GetArrayItem(entries, i), "path"),
                        kind_rows_path(job, names[i]));
}

JOB_TEST_NO_AGENT(what_is_no_directory_is_refused) {
  kind_rows_file(job, "file", "");
  assert_int_equal(mkdir(kind_rows_path(job, "empty"), 0777), 0);
  static const struct kind_row rows[] = {
      {LIST "'empty'", 0, "[]", NULL},
      {LIST "'none'", 1, NULL, "directory not found: none"},
      {LIST "'file'", 1, NULL, "is a regular file, not a directory: file"},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(at_most_a_thousand) {
  for (int i = 0; i < 1000; i++)
    kind_rows_file(job, job_format(job, "many/%04d", i), "");
  job_start_agent(job, NULL);
  for (int more = 0; more < 2; more++) {
    if (more == 1)
      kind_rows_file(job, "many/0500a", "");
    const cJSON *step = kind_rows_step(job, LIST "'many'");
    const cJSON *result = job_run(job, step);
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
    const cJSON *entries = job_own(job, cJSON_Parse(job_text(result, "outputContent")));
    assert_int_equal(cJSON_GetArraySize(entries), 1000);
    assert_string_equal(events_lines(job, step, "stderr"),
                        more == 0 ? "" : "directory truncated at 1000 entries\n");
    assert_string_equal(job_text(cJSON_GetArrayItem(entries, 999), "path"),
                        kind_rows_path(job, more == 0 ? "many/0999" : "many/0998"));
  }
}

JOB_TEST_NO_AGENT(what_is_missing_is_told) {
  kind_rows_deep_file(job);
  job_start_agent(job, NULL);
  for (int many = 0; many < 2; many++) {
    for (int i = 0; i < 1000 * many; i++)
      kind_rows_file(job, job_format(job, "many/%04d", i), "");
    const cJSON *step = kind_rows_step(job, LIST "'.','maxDepth':1000");
    const cJSON *result = job_run(job, step);
    assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 0);
    assert_string_equal(events_lines(job, step, "stderr"),
                        many == 0 ? "1 directories could not be looked into\n"
                                  : "directory truncated at 1000 entries; "
                                    "1 directories could not be looked into\n");
  }
}
