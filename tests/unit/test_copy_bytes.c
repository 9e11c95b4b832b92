#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inject/copy_bytes.h"
#include "tests/test.h"

/* Around the size of the buffer, at which reads are cut. */
static const size_t sizes[] = {0, 1, 4096, 65535, 65536, 65537, 2 * 65536, 300000, 3 * 65536 - 1};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* A file on the disk, which is there as long as it is open; or in memory, another file system. */
static int new_file(bool in_memory) {
  int fd = in_memory ? memfd_create("test", MFD_CLOEXEC)
                     : open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  return fd;
}

static void fill(int fd, size_t size) {
  char *bytes = malloc(size + 1);
  assert_non_null(bytes);
  for (size_t i = 0; i < size; i++)
    bytes[i] = (char)(i * 7 + i / 251);
  assert_int_equal(pwrite(fd, bytes, size, 0), (ssize_t)size);
  free(bytes);
}

static void copy_all_sizes(bool from_memory, bool to_memory) {
  for (size_t i = 0; i < SIZES; i++) {
    int from = new_file(from_memory);
    int to = new_file(to_memory);
    fill(from, sizes[i]);
    assert_int_equal(copy_bytes(from, to, (off_t)sizes[i]), 0);
    assert_int_equal(lseek(to, 0, SEEK_END), (off_t)sizes[i]);
    assert_int_equal(copy_bytes_same(from, to, (off_t)sizes[i]), 1);
    close(from);
    close(to);
  }
}

TEST(file_systems_may_be_the_same_or_differ) {
  copy_all_sizes(false, false);
  copy_all_sizes(true, true);
  copy_all_sizes(false, true);
  copy_all_sizes(true, false);
}

/* The kernel does not copy to where data is appended. */
TEST(bytes_are_copied_without_help_of_the_kernel) {
  int from = new_file(true);
  int to = new_file(true);
  fill(from, 200000);
  assert_int_equal(fcntl(to, F_SETFL, O_APPEND), 0);
  assert_int_equal(copy_bytes(from, to, 200000), 0);
  assert_int_equal(copy_bytes_same(from, to, 200000), 1);
  close(from);
  close(to);
}

TEST(the_beginning_of_a_file_is_copied) {
  int from = new_file(false);
  int to = new_file(false);
  fill(from, 100000);
  assert_int_equal(copy_bytes(from, to, 70000), 0);
  assert_int_equal(lseek(to, 0, SEEK_END), 70000);
  close(from);
  close(to);
}

TEST(offsets_stay_where_they_are) {
  int from = new_file(false);
  int to = new_file(false);
  fill(from, 1000);
  assert_int_equal(lseek(from, 500, SEEK_SET), 500);
  assert_int_equal(copy_bytes(from, to, 1000), 0);
  assert_int_equal(copy_bytes_same(from, to, 1000), 1);
  assert_int_equal(lseek(from, 0, SEEK_CUR), 500);
  close(from);
  close(to);
}

TEST(a_file_that_became_shorter_is_an_error) {
  int from = new_file(false);
  int to = new_file(false);
  fill(from, 1000);
  assert_int_equal(copy_bytes(from, to, 1001), -1);
  assert_int_equal(errno, EIO);
  close(from);
  close(to);
}

TEST(a_full_disk_is_an_error) {
  int from = new_file(false);
  int to = open("/dev/full", O_WRONLY | O_CLOEXEC);
  fill(from, 1000);
  assert_int_equal(copy_bytes(from, to, 1000), -1);
  assert_int_equal(errno, ENOSPC);
  close(from);
  close(to);
}

TEST(a_descriptor_without_access_is_an_error) {
  int from = new_file(false);
  fill(from, 10);
  int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  assert_int_equal(copy_bytes(from, -1, 10), -1);
  assert_int_equal(errno, EBADF);
  assert_int_equal(copy_bytes(null, from, 10), -1);
  assert_int_equal(errno, EBADF);
  assert_int_equal(copy_bytes_same(from, null, 10), -1);
  assert_int_equal(errno, EBADF);
  assert_int_equal(copy_bytes_same(null, from, 10), -1);
  close(from);
  close(null);
}

TEST(every_byte_is_compared) {
  for (size_t i = 1; i < SIZES; i++) {
    int left = new_file(true);
    int right = new_file(false);
    fill(left, sizes[i]);
    const off_t places[] = {0, (off_t)sizes[i] / 2, (off_t)sizes[i] - 1};
    for (size_t k = 0; k < 3; k++) {
      char byte;
      fill(right, sizes[i]);
      assert_int_equal(copy_bytes_same(left, right, (off_t)sizes[i]), 1);
      assert_int_equal(pread(right, &byte, 1, places[k]), 1);
      byte = (char)(byte ^ 1);
      assert_int_equal(pwrite(right, &byte, 1, places[k]), 1);
      assert_int_equal(copy_bytes_same(left, right, (off_t)sizes[i]), 0);
    }
    close(left);
    close(right);
  }
}

TEST(lengths_are_compared) {
  for (size_t i = 0; i < SIZES; i++) {
    int left = new_file(true);
    int right = new_file(true);
    fill(left, sizes[i]);
    fill(right, sizes[i] + 1);
    assert_int_equal(copy_bytes_same(left, right, (off_t)sizes[i]), 0);
    assert_int_equal(copy_bytes_same(right, left, (off_t)sizes[i]), 0);
    assert_int_equal(copy_bytes_same(left, right, (off_t)sizes[i] + 1), 0);
    assert_int_equal(copy_bytes_same(left, left, (off_t)sizes[i] + 1), 0);
    assert_int_equal(copy_bytes_same(right, right, (off_t)sizes[i]), 0);
    close(left);
    close(right);
  }
}
