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
 *   #define TREE_TEST(NAME) TEST_WITH(struct tree *tree, tree_set_up, tree_tear_down, NAME)
 *   TREE_TEST(a_file_is_read) { … }         with a state that has a type and a name
 *   TEST_IF(agent_process_is_shipped(), …)  a test only where this holds; elsewhere it does not
 * exist, and is not skipped TEST_GROUP(begin_once, end_once)        before the first test, after
 * the last; either may be NULL
 *   TEST_OVERLAP(4)                         for tests that mostly wait: shares them out to so many
 *                                           processes at a time, each of which is a group of its
 * own
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
  __attribute__((constructor)) static void test_register_##NAME(void) {                            \
    if (CONDITION)                                                                                 \
      test_register(&(struct test){#NAME, NAME, {__VA_ARGS__}});                                   \
  }                                                                                                \
  static void NAME(__attribute__((unused)) void **state)

#define TEST_WITH(STATE, SET_UP, TEAR_DOWN, NAME)                                                  \
  static void NAME(STATE);                                                                         \
  static void run_##NAME(void **state) {                                                           \
    NAME(*state);                                                                                  \
  }                                                                                                \
  __attribute__((constructor)) static void test_register_##NAME(void) {                            \
    test_register(&(struct test){#NAME, run_##NAME, {SET_UP, TEAR_DOWN}});                         \
  }                                                                                                \
  static void NAME(__attribute__((unused)) STATE)

#define TEST_GROUP(SET_UP, TEAR_DOWN)                                                              \
  __attribute__((constructor)) static void test_register_the_group(void) {                         \
    test_register_group(SET_UP, TEAR_DOWN);                                                        \
  }

#define TEST_OVERLAP(PROCESSES)                                                                    \
  __attribute__((constructor)) static void test_overlap_them(void) {                               \
    test_overlap(PROCESSES);                                                                       \
  }

#endif
