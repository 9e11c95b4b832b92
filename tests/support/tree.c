#include "tests/support/tree.h"

#include <dirent.h>
#include <limits.h>

#include "tests/test.h"

int tree_set_up(void **state) {
  struct tree *self = calloc(1, sizeof *self);
  assert_non_null(self);
  const char *temporary = getenv("TMPDIR");
  int length = snprintf(self->path, sizeof self->path, "%s/unit-test-XXXXXX",
                        temporary == NULL || *temporary == '\0' ? "/tmp" : temporary);
  if (length >= (int)sizeof self->path)
    *self = (struct tree){.path = "/tmp/unit-test-XXXXXX"};
  assert_non_null(mkdtemp(self->path));
  self->fd = open(self->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(self->fd >= 0);
  *state = self;
  return 0;
}

/* Uses descriptors, because a path may be longer than a system call accepts. */
static void remove_all_in(int fd) {
  DIR *directory = fdopendir(fd);
  assert_non_null(directory);
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
        unlinkat(fd, entry->d_name, 0) == 0)
      continue;
    remove_all_in(openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    assert_int_equal(unlinkat(fd, entry->d_name, AT_REMOVEDIR), 0);
  }
  closedir(directory);
}

int tree_tear_down(void **state) {
  struct tree *self = *state;
  remove_all_in(self->fd);
  assert_int_equal(rmdir(self->path), 0);
  free(self);
  return 0;
}

const char *tree_path(const struct tree *self, const char *name) {
  static char paths[8][PATH_MAX];
  static unsigned next;
  char *path = paths[next++ % 8];
  assert_in_range(snprintf(path, PATH_MAX, "%s/%s", self->path, name), 1, PATH_MAX - 1);
  return path;
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

static void make_one(const struct tree *self, char *word) {
  size_t length = strcspn(word, "=>|");
  char mark = word[length];
  word[length] = '\0';
  if (mark == '>')
    assert_int_equal(symlinkat(word + length + 1, self->fd, word), 0);
  else if (mark == '|')
    assert_int_equal(mkfifoat(self->fd, word, 0644), 0);
  else if (length > 0 && word[length - 1] == '/')
    assert_int_equal(mkdirat(self->fd, word, 0755), 0);
  else
    tree_write(self, word, mark == '=' ? word + length + 1 : "", 0644);
}

void tree_make(const struct tree *self, const char *words) {
  char *copy = strdup(words);
  assert_non_null(copy);
  char *rest = copy;
  for (char *word; (word = strsep(&rest, " ")) != NULL;)
    make_one(self, word);
  free(copy);
}

void tree_make_chain(const struct tree *self, const char *name, int levels) {
  int fd = tree_open(self, ".");
  for (int i = 0; i < levels; i++) {
    assert_int_equal(mkdirat(fd, name, 0755), 0);
    int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(below >= 0);
    close(fd);
    fd = below;
  }
  close(fd);
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
