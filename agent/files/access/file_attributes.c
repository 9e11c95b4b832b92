#include "agent/files/access/file_attributes.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/memory.h"

static bool has_owner(int fd, const struct stat *old) {
  struct stat file;
  return fstat(fd, &file) == 0 && file.st_uid == old->st_uid && file.st_gid == old->st_gid;
}

/* A file system may also report success and give the file to another user (NFS root_squash). */
bool file_attributes_keep_owner(int to, int from) {
  struct stat old;
  if (fstat(from, &old) != 0)
    return false;
  return has_owner(to, &old) || (fchown(to, old.st_uid, old.st_gid) == 0 && has_owner(to, &old));
}

/* XATTR_SIZE_MAX and XATTR_LIST_MAX of linux/limits.h: the limits for a value and for all names. */
#define VALUE_MAX 65536

#define ACCESS_LIST "system.posix_acl_access"

static bool is_missing(int error) {
  return error == ENODATA || error == EOPNOTSUPP || error == ENOSYS;
}

/* Whether the attribute is missing, or this process may not read or set it. */
static bool is_forbidden(int error) {
  return is_missing(error) || error == EPERM || error == EACCES || error == EINVAL;
}

/* Includes the access list, which copy_rights copies. */
static bool is_skipped(const char *name) {
  return strcmp(name, ACCESS_LIST) == 0 || strcmp(name, "security.capability") == 0 ||
         strcmp(name, "security.ima") == 0 || strcmp(name, "security.evm") == 0;
}

static int copy_extended(int to, int from, char *names, char *value) {
  ssize_t size = flistxattr(from, names, VALUE_MAX);
  if (size < 0)
    return is_forbidden(errno) ? 0 : -1;
  for (const char *name = names; name < names + size; name += strlen(name) + 1) {
    if (is_skipped(name))
      continue;
    ssize_t length = fgetxattr(from, name, value, VALUE_MAX);
    if (length >= 0 && fsetxattr(to, name, value, (size_t)length, 0) == 0)
      continue;
    /* An access list of NFS grants and denies access, so it must not be lost. */
    if (!is_forbidden(errno) || strcmp(name, "system.nfs4_acl") == 0)
      return -1;
  }
  return 0;
}

static ssize_t read_list(int fd, void *list) {
  ssize_t length = fgetxattr(fd, ACCESS_LIST, list, VALUE_MAX);
  return length < 0 && is_missing(errno) ? 0 : length;
}

/* Sets the mode last, because changing the owner or the access list changes it. */
static int copy_rights(int to, int from, void *list) {
  struct stat old, file;
  ssize_t inherited = read_list(to, list);
  if (inherited < 0 || (inherited > 0 && fremovexattr(to, ACCESS_LIST) != 0))
    return -1;
  ssize_t length = read_list(from, list);
  if (length < 0 || fstat(from, &old) != 0 ||
      (length > 0 && fsetxattr(to, ACCESS_LIST, list, (size_t)length, 0) != 0) ||
      fstat(to, &file) != 0)
    return -1;
  /* Some file systems have one mode for all files and do not allow to change it. */
  mode_t mode = old.st_mode & 07777;
  return (file.st_mode & 07777) == mode ? 0 : fchmod(to, mode);
}

int file_attributes_copy(int to, int from) {
  char *names = memory_allocate(VALUE_MAX);
  char *value = memory_allocate(VALUE_MAX);
  int result = copy_extended(to, from, names, value);
  if (result == 0)
    result = copy_rights(to, from, value);
  int error = errno;
  free(names);
  free(value);
  errno = error;
  return result;
}
