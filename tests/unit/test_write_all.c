#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/write_all.h"
#include "tests/test.h"

enum { LENGTH = 1 << 20 };

/* Reads until the end. Returns whether it was `length` bytes of 'x'. */
static bool reads_all(int fd, size_t length) {
  char bytes[1000];
  size_t count = 0;
  for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0; count += (size_t)n)
    for (ssize_t i = 0; i < n; i++)
      if (bytes[i] != 'x')
        return false;
  return count == length;
}

/* More than a pipe holds: one call of write(2) that a signal interrupts writes a part. */
TEST(more_than_a_pipe_holds_is_written) {
  static char bytes[LENGTH];
  int ends[2];
  memset(bytes, 'x', sizeof bytes);
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  pid_t reader = fork();
  assert_true(reader >= 0);
  if (reader == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[1]);
    _exit(reads_all(ends[0], LENGTH) ? 0 : 1);
  }
  close(ends[0]);
  assert_int_equal(write_all(ends[1], bytes, sizeof bytes), 0);
  close(ends[1]);
  int status;
  assert_int_equal(waitpid(reader, &status, 0), reader);
  assert_int_equal(status, 0);
}

TEST(nothing_is_written_without_a_call) {
  assert_int_equal(write_all(-1, NULL, 0), 0);
}

TEST(an_error_is_returned) {
  assert_int_equal(write_all(-1, "x", 1), -1);
  assert_int_equal(errno, EBADF);
  int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  assert_true(full >= 0);
  assert_int_equal(write_all(full, "x", 1), -1);
  assert_int_equal(errno, ENOSPC);
  close(full);
}
