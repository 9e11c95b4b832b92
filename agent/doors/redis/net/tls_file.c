#include "agent/doors/redis/net/tls_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int tls_file_check(const char *source, const char *path, struct error *error) {
  struct stat file;
  if (access(path, R_OK) != 0 || stat(path, &file) != 0)
    return error_set(error, "%s: cannot read %.150s: %s", source, path, strerror(errno));
  if (S_ISDIR(file.st_mode))
    return error_set(error, "%s: %.150s is a directory", source, path);
  return S_ISREG(file.st_mode) ? 0 : error_set(error, "%s: %.150s is not a file", source, path);
}

int tls_file_refuse(const char *source, const char *path, struct error *error) {
  return error_set(error,
                   "%s: no certificate in PEM in %.150s that can be used (RSA, P-256 or P-384; no "
                   "critical nameConstraints)",
                   source, path);
}
