#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/*
 * What every test program begins with. A test registers itself, and main() is in
 * tests/support/test_main.c:
 *
 *   TEST(an_empty_one_has_nothing) { … }
 *   TEST(a_cancel_ends_it, job_setup, job_teardown) { struct job *job = *state; … }
 *   TEST_WITH(struct job *job, a_cancel_ends_it, job_setup, job_teardown) { … }  the same
 *   TEST_IF(agent_process_is_shipped(), …)  a test only where this holds; elsewhere it does not
 *                                           exist, and is not skipped
 *   TEST_GROUP(begin_once, end_once)        before the first test, after the last; either may be
 *                                           NULL
 *   TEST_OVERLAP(4)                         for tests that mostly wait: shares them out to so many
 *                                           processes at a time, each of which is a group of its
 *                                           own
 *
 * Where many tests have one fixture, a macro names it:
 *
 *   #define JOB_TEST(NAME) TEST_WITH(struct job *job, NAME, job_setup, job_teardown)
 *   JOB_TEST(a_cancel_ends_it) { … }
 *
 * The umask is 022. TEST_FILTER=<pattern> in the environment runs the tests of these names only
 * ('*' and '?').
 */
struct test {
  const char *name;
  CMUnitTestFunction run;
  CMFixtureFunction fixture[2]; /* set up, tear down */
};

void test_register(const struct test *test);
void test_overlap(int processes);
void test_register_group(CMFixtureFunction set_up, CMFixtureFunction tear_down);

#define TEST(NAME, ...) TEST_IF(true, NAME, __VA_ARGS__)

#define TEST_IF(CONDITION, NAME, ...)                                                              \
  static void NAME(void **state);                                                                  \
  TEST_REGISTER(CONDITION, NAME, NAME, __VA_ARGS__)                                                \
  static void NAME(__attribute__((unused)) void **state)

/* The state is a parameter of its own type. */
#define TEST_WITH(PARAMETER, NAME, ...) TEST_WITH_IF(true, PARAMETER, NAME, __VA_ARGS__)

#define TEST_WITH_IF(CONDITION, PARAMETER, NAME, ...)                                              \
  static void NAME(PARAMETER);                                                                     \
  static void NAME##_of_state(void **state) {                                                      \
    NAME(*state);                                                                                  \
  }                                                                                                \
  TEST_REGISTER(CONDITION, NAME, NAME##_of_state, __VA_ARGS__)                                     \
  static void NAME(__attribute__((unused)) PARAMETER)

#define TEST_REGISTER(CONDITION, NAME, RUN, ...)                                                   \
  __attribute__((constructor)) static void test_register_##NAME(void) {                            \
    if (CONDITION)                                                                                 \
      test_register(&(struct test){#NAME, RUN, {__VA_ARGS__}});                                    \
  }

#define TEST_GROUP(SET_UP, TEAR_DOWN)                                                              \
  __attribute__((constructor)) static void test_register_the_group(void) {                         \
    test_register_group(SET_UP, TEAR_DOWN);                                                        \
  }

#define TEST_OVERLAP(PROCESSES)                                                                    \
  __attribute__((constructor)) static void test_overlap_them(void) {                               \
    test_overlap(PROCESSES);                                                                       \
  }

#endif
