#include "tests/support/directory.h"
#include "tests/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

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
