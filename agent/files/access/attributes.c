#include "agent/files/access/attributes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/memory.h"

/* XATTR_SIZE_MAX and XATTR_LIST_MAX of linux/limits.h: the longest value, and all names. */
#define VALUE_MAX 65536

/* A POSIX access list as the kernel gives it (linux/posix_acl_xattr.h, which musl's headers do not
   come with): a header of 4 bytes, then entries of 8, little-endian: tag, rights, id. */
#define ACCESS_LIST "system.posix_acl_access"
enum { HEADER = 4, ENTRY = 8, RIGHTS = 2 };
enum { TAG_GROUP = 0x04, TAG_NAMED_GROUP = 0x08, TAG_MASK = 0x10, TAG_OTHERS = 0x20 };

/* --- attributes --- */

/* What is known not to be there, or not to be this process's to read or set. */
static bool is_missing(int error) {
  return error == ENODATA || error == EOPNOTSUPP || error == ENOSYS;
}

static bool is_forbidden(int error) {
  return is_missing(error) || error == EPERM || error == EACCES || error == EINVAL;
}

/* The access list is copied by itself. */
static bool is_left_out(const char *name) {
  static const char *const names[] = {ACCESS_LIST, "security.capability", "security.ima",
                                      "security.evm"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0)
      return true;
  return false;
}

/* Attributes that are access lists of NFS are rights; a file without any other attribute is only poorer. */
static bool may_be_lost(const char *name, int error) {
  return is_forbidden(error) && strcmp(name, "system.nfs4_acl") != 0;
}

static int copy_extended(int to, int from, char *names, char *value) {
  ssize_t size = flistxattr(from, names, VALUE_MAX);
  if (size < 0)
    return is_forbidden(errno) ? 0 : -1;
  for (const char *name = names; name < names + size; name += strlen(name) + 1) {
    if (is_left_out(name))
      continue;
    ssize_t length = fgetxattr(from, name, value, VALUE_MAX);
    if ((length < 0 || fsetxattr(to, name, value, (size_t)length, 0) != 0) &&
        !may_be_lost(name, errno))
      return -1;
  }
  return 0;
}

/* --- rights --- */

/* Returns the length, 0 for none, or -1. */
static ssize_t read_list(int fd, void *list) {
  ssize_t length = fgetxattr(fd, ACCESS_LIST, list, VALUE_MAX);
  return length < 0 && is_missing(errno) ? 0 : length;
}

/* For another group than the one that had them: changes the rights of the group and of everybody
   to what all groups and everybody had. Where there is a mask, the mode's bits for the group are
   the mask. Returns the mode. */
static mode_t limit_groups(unsigned char *list, ssize_t length, mode_t mode) {
  unsigned least = mode >> 3 & mode & S_IRWXO;
  mode_t changed = S_IRWXG | S_IRWXO;
  const unsigned char *end = list + length;
  for (const unsigned char *entry = list + HEADER; end - entry >= ENTRY; entry += ENTRY) {
    if (*entry == TAG_GROUP || *entry == TAG_NAMED_GROUP)
      least &= entry[RIGHTS];
    if (*entry == TAG_MASK)
      changed = S_IRWXO;
  }
  for (unsigned char *entry = list + HEADER; end - entry >= ENTRY; entry += ENTRY)
    if (*entry == TAG_GROUP || *entry == TAG_OTHERS)
      entry[RIGHTS] = (unsigned char)least;
  return (mode & ~changed) | ((least << 3 | least) & changed);
}

/* The mode comes last: a change of the owner takes bits of it away. */
static int copy_rights(int to, int from, unsigned char *list) {
  struct stat old, file;
  ssize_t inherited = read_list(to, list);
  if (inherited < 0 || (inherited > 0 && fremovexattr(to, ACCESS_LIST) != 0))
    return -1;
  ssize_t length = read_list(from, list);
  if (length < 0 || fstat(from, &old) != 0)
    return -1;
  if (fchown(to, old.st_uid, old.st_gid) != 0)
    (void)!fchown(to, (uid_t)-1, old.st_gid);
  if (fstat(to, &file) != 0)
    return -1;
  mode_t mode = old.st_mode & 07777;
  if (file.st_uid != old.st_uid || file.st_gid != old.st_gid)
    mode &= ~(mode_t)(S_ISUID | S_ISGID);
  if (file.st_gid != old.st_gid)
    mode = limit_groups(list, length, mode);
  if (length > 0 && (fsetxattr(to, ACCESS_LIST, list, (size_t)length, 0) != 0 ||
                     fstat(to, &file) != 0)) /* it sets the mode, too */
    return -1;
  /* Some file systems have one mode for all files and refuse to change it. */
  return (file.st_mode & 07777) == mode ? 0 : fchmod(to, mode);
}

int attributes_copy(int to, int from) {
  char *names = memory_allocate(VALUE_MAX);
  char *value = memory_allocate(VALUE_MAX);
  int result = copy_extended(to, from, names, value);
  if (result == 0)
    result = copy_rights(to, from, (unsigned char *)value);
  int error = errno;
  free(names);
  free(value);
  errno = error;
  return result;
}
