#include "tests/support/quoted.h"
#include "tests/support/step_owner.h"
#include "tests/test.h"

#define STEP_TAG "SANDBOX_STEP_TAG"

/* Runs a step with these fields, with quotes as in quoted.h, and returns its output. */
static const char *execution(struct step_owner *owner, const char *fields) {
  step_owner_start(owner, quoted(formatted("{'schemaVersion':1,'stepId':'s-1',%s}", fields)));
  step_owner_wait(owner);
  return owner->output_content == NULL ? "" : owner->output_content;
}

/* Checks that `env` has printed the line once. */
static void has_line(const char *lines, const char *line) {
  int count = 0;
  size_t length = strlen(line);
  for (const char *at = lines; *at != '\0'; at += strcspn(at, "\n") + 1)
    count += strncmp(at, line, length) == 0 && at[length] == '\n';
  if (count != 1)
    fail_msg("%d times %s in:\n%s", count, line, lines);
}

static int lines_that_begin(const char *lines, const char *name) {
  int count = 0;
  for (const char *at = lines; *at != '\0'; at += strcspn(at, "\n") + 1)
    count += strncmp(at, name, strlen(name)) == 0;
  return count;
}

/* Checks the one tag: of the job, this process, this engine, and its execution with this number. */
static void has_tag_number(const char *lines, int number) {
  char middle[32], end[16];
  int length = snprintf(middle, sizeof middle, "-%d-", (int)getpid());
  snprintf(end, sizeof end, "-%d", number);
  assert_int_equal(lines_that_begin(lines, STEP_TAG), 1);
  const char *tag = strstr(lines, STEP_TAG "=");
  assert_non_null(tag);
  tag += strlen(STEP_TAG "=");
  assert_int_equal(strspn(tag, "0123456789abcdef"), 8);
  tag += 8;
  assert_int_equal(strncmp(tag, middle, (size_t)length), 0);
  tag += (size_t)length + strspn(tag + length, "0123456789");
  assert_int_equal(strncmp(tag, end, strlen(end)), 0);
  assert_int_equal(tag[strlen(end)], '\n');
}

STEP_TEST(a_step_cannot_override_the_agents_variables) {
  static char inherited[] = STEP_TAG "=outer";
  owner->loop.environment[2] = inherited;
  const char *lines = execution(owner, "'command':'env','env':{'SANDBOX_STEP_ID':'x',"
                                       "'" STEP_TAG "':'x'}");
  has_line(lines, "SANDBOX_STEP_ID=s-1");
  has_tag_number(lines, 1);
  assert_int_equal(lines_that_begin(lines, "SANDBOX_"), 2);
}

/* /work if it exists, or else the agent's own directory. */
STEP_TEST(there_is_a_default_working_directory) {
  struct stat work;
  char *own = getcwd(NULL, 0);
  bool there = stat("/work", &work) == 0 && S_ISDIR(work.st_mode);
  assert_string_equal(execution(owner, "'command':'/bin/pwd'"),
                      formatted("%s\n", there ? "/work" : own));
  free(own);
}

/* --- the trace -------------------------------------------------------------------------------- */

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
