#include "agent/files/access/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

/* Appends the components of a path at `end`, each with a slash in front. With `goes_up`, ".."
   removes a component instead. Returns the new end. */
static char *append(const char *full, char *end, const char *path, bool goes_up) {
  while (*path != '\0') {
    size_t length = strcspn(path, "/");
    if (goes_up && length == 2 && memcmp(path, "..", 2) == 0) {
      while (end > full && *--end != '/')
        continue;
    } else if (length > 0 && (length > 1 || path[0] != '.')) {
      *end++ = '/';
      memcpy(end, path, length);
      end += length;
    }
    path += length;
    path += *path == '/';
  }
  return end;
}

static char *join(const char *directory, const char *path, bool goes_up) {
  char *full = memory_allocate(strlen(directory) + strlen(path) + 3);
  char *end = full;
  if (path[0] != '/')
    end = append(full, end, directory, goes_up);
  end = append(full, end, path, goes_up);
  if (end == full)
    *end++ = '/';
  *end = '\0';
  return full;
}

char *path_full(const char *path, struct error *error) {
  char current[PATH_MAX] = "";
  if (path[0] != '/' && getcwd(current, sizeof current) == NULL) {
    (void)error_set(error, "no current directory (%s) for: %s", strerror(errno), path);
    return NULL;
  }
  return join(current, path, false);
}

int path_fail(struct error *error, int at, const char *path, const char *format, ...) {
  struct error reason, ignored;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(reason.text, sizeof reason.text, format, arguments);
  va_end(arguments);
  char *full = at == AT_FDCWD && path[0] != '/' ? path_full(path, &ignored) : NULL;
  (void)error_set(error, "%s: %s", reason.text, full != NULL ? full : path);
  free(full);
  return -1;
}

bool path_is_home(const char *path) {
  return path[0] == '~' && (path[1] == '\0' || path[1] == '/');
}

char *path_lexical(const char *directory, const char *path) {
  return join(directory, path, true);
}

const char *path_below(const char *path, const char *directory) {
  size_t length = strlen(directory);
  if (strcmp(directory, "/") == 0)
    return path + 1;
  if (strncmp(path, directory, length) != 0 || (path[length] != '\0' && path[length] != '/'))
    return NULL;
  return path + length + (path[length] == '/');
}
