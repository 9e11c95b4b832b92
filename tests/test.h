#pragma once

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/quoted.h"
#include "tests/support/wait.h"

/*
 * The first header of every test program, with the headers that most tests need. A test registers
 * itself; main() is in tests/support/test_main.c.
 *
 *   TEST(an_empty_buffer_has_no_bytes) { … }
 *   TEST(a_cancel_ends_the_step, job_setup, job_teardown) { struct job *job = *state; … }
 *   TEST_WITH(struct job *job, a_cancel_ends_the_step, job_setup, job_teardown) { … }  the same
 *   TEST_IF(agent_process_is_shipped(), …)  registers the test only if the condition is true;
 *                                           otherwise the test does not exist, and is not skipped
 *   TEST_GROUP(begin_once, end_once)        run before the first test and after the last one;
 *                                           either may be NULL
 *   TEST_OVERLAP(4)                         runs up to four tests of the program at the same time,
 *                                           each process as a group of its own; for tests that
 *                                           mostly wait
 *
 * If many tests share a fixture, a macro names it:
 *
 *   #define JOB_TEST(NAME) TEST_WITH(struct job *job, NAME, job_setup, job_teardown)
 *   JOB_TEST(a_cancel_ends_the_step) { … }
 *
 * The umask is 022. The environment variable TEST_FILTER=<pattern> selects tests by name ('*' and
 * '?').
 */
struct test {
  const char *name;
  CMUnitTestFunction run;
  CMFixtureFunction fixture[2]; /* set-up and tear-down */
};

void test_register(const struct test *test);
void test_overlap(int processes);
void test_register_group(CMFixtureFunction set_up, CMFixtureFunction tear_down);

#define TEST(NAME, ...) TEST_IF(true, NAME, __VA_ARGS__)

#define TEST_IF(CONDITION, NAME, ...)                                                              \
  static void NAME(void **state);                                                                  \
  TEST_REGISTER(CONDITION, NAME, NAME, __VA_ARGS__)                                                \
  static void NAME(__attribute__((unused)) void **state)

/* The test function gets the state as a parameter of the given type. */
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
