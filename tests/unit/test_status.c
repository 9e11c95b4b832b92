/* The content of a heartbeat. */
#include "agent/frontends/redis/heartbeat/status.h"
#include "tests/test.h"

static const struct cgroup *no_container(void) {
  static const struct cgroup none = CGROUP_NONE;
  return &none;
}

static char *directory(void) {
  return strdup("/a b");
}

static char *write_once(struct status *self, size_t held, uint64_t reconnects) {
  static const struct status_sources sources = {no_container, directory};
  struct buffer out = {0};
  status_write(self, &sources, held, reconnects, &out);
  buffer_add(&out, "", 1);
  return out.bytes;
}

static void count(struct status *self, enum step_cause cause, int exit_code) {
  step_counts_add(&self->steps,
                  &(struct step_result){.exit_code = exit_code, .end = {.cause = cause}});
}

static void expect_end(struct status *self, size_t held, const char *end) {
  char *text = write_once(self, held, 3);
  const char *quotes = quoted(end);
  assert_int_equal(strncmp(text, quoted(",'Version':'7.8','Protocol':'1-2','Features':['"), 47), 0);
  assert_true(strlen(text) > strlen(quotes));
  assert_string_equal(text + strlen(text) - strlen(quotes), quotes);
  free(text);
}

static const struct buffer abilities;

TEST(figures_are_updated_for_two_values_and_then_for_each_fifth) {
  static const char at_first[] = "],'WorkingDirectory':'/a b','Steps':{'ok':0,'failed':0,"
                                 "'timedOut':0,'cancelled':0},'HeldBytes':5,'Reconnects':3";
  static const char *const without[] = {NULL};
  struct status status = {0};
  status_announce(&status, "7.8", without, &abilities);
  expect_end(&status, 5, at_first);
  count(&status, STEP_CAUSE_EXITED, 0);
  count(&status, STEP_CAUSE_EXITED, 1);
  count(&status, STEP_CAUSE_SIGNAL, 137);
  count(&status, STEP_CAUSE_NOT_STARTED, -1);
  count(&status, STEP_CAUSE_MEMORY_LIMIT, 137);
  count(&status, STEP_CAUSE_TIMEOUT, -1);
  count(&status, STEP_CAUSE_CANCELLED, -1);
  for (int i = 0; i < STATUS_REFRESHED; i++)
    expect_end(&status, 6,
               ",'Steps':{'ok':1,'failed':4,'timedOut':1,'cancelled':1},'HeldBytes':6,"
               "'Reconnects':3");
  expect_end(
      &status, 7,
      ",'Steps':{'ok':1,'failed':4,'timedOut':1,'cancelled':1},'HeldBytes':7,'Reconnects':3");
  status_release(&status);
}

TEST(each_value_after_a_reconnect_has_figures) {
  static const char *const without[] = {NULL};
  struct status status = {0};
  status_announce(&status, "7.8", without, &abilities);
  for (int i = 0; i < 2 * STATUS_REFRESHED; i++) {
    free(write_once(&status, 5, 3));
    status_announce(&status, "7.8", without, &abilities);
    expect_end(&status, 6, ",'HeldBytes':6,'Reconnects':3");
  }
  status_release(&status);
}
