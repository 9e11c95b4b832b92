#include "tests/test.h"
#include "wire/heartbeat_json.h"

/* 2026-05-05T10:00:00.123 */
#define CONTRACT_MS INT64_C(1777975200123)

TEST(it_is_the_contract_s_example) {
  char golden[128] = "", json[HEARTBEAT_JSON_SIZE];
  FILE *file = fopen("tests/unit/golden/heartbeat.json", "re");
  assert_non_null(file);
  assert_true(fread(golden, 1, sizeof golden - 1, file) > 0);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(heartbeat_json(CONTRACT_MS, 7, true, json), strlen(golden));
  assert_string_equal(json, golden);
}

TEST(without_a_step_it_says_so) {
  char json[HEARTBEAT_JSON_SIZE];
  (void)heartbeat_json(0, 1, false, json);
  assert_string_equal(json, "{\"Ts\":0,\"Pid\":1,\"StepInFlight\":false}");
}

TEST(the_longest_fits) {
  char json[HEARTBEAT_JSON_SIZE];
  assert_true(heartbeat_json(INT64_MIN, INT32_MIN, false, json) < sizeof json);
  assert_int_equal(json[strlen(json) - 1], '}');
}
