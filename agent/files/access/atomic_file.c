#include "agent/files/access/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "agent/files/access/path.h"
#include "agent/files/access/regular_file.h"
#include "base/base64.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/staged_file.h"
#include "base/utf8.h"
#include "base/write_all.h"

/* --- where a file is written --- */

/* As many as the kernel follows (MAXSYMLINKS). */
#define LINKS_MAX 40

/* PROC_SUPER_MAGIC of linux/magic.h, which musl's headers do not come with. */
#define PROC_MAGIC 0x9fa0

/* What a path leads to: an open directory and a name in it that is no symbolic link. Only these two are
   used, whatever becomes of the path. */
struct target {
  int directory; /* O_PATH; -1: released */
  char name[256];
  bool exists;
  struct stat file; /* when it exists: a regular file that may be written */
};

static void target_release(struct target *self) {
  if (self->directory >= 0)
    close(self->directory);
  self->directory = -1;
}

static int open_directory(int at, const char *path) {
  return openat(at, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* Opens an entry of `fd` as a directory, created if it is missing, and closes `fd`. */
static int descend(int fd, const char *from, size_t length) {
  char name[NAME_MAX + 1];
  int below = -1;
  errno = ENAMETOOLONG;
  if (length < sizeof name) {
    memcpy(name, from, length);
    name[length] = '\0';
    below = open_directory(fd, name);
    if (below < 0 && errno == ENOENT && (mkdirat(fd, name, 0777) == 0 || errno == EEXIST))
      below = open_directory(fd, name);
  }
  int descend_errno = errno;
  close(fd);
  errno = descend_errno;
  return below;
}

/* Sets directory and name for a path: opens the directory of its last component. */
static int enter(struct target *self, int at, const char *path) {
  const char *slash = strrchr(path, '/');
  const char *name = slash == NULL ? path : slash + 1;
  size_t length = strlen(name);
  if (length == 0 || length >= sizeof self->name) {
    errno = length > 0 ? ENAMETOOLONG : slash == NULL ? ENOENT : EISDIR;
    return -1;
  }
  memcpy(self->name, name, length + 1);
  int fd = open_directory(at, *path == '/' ? "/" : ".");
  while (fd >= 0 && path < name) {
    size_t part = strcspn(path, "/");
    if (part > 0)
      fd = descend(fd, path, part);
    path += part + 1;
  }
  if (fd < 0)
    return -1;
  target_release(self);
  self->directory = fd;
  return 0;
}

/* Symbolic links of processes in /proc lead to open files. Their text is the name that the file
   once had, or no path at all, so that it has to be checked. */
static bool is_text_valid(const struct target *self, int fd, const char *text) {
  struct statfs where;
  struct stat file, named;
  if (fstatfs(fd, &where) != 0 || where.f_type != PROC_MAGIC ||
      fstatat(self->directory, self->name, &file, 0) != 0)
    return true;
  return fstatat(self->directory, text, &named, 0) == 0 && file.st_dev == named.st_dev &&
         file.st_ino == named.st_ino;
}

static ssize_t read_link(const struct target *self, int fd, char text[PATH_MAX]) {
  ssize_t length = readlinkat(fd, "", text, PATH_MAX);
  if (length < 0)
    return -1;
  if (length == PATH_MAX) {
    errno = ENAMETOOLONG;
    return -1;
  }
  text[length] = '\0';
  if (is_text_valid(self, fd, text))
    return length;
  errno = EOPNOTSUPP;
  return -1;
}

/* Finds out what has the name. Returns the length of a symbolic link's text, 0 for anything else.
 */
static ssize_t examine(struct target *self, char text[PATH_MAX]) {
  int fd = openat(self->directory, self->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  self->exists = fd >= 0;
  if (fd < 0)
    return errno == ENOENT ? 0 : -1;
  ssize_t length = fstat(fd, &self->file) == 0 ? 0 : -1;
  if (length == 0 && S_ISLNK(self->file.st_mode))
    length = read_link(self, fd, text);
  int examine_errno = errno;
  close(fd);
  errno = examine_errno;
  return length;
}

static int follow(struct target *self, int at, const char *path) {
  char text[PATH_MAX];
  for (int links = 0; links <= LINKS_MAX; links++) {
    if (enter(self, at, path) != 0)
      return -1;
    ssize_t length = examine(self, text);
    if (length <= 0)
      return (int)length;
    at = self->directory;
    path = text;
  }
  errno = ELOOP;
  return -1;
}

/* Asks the kernel, before anything is created, whether it would follow the path: it knows rules for
   links beside their text (fs.protected_symlinks in /tmp). */
static int ask_kernel(struct target *self, int at, const char *path) {
  int fd = openat(at, path, O_PATH | O_CLOEXEC);
  self->exists = fd >= 0;
  if (fd < 0)
    return errno == ENOENT ? 0 : -1;
  int result = fstat(fd, &self->file);
  close(fd);
  return result;
}

static bool is_other_kind(const struct target *self) {
  return self->exists && !S_ISREG(self->file.st_mode);
}

/* A relative path begins at the directory `at`, or AT_FDCWD. Creates missing directories, as mkdir(1) -p
   does. Follows symbolic links to files, dangling ones too, where the kernel would; not to missing
   directories, nor those of /proc to an open file that has no name. Rejects what is not a regular file
   or is write-protected. After an error nothing is to be released; directories that were created stay. */
static int target_find(struct target *self, int at, const char *path, struct error *error) {
  *self = (struct target){.directory = -1};
  int result = ask_kernel(self, at, path);
  if (result == 0 && !is_other_kind(self))
    result = follow(self, at, path);
  /* A rename would replace a write-protected file. Without flags, since faccessat2 is not allowed
     in every container. */
  if (result == 0 && self->exists && !is_other_kind(self))
    result = faccessat(self->directory, self->name, W_OK, 0);
  if (result == 0 && !is_other_kind(self))
    return 0;
  if (result == 0)
    (void)path_fail(error, at, path, "is %s, not a regular file",
                    printable_file_kind(self->file.st_mode));
  else
    (void)path_fail(error, at, path, "cannot write file (%s)", strerror(errno));
  target_release(self);
  return -1;
}

/* --- what a file has beside its content --- */

/* XATTR_SIZE_MAX and XATTR_LIST_MAX of linux/limits.h: the longest value, and all names. */
#define VALUE_MAX 65536

/* A POSIX access list as the kernel gives it (linux/posix_acl_xattr.h, which musl's headers do not
   come with): a header of 4 bytes, then entries of 8, little-endian: tag, rights, id. */
#define ACCESS_LIST "system.posix_acl_access"
enum { HEADER = 4, ENTRY = 8, RIGHTS = 2 };
enum { TAG_GROUP = 0x04, TAG_NAMED_GROUP = 0x08, TAG_MASK = 0x10, TAG_OTHERS = 0x20 };

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

/* Gives a new file, which is open for writing, what the one that it replaces has beside its content;
   `from` is open for reading, or for writing, which keeps less. Returns 0, or -1 with errno: then `to`
   may have some of it, and is not to be used. */
static int copy_attributes(int to, int from) {
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

/* --- writing --- */

/* False too where the file cannot be read. */
static bool has_byte_order_mark(int fd) {
  char begin[UTF8_MARK_LENGTH];
  ssize_t n = pread(fd, begin, sizeof begin, 0);
  return n > 0 && utf8_is_marked(begin, (size_t)n);
}

/* What was asked for, and where its error goes. */
struct request {
  int at;
  const char *path, *content;
  size_t length;
  int source; /* a file that has the content, from its beginning; -1: `content` is it */
  struct error *error;
};

static int fail(const struct request *self, const char *what, const char *why) {
  return path_fail(self->error, self->at, self->path, "%s%s)", what, why);
}

/* Explains what errno alone would say misleadingly. */
static int fail_to_write(const struct request *self) {
  bool was_raced = errno == EWOULDBLOCK;
  return fail(self, "cannot write file (",
              was_raced ? "another process wrote it at the same time" : strerror(errno));
}

static int fail_to_begin(const struct request *self, const struct target *target) {
  if (!target->exists || errno == EWOULDBLOCK)
    return fail_to_write(self);
  return fail(self, "cannot replace file (no file can be created beside it: ", strerror(errno));
}

static int fail_to_keep(const struct request *self) {
  return fail(self, "cannot replace file (its rights cannot be kept: ", strerror(errno));
}

static int fail_to_commit(const struct request *self) {
  return errno == EBUSY ? fail(self, "cannot replace file (", "it is a mount point")
                        : fail_to_write(self);
}

/* Opens the file that exists. Where it may not be read, it may be written, which is enough to ask
   for its attributes. */
static int open_old(const struct target *target) {
  struct error ignored;
  int fd = regular_file_open(target->directory, target->name, &ignored);
  if (fd >= 0)
    return fd;
  return openat(target->directory, target->name,
                O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
}

static int copy(int to, int from) {
  char bytes[65536];
  ssize_t length;
  for (off_t at = 0; (length = pread(from, bytes, sizeof bytes, at)) > 0; at += length)
    if (write_all(to, bytes, (size_t)length) != 0)
      return -1;
  if (length < 0 && errno == EBADF)
    errno = EACCES; /* it could be opened for writing only */
  return length == 0 ? 0 : -1;
}

static int fill(const struct request *self, int fd, int old) {
  if (self->source >= 0)
    return copy(fd, self->source);
  bool keeps_mark = !utf8_is_marked(self->content, self->length) && has_byte_order_mark(old);
  if (keeps_mark && write_all(fd, UTF8_MARK, UTF8_MARK_LENGTH) != 0)
    return -1;
  return write_all(fd, self->content, self->length);
}

/* `old` is the file that exists, or -1. */
static int replace(const struct request *self, struct staged_file *staged, int old) {
  if (fill(self, staged->fd, old) != 0)
    return fail_to_write(self);
  if (old >= 0 && copy_attributes(staged->fd, old) != 0)
    return fail_to_keep(self);
  if (staged_file_commit(staged) != 0)
    return fail_to_commit(self);
  return 0;
}

static int write_staged(const struct request *self, struct staged_file *staged,
                        const struct target *target) {
  /* Until the old rights are set, nobody else may read the new content. */
  if (staged_file_begin(staged, target->directory, target->name, target->exists ? 0600 : 0666) != 0)
    return fail_to_begin(self, target);
  int old = target->exists ? open_old(target) : -1;
  if (target->exists && old < 0)
    return fail_to_keep(self);
  int result = replace(self, staged, old);
  if (old >= 0)
    close(old);
  return result;
}

static int write_target(const struct request *self, const struct target *target) {
  struct staged_file staged;
  int result = write_staged(self, &staged, target);
  staged_file_release(&staged);
  return result;
}

int atomic_file_write(int at, const char *path, const char *content, size_t length,
                      struct error *error) {
  if (length > ATOMIC_FILE_MAX)
    return error_set(error, "content exceeds 10 MB limit");
  const struct request request = {at, path, content, length, -1, error};
  struct target target;
  if (target_find(&target, at, path, error) != 0)
    return -1;
  int result = write_target(&request, &target);
  target_release(&target);
  return result;
}

/* --- moving --- */

static int keep_attributes(const struct request *self, int fd, const struct target *target) {
  if (!target->exists)
    return 0;
  int old = open_old(target);
  if (old < 0)
    return fail_to_keep(self);
  int result = copy_attributes(fd, old) == 0 ? 0 : fail_to_keep(self);
  close(old);
  return result;
}

static int move(struct request *self, int fd, int directory, const char *name,
                const struct target *to) {
  if (keep_attributes(self, fd, to) != 0)
    return -1;
  if (renameat(directory, name, to->directory, to->name) == 0)
    return 0;
  if (errno != EXDEV)
    return fail_to_commit(self);
  self->source = fd;
  int result = write_target(self, to);
  if (result == 0)
    (void)unlinkat(directory, name, 0);
  return result;
}

int atomic_file_move(int fd, int directory, const char *name, const char *path,
                     struct error *error) {
  struct request request = {.at = AT_FDCWD, .path = path, .source = -1, .error = error};
  struct target to;
  if (target_find(&to, AT_FDCWD, path, error) != 0)
    return -1;
  int result = staged_file_has_name(fd, to.directory, to.name)
                   ? 0
                   : move(&request, fd, directory, name, &to);
  target_release(&to);
  return result;
}

/* --- a file in chunks --- */

/* Decoded this much at a time, twice: first all of it is checked. The chunk is never in memory as a
   whole beside its text, which a forked child shares with the agent. Whole groups of base64 and whole
   pages: a chunk that is cut short by a kill ends with a page. */
#define PIECE ((size_t)3 * 16 * 1024)

/* Returns the number of bytes, which are written unless `fd` is -1; -1 when it is not base64, or with
   errno when they cannot be written. */
static ssize_t decode(const struct atomic_file_chunk *chunk, int fd) {
  char piece[PIECE];
  struct base64_reader reader = base64_reader(chunk->base64, chunk->length);
  ssize_t length, total = 0;
  for (; (length = base64_read(&reader, piece, sizeof piece)) > 0; total += length)
    if (fd >= 0 && write_all(fd, piece, (size_t)length) != 0)
      return -1;
  return length == 0 ? total : -1;
}

static int fail_upload(const struct atomic_file_chunk *chunk, struct error *error) {
  return path_fail(error, AT_FDCWD, chunk->path, "cannot write file (%s)", strerror(errno));
}

/* Nothing is truncated before it is known to be a file. It is read again where it moves to another
   device. */
static int open_file(const struct atomic_file_chunk *chunk, const struct target *target,
                     struct stat *file, struct error *error) {
  static const int flags = O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  int fd = openat(target->directory, target->name, O_RDWR | flags, 0666);
  if (fd < 0 && errno == EACCES)
    fd = openat(target->directory, target->name, O_WRONLY | flags, 0666);
  if (fd < 0)
    return fail_upload(chunk, error);
  if (fstat(fd, file) == 0 && S_ISREG(file->st_mode))
    return fd;
  (void)path_fail(error, AT_FDCWD, chunk->path, "is %s, not a regular file",
                  printable_file_kind(file->st_mode));
  close(fd);
  return -1;
}

static int add_chunk(const struct atomic_file_chunk *chunk, ssize_t length, int fd, off_t size,
                     struct error *error) {
  off_t held = chunk->append ? size : 0;
  if (held + length > ATOMIC_FILE_UPLOAD_FILE_MAX)
    return error_set(error, "the file would exceed the %d-byte limit", ATOMIC_FILE_UPLOAD_FILE_MAX);
  if (held < size && ftruncate(fd, held) != 0)
    return fail_upload(chunk, error);
  if (decode(chunk, fd) >= 0 && write_all_flush(fd) == 0)
    return 0;
  int reason = errno;
  (void)!ftruncate(fd, held);
  errno = reason;
  return fail_upload(chunk, error);
}

/* `*is_foreign`: it may not be written, so that no chunk before this one has made it. */
static int write_chunk(const struct atomic_file_chunk *chunk, ssize_t length, bool *is_foreign,
                       struct error *error) {
  struct target target;
  struct stat file = {0};
  *is_foreign = true;
  if (target_find(&target, AT_FDCWD, chunk->path, error) != 0)
    return -1;
  int fd = open_file(chunk, &target, &file, error);
  *is_foreign = fd < 0;
  int result = fd >= 0 ? add_chunk(chunk, length, fd, file.st_size, error) : -1;
  if (result == 0 && chunk->rename_to != NULL)
    result = atomic_file_move(fd, target.directory, target.name, chunk->rename_to, error);
  if (fd >= 0)
    close(fd);
  target_release(&target);
  return result;
}

static bool has_name(const struct stat *file, const char *path) {
  struct stat other;
  return stat(path, &other) == 0 && other.st_dev == file->st_dev && other.st_ino == file->st_ino;
}

int atomic_file_append(const struct atomic_file_chunk *chunk, struct error *error) {
  bool is_foreign = false;
  int result;
  struct stat file;
  ssize_t length = decode(chunk, -1);
  if (length < 0)
    result = error_set(error, "content is not base64");
  else if (length > ATOMIC_FILE_UPLOAD_CHUNK_MAX)
    result = error_set(error, "a chunk exceeds the %d bytes one step may carry",
                       ATOMIC_FILE_UPLOAD_CHUNK_MAX);
  else
    result = write_chunk(chunk, length, &is_foreign, error);
  if (result != 0 && chunk->rename_to != NULL && !is_foreign && lstat(chunk->path, &file) == 0 &&
      S_ISREG(file.st_mode) && !has_name(&file, chunk->rename_to))
    (void)unlink(chunk->path);
  return result;
}
