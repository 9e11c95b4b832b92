/* Sandbox policies together with limits. */

#include <sys/resource.h>

#include "tests/support/fence_trial.h"
#include "tests/test.h"

FENCE_GROUP()

static const cJSON *result_of(const struct fence_outcome *outcome) {
  return cJSON_GetArrayItem(outcome->events, cJSON_GetArraySize(outcome->events) - 1);
}

/* The listener of the filter is the only descriptor that a policy leaves open for a moment. */
FENCE_TEST(network_loopback_needs_no_descriptor_of_the_step) {
  static const char step[] = "{'command':'sh','args':['-c','ulimit -n'],"
                             "'fence':{'network':'loopback'},'limits':{'openFiles':4}}";
  fence_trial_expect(trial, &(struct fence_step){.json = step}, "4");
}

static void limit_processor_time(const void *context) {
  const struct rlimit limit = {.rlim_cur = 100, .rlim_max = 100};
  (void)context;
  assert_int_equal(setrlimit(RLIMIT_CPU, &limit), 0);
}

/* The supervisor that works on files has used processor time before, but cannot raise the limit. */
FENCE_TEST(a_limit_of_processor_time_above_that_of_the_agent_counts_for_no_file_kind) {
  static const char *const limits[] = {"97", "100", "600"};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    struct fence_outcome outcome;
    const char *step =
        formatted("{'kind':'readFile','path':'@/in/file','limits':{'cpuSeconds':%s}}", limits[i]);
    fence_trial_run(trial, &(struct fence_step){.json = step, .prepare = limit_processor_time},
                    &outcome);
    if (cJSON_GetNumberValue(cJSON_GetObjectItem(result_of(&outcome), "exitCode")) != 0)
      fail_msg("%s s: %s", limits[i], outcome.answer);
  }
}
