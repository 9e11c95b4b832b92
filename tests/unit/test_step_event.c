#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/step_event.h"

#define ID "11111111-1111-1111-1111-111111111111"

/* 2026-05-05T10:00:00.123 */
#define CONTRACT_MS INT64_C(1777975200123)

static struct step_event event(enum step_event_kind kind, const char *line, size_t length,
                               const char *timestamp) {
  return (struct step_event){
      .kind = kind,
      .step_id = ID,
      .step_id_length = strlen(ID),
      .line = line,
      .line_length = length,
      .timestamp = timestamp,
  };
}

static void assert_writes(const struct step_event *self, const char *json) {
  size_t length = step_event_length(self);
  /* Of exactly the promised size, so that the sanitizer sees one byte more. */
  char *out = malloc(length);
  assert_non_null(out);
  assert_ptr_equal(step_event_write(self, out), out + length);
  assert_int_equal(length, strlen(json));
  assert_memory_equal(out, json, length);
  free(out);
}

static void it_is_the_contract_s_example(void **state) {
  (void)state;
  char golden[512] = "";
  FILE *file = fopen("tests/unit/golden/step_event.json", "r");
  assert_non_null(file);
  assert_true(fread(golden, 1, sizeof golden - 1, file) > 0);
  assert_int_equal(fclose(file), 0);

  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  step_event_timestamp(timestamp, CONTRACT_MS);
  struct step_event self = event(STEP_EVENT_STDOUT, "Cloning into '.'...", 19, timestamp);
  assert_writes(&self, golden);
}

static void each_kind_has_its_name(void **state) {
  (void)state;
  static const struct {
    enum step_event_kind kind;
    const char *name;
  } rows[] = {
      {STEP_EVENT_STARTED, "started"},
      {STEP_EVENT_STDOUT, "stdout"},
      {STEP_EVENT_STDERR, "stderr"},
      {STEP_EVENT_COMPLETED, "completed"},
  };
  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  step_event_timestamp(timestamp, 0);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char json[256];
    (void)snprintf(json, sizeof json,
                   "{\"schemaVersion\":1,\"stepId\":\"" ID "\",\"kind\":\"%s\",\"line\":\"\","
                   "\"timestamp\":\"1970-01-01T00:00:00.000+00:00\"}",
                   rows[i].name);
    struct step_event self = event(rows[i].kind, NULL, 0, timestamp);
    assert_writes(&self, json);
  }
}

static void a_piece_says_that_it_is_partial(void **state) {
  (void)state;
  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  step_event_timestamp(timestamp, 0);
  struct step_event self = event(STEP_EVENT_STDERR, "50%", 3, timestamp);
  self.partial = true;
  assert_writes(&self, "{\"schemaVersion\":1,\"stepId\":\"" ID "\",\"kind\":\"stderr\","
                       "\"line\":\"50%\",\"timestamp\":\"1970-01-01T00:00:00.000+00:00\","
                       "\"partial\":true}");
}

static void a_line_may_be_any_bytes(void **state) {
  (void)state;
  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  step_event_timestamp(timestamp, 0);
  struct step_event self = event(STEP_EVENT_STDOUT, "a\0\"\xFF\t\x1B", 6, timestamp);
  assert_writes(&self, "{\"schemaVersion\":1,\"stepId\":\"" ID "\",\"kind\":\"stdout\","
                       "\"line\":\"a\\u0000\\\"\xEF\xBF\xBD\\t\\u001b\","
                       "\"timestamp\":\"1970-01-01T00:00:00.000+00:00\"}");
}

static void the_step_id_is_written_as_it_is(void **state) {
  (void)state;
  char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
  step_event_timestamp(timestamp, 0);
  struct step_event self = event(STEP_EVENT_STDOUT, "x", 1, timestamp);
  self.step_id = "a\\nb...";
  self.step_id_length = 4;
  assert_writes(&self, "{\"schemaVersion\":1,\"stepId\":\"a\\nb\",\"kind\":\"stdout\","
                       "\"line\":\"x\",\"timestamp\":\"1970-01-01T00:00:00.000+00:00\"}");
}

static void timestamps(void **state) {
  (void)state;
  static const struct {
    int64_t unix_ms;
    const char *text;
  } rows[] = {
      {0, "1970-01-01T00:00:00.000+00:00"},
      {1, "1970-01-01T00:00:00.001+00:00"},
      {CONTRACT_MS, "2026-05-05T10:00:00.123+00:00"},
      {INT64_C(951782399999), "2000-02-28T23:59:59.999+00:00"},
      {INT64_C(951782400000), "2000-02-29T00:00:00.000+00:00"},
      {INT64_C(951868800000), "2000-03-01T00:00:00.000+00:00"},
      {INT64_C(4107542400000), "2100-03-01T00:00:00.000+00:00"},
      {INT64_C(2147483648000), "2038-01-19T03:14:08.000+00:00"},
      {INT64_C(253402300799999), "9999-12-31T23:59:59.999+00:00"},
      /* Outside of what has a name: the nearest that has. */
      {-1, "1970-01-01T00:00:00.000+00:00"},
      {INT64_MIN, "1970-01-01T00:00:00.000+00:00"},
      {INT64_MAX, "9999-12-31T23:59:59.999+00:00"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char timestamp[STEP_EVENT_TIMESTAMP_SIZE];
    step_event_timestamp(timestamp, rows[i].unix_ms);
    assert_string_equal(timestamp, rows[i].text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_is_the_contract_s_example),    cmocka_unit_test(each_kind_has_its_name),
      cmocka_unit_test(a_piece_says_that_it_is_partial), cmocka_unit_test(a_line_may_be_any_bytes),
      cmocka_unit_test(the_step_id_is_written_as_it_is), cmocka_unit_test(timestamps),
  };
  return cmocka_run_group_tests_name("step_event", tests, NULL, NULL);
}
