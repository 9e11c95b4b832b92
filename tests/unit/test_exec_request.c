#include "agent/frontends/request_files/exec_request.h"

#include "tests/support/quoted.h"
#include "tests/support/same_step.h"
#include "tests/test.h"

static enum request_found parse_for(const char *pack, struct exec_request *self, const char *text,
                                    struct error *error) {
  const struct exec_request_rules rules = {
      .pack = pack, .timeout_seconds = 30, .timeout_max_seconds = 120};
  *error = (struct error){.text = ""};
  return exec_request_parse(self, quoted(text), strlen(text), "17", &rules, error);
}

static enum request_found parse(struct exec_request *self, const char *text, struct error *error) {
  return parse_for(NULL, self, text, error);
}

struct row {
  const char *request;
  const char *step; /* of the field after stepId on */
};

static void expect_step(const struct row *row) {
  struct exec_request request;
  struct step step;
  struct error error;
  if (parse(&request, row->request, &error) != REQUEST_READY)
    fail_msg("%s: %s", row->request, error.text);
  char **env = calloc(1, sizeof *env);
  exec_request_step(&request, "17", "bash", request.directory, env, &step);
  assert_same_step(&step, quoted(formatted("{'stepId':'17',%s}", row->step)));
  step_release(&step);
  exec_request_release(&request);
}

TEST(a_request_becomes_a_step) {
#define REST "'workingDirectory':'/workspace','timeoutSeconds':30"
  static const struct row rows[] = {
      {"{'command':'ls'}", "'command':'bash','args':['-c','ls']," REST},
      {"{'command':'ls','args':['-l','*.c']}", "'command':'bash','args':['-c','ls -l *.c']," REST},
      {"{'command':'ls','args':[],'argv':[],'stdin':'','target':null}",
       "'command':'bash','args':['-c','ls']," REST},
      {"{'command':'ls','args':null,'argv':null,'stdin':null,'workDir':null,'timeout':null}",
       "'command':'bash','args':['-c','ls']," REST},
      {"{'command':5,'args':6,'argv':['ls']}", "'command':'ls','args':[]," REST},
      {"{'argv':['a','b c','']}", "'command':'a','args':['b c','']," REST},
      {"{'argv':['cat'],'stdin':'x'}", "'command':'cat','args':[]," REST ",'stdin':'x\\n'"},
      {"{'argv':['cat'],'stdin':'x\\u0000y'}",
       "'command':'cat','args':[]," REST ",'stdin':'x\\u0000y\\n'"},
      {"{'command':'cat','stdin':'x'}",
       "'command':'bash','args':['-c','cat']," REST ",'stdin':'x\\n'"},
      {"{'id':5,'command':'ls','_meta':{'a':['b']},'other':{}}",
       "'command':'bash','args':['-c','ls']," REST},
      {"\xEF\xBB\xBF{'command':'ls'}", "'command':'bash','args':['-c','ls']," REST},
      {" \n{'command':'ls','workDir':'','timeout':0}\n",
       "'command':'bash','args':['-c','ls']," REST},
      {"{'command':'ls','workDir':'/x y'}",
       "'command':'bash','args':['-c','ls'],'workingDirectory':'/x y','timeoutSeconds':30"},
  };
#undef REST
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_step(&rows[i]);
}

TEST(the_timeout_is_rounded_down_and_bounded) {
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
    if (request.timeout_seconds != rows[i].seconds)
      fail_msg("%s: %u s", rows[i].text, request.timeout_seconds);
    exec_request_release(&request);
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
    exec_request_release(&request);
  }
}

TEST(what_cannot_be_executed_is_refused) {
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

TEST(a_target_is_compared_without_case_and_white_space) {
  static const struct {
    const char *target, *pack;
    bool is_for;
  } rows[] = {
      {"'k8s-ops'", "k8s-ops", true},   {"' K8s\\t-OPS \\n'", "k8s-ops", true},
      {"'k8s-ops'", " K8S-ops ", true}, {"'k8s-ops'", "echotool", false},
      {"'k8s-ops'", NULL, true},        {"'k8s-ops'", "", true},
      {"'k8s-ops'", " ", true},         {"''", "echotool", true},
      {"' '", "echotool", true},        {"null", "echotool", true},
      {"5", "echotool", true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct exec_request request;
    struct error error;
    const char *text = formatted("{'command':'ls','target':%s}", rows[i].target);
    bool is_for = parse_for(rows[i].pack, &request, text, &error) != REQUEST_OF_OTHERS;
    if (is_for != rows[i].is_for)
      fail_msg("%s for %s", rows[i].target, rows[i].pack);
    exec_request_release(&request);
  }
}
