#include <sys/mman.h>

#include "inject/copy.h"
#include "tests/test.h"

/* Around the size of the buffer. */
static const size_t sizes[] = {0, 1, 4096, 65535, 65536, 65537, 2 * 65536, 300000, 3 * 65536 - 1};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Returns a file in memory or on the disk, which is another file system. */
static int new_file(bool in_memory, size_t size) {
  int fd = in_memory ? memfd_create("test", MFD_CLOEXEC)
                     : open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  char *bytes = malloc(size + 1);
  assert_true(fd >= 0);
  assert_non_null(bytes);
  for (size_t i = 0; i < size; i++)
    bytes[i] = (char)(i * 7 + i / 251);
  assert_int_equal(pwrite(fd, bytes, size, 0), (ssize_t)size);
  free(bytes);
  return fd;
}

/* Within and between file systems, and to a file in append mode. */
TEST(every_size_is_copied) {
  for (size_t i = 0; i < SIZES * 8; i++) {
    size_t size = sizes[i / 8];
    int from = new_file(i & 1, size + 3); /* the beginning of a longer one */
    int to = new_file(i & 2, 0);
    assert_int_equal(fcntl(to, F_SETFL, i & 4 ? O_APPEND : 0), 0);
    assert_int_equal(copy_bytes(from, to, (off_t)size), 0);
    assert_int_equal(lseek(to, 0, SEEK_END), (off_t)size);
    assert_int_equal(copy_bytes_same(from, to, (off_t)size), 0); /* it is longer */
    assert_int_equal(ftruncate(from, (off_t)size), 0);
    assert_int_equal(copy_bytes_same(from, to, (off_t)size), 1);
    close(from);
    close(to);
  }
}

TEST(every_byte_and_the_length_are_compared) {
  for (size_t i = 1; i < SIZES; i++) {
    int left = new_file(true, sizes[i]);
    int longer = new_file(false, sizes[i] + 1);
    assert_int_equal(copy_bytes_same(left, longer, (off_t)sizes[i]), 0);
    assert_int_equal(copy_bytes_same(longer, left, (off_t)sizes[i] + 1), 0);
    assert_int_equal(copy_bytes_same(left, left, (off_t)sizes[i] + 1), 0);
    close(longer);
    const off_t places[] = {0, (off_t)sizes[i] / 2, (off_t)sizes[i] - 1};
    for (size_t k = 0; k < 3; k++) {
      char byte;
      int right = new_file(false, sizes[i]);
      assert_int_equal(pread(right, &byte, 1, places[k]), 1);
      byte = (char)(byte ^ 1);
      assert_int_equal(pwrite(right, &byte, 1, places[k]), 1);
      assert_int_equal(copy_bytes_same(left, right, (off_t)sizes[i]), 0);
      close(right);
    }
    close(left);
  }
}

TEST(a_failed_read_or_write_is_an_error) {
  int file = new_file(false, 1000);
  int to = new_file(false, 0);
  int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  const struct {
    int from, to;
    off_t size;
    int error;
  } rows[] = {
      {file, to, 1001, EIO}, /* it became shorter */
      {file, full, 1000, ENOSPC},
      {file, -1, 10, EBADF},
      {full, to, 10, EBADF},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_int_equal(copy_bytes(rows[i].from, rows[i].to, rows[i].size), -1);
    assert_int_equal(errno, rows[i].error);
    assert_int_equal(lseek(file, 0, SEEK_SET), 0);
  }
  assert_int_equal(copy_bytes_same(file, full, 10), -1);
  assert_int_equal(copy_bytes_same(full, file, 10), -1);
  close(file);
  close(to);
  close(full);
}
