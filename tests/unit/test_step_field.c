#include "wire/step_field.h"
#include "tests/test.h"

static int read_number(const char *json, unsigned *number, struct error *error) {
  const struct step_field field = {
      .name = "n", .minimum = 0, .maximum = 4294967295u, .fallback = 7};
  cJSON *value = cJSON_Parse(json);
  int result = step_field_integer.read(&field, value, number, error);
  cJSON_Delete(value);
  return result;
}

TEST(integers) {
  static const struct {
    const char *json;
    unsigned number;
  } good[] = {{"0", 0}, {"-0", 0}, {"600.0", 600}, {"6e2", 600}, {"4294967295", 4294967295u}};
  static const struct {
    const char *json;
    const char *got;
  } bad[] = {{"-1", "-1"},     {"0.5", "0.5"},     {"4294967296", "4294967296"},
             {"1e999", "inf"}, {"-1e999", "-inf"}, {"1.0000001", "1.0000001"}};
  unsigned number;
  struct error error;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_int_equal(read_number(good[i].json, &number, &error), 0);
    assert_int_equal(number, good[i].number);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char message[128];
    (void)snprintf(message, sizeof message,
                   "n: expected a whole number from 0 to 4294967295, got %s", bad[i].got);
    assert_int_equal(read_number(bad[i].json, &number, &error), -1);
    assert_string_equal(error.text, message);
  }
  const struct step_field field = {.name = "n", .fallback = 7};
  assert_int_equal(step_field_integer.read(&field, NULL, &number, &error), 0);
  assert_int_equal(number, 7);
}
