#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own_program.h"
#include "tests/test.h"

TEST(it_is_this_file) {
  struct stat opened;
  struct stat linked;
  int fd = own_program_open();
  assert_true(fd >= 0);
  assert_int_equal(fstat(fd, &opened), 0);
  assert_int_equal(stat("/proc/self/exe", &linked), 0);
  assert_int_equal(opened.st_ino, linked.st_ino);
  close(fd);
}

TEST(its_directory_holds_it) {
  char path[2 * PATH_MAX];
  assert_true(own_program_directory(path, PATH_MAX));
  assert_int_equal(path[0], '/');
  strcat(path, "/test_own_program");
  assert_int_equal(access(path, X_OK), 0);
}
