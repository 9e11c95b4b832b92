#include "agent/frontends/request_files/exec_request.h"

#include "tests/test.h"

static enum request_found parse(struct exec_request *self, const char *text, struct error *error) {
  const struct exec_request_rules rules = {
      .shell = "sh", .timeout_seconds = 30, .timeout_max_seconds = 120};
  *error = (struct error){.text = ""};
  return exec_request_parse(self, quoted(text), strlen(text), "17", &rules, error);
}

TEST(a_timeout_is_rounded_down_and_bounded) {
  static const struct {
    const char *text;
    unsigned seconds;
  } rows[] = {{"1", 1},
              {"1.9", 1},
              {"0.9", 30},
              {"-5", 30},
              {"120", 120},
              {"121", 120},
              {"1e9", 120},
              {"1e999", 120},
              {"'45'", 45},
              {"'999'", 120},
              {"'4.5'", 30},
              {"''", 30},
              {"'abc'", 30},
              {"'a[$(x)]'", 30},
              {"true", 30},
              {"[7]", 30},
              {"'-7'", 30},
              {"{}", 30},
              {"'99999999999999999999999'", 120}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct exec_request request;
    struct error error;
    const char *text = formatted("{'command':'ls','timeout':%s}", rows[i].text);
    assert_int_equal(parse(&request, text, &error), REQUEST_READY);
    if (request.step.timeout_seconds != rows[i].seconds)
      fail_msg("%s: %u s", rows[i].text, request.step.timeout_seconds);
    step_release(&request.step);
  }
}

struct refusal {
  const char *request;
  const char *reason;
};

static void expect_refused(enum request_found expected, const struct refusal *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    struct exec_request request;
    struct error error;
    enum request_found state = parse(&request, rows[i].request, &error);
    if (state != expected || strcmp(error.text, rows[i].reason) != 0)
      fail_msg("%s: %d, `%s`", rows[i].request, (int)state, error.text);
    step_release(&request.step);
  }
}

TEST(a_request_that_cannot_be_executed_is_rejected) {
  static const struct refusal rows[] = {
      {"{}", "command: expected a non-empty string, got nothing"},
      {"{'command':''}", "command: expected a non-empty string, got an empty string"},
      {"{'command':'','args':['ls']}", "command: expected a non-empty string, got an empty string"},
      {"{'command':null,'argv':[]}", "command: expected a non-empty string, got nothing"},
      {"{'command':5}", "command: expected a string, got a number"},
      {"{'command':['ls']}", "command: expected a string, got an array"},
      {"{'command':'a\\u0000b'}", "command: expected a string without NUL, got one with it"},
      {"{'command':'ls','args':'-l'}", "args: expected an array of strings, got a string"},
      {"{'command':'ls','args':[5]}", "args: expected a string, got a number"},
      {"{'argv':'ls'}", "argv: expected an array of strings, got a string"},
      {"{'argv':['ls',null]}", "argv: expected a string, got null"},
      {"{'argv':['a\\u0000b']}", "argv: expected a string without NUL, got one with it"},
      {"{'argv':['']}", "argv: expected the name of a program, got an empty string"},
      {"{'argv':['ls'],'stdin':5}", "stdin: expected a string, got a number"},
      {"{'command':'ls','workDir':5}", "workDir: expected a string, got a number"},
      {"{'command':'ls','workDir':'/\\u0000'}",
       "workDir: expected a string without NUL, got one with it"},
      {"{'command':'ls','target':5}", "target: expected a string, got a number"},
      {"{'command':'ls','command':'rm'}", "command: expected once, got it twice"},
  };
  expect_refused(REQUEST_REFUSED, rows, sizeof rows / sizeof *rows);
}
