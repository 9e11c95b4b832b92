#include "tests/support/same_step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/kinds/kind.h"
#include "wire/step.h"

/* Compares both in their wire format, which is complete. */
void assert_same_step(const struct step *step, const char *json) {
  struct step expected;
  struct error error;
  struct buffer own = {0}, its = {0};
  if (step_parse(&expected, kinds, json, strlen(json), &error) != 0)
    fail_msg("%s", error.text);
  expected.for_model = step->for_model;
  step_pack(step, kinds, &own);
  step_pack(&expected, kinds, &its);
  assert_int_equal(own.length, its.length);
  assert_memory_equal(own.bytes, its.bytes, own.length);
  step_release(&expected);
  buffer_release(&own);
  buffer_release(&its);
}
