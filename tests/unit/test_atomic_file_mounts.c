/* Writes that a file system prevents: full, read-only, a mount point, another device. */

#include <sys/mount.h>

#include "agent/files/access/atomic_file.h"
#include "agent/files/access/regular_file.h"
#include "tests/support/as_user.h"
#include "tests/support/injection.h"
#include "tests/test.h"

enum { LONG = 1 << 20 };

static void expect_content(struct injection *self, const char *name, const char *expected) {
  struct error error = {.text = ""};
  struct buffer content = {0};
  (void)regular_file_cut(injection_path(self, "%s", name), &(struct line_range){0},
                         REGULAR_FILE_LINES, &content, &error);
  assert_string_equal(error.text, "");
  assert_int_equal(content.length, strlen(expected));
  assert_memory_equal(content.bytes, expected, content.length);
  buffer_release(&content);
}

/* `reason` is the text before the path. */
static void expect_rejected(struct injection *self, const char *name, size_t length,
                            const char *reason) {
  struct error error = {.text = ""};
  char *content = calloc(1, length);
  assert_non_null(content);
  const char *path = injection_path(self, "%s", name);
  const char *expected = formatted("%s: %s", reason, path);
  assert_int_equal(atomic_file_write(AT_FDCWD, path, content, length, &error), -1);
  assert_string_equal(error.text, expected);
  free(content);
}

/* Full, without inodes, read-only. */
INJECTION_TEST(a_full_disk_keeps_the_old_file) {
  static const struct {
    const char *options;
    size_t length;
    const char *old_reason, *new_reason;
  } rows[] = {
      {"size=512k", LONG, "cannot write file (No space left on device)",
       "cannot write file (No space left on device)"},
      {"nr_inodes=2", 1,
       "cannot replace file (no file can be created beside it: No space left on device)",
       "cannot write file (No space left on device)"},
      {NULL, 1, "cannot write file (Read-only file system)",
       "cannot write file (Read-only file system)"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char disk[16], name[32];
    snprintf(disk, sizeof disk, "disk%zu", i);
    injection_mount(self, disk, rows[i].options, 0);
    snprintf(name, sizeof name, "%s/file", disk);
    injection_write(self, name, "old", 0644);
    if (rows[i].options == NULL)
      injection_remount(self, disk, MS_RDONLY);
    expect_rejected(self, name, rows[i].length, rows[i].old_reason);
    expect_content(self, name, "old");
    snprintf(name, sizeof name, "%s/new", disk);
    expect_rejected(self, name, rows[i].length, rows[i].new_reason);
    assert_int_equal(injection_count(self, disk), 1);
  }
  expect_rejected(self, "disk2/a/new", 1, "cannot write file (Read-only file system)");
  struct error error = {.text = ""};
  (void)atomic_file_write(AT_FDCWD, injection_path(self, "disk0/file"), "new", 3, &error);
  assert_string_equal(error.text, "");
  expect_content(self, "disk0/file", "new");
}

struct writing {
  const char *path, *content;
  size_t length;
};

static int write_it(void *context, struct error *error) {
  const struct writing *self = context;
  return atomic_file_write(AT_FDCWD, self->path, self->content, self->length, error);
}

/* The file of another user, which is written in place. A hole has no space, like any content on
   a file system that never writes to the same blocks again. */
INJECTION_TEST(a_full_disk_keeps_the_old_content_in_place) {
  static const struct {
    off_t size; /* of the file, with a hole behind "old" */
    mode_t mode;
    const char *reason;
  } rows[] = {
      {3, 0666, "cannot write file (No space left on device)"},
      {2 * LONG, 0666, "cannot write file (No space left on device)"},
      {2 * LONG, 0222,
       "cannot write file (No space left on device; it now has parts of the old and of the new "
       "content)"},
  };
  char *content = malloc(LONG), *found = malloc(2 * LONG);
  assert_non_null(content);
  assert_non_null(found);
  memset(content, 'x', LONG);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char disk[16];
    snprintf(disk, sizeof disk, "disk%zu", i);
    injection_mount(self, disk, "size=64k,mode=777", 0);
    const char *path = injection_path(self, "%s/file", disk);
    injection_write(self, formatted("%s/file", disk), "old", 0644);
    assert_int_equal(truncate(path, rows[i].size), 0);
    assert_int_equal(chmod(path, rows[i].mode), 0);
    struct error error = {.text = ""};
    struct writing writing = {path, content, LONG};
    assert_int_equal(as_user(NOBODY, NOBODY, write_it, &writing, &error), -1);
    assert_string_equal(error.text, formatted("%s: %s", rows[i].reason, path));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(read(fd, found, 2 * LONG), rows[i].size);
    close(fd);
    if (rows[i].mode == 0666) {
      assert_memory_equal(found, "old", 3);
      assert_null(memchr(found, 'x', (size_t)rows[i].size));
    }
    assert_int_equal(injection_count(self, disk), 1);
  }
  free(content);
  free(found);
}

