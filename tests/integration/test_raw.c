/* With `raw`, events carry the bytes of the output as they are. */

#include "base/base64.h"
#include "tests/support/job.h"

static cJSON *raw_script(struct job *job, const char *script) {
  cJSON *step = job_script(job, script);
  cJSON_AddTrueToObject(step, "raw");
  return step;
}

struct bytes {
  const char *text; /* until the next call of output_of */
  size_t length, events;
};

/* The output of a stream, each event of which has 1 to 32,768 bytes. */
static struct bytes output_of(struct job *job, const cJSON *step, const char *kind) {
  static char text[4 << 20];
  struct bytes bytes = {.text = text};
  const cJSON *event;
  cJSON_ArrayForEach(event, job_events(job, step)) {
    bool is_output = strncmp(job_text(event, "kind"), "std", 3) == 0;
    assert_string_equal(job_text(event, "encoding"), is_output ? "base64" : "");
    if (strcmp(job_text(event, "kind"), kind) != 0)
      continue;
    const char *line = job_text(event, "line");
    struct base64_reader reader = base64_reader(line, strlen(line));
    size_t before = bytes.length;
    for (ssize_t n; (n = base64_read(&reader, text + bytes.length, 65536)) != 0;) {
      assert_true(n > 0);
      bytes.length += (size_t)n;
    }
    assert_in_range(bytes.length - before, 1, 32768);
    bytes.events++;
  }
  return bytes;
}

static void expect_output(struct job *job, const cJSON *step, const char *kind, const char *text,
                          size_t length) {
  struct bytes bytes = output_of(job, step, kind);
  assert_int_equal(bytes.length, length);
  assert_memory_equal(bytes.text, text, length);
}

JOB_TEST(no_byte_is_changed_or_removed) {
  static const char out[] = "\xEF\xBB\xBF\0a\r\nb\r\xFF\n\nc", err[] = "\xEF\xBB\xBF\xC3";
  const cJSON *step = raw_script(job, "printf '\\357\\273\\277\\0a\\r\\nb\\r\\377\\n\\nc'; "
                                      "printf '\\357\\273\\277\\303' >&2; exit 3");
  const cJSON *result = job_run(job, step);
  expect_output(job, step, "stdout", out, sizeof out - 1);
  expect_output(job, step, "stderr", err, sizeof err - 1);
  assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(result, "outputContent")));
  assert_int_equal((int)job_number(result, "outputBytes"), (int)sizeof out - 1);
  assert_null(cJSON_GetObjectItemCaseSensitive(result, "outputTail"));
  job_expect_result(job, job_run(job, raw_script(job, "printf 'a\\377'; exit 3")), 3,
                    "a\xEF\xBF\xBD", NULL);
}

JOB_TEST(long_output_arrives_in_few_events) {
  enum { LENGTH = 2000000 };
  const char *path = job_path(job, "random");
  const cJSON *step =
      raw_script(job, job_format(job, "head -c %d /dev/urandom >%s; cat %s", LENGTH, path, path));
  const cJSON *result = job_run(job, step);
  static char written[LENGTH + 1];
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  assert_int_equal(fread(written, 1, LENGTH + 1, file), LENGTH);
  fclose(file);
  expect_output(job, step, "stdout", written, LENGTH);
  assert_int_equal((int)job_number(result, "outputBytes"), LENGTH);
  assert_in_range(output_of(job, step, "stdout").events, LENGTH / 32768, LENGTH / 4096 + 16);
}

JOB_TEST(secrets_are_masked) {
  cJSON *step = raw_script(job, "printf 'a\\0'; printf $TOKEN; echo b");
  cJSON_AddStringToObject(cJSON_AddObjectToObject(step, "env"), "TOKEN", "s3cr3t-value");
  cJSON_AddItemToArray(cJSON_AddArrayToObject(step, "secrets"), cJSON_CreateString("TOKEN"));
  const cJSON *result = job_run(job, step);
  expect_output(job, step, "stdout", "a\0***b\n", 7);
  assert_int_equal((int)job_number(result, "outputBytes"), 16);
}
