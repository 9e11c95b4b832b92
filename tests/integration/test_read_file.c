/* readFile: wire/PROTOCOL.md. */

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/kind_rows.h"
#include "tests/test.h"

#define READ "'kind':'readFile','path':"

static void run(struct job *job, const struct kind_row *rows, size_t count) {
  job_start_agent(job, NULL);
  kind_rows_run(job, rows, count);
}

JOB_TEST_NO_AGENT(text_comes_as_it_is) {
  kind_rows_file(job, "text", "one\ntwo\r\n\n  four \"\\");
  kind_rows_file(job, "empty", "");
  kind_rows_file(job, "mark", "\xEF\xBB\xBFone\n");
  kind_rows_file(job, "sub/caf\xC3\xA9", "\xF0\x9F\x98\x80\n");
  assert_int_equal(symlink("sub/caf\xC3\xA9", kind_rows_path(job, "link")), 0);
  static const struct kind_row rows[] = {
      {READ "'text'", 0, "one\ntwo\r\n\n  four '\\", NULL},
      {READ "'$D/text'", 0, "one\ntwo\r\n\n  four '\\", NULL},
      {READ "'./sub/../text'", 0, "one\ntwo\r\n\n  four '\\", NULL},
      {READ "'empty'", 0, "", NULL},
      {READ "'mark'", 0, "one\n", NULL},
      {READ "'sub/caf\\u00e9'", 0, "\xF0\x9F\x98\x80\n", NULL},
      {READ "'link'", 0, "\xF0\x9F\x98\x80\n", NULL},
      {READ "'/proc/self/comm'", 0, "readFile\n", NULL},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(lines_are_cut_and_numbered) {
  kind_rows_file(job, "ten", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
  kind_rows_file(job, "open", "a\nb");
  static const struct kind_row rows[] = {
      {READ "'ten','startLine':9", 0, "i\nj\n", NULL},
      {READ "'ten','startLine':2,'lineCount':1", 0, "b\n", NULL},
      {READ "'ten','lineCount':2", 0, "a\nb\n", NULL},
      {READ "'ten','startLine':0,'lineCount':0", 0, "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", NULL},
      {READ "'ten','startLine':-3,'lineCount':1", 0, "a\n", NULL},
      {READ "'ten','startLine':11", 0, "", NULL},
      {READ "'ten','startLine':2147483647,'lineCount':2147483647", 0, "", NULL},
      {READ "'ten','startLine':9,'withLineNumbers':true", 0, " 9\ti\n10\tj\n", NULL},
      {READ "'open','withLineNumbers':true", 0, "1\ta\n2\tb", NULL},
      {READ "'open','startLine':2,'lineCount':5", 0, "b", NULL},
  };
  run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST_NO_AGENT(what_is_no_file_is_refused_at_once) {
  assert_int_equal(mkdir(kind_rows_path(job, "directory"), 0777), 0);
  assert_int_equal(mkfifo(kind_rows_path(job, "fifo"), 0666), 0);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, kind_rows_path(job, "socket"), sizeof address.sun_path - 1);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(symlink("loop", kind_rows_path(job, "loop")), 0);
  kind_rows_file(job, "binary", "a\xFF\n");
  static const struct kind_row rows[] = {
      {READ "'none'", 1, NULL, "file not found: none"},
      {READ "'no/such/$$file'", 1, NULL, "file not found: no/such/$$file"},
      {READ "'$D/none'", 1, NULL, "file not found: $D/none"},
      {READ "'binary/below'", 1, NULL, "file not found: binary/below"},
      {READ "'binary'", 1, NULL, "binary or non-UTF-8 content not supported"},
      {READ "'directory'", 1, NULL, "is a directory, not a regular file: directory"},
      {READ "'fifo'", 1, NULL, "is a FIFO, not a regular file: fifo"},
      {READ "'socket'", 1, NULL, "is a socket, not a regular file: socket"},
      {READ "'/dev/zero'", 1, NULL, "is a character device, not a regular file: /dev/zero"},
  };
  run(job, rows, sizeof rows / sizeof *rows);
  /* The C library has its own words for it. */
  const cJSON *result = job_run(job, kind_rows_step(job, READ "'loop'"));
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, 1);
  job_expect_part(job, result, "errorMessage", "cannot read file (");
  close(listener);
}

JOB_TEST_NO_AGENT(a_mebibyte_is_the_most) {
  enum { MOST = 1048576 };
  char *content = malloc(MOST + 2);
  assert_non_null(content);
  memset(content, 'x', MOST + 1);
  content[MOST + 1] = '\0';
  kind_rows_file(job, "large", content);
  content[MOST] = '\0';
  kind_rows_file(job, "fits", content);
  const struct kind_row rows[] = {
      {READ "'fits'", 0, content, NULL},
      {READ "'large'", 1, NULL, "file exceeds 1 MB limit"},
      {READ "'large','lineCount':1", 1, NULL, "file exceeds 1 MB limit"},
  };
  run(job, rows, sizeof rows / sizeof *rows);
  free(content);
}
