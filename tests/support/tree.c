#include "tests/support/tree.h"
#include "tests/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

int tree_set_up(void **state) {
  struct tree *self = calloc(1, sizeof *self);
  assert_non_null(self);
  *self = (struct tree){.path = "/tmp/unit-test-XXXXXX"};
  assert_non_null(mkdtemp(self->path));
  self->fd = open(self->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(self->fd >= 0);
  *state = self;
  return 0;
}

static int remove_one(const char *path, const struct stat *file, int kind, struct FTW *walk) {
  (void)file;
  (void)walk;
  return kind == FTW_DP ? rmdir(path) : unlink(path);
}

int tree_tear_down(void **state) {
  struct tree *self = *state;
  close(self->fd);
  assert_int_equal(nftw(self->path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
  free(self);
  return 0;
}

void tree_write(const struct tree *self, const char *name, const char *content, mode_t mode) {
  int fd = openat(self->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, content, strlen(content)), (ssize_t)strlen(content));
  assert_int_equal(fchmod(fd, mode), 0);
  close(fd);
}

void tree_make_directory(const struct tree *self, const char *name, mode_t mode) {
  assert_int_equal(mkdirat(self->fd, name, 0700), 0);
  assert_int_equal(fchmodat(self->fd, name, mode, 0), 0);
}

void tree_expect(const struct tree *self, const char *name, const char *content, mode_t mode) {
  struct stat file;
  char text[256];
  assert_int_equal(fstatat(self->fd, name, &file, AT_SYMLINK_NOFOLLOW), 0);
  assert_int_equal(file.st_mode, S_IFREG | mode);
  int fd = openat(self->fd, name, O_RDONLY | O_CLOEXEC);
  ssize_t length = read(fd, text, sizeof text - 1);
  assert_true(length >= 0);
  text[length] = '\0';
  assert_string_equal(text, content);
  close(fd);
}

int tree_open(const struct tree *self, const char *name) {
  int fd = openat(self->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(fd >= 0);
  return fd;
}

bool tree_has(const struct tree *self, const char *name) {
  return faccessat(self->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int tree_count(const struct tree *self, const char *name) {
  DIR *directory = fdopendir(tree_open(self, name));
  assert_non_null(directory);
  int count = -2; /* . and .. */
  while (readdir(directory) != NULL)
    count++;
  closedir(directory);
  return count;
}
