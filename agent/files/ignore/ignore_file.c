#include "agent/files/ignore/ignore_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

#define CONFIG_MAX ((size_t)256 * 1024)

static const int reading = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
static const int looking = O_PATH | O_DIRECTORY | O_CLOEXEC;

/* Returns false when it is longer than `max`, or cannot be read. */
static bool fill(int fd, size_t max, struct buffer *text) {
  for (;;) {
    size_t room = 4096;
    ssize_t n = read(fd, buffer_space(text, room), room);
    if (n == 0)
      return true;
    if (n < 0 && errno != EINTR)
      return false;
    text->length += n > 0 ? (size_t)n : 0;
    if (text->length > max)
      return false;
  }
}

enum ignore_file ignore_file_read(int at, const char *path, size_t max, struct buffer *text) {
  struct stat file;
  /* Most directories have none, and what is not opened is not woken. Where nobody may look, as in the
     home directory of another user, nothing says that there is one. */
  if (fstatat(at, path, &file, 0) != 0)
    return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES
               ? IGNORE_FILE_NONE
               : IGNORE_FILE_UNREADABLE;
  if (!S_ISREG(file.st_mode))
    return IGNORE_FILE_NONE;
  int fd = openat(at, path, reading);
  if (fd < 0)
    return errno == ENOENT ? IGNORE_FILE_NONE : IGNORE_FILE_UNREADABLE;
  bool is_read = fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && fill(fd, max, text);
  (void)close(fd);
  return is_read ? IGNORE_FILE_READ : IGNORE_FILE_UNREADABLE;
}

/* --- git's directories --- */

/* The first line of a file, to be freed; NULL when there is none. */
static char *first_line(int at, const char *path) {
  struct buffer text = {0};
  char *line = NULL;
  if (ignore_file_read(at, path, PATH_MAX + 64, &text) == IGNORE_FILE_READ && text.length > 0) {
    line = memory_copy(text.bytes, text.length);
    line[strcspn(line, "\r\n")] = '\0';
  }
  buffer_release(&text);
  return line;
}

/* What a `.git` file names, and of a worktree the directory that all of them share. */
static int open_named(int directory) {
  static const char prefix[] = "gitdir: ";
  char *line = first_line(directory, ".git");
  int named = -1;
  if (line != NULL && strncmp(line, prefix, sizeof prefix - 1) == 0)
    named = openat(directory, line + sizeof prefix - 1, looking);
  free(line);
  char *common = named >= 0 ? first_line(named, "commondir") : NULL;
  if (common == NULL)
    return named;
  int shared = openat(named, common, looking);
  free(common);
  (void)close(named);
  return shared;
}

int ignore_file_git_directory(int directory, bool *is_repository) {
  struct stat file;
  *is_repository = fstatat(directory, ".git", &file, 0) == 0;
  if (!*is_repository)
    return -1;
  return S_ISREG(file.st_mode) ? open_named(directory) : openat(directory, ".git", looking);
}

/* --- git's global file --- */

static char *joined(const char *directory, const char *path) {
  char *whole;
  if (asprintf(&whole, "%s/%s", directory, path) < 0)
    memory_exhausted("a path");
  return whole;
}

/* The value of a line `excludesFile = value`, to be freed; NULL for another line. `line` is written
   to. */
static char *excludes_value(char *line, const char *home) {
  static const char key[] = "excludesfile";
  static const char spaces[] = " \t\r";
  line += strspn(line, spaces);
  if (strncasecmp(line, key, sizeof key - 1) != 0)
    return NULL;
  line += sizeof key - 1;
  line += strspn(line, spaces);
  if (*line++ != '=')
    return NULL;
  line += strspn(line, spaces);
  size_t length = strlen(line);
  while (length > 0 && strchr(spaces, line[length - 1]) != NULL)
    length--;
  line[length] = '\0';
  if (length > 1 && line[0] == '"' && line[length - 1] == '"') {
    line[length - 1] = '\0';
    line++;
  }
  if (strncmp(line, "~/", 2) == 0)
    return home != NULL ? joined(home, line + 2) : NULL;
  return line[0] == '/' ? joined("", line + 1) : NULL;
}

/* `path` is freed. */
static char *excludes_of(char *path, const char *home) {
  struct buffer text = {0};
  char *value = NULL;
  if (ignore_file_read(AT_FDCWD, path, CONFIG_MAX, &text) == IGNORE_FILE_READ && text.length > 0) {
    char *copy = memory_copy(text.bytes, text.length);
    char *rest = copy;
    for (char *line; value == NULL && (line = strsep(&rest, "\n")) != NULL;)
      value = excludes_value(line, home);
    free(copy);
  }
  buffer_release(&text);
  free(path);
  return value;
}

char *ignore_file_global(const char *home, const char *config) {
  home = home != NULL && home[0] == '/' ? home : NULL;
  char *directory = NULL;
  if (config != NULL && config[0] == '/')
    directory = memory_copy(config, strlen(config));
  else if (home != NULL)
    directory = joined(home, ".config");
  char *path = home != NULL ? excludes_of(joined(home, ".gitconfig"), home) : NULL;
  if (path == NULL && directory != NULL)
    path = excludes_of(joined(directory, "git/config"), home);
  if (path == NULL && directory != NULL)
    path = joined(directory, "git/ignore");
  free(directory);
  return path;
}
