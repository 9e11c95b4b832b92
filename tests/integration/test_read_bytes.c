/* readBytes: any part of any file, as base64. */

#include "tests/support/encoded.h"
#include "tests/support/kind_rows.h"
#include "tests/test.h"

#define READ "'kind':'readBytes','path':"

enum { MOST = 4194304 };

static void write_bytes(struct job *job, const char *name, const char *bytes, size_t length) {
  kind_rows_file(job, name, "");
  int fd = open(kind_rows_path(job, name), O_WRONLY | O_CLOEXEC);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, length), length);
  close(fd);
}

JOB_TEST(read_bytes_returns_base64) {
  write_bytes(job, "bytes", "\0\xFF\xFEz", 4);
  kind_rows_file(job, "empty", "");
  assert_int_equal(symlink("bytes", kind_rows_path(job, "link")), 0);
  static const struct kind_row rows[] = {
      {READ "'bytes'", 0, "{'size':4,'content':'AP/+eg=='}", NULL},
      {READ "'link'", 0, "{'size':4,'content':'AP/+eg=='}", NULL},
      {READ "'$D/bytes','offset':0,'length':0", 0, "{'size':4,'content':'AP/+eg=='}", NULL},
      {READ "'bytes','offset':null,'length':null", 0, "{'size':4,'content':'AP/+eg=='}", NULL},
      {READ "'bytes','offset':-5,'length':-1", 0, "{'size':4,'content':'AP/+eg=='}", NULL},
      {READ "'bytes','offset':1,'length':2", 0, "{'size':4,'content':'//4='}", NULL},
      {READ "'bytes','offset':3,'length':4194304", 0, "{'size':4,'content':'eg=='}", NULL},
      {READ "'bytes','offset':4", 0, "{'size':4,'content':''}", NULL},
      {READ "'bytes','offset':5", 0, "{'size':4,'content':''}", NULL},
      {READ "'bytes','offset':9007199254740991,'length':1", 0, "{'size':4,'content':''}", NULL},
      {READ "'empty'", 0, "{'size':0,'content':''}", NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

/* The file has many gibibytes, most of which are a hole. */
JOB_TEST(read_bytes_reads_files_of_many_gibibytes) {
  kind_rows_file(job, "large", "");
  int fd = open(kind_rows_path(job, "large"), O_WRONLY | O_CLOEXEC);
  assert_int_equal(pwrite(fd, "end", 3, INT64_C(20000000000)), 3);
  close(fd);
  static const struct kind_row rows[] = {
      {READ "'large','offset':19999999999", 0, "{'size':20000000003,'content':'AGVuZA=='}", NULL},
      {READ "'large','offset':20000000001,'length':1", 0, "{'size':20000000003,'content':'bg=='}",
       NULL},
      {READ "'large','offset':20000000003", 0, "{'size':20000000003,'content':''}", NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

JOB_TEST(read_bytes_returns_at_most_four_mebibytes) {
  enum { LENGTH = MOST + 5 };
  char *bytes = malloc(LENGTH);
  assert_non_null(bytes);
  for (size_t i = 0; i < LENGTH; i++)
    bytes[i] = (char)(i * 2654435761U >> 11);
  write_bytes(job, "file", bytes, LENGTH);
  char *first = encoded(bytes, MOST), *rest = encoded(bytes + MOST, 5);
  const struct kind_row rows[] = {
      {READ "'file'", 0, job_format(job, "{'size':%d,'content':'%s'}", LENGTH, first), NULL},
      {READ "'file','offset':4194304", 0,
       job_format(job, "{'size':%d,'content':'%s'}", LENGTH, rest), NULL},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  free(first);
  free(rest);
  free(bytes);
}

JOB_TEST(read_bytes_rejects_invalid_fields) {
  static const char *const rows[][2] = {
      {"'path':'x','length':4194305", "length: expected a whole number up to 4194304, got 4194305"},
      {"'path':'x','length':1.5", "length: expected a whole number up to 4194304, got 1.5"},
      {"'path':'x','length':'1'", "length: expected a whole number up to 4194304, got a string"},
      {"'path':'x','offset':0.5",
       "offset: expected a whole number up to 9007199254740991, got 0.5"},
      {"'path':'x','offset':9007199254740993",
       "offset: expected a whole number up to 9007199254740991, got 9007199254740992"},
      {"'path':'x','offset':true",
       "offset: expected a whole number up to 9007199254740991, got a boolean"},
      {"'path':''", "path: expected a non-empty string, got an empty string"},
      {"'offset':1", "path: expected a non-empty string, got nothing"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    job_push_json(job, job_format(job, "{'stepId':'s','kind':'readBytes',%s}", rows[i][0]));
    job_expect_result(job, job_result(job), -1, rows[i][1], NULL);
  }
}

JOB_TEST(read_bytes_names_a_file_that_it_cannot_read) {
  kind_rows_file(job, "directory/file", "");
  assert_int_equal(mkfifo(kind_rows_path(job, "fifo"), 0666), 0);
  static const struct kind_row rows[] = {
      {READ "'none'", 1, NULL, "file not found: $D/none"},
      {READ "'directory/file/x'", 1, NULL, "file not found: $D/directory/file/x"},
      {READ "'directory'", 1, NULL, "is a directory, not a regular file: $D/directory"},
      {READ "'fifo'", 1, NULL, "is a FIFO, not a regular file: $D/fifo"},
      {READ "'/dev/zero'", 1, NULL, "is a character device, not a regular file: /dev/zero"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
}

/* stat() reports the size 0 for this file. */
JOB_TEST(read_bytes_reads_files_of_proc) {
  const cJSON *result = job_run(job, kind_rows_step(job, READ "'/proc/self/comm'"));
  job_expect_part(job, result, "outputContent", "\"content\":\"");
  const char *content = job_text(result, "outputContent");
  cJSON *answer = job_own(job, cJSON_Parse(content));
  assert_non_null(answer);
  assert_true(cJSON_GetObjectItem(answer, "size")->valueint > 0);
  assert_true(strlen(job_text(answer, "content")) > 0);
}
