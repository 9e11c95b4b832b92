#include "tests/support/directory.h"

#include <dirent.h>

#include "tests/test.h"

void directory_init(struct directory *self) {
  *self = (struct directory){.path = "/tmp/unit-test-XXXXXX"};
  assert_non_null(mkdtemp(self->path));
}

void directory_release(struct directory *self) {
  DIR *entries = opendir(self->path);
  assert_non_null(entries);
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      assert_int_equal(unlinkat(dirfd(entries), entry->d_name, 0), 0);
  closedir(entries);
  assert_int_equal(rmdir(self->path), 0);
}

const char *directory_path(const struct directory *self, const char *name) {
  static char paths[8][128];
  static unsigned next;
  char *path = paths[next++ % 8];
  assert_in_range(snprintf(path, sizeof paths[0], "%s/%s", self->path, name), 1,
                  sizeof paths[0] - 1);
  return path;
}

void directory_touch(const struct directory *self, const char *name) {
  int fd = open(directory_path(self, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  close(fd);
}

bool directory_has(const struct directory *self, const char *name) {
  return access(directory_path(self, name), F_OK) == 0;
}
