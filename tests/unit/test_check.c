#include "base/check.h"
#include "tests/test.h"

TEST(a_failed_check_names_its_place_and_aborts) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  int line = __LINE__ + 6;
  pid_t child = fork();
  if (child == 0) {
    int apples = 1;
    (void)signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    CHECK(apples == 2);
    _exit(0);
  }
  close(ends[1]);
  char text[200] = "";
  assert_true(read(ends[0], text, sizeof text - 1) > 0);
  close(ends[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  char expected[200];
  snprintf(expected, sizeof expected, "tests/unit/test_check.c:%d: this must hold: apples == 2\n",
           line);
  assert_string_equal(text, expected);
}
