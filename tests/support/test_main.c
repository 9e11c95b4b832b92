#include <errno.h>
#include <sys/stat.h>

#include "tests/test.h"

enum { TESTS_MAX = 256 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t test_count;
static CMFixtureFunction group_set_up, group_tear_down;

/* Called before main, in the order in which the tests stand in their file. */
void test_register(const struct test *test) {
  if (test_count == TESTS_MAX)
    abort();
  tests[test_count++] = (struct CMUnitTest){.name = test->name,
                                            .test_func = test->run,
                                            .setup_func = test->fixture[0],
                                            .teardown_func = test->fixture[1]};
}

void test_register_group(CMFixtureFunction set_up, CMFixtureFunction tear_down) {
  group_set_up = set_up;
  group_tear_down = tear_down;
}

int main(void) {
  umask(022);
  const char *filter = getenv("TEST_FILTER");
  if (filter != NULL)
    cmocka_set_test_filter(filter);
  return _cmocka_run_group_tests(program_invocation_short_name, tests, test_count, group_set_up,
                                 group_tear_down);
}
