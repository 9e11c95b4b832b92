#include "agent/files/access/lexical_path.h"

#include <string.h>

#include "base/memory.h"

/* Adds the components of a path behind `end`, each with a slash in front. Returns the new end. */
static char *append(const char *full, char *end, const char *path) {
  while (*path != '\0') {
    size_t length = strcspn(path, "/");
    if (length == 2 && memcmp(path, "..", 2) == 0) {
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

char *lexical_path_new(const char *directory, const char *path) {
  char *full = memory_allocate(strlen(directory) + strlen(path) + 3);
  char *end = full;
  if (path[0] != '/')
    end = append(full, end, directory);
  end = append(full, end, path);
  if (end == full)
    *end++ = '/';
  *end = '\0';
  return full;
}

const char *lexical_path_below(const char *path, const char *directory) {
  size_t length = strlen(directory);
  if (strcmp(directory, "/") == 0)
    return path + 1;
  if (strncmp(path, directory, length) != 0 || (path[length] != '\0' && path[length] != '/'))
    return NULL;
  return path + length + (path[length] == '/');
}
