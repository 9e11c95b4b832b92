#include "tests/support/kind_rows.h"

#include "tests/test.h"

const char *kind_rows_directory(struct job *job) {
  char *path = job_path(job, "files");
  if (mkdir(path, 0777) != 0 && errno != EEXIST)
    fail_msg("%s: %s", path, strerror(errno));
  return path;
}

const char *kind_rows_path(struct job *job, const char *name) {
  return job_format(job, "%s/%s", kind_rows_directory(job), name);
}

void kind_rows_file(struct job *job, const char *name, const char *content) {
  kind_rows_bytes(job, name, content, strlen(content));
}

void kind_rows_bytes(struct job *job, const char *name, const char *bytes, size_t length) {
  char *path = job_format(job, "%s/%s", kind_rows_directory(job), name);
  for (char *slash = path + strlen(kind_rows_directory(job)) + 1;
       (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
      fail_msg("%s: %s", path, strerror(errno));
    *slash = '/';
  }
  FILE *file = fopen(path, "w");
  if (file == NULL || fwrite(bytes, 1, length, file) != length || fclose(file) != 0)
    fail_msg("%s: %s", path, strerror(errno));
}

const char *kind_rows_content(struct job *job, const char *name) {
  const char *path = kind_rows_path(job, name);
  FILE *file = fopen(path, "r");
  if (file == NULL)
    fail_msg("%s: %s", path, strerror(errno));
  char *content = NULL;
  size_t size = 0;
  ssize_t length = getdelim(&content, &size, '\0', file);
  assert_int_equal(fclose(file), 0);
  if (length < 0) {
    free(content);
    return "";
  }
  return job_own_text(job, content);
}

/* Replaces $D by the directory and $$ by a dollar; quotes are as in quoted.h. */
static const char *expand(struct job *job, const char *text) {
  if (text == NULL)
    return NULL;
  char *copy = job_format(job, "%s", text);
  quoted_in_place(copy);
  text = copy;
  const char *directory = kind_rows_directory(job);
  char *out = NULL;
  size_t size = 0;
  FILE *stream = open_memstream(&out, &size);
  assert_non_null(stream);
  for (; *text != '\0'; text++) {
    if (*text != '$') {
      fputc(*text, stream);
      continue;
    }
    fputs(*++text == 'D' ? directory : "$", stream);
  }
  assert_int_equal(fclose(stream), 0);
  return job_own_text(job, out);
}

void kind_rows_deep_file(struct job *job) {
  enum { DEPTH = 260 };
  char path[2 * DEPTH + 8] = "";
  for (size_t i = 0; i < DEPTH; i++)
    memcpy(path + 2 * i, "d/", 3);
  memcpy(path + 2 * DEPTH, "file", 5);
  kind_rows_file(job, path, "x");
}

cJSON *kind_rows_step(struct job *job, const char *fields) {
  const char *json = job_format(
      job, "%s,%s}",
      expand(job, job_format(job, "{'schemaVersion':1,'stepId':'kind-%d','workingDirectory':'$D'",
                             ++job->last_number)),
      expand(job, fields));
  cJSON *step = cJSON_Parse(json);
  if (step == NULL)
    fail_msg("no JSON: %s", json);
  return job_own(job, step);
}

static void check(struct job *job, const struct kind_row *row) {
  const cJSON *step = kind_rows_step(job, row->fields);
  const cJSON *result = job_run(job, step);
  const char *words = expand(job, row->words);
  job_expect_result(job, result, row->exit_code, row->exit_code == 0 ? NULL : words,
                    expand(job, row->content));
  int lines = words != NULL;
  for (const char *at = words; at != NULL && (at = strchr(at, '\n')) != NULL; at++)
    lines++;
  assert_int_equal(job_event_count(result), 2 + lines);
  const char *line = job_format(job, "%s %s\n", job_text(step, "kind"), job_text(step, "path"));
  assert_string_equal(job_lines(job, step, "started"), line);
  assert_string_equal(job_lines(job, step, "stdout"), "");
  assert_string_equal(job_lines(job, step, "stderr"),
                      words == NULL ? "" : job_format(job, "%s\n", words));
}

void kind_rows_run(struct job *job, const struct kind_row *rows, size_t count) {
  for (size_t i = 0; i < count; i++)
    check(job, &rows[i]);
}
