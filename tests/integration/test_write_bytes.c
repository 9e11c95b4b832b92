/* writeBytes: the chunks of a file, one step each. */

#include "tests/support/as_user.h"
#include "tests/support/encoded.h"
#include "tests/support/job.h"
#include "tests/support/kind_rows.h"

#define BYTES "'kind':'writeBytes','path':"
#define INTERRUPTED "interrupted: the agent ended while this step was running"

enum { CHUNK_MAX = 4194304, FILE_MAX = 26214400 };

static bool has(struct job *job, const char *name) {
  return access(kind_rows_path(job, name), F_OK) == 0;
}

static off_t size_of(struct job *job, const char *name) {
  struct stat file;
  assert_int_equal(stat(kind_rows_path(job, name), &file), 0);
  return file.st_size;
}

static void run_row(struct job *job, struct kind_row row) {
  kind_rows_run(job, &row, 1);
}

static void succeeds(struct job *job, const char *fields) {
  run_row(job, (struct kind_row){fields, 0, NULL, NULL});
}

/* The step succeeds, and leaves this content in the file `name`. */
static void leaves(struct job *job, const char *fields, const char *name, const char *content) {
  succeeds(job, fields);
  assert_string_equal(kind_rows_content(job, name), content);
}

JOB_TEST(write_bytes_builds_a_file_of_chunks) {
  leaves(job, BYTES "'docs/a.tmp','content':'Zm9v','append':false", "docs/a.tmp", "foo");
  leaves(job, BYTES "'docs/a.tmp','content':'YmFy','append':true", "docs/a.tmp", "foobar");
  leaves(job, BYTES "'docs/a.tmp','content':'IQ==','append':true,'renameTo':'docs/a'", "docs/a",
         "foobar!");
  assert_false(has(job, "docs/a.tmp"));
  /* A first chunk replaces an existing file. */
  leaves(job, BYTES "'docs/a','content':'eA=='", "docs/a", "x");
}

/* The content is checked before a file is made. */
JOB_TEST(invalid_base64_changes_nothing) {
  succeeds(job, BYTES "'f','content':'Zm9v'");
  const char *payload =
      job_json(job, "{'stepId':'nul','workingDirectory':'%s'," BYTES "'f','content':'Z\\u0000=='}",
               kind_rows_directory(job));
  job_push_text(job, payload, strlen(payload));
  job_expect_result(job, job_result(job), 1, "content is not base64", NULL);
  assert_string_equal(kind_rows_content(job, "f"), "foo");
  run_row(job, (struct kind_row){BYTES "'new/f','content':'!'", 1, NULL, "content is not base64"});
  assert_false(has(job, "new"));
}

/* Pushes a step with this many bytes of content; `+` is escaped as servers do. */
static void push_bytes(struct job *job, const char *id, const char *fields, size_t length) {
  char *bytes = malloc(length), *payload = malloc(8 * length + 1000);
  assert_true(bytes != NULL && payload != NULL);
  for (size_t i = 0; i < length; i++)
    bytes[i] = (char)(i * 2654435761U >> 11);
  char *text = encoded(bytes, length);
  char *out =
      payload + sprintf(payload, "%s\"",
                        job_json(job, "{'stepId':'%s','workingDirectory':'%s',%s,'content':", id,
                                 kind_rows_directory(job), fields));
  for (const char *at = text; *at != '\0'; at++)
    out = *at == '+' ? stpcpy(out, "\\u002B") : (*out = *at, out + 1);
  out = stpcpy(out, "\"}");
  job_push_text(job, payload, (size_t)(out - payload));
  free(bytes);
  free(text);
  free(payload);
}

static void make_large(struct job *job, const char *name, off_t size) {
  kind_rows_file(job, name, "");
  assert_int_equal(truncate(kind_rows_path(job, name), size), 0);
}

