#include "agent/files/access/full_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

/* Appends the components of a path to `full`, each with a slash in front. Returns the end. */
static char *append(char *full, const char *path) {
  while (*path != '\0') {
    size_t length = strcspn(path, "/");
    if (length > 0 && (length > 1 || path[0] != '.')) {
      *full++ = '/';
      memcpy(full, path, length);
      full += length;
    }
    path += length;
    path += *path == '/';
  }
  return full;
}

char *full_path_new(const char *path, struct error *error) {
  char current[PATH_MAX] = "";
  if (path[0] != '/' && getcwd(current, sizeof current) == NULL) {
    (void)error_set(error, "no current directory (%s) for: %s", strerror(errno), path);
    return NULL;
  }
  char *full = memory_allocate(strlen(current) + strlen(path) + 3);
  char *end = append(append(full, current), path);
  if (end == full)
    *end++ = '/';
  *end = '\0';
  return full;
}

int full_path_fail(struct error *error, int at, const char *path, const char *format, ...) {
  struct error reason;
  struct error ignored;
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(reason.text, sizeof reason.text, format, arguments);
  va_end(arguments);
  char *full = at == AT_FDCWD && path[0] != '/' ? full_path_new(path, &ignored) : NULL;
  (void)error_set(error, "%s: %s", reason.text, full != NULL ? full : path);
  free(full);
  return -1;
}

const char *full_path_name(const char *full_path) {
  return strrchr(full_path, '/') + 1;
}
