/* writeFile: wire/PROTOCOL.md. */

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/kind_rows.h"
#include "tests/test.h"

#define WRITE "'kind':'writeFile','path':"

static void run(struct job *job, const struct kind_row *rows, size_t count) {
  job_start_agent(job, NULL);
  kind_rows_run(job, rows, count);
}

JOB_TEST_NO_AGENT(content_arrives_as_it_is) {
  kind_rows_file(job, "old", "much longer than the new one");
  static const struct kind_row rows[] = {
      {WRITE "'new','content':'one\\ntwo\\r\\n \\ud83d\\ude00 \\''", 0, NULL, NULL},
      {WRITE "'$D/old','content':'x'", 0, NULL, NULL},
      {WRITE "'empty','content':''", 0, NULL, NULL},
      {WRITE "'a/b/c/deep','content':'d'", 0, NULL, NULL},
  };
  run(job, rows, sizeof rows / sizeof *rows);
  assert_string_equal(kind_rows_content(job, "new"), "one\ntwo\r\n \xF0\x9F\x98\x80 \"");
  assert_string_equal(kind_rows_content(job, "old"), "x");
  assert_string_equal(kind_rows_content(job, "empty"), "");
  assert_string_equal(kind_rows_content(job, "a/b/c/deep"), "d");
}

JOB_TEST_NO_AGENT(what_the_file_was_it_stays) {
  kind_rows_file(job, "script", "old");
  assert_int_equal(chmod(kind_rows_path(job, "script"), 0751), 0);
  assert_int_equal(chown(kind_rows_path(job, "script"), 1234, 4321), 0);
  kind_rows_file(job, "mark", "\xEF\xBB\xBFold");
  kind_rows_file(job, "sub/target", "old");
  assert_int_equal(symlink("sub/target", kind_rows_path(job, "link")), 0);
  static const struct kind_row rows[] = {
      {WRITE "'script','content':'new'", 0, NULL, NULL},
      {WRITE "'mark','content':'new'", 0, NULL, NULL},
      {WRITE "'link','content':'new'", 0, NULL, NULL},
  };
  run(job, rows, sizeof rows / sizeof *rows);
  struct stat script;
  assert_int_equal(stat(kind_rows_path(job, "script"), &script), 0);
  assert_int_equal(script.st_mode & 07777, 0751);
  assert_int_equal(script.st_uid, 1234);
  assert_int_equal(script.st_gid, 4321);
  assert_string_equal(kind_rows_content(job, "mark"), "\xEF\xBB\xBFnew");
  assert_string_equal(kind_rows_content(job, "sub/target"), "new");
  struct stat link;
  assert_int_equal(lstat(kind_rows_path(job, "link"), &link), 0);
  assert_true(S_ISLNK(link.st_mode));
}

JOB_TEST_NO_AGENT(what_is_no_file_is_refused) {
  assert_int_equal(mkdir(kind_rows_path(job, "directory"), 0777), 0);
  assert_int_equal(mkfifo(kind_rows_path(job, "fifo"), 0666), 0);
  kind_rows_file(job, "file", "");
  static const struct kind_row rows[] = {
      {WRITE "'directory','content':'x'", 1, NULL, "is a directory, not a regular file: directory"},
      {WRITE "'fifo','content':'x'", 1, NULL, "is a FIFO, not a regular file: fifo"},
      {WRITE "'/dev/null','content':'x'", 1, NULL,
       "is a character device, not a regular file: /dev/null"},
      {WRITE "'file/below','content':'x'", 1, NULL,
       "cannot write file (Not a directory): file/below"},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(ten_mebibytes_are_the_most) {
  enum { MOST = 10485760 };
  static const char before[] = WRITE "\"large\",\"content\":\"";
  char *fields = malloc(sizeof before + MOST + 2);
  assert_non_null(fields);
  memcpy(fields, before, sizeof before - 1);
  memset(fields + sizeof before - 1, 'x', MOST + 1);
  memcpy(fields + sizeof before - 1 + MOST + 1, "\"", 2);
  const struct kind_row large = {fields, 1, NULL, "content exceeds 10 MB limit"};
  run(job, &large, 1);
  assert_int_not_equal(access(kind_rows_path(job, "large"), F_OK), 0);
  memcpy(fields + sizeof before - 1 + MOST, "\"", 2);
  const struct kind_row fits = {fields, 0, NULL, NULL};
  kind_rows_run(job, &fits, 1);
  assert_int_equal(strlen(kind_rows_content(job, "large")), MOST);
  free(fields);
}

JOB_TEST_NO_AGENT(a_nul_is_written) {
  static const struct kind_row row = {WRITE "'nul','content':'a\\u0000b'", 0, NULL, NULL};
  job_start_agent(job, NULL);
  /* cJSON's own text would end there. */
  const char *payload = job_json(job, "{'stepId':'nul','workingDirectory':'%s',%s}",
                                 kind_rows_directory(job), row.fields);
  job_push_text(job, payload, strlen(payload));
  job_expect_result(job, job_result(job), 0, NULL, NULL);
  struct stat nul;
  assert_int_equal(stat(kind_rows_path(job, "nul"), &nul), 0);
  assert_int_equal(nul.st_size, 3);
}