JOB_TEST(a_file_has_at_most_25_mebibytes) {
  static const char limit[] = "the file would exceed the 26214400-byte limit";
  make_large(job, "f", FILE_MAX - 3);
  run_row(job, (struct kind_row){BYTES "'f','content':'Zm9vYg==','append':true", 1, NULL, limit});
  assert_int_equal(size_of(job, "f"), FILE_MAX - 3);
  succeeds(job, BYTES "'f','content':'Zm9v','append':true");
  assert_int_equal(size_of(job, "f"), FILE_MAX);
  run_row(job, (struct kind_row){BYTES "'f','content':'Zg==','append':true", 1, NULL, limit});
  succeeds(job, BYTES "'f','content':'','append':true");
  /* Also through a link. */
  assert_int_equal(symlink("f", kind_rows_path(job, "link")), 0);
  run_row(job, (struct kind_row){BYTES "'link','content':'Zg==','append':true", 1, NULL, limit});
  assert_int_equal(size_of(job, "f"), FILE_MAX);
  /* A file that is replaced does not count. */
  succeeds(job, BYTES "'f','content':'Zg=='");
  assert_int_equal(size_of(job, "f"), 1);
}

JOB_TEST(both_paths_start_at_the_working_directory) {
  leaves(job, BYTES "'a','content':'YQ==','renameTo':'b'", "b", "a");
  leaves(job, BYTES "'$D/a','content':'Yg==','renameTo':'sub/c'", "sub/c", "b");
  leaves(job, BYTES "'d','content':'Yw==','renameTo':'$D/e'", "e", "c");
  /* A missing directory is made. */
  const char *directory = kind_rows_path(job, "none/at/all");
  job_push_json(job, job_format(job,
                                "{'stepId':'s','workingDirectory':'%s'," BYTES
                                "'x/a','content':'ZA==','renameTo':'y/b'}",
                                directory));
  job_expect_result(job, job_result(job), 0, NULL, NULL);
  assert_string_equal(kind_rows_content(job, "none/at/all/y/b"), "d");
  job_push_json(job, job_format(job,
                                "{'stepId':'t','workingDirectory':'%s'," BYTES
                                "'%s/z','content':'ZA==','renameTo':'y/c'}",
                                directory, kind_rows_directory(job)));
  job_expect_result(job, job_result(job), 0, NULL, NULL);
  assert_string_equal(kind_rows_content(job, "none/at/all/y/c"), "d");
}

