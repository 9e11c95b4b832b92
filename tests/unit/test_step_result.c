#include <limits.h>

#include "tests/support/quoted.h"
#include "tests/test.h"
#include "wire/step_report.h"

#define ID "11111111-1111-1111-1111-111111111111"

static void assert_writes(const struct step_result *self, const char *json) {
  size_t length = step_result_length(self);
  /* Of exactly the promised size, so that the sanitizer sees one byte more. */
  char *out = malloc(length);
  assert_non_null(out);
  assert_ptr_equal(step_result_write(self, out), out + length);
  if (length != strlen(json) || memcmp(out, json, length) != 0)
    fail_msg("%.*s, not %s", (int)length, out, json);
  free(out);
}

TEST(it_is_the_contract_s_example) {
  char golden[512] = "";
  FILE *file = fopen("tests/unit/golden/step_result.json", "r");
  assert_non_null(file);
  assert_true(fread(golden, 1, sizeof golden - 1, file) > 0);
  assert_int_equal(fclose(file), 0);
  const struct step_result self = {.schema_version = 1,
                                   .step_id = ID,
                                   .duration_ms = 1230,
                                   .output_content = "Cloning into '.'...\n",
                                   .output_content_length = 20,
                                   .event_count = 3};
  assert_writes(&self, golden);
}

TEST(a_failure_has_its_message) {
  const struct step_result self = {.schema_version = 1,
                                   .step_id = ID,
                                   .exit_code = -1,
                                   .timed_out = true,
                                   .duration_ms = 600012,
                                   .error_message = "timed out after 600s",
                                   .error_message_length = 20,
                                   .event_count = 2};
  assert_writes(&self, quoted("{'schemaVersion':1,'stepId':'" ID "','exitCode':-1,"
                              "'timedOut':true,'durationSeconds':600.012,"
                              "'errorMessage':'timed out after 600s','outputContent':null,"
                              "'eventCount':2}"));
}

#define RESULT_OF_S "{'schemaVersion':1,'stepId':'s','exitCode':%d,'timedOut':false,"

TEST(texts_may_be_any_bytes) {
  const struct step_result self = {.schema_version = 1,
                                   .step_id = "\"\n",
                                   .exit_code = 137,
                                   .error_message = "\0\xFF",
                                   .error_message_length = 2,
                                   .output_content = "\\ \xE2\x82\xAC\xE2\x82",
                                   .output_content_length = 7,
                                   .event_count = -1};
  assert_writes(&self,
                quoted("{'schemaVersion':1,'stepId':'\\'\\n','exitCode':137,"
                       "'timedOut':false,'durationSeconds':0,"
                       "'errorMessage':'\\u0000\xEF\xBF\xBD',"
                       "'outputContent':'\\\\ \xE2\x82\xAC\xEF\xBF\xBD','eventCount':null}"));
}

TEST(numbers_are_the_shortest) {
  static const struct {
    int exit_code;
    int64_t ms;
    const char *seconds;
    int64_t count;
    const char *count_text;
  } rows[] = {
      {INT_MIN, 0, "0", 0, "0"},
      {INT_MAX, 1, "0.001", 1, "1"},
      {0, 12, "0.012", 10, "10"},
      {0, 100, "0.1", 1000002, "1000002"},
      {0, 120, "0.12", INT64_MAX, "9223372036854775807"},
      {0, 999, "0.999", -1, "null"}, /* one that is not known */
      {0, 1000, "1", INT64_MIN, "null"},
      {0, 10000, "10", 0, "0"},
      {0, 1230, "1.23", 0, "0"},
      {0, 600000, "600", 0, "0"},
      {0, 600010, "600.01", 0, "0"},
      {0, INT64_MAX, "9223372036854775.807", 0, "0"},
      {0, -5, "0", 0, "0"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *json =
        formatted(RESULT_OF_S "'durationSeconds':%s,'errorMessage':null,'outputContent':null,"
                              "'eventCount':%s}",
                  rows[i].exit_code, rows[i].seconds, rows[i].count_text);
    const struct step_result self = {.schema_version = 1,
                                     .step_id = "s",
                                     .exit_code = rows[i].exit_code,
                                     .duration_ms = rows[i].ms,
                                     .event_count = rows[i].count};
    assert_writes(&self, quoted(json));
  }
}
