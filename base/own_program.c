#include "base/own_program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/check.h"

static const char own_link[] = "/proc/self/exe";

int own_program_open(void) {
  int fd = open(own_link, O_RDONLY | O_CLOEXEC);
  if (fd >= 0)
    return fd;
  const char *path = (const char *)getauxval(AT_EXECFN); /* NULL if it is not known */
  int error = errno;
  fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0 && error != ENOENT)
    errno = error; /* /proc is mounted, so its error is the reason */
  return fd;
}

bool own_program_directory(char *out, size_t size) {
  CHECK(size >= PATH_MAX); /* realpath */
  const char *path = (const char *)getauxval(AT_EXECFN);
  ssize_t length = readlink(own_link, out, size - 1);
  if (length > 0)
    out[length] = '\0';
  else if (path == NULL || realpath(path, out) == NULL)
    return false;
  char *slash = strrchr(out, '/');
  if (slash != NULL)
    *slash = '\0';
  return slash != NULL;
}