/* The agent neither waits for other files nor writes to them. */
JOB_TEST(only_regular_files_are_written) {
  kind_rows_file(job, "file", "old");
  kind_rows_file(job, "directory/file", "");
  assert_int_equal(mkfifo(kind_rows_path(job, "fifo"), 0600), 0);
  assert_int_equal(symlink("fifo", kind_rows_path(job, "pipe")), 0);
  char fields[400] = BYTES "'", name[260] = "";
  memset(name, 'n', 256);
  (void)snprintf(fields, sizeof fields, BYTES "'%s','content':''", name);
  const struct kind_row rows[] = {
      {BYTES "'directory','content':''", 1, NULL,
       "is a directory, not a regular file: $D/directory"},
      {BYTES "'fifo','content':'YQ=='", 1, NULL, "is a FIFO, not a regular file: $D/fifo"},
      {BYTES "'pipe','content':'YQ==','append':true", 1, NULL,
       "is a FIFO, not a regular file: $D/pipe"},
      {BYTES "'/dev/null','content':'YQ=='", 1, NULL,
       "is a character device, not a regular file: /dev/null"},
      {BYTES "'file/below','content':''", 1, NULL,
       "cannot write file (Not a directory): $D/file/below"},
      {BYTES "'new/','content':''", 1, NULL, "cannot write file (Is a directory): $D/new"},
      {BYTES "'t','content':'YQ==','renameTo':'directory'", 1, NULL,
       "is a directory, not a regular file: $D/directory"},
      {BYTES "'t','content':'YQ==','renameTo':'fifo'", 1, NULL,
       "is a FIFO, not a regular file: $D/fifo"},
      {BYTES "'t','content':'YQ==','renameTo':'/dev/null'", 1, NULL,
       "is a character device, not a regular file: /dev/null"},
      {BYTES "'t','content':'YQ==','renameTo':'file/below'", 1, NULL,
       "cannot write file (Not a directory): $D/file/below"},
      {BYTES "'t','content':'YQ==','renameTo':'x/'", 1, NULL,
       "cannot write file (Is a directory): $D/x"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  const cJSON *result = job_run(job, kind_rows_step(job, fields));
  job_expect_part(job, result, "errorMessage", "ame too long)");
  assert_string_equal(kind_rows_content(job, "file"), "old");
  assert_false(has(job, "t"));
}

JOB_TEST(a_file_may_be_renamed_to_itself) {
  leaves(job, BYTES "'a','content':'YQ==','renameTo':'a'", "a", "a");
  leaves(job, BYTES "'a','content':'Yg==','append':true,'renameTo':'$D/./a'", "a", "ab");
}

/* No later step uses the temporary name, so an incomplete file would remain forever. */
JOB_TEST(a_failed_last_chunk_removes_the_others) {
  kind_rows_file(job, "directory/file", "");
  static const struct kind_row rows[] = {
      {BYTES "'t','content':'!','append':true,'renameTo':'f'", 1, NULL, "content is not base64"},
      {BYTES "'t','content':'YQ==','append':true,'renameTo':'directory'", 1, NULL,
       "is a directory, not a regular file: $D/directory"},
      {BYTES "'t','content':'YQ==','append':true,'renameTo':'x/'", 1, NULL,
       "cannot write file (Is a directory): $D/x"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    succeeds(job, BYTES "'t','content':'Zm9v'");
    run_row(job, rows[i]);
    assert_false(has(job, "t"));
    assert_false(has(job, "f"));
  }
  make_large(job, "t", FILE_MAX);
  run_row(job, (struct kind_row){BYTES "'t','content':'YQ==','append':true,'renameTo':'f'", 1, NULL,
                                 "the file would exceed the 26214400-byte limit"});
  assert_false(has(job, "t"));
  succeeds(job, BYTES "'t','content':'Zm9v'");
  push_bytes(job, "large", BYTES "'t','append':true,'renameTo':'f'", CHUNK_MAX + 1);
  job_expect_result(job, job_result(job), 1, "a chunk exceeds the 4194304 bytes one step may carry",
                    NULL);
  assert_false(has(job, "t"));
}

JOB_TEST(a_failed_chunk_does_not_remove_other_files) {
  kind_rows_file(job, "f", "old");
  assert_int_equal(mkfifo(kind_rows_path(job, "fifo"), 0600), 0);
  static const struct kind_row rows[] = {
      /* not the last chunk */
      {BYTES "'f','content':'!','append':true", 1, NULL, "content is not base64"},
      /* the target is the file itself */
      {BYTES "'f','content':'!','append':true,'renameTo':'$D/f'", 1, NULL, "content is not base64"},
      {BYTES "'fifo','content':'YQ==','renameTo':'g'", 1, NULL,
       "is a FIFO, not a regular file: $D/fifo"},
      {BYTES "'fifo','content':'!','renameTo':'g'", 1, NULL, "content is not base64"},
  };
  kind_rows_run(job, rows, sizeof rows / sizeof *rows);
  assert_string_equal(kind_rows_content(job, "f"), "old");
  assert_true(has(job, "fifo"));
}

JOB_TEST_NO_AGENT(a_failed_chunk_does_not_remove_a_read_only_file) {
  job->setup.uid = NOBODY;
  job_start_agent(job, NULL);
  kind_rows_file(job, "d/t", "old");
  assert_int_equal(chmod(kind_rows_path(job, "d"), 0777), 0);
  run_row(job, (struct kind_row){BYTES "'d/t','content':'YQ==','append':true,'renameTo':'f'", 1,
                                 NULL, "cannot write file (Permission denied): $D/d/t"});
  assert_string_equal(kind_rows_content(job, "d/t"), "old");
}

JOB_TEST_NO_AGENT(an_appended_chunk_is_never_doubled) {
  enum { KILLS = 10, STEPS = 100, LINE = 4 };
  const cJSON *steps[STEPS];
  for (int i = 0; i < STEPS; i++) {
    char *line = encoded(formatted("%03d\n", i), LINE);
    steps[i] = kind_rows_step(job, job_format(job, BYTES "'f','content':'%s','append':true", line));
    job_push(job, steps[i]);
    free(line);
  }
  job_run_with_kills(job, STEPS, KILLS);
  const char *file = kind_rows_content(job, "f");
  int interrupted = 0;
  for (int i = 0; i < STEPS; i++) {
    const cJSON *result = job_result_of(job, steps[i]);
    const char *line = formatted("%03d\n", i), *at = strstr(file, line);
    bool done = cJSON_GetObjectItem(result, "exitCode")->valueint == 0;
    if (!done)
      job_expect_result(job, result, -1, INTERRUPTED, NULL);
    interrupted += !done;
    if ((done && at == NULL) || (at != NULL && strstr(at + 1, line) != NULL))
      job_fail(job, "chunk %d, done: %d, is not there once: %s", i, done, file);
  }
  assert_in_range(interrupted, 0, KILLS);
}