/* /etc/hosts of a container, a key of a ConfigMap by subPath. */
INJECTION_TEST(a_mounted_file_is_not_replaced) {
  injection_write(self, "outside", "old", 0644);
  injection_make_directory(self, "etc", 0755, 0);
  injection_write(self, "etc/hosts", "", 0644);
  assert_int_equal(mount(injection_path(self, "outside"), injection_path(self, "etc/hosts"), NULL,
                         MS_BIND, NULL),
                   0);
  expect_rejected(self, "etc/hosts", 1, "cannot replace file (it is a mount point)");
  expect_content(self, "outside", "old");
  assert_int_equal(injection_count(self, "etc"), 1);
  assert_int_equal(
      mount(injection_path(self, "etc"), injection_path(self, "etc"), NULL, MS_BIND | MS_REC, NULL),
      0);
  assert_int_equal(
      mount(NULL, injection_path(self, "etc"), NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL), 0);
  expect_rejected(self, "etc/hosts", 1,
                  "cannot replace file (no file can be created beside it: Read-only file system)");
  expect_content(self, "outside", "old");
  assert_int_equal(umount2(injection_path(self, "etc"), MNT_DETACH), 0);
  assert_int_equal(umount2(injection_path(self, "etc/hosts"), MNT_DETACH), 0);
}

/* Returns the result of atomic_file_move. */
static int move(struct injection *self, const char *from, const char *to, struct error *error) {
  const char *path = injection_path(self, "%s", from);
  int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
  assert_true(fd >= 0);
  int result = atomic_file_move(fd, AT_FDCWD, path, injection_path(self, "%s", to), error);
  close(fd);
  return result;
}

static void moves(struct injection *self, const char *from, const char *to) {
  struct error error = {.text = ""};
  (void)move(self, from, to, &error);
  assert_string_equal(error.text, "");
  assert_int_not_equal(access(injection_path(self, "%s", from), F_OK), 0);
}

INJECTION_TEST(a_file_is_moved_to_another_device) {
  injection_mount(self, "other", "size=1m", 0);
  injection_write(self, "from", "new", 0644);
  moves(self, "from", "other/file");
  expect_content(self, "other/file", "new");
  /* The move replaces an existing file. */
  assert_int_equal(chmod(injection_path(self, "other/file"), 0751), 0);
  assert_int_equal(chown(injection_path(self, "other/file"), 1234, 4321), 0);
  injection_write(self, "from", "newer", 0644);
  moves(self, "from", "other/file");
  expect_content(self, "other/file", "newer");
  struct stat file;
  assert_int_equal(stat(injection_path(self, "other/file"), &file), 0);
  assert_int_equal(file.st_mode & 07777, 0751);
  assert_int_equal(file.st_uid, 1234);
  assert_int_equal(file.st_gid, 4321);
  assert_int_equal(injection_count(self, "other"), 1);
}

/* A minimal root file system has no /proc. The file is then checked again after it was opened. */
INJECTION_TEST(files_are_read_and_written_without_proc) {
  injection_write(self, "file", "\xEF\xBB\xBFold", 0644);
  assert_int_equal(symlink("file", injection_path(self, "link")), 0);
  assert_int_equal(mkfifo(injection_path(self, "fifo"), 0644), 0);
  assert_int_equal(mount("tmpfs", "/proc", "tmpfs", 0, NULL), 0);
  struct error error = {.text = ""};
  struct buffer content = {0};
  int fifo = regular_file_cut(injection_path(self, "fifo"), &(struct line_range){0},
                              REGULAR_FILE_LINES, &content, &error);
  int written =
      atomic_file_write(AT_FDCWD, injection_path(self, "link"), "\xEF\xBB\xBFnew", 6, &error);
  int again = atomic_file_write(AT_FDCWD, injection_path(self, "link"), "newer", 5, &error);
  int result = regular_file_cut(injection_path(self, "file"), &(struct line_range){0},
                                REGULAR_FILE_LINES, &content, &error);
  assert_int_equal(umount2("/proc", MNT_DETACH), 0);
  assert_int_equal(fifo, -1);
  assert_ptr_equal(strstr(error.text, "is a FIFO, not a regular file: "), error.text);
  assert_int_equal(written, 0);
  assert_int_equal(again, 0);
  assert_int_equal(result, 0);
  assert_int_equal(content.length, 5);
  assert_memory_equal(content.bytes, "newer", 5);
  buffer_release(&content);
}

TEST_GROUP(injection_begin_group, NULL)
