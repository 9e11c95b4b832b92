#include "agent/kinds/kind.h"
#include "tests/test.h"

static const char *trace_with(const char *env, const char *traceparent) {
  struct step step;
  struct error error;
  static char found[64];
  const char *json = quoted(formatted("{'stepId':'s','command':'c','env':{%s}}", env));
  assert_int_equal(step_parse(&step, kinds, json, strlen(json), &error), 0);
  run_kind_set_trace(&step, traceparent);
  const char *value = step_variable(&step, "TRACEPARENT");
  (void)snprintf(found, sizeof found, "%s", value != NULL ? value : "none");
  step_release(&step);
  return found;
}

#define TRACE_ID "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT_ID "00f067aa0ba902b7"
#define TRACEPARENT "00-" TRACE_ID "-" PARENT_ID "-01"

TEST(a_traceparent_has_the_form_of_w3c_or_is_ignored) {
  static const char *const others[] = {
      "",
      "00-1-2-01",
      "ff-" TRACE_ID "-" PARENT_ID "-01",
      "00-00000000000000000000000000000000-" PARENT_ID "-01",
      "00-" TRACE_ID "-0000000000000000-01",
      "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT_ID "-01",
      "00-" TRACE_ID "-" PARENT_ID "-0g",
      "00_" TRACE_ID "-" PARENT_ID "-01",
      "00-" TRACE_ID "4-0f067aa0ba902b7-01",
      TRACEPARENT "-more",
      "00-" TRACE_ID "-" PARENT_ID "-0\n",
  };
  assert_string_equal(trace_with("", TRACEPARENT), TRACEPARENT);
  assert_string_equal(trace_with("", "0f-" TRACE_ID "-" PARENT_ID "-00"),
                      "0f-" TRACE_ID "-" PARENT_ID "-00");
  assert_string_equal(trace_with("", NULL), "none");
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_string_equal(trace_with("", others[i]), "none");
  assert_string_equal(trace_with("'TRACEPARENT':'its own'", TRACEPARENT), "its own");
}
