/* The limits of the agent and of a step together. */
#include "tests/test.h"
#include "wire/policy.h"

static void expect_limits(const struct policy_limits *agent, const struct policy_limits *step,
                          struct policy_limits expected) {
  const struct policy_limits merged = policy_limits_merge(agent, step);
  assert_memory_equal(&merged, &expected, sizeof merged);
}

TEST(without_an_object_there_is_no_limit) {
  const struct policy_limits merged = policy_limits_merge(NULL, NULL);
  expect_limits(NULL, NULL, (struct policy_limits){.core_bytes = POLICY_CORE_UNLIMITED});
  assert_false(policy_limits_exist(&merged));
}

TEST(an_empty_object_is_a_limit_of_core_files) {
  const struct policy_limits empty = {0};
  const struct policy_limits merged = policy_limits_merge(&empty, NULL);
  assert_true(policy_limits_exist(&merged));
  expect_limits(&empty, NULL, empty);
  expect_limits(NULL, &empty, empty);
  expect_limits(&empty, &(struct policy_limits){.core_bytes = 9}, empty);
}

TEST(the_limits_of_one_side_count_without_the_other) {
  const struct policy_limits limits = {1, 2, 3, 4, 5, 6};
  expect_limits(&limits, NULL, limits);
  expect_limits(NULL, &limits, limits);
}

TEST(of_two_limits_the_smaller_one_counts) {
  const struct policy_limits one = {10, 0, 3, UINT64_MAX, 0, 7},
                             other = {9, 5, 4, UINT64_MAX - 1, 0, 8},
                             smaller = {9, 5, 3, UINT64_MAX - 1, 0, 7};
  expect_limits(&one, &other, smaller);
  expect_limits(&other, &one, smaller);
}

TEST_GROUP(NULL, NULL)
