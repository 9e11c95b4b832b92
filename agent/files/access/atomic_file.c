#include "agent/files/access/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/file_attributes.h"
#include "agent/files/access/file_target.h"
#include "agent/files/access/file_version.h"
#include "agent/files/access/path.h"
#include "agent/files/access/regular_file.h"
#include "base/base64.h"
#include "base/descriptor.h"
#include "base/printable.h"
#include "base/staged_file.h"
#include "base/utf8.h"
#include "base/write_all.h"

/* --- writing --- */

/* How often a write begins again. Each time, another process has written the file. */
#define ATTEMPTS_MAX 1000

/* A result beside 0 and -1 of most functions here: begin again. */
#define AGAIN 1

/* A write, an edit, a move or a chunk. */
struct file_request {
  int at;
  const char *path, *content;
  size_t length;
  struct error *error;
  int source;           /* a file with the content, instead of `content`; -1 for none */
  int source_directory; /* the directory of `source`, and the name of `source` in it */
  const char *source_name;
  const struct atomic_file_edit *edit;
  const struct buffer *text; /* the text that the content was made from; NULL for none */
  const struct atomic_file_chunk *chunk;
  ssize_t chunk_length; /* decoded */
  bool is_foreign;      /* the chunk's file may not be written: no earlier chunk has made it */
};

static int fail(const struct file_request *self, const char *what, const char *why) {
  return path_fail(self->error, self->at, self->path, "%s%s)", what, why);
}

static int fail_to_write(const struct file_request *self) {
  bool was_raced = errno == EWOULDBLOCK;
  return fail(self, "cannot write file (",
              was_raced ? "another process wrote it at the same time" : strerror(errno));
}

static int fail_to_begin(const struct file_request *self, const struct file_target *target) {
  if (!target->exists || errno == EWOULDBLOCK)
    return fail_to_write(self);
  return fail(self, "cannot replace file (no file can be created beside it: ", strerror(errno));
}

static int fail_to_keep(const struct file_request *self) {
  return fail(self, "cannot replace file (its rights cannot be kept: ", strerror(errno));
}

static int fail_to_commit(const struct file_request *self) {
  return errno == EBUSY ? fail(self, "cannot replace file (", "it is a mount point")
                        : fail_to_write(self);
}

/* An attempt returns 0, -1 or AGAIN. */
static int perform(struct file_request *self, int (*attempt)(struct file_request *self)) {
  for (int i = 0; i < ATTEMPTS_MAX; i++) {
    int result = attempt(self);
    if (result != AGAIN)
      return result;
  }
  errno = EWOULDBLOCK;
  return fail_to_write(self);
}

/* Opens the file for reading, too, if that is allowed. */
static int open_to_write(const struct file_target *target, int flags) {
  flags |= O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
  int fd = openat(target->directory, target->name, O_RDWR | flags, 0666);
  return fd < 0 && errno == EACCES ? openat(target->directory, target->name, O_WRONLY | flags, 0666)
                                   : fd;
}

/* Opens and locks the file if it exists. A file that may not be read may be writable, which is
   enough to get its attributes. The caller releases the version in any case. */
static int open_version(const struct file_request *self, const struct file_target *target,
                        struct file_version *version) {
  struct error ignored;
  if (!target->exists)
    return 0;
  version->fd = regular_file_open(target->directory, target->name, &ignored);
  if (version->fd < 0)
    version->fd = open_to_write(target, 0);
  if (version->fd < 0)
    return errno == ENOENT ? AGAIN : fail_to_keep(self);
  return file_version_lock(version, target->directory, target->name, AT_SYMLINK_NOFOLLOW) ? 0
                                                                                          : AGAIN;
}

static bool is_current(const struct file_request *self, const struct file_target *target,
                       const struct file_version *version) {
  return file_version_is_current(version, self->text, target->directory, target->name,
                                 AT_SYMLINK_NOFOLLOW);
}

/* Whether the new content has to get the byte order mark of the old one, if that can be read. */
static bool adds_mark(const struct file_request *self, int old) {
  char begin[UTF8_MARK_LENGTH];
  ssize_t n = pread(old, begin, sizeof begin, 0);
  return n > 0 && utf8_is_marked(begin, (size_t)n) && !utf8_is_marked(self->content, self->length);
}

static int add_content(const struct file_request *self, int old, struct buffer *content) {
  if (self->source >= 0) {
    int result = regular_file_fill(self->source, 0, ATOMIC_FILE_UPLOAD_FILE_MAX + 1, content);
    if (result != 0 && errno == EBADF)
      errno = EACCES; /* it is open for writing only */
    if (result == 0 && content->length > ATOMIC_FILE_UPLOAD_FILE_MAX) {
      errno = EFBIG; /* another process has appended to it */
      result = -1;
    }
    return result;
  }
  if (adds_mark(self, old))
    buffer_add(content, UTF8_MARK, UTF8_MARK_LENGTH);
  buffer_add(content, self->content, self->length);
  return 0;
}

static int commit(const struct file_request *self, struct staged_file *staged,
                  const struct file_target *target, const struct file_version *version) {
  bool is_flushed = staged_file_flush(staged) == 0;
  if (is_flushed && !is_current(self, target, version))
    return AGAIN;
  if (is_flushed && staged_file_commit(staged) == 0)
    return 0;
  return errno == EWOULDBLOCK ? AGAIN : fail_to_commit(self);
}

/* Appends what others have appended to the replaced file. `fd` has the new content and, until it is
   closed, the lock of the staged file. */
static int carry_over(const struct file_request *self, int fd, const struct file_version *version) {
  struct buffer appended = {0};
  int result = 0;
  if (file_version_add_appended(version, self->text, &appended) != 0 ||
      (appended.length > 0 &&
       (fcntl(fd, F_SETFL, O_APPEND) != 0 || write_all(fd, appended.bytes, appended.length) != 0)))
    result = fail_to_write(self);
  buffer_release(&appended);
  return result;
}

static int fill(const struct file_request *self, int fd, int old) {
  struct buffer content = {0};
  int result = add_content(self, old, &content);
  if (result == 0) {
    /* Otherwise ext4 allocates the space during the rename, which then takes longer. */
    (void)fallocate(fd, 0, 0, (off_t)content.length);
    result = write_all(fd, content.bytes, content.length);
  }
  buffer_release(&content);
  return result;
}

static int replace(const struct file_request *self, struct staged_file *staged,
                   const struct file_target *target, const struct file_version *version) {
  if (fill(self, staged->fd, version->fd) != 0)
    return fail_to_write(self);
  if (version->fd >= 0 && file_attributes_copy(staged->fd, version->fd) != 0)
    return fail_to_keep(self);
  int fd = self->text != NULL ? fcntl(staged->fd, F_DUPFD_CLOEXEC, 0) : -1;
  if (self->text != NULL && fd < 0)
    return fail_to_write(self);
  int result = commit(self, staged, target, version);
  if (result == 0 && self->text != NULL)
    result = carry_over(self, fd, version);
  descriptor_close(fd);
  return result;
}

/* Writes a part and waits for its errors. Returns 0, or -1 with errno; `*done` is the number of
   bytes written in any case. */
static int write_part(int fd, const char *bytes, size_t length, off_t offset, size_t *done) {
  for (*done = 0; *done < length;) {
    ssize_t written = pwrite(fd, bytes + *done, length - *done, offset + (off_t)*done);
    if (written < 0 && errno != EINTR)
      return -1;
    *done += written > 0 ? (size_t)written : 0;
  }
  return write_all_flush(fd);
}

/* Replaces the content of an open file: first the part behind the old end, which needs the space,
   then the old part, which it saves before. `fd` is open for writing, and for reading if the file
   may be read. Returns 0, or -1 with errno: the old content is then there, unless `*is_torn`. Only
   what was overwritten is restored, because the rest may lie in a hole, for which there may be no
   space either. */
static int write_over(int fd, const char *bytes, size_t length, bool *is_torn) {
  struct stat file;
  struct buffer old = {0};
  size_t done = 0, ignored;
  *is_torn = false;
  if (fstat(fd, &file) != 0)
    return -1;
  const off_t size = file.st_size;
  const size_t head = (off_t)length < size ? length : (size_t)size;
  bool is_saved = head == 0 || (regular_file_fill(fd, 0, head, &old) == 0 && old.length == head);
  int result = length > head ? write_part(fd, bytes + head, length - head, size, &ignored) : 0;
  if (result == 0)
    result = write_part(fd, bytes, head, 0, &done);
  if (result == 0 && (off_t)length < size)
    result = ftruncate(fd, (off_t)length);
  if (result != 0) {
    int error = errno;
    *is_torn = (done > 0 && (!is_saved || write_part(fd, old.bytes, done, 0, &ignored) != 0)) ||
               ftruncate(fd, size) != 0;
    errno = error;
  } else if ((file.st_mode & (S_ISUID | S_ISGID)) != 0) {
    /* The kernel keeps these bits with CAP_FSETID. */
    (void)fchmod(fd, file.st_mode & ~(mode_t)(S_IFMT | S_ISUID | S_ISGID));
  }
  buffer_release(&old);
  return result;
}

static int overwrite(const struct file_request *self, const struct file_target *target,
                     const struct file_version *version) {
  bool is_torn = false;
  struct buffer content = {0};
  int fd = open_to_write(target, 0);
  if (fd < 0)
    return errno == ENOENT ? AGAIN : fail_to_write(self);
  int result = add_content(self, version->fd, &content) == 0 ? 0 : fail_to_write(self);
  if (result == 0 && (!staged_file_has_name(fd, target->directory, target->name) ||
                      !is_current(self, target, version)))
    result = AGAIN;
  if (result == 0 && write_over(fd, content.bytes, content.length, &is_torn) != 0)
    result = !is_torn ? fail_to_write(self)
                      : path_fail(self->error, self->at, self->path,
                                  "cannot write file (%s; it now has parts of the old and of the "
                                  "new content)",
                                  strerror(errno));
  buffer_release(&content);
  close(fd);
  return result;
}

/* Whether it is a file of another user in a directory where this process may create none. */
static bool is_foreign(const struct file_version *version) {
  return version->fd >= 0 && version->file.st_uid != geteuid() &&
         (errno == EACCES || errno == EPERM);
}

static int write_version(const struct file_request *self, const struct file_target *target,
                         const struct file_version *version) {
  struct staged_file staged;
  int result;
  /* Until the old permissions are set, nobody else may read the new content. */
  if (staged_file_begin(&staged, target->directory, target->name, target->exists ? 0600 : 0666) !=
      0)
    result = is_foreign(version) ? overwrite(self, target, version) : fail_to_begin(self, target);
  else if (version->fd >= 0 && !file_attributes_keep_owner(staged.fd, version->fd))
    result = overwrite(self, target, version);
  else
    result = replace(self, &staged, target, version);
  staged_file_release(&staged);
  return result;
}

/* Renames the file that is open as `source`. If it cannot get the owner of the file that it
   replaces, or is on another file system, writes its content and removes the name. */
static int move_version(const struct file_request *self, const struct file_target *target,
                        const struct file_version *version) {
  bool exists = version->fd >= 0;
  if (!exists || file_attributes_keep_owner(self->source, version->fd)) {
    if (exists && file_attributes_copy(self->source, version->fd) != 0)
      return fail_to_keep(self);
    if (!is_current(self, target, version))
      return AGAIN;
    if (renameat(self->source_directory, self->source_name, target->directory, target->name) == 0)
      return 0;
    if (errno != EXDEV)
      return fail_to_commit(self);
  }
  int result = write_version(self, target, version);
  if (result == 0)
    (void)unlinkat(self->source_directory, self->source_name, 0);
  return result;
}

/* Writes or moves. */
static int put(struct file_request *self) {
  struct file_target target;
  struct file_version version = {.fd = -1};
  if (file_target_find(&target, self->at, self->path, true, self->error) != 0)
    return -1;
  int result = 0;
  if (!staged_file_has_name(self->source, target.directory, target.name)) {
    result = open_version(self, &target, &version);
    if (result == 0)
      result = (self->source >= 0 ? move_version : write_version)(self, &target, &version);
  }
  file_version_release(&version);
  file_target_release(&target);
  return result;
}

int atomic_file_write(int at, const char *path, const char *content, size_t length,
                      struct error *error) {
  if (length > ATOMIC_FILE_MAX)
    return error_set(error, "content exceeds 10 MB limit");
  struct file_request request = {at, path, content, length, error, .source = -1};
  return perform(&request, put);
}

int atomic_file_move(int fd, int directory, const char *name, const char *path,
                     struct error *error) {
  struct file_request request = {.at = AT_FDCWD,
                                 .path = path,
                                 .error = error,
                                 .source = fd,
                                 .source_directory = directory,
                                 .source_name = name};
  return perform(&request, put);
}

/* --- editing --- */

static int write_edited(struct file_request *self, const struct file_version *version,
                        const struct buffer *edited) {
  if (edited->length > ATOMIC_FILE_MAX)
    return error_set(self->error, "content exceeds 10 MB limit");
  struct file_target target;
  self->content = edited->bytes;
  self->length = edited->length;
  if (file_target_find(&target, self->at, self->path, false, self->error) != 0)
    return file_version_is_current(version, self->text, self->at, self->path, 0) ? -1 : AGAIN;
  int result = write_version(self, &target, version);
  file_target_release(&target);
  return result;
}

/* Begins again if the edit may have failed because another process has changed the file. */
static int edit_text(struct file_request *self, const struct file_version *version) {
  struct buffer edited = {0};
  buffer_add(&edited, self->text->bytes, self->text->length);
  int result = self->edit->apply(self->edit->context, &edited, self->error);
  if (result == 0)
    result = write_edited(self, version, &edited);
  else if (!file_version_is_current(version, self->text, self->at, self->path, 0))
    result = AGAIN;
  buffer_release(&edited);
  return result;
}

static int edit_path(struct file_request *self) {
  struct file_version version = {.fd = regular_file_open(self->at, self->path, self->error)};
  struct buffer text = {0};
  if (version.fd < 0)
    return -1;
  int result = AGAIN;
  if (file_version_lock(&version, self->at, self->path, 0))
    result = regular_file_text(version.fd, self->path, &text, self->error);
  self->text = &text;
  if (result == 0)
    result = edit_text(self, &version);
  self->text = NULL;
  buffer_release(&text);
  file_version_release(&version);
  return result;
}

int atomic_file_edit(const char *path, const struct atomic_file_edit *edit, struct error *error) {
  struct file_request request = {
      .at = AT_FDCWD, .path = path, .error = error, .source = -1, .edit = edit};
  return perform(&request, edit_path);
}

/* --- a file in chunks --- */

/* A chunk is decoded twice, the first time to check it, so much at a time. It is never in memory
   beside its text, which a forked child shares with the agent. The size is a multiple of base64
   groups and of pages, so that a chunk that a kill cuts short ends with a page. */
#define PIECE ((size_t)3 * 16 * 1024)

/* Decodes the chunk and writes it unless `fd` is -1. Returns its size, or -1 if it is not base64
   or, with errno, if it cannot be written. */
static ssize_t decode(const struct atomic_file_chunk *chunk, int fd) {
  char piece[PIECE];
  struct base64_reader reader = base64_reader(chunk->base64.text, chunk->base64.length);
  ssize_t length, total = 0;
  for (; (length = base64_read(&reader, piece, sizeof piece)) > 0; total += length)
    if (fd >= 0 && write_all(fd, piece, (size_t)length) != 0)
      return -1;
  return length == 0 ? total : -1;
}

/* Does not truncate, because this may be no regular file. A move to another device reads it. */
static int open_file(const struct file_request *self, const struct file_target *target) {
  struct stat file = {0};
  int fd = open_to_write(target, O_CREAT | O_APPEND);
  if (fd < 0)
    return fail_to_write(self);
  if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode))
    return fd;
  close(fd);
  return path_fail(self->error, self->at, self->path, "is %s, not a regular file",
                   printable_file_kind(file.st_mode));
}

static int add_chunk(const struct file_request *self, int fd, off_t size) {
  off_t held = self->chunk->append ? size : 0;
  if (held + self->chunk_length > ATOMIC_FILE_UPLOAD_FILE_MAX)
    return error_set(self->error, "the file would exceed the %d-byte limit",
                     ATOMIC_FILE_UPLOAD_FILE_MAX);
  if (held < size && ftruncate(fd, held) != 0)
    return fail_to_write(self);
  if (decode(self->chunk, fd) >= 0 && write_all_flush(fd) == 0)
    return 0;
  int result = fail_to_write(self);
  (void)!ftruncate(fd, held);
  return result;
}

/* The lock separates the chunks of two writers and keeps the size valid. */
static int write_chunk_to(const struct file_request *self, const struct file_target *target,
                          struct file_version *file) {
  const char *path = self->chunk->rename_to;
  if (!file_version_lock(file, target->directory, target->name, AT_SYMLINK_NOFOLLOW))
    return AGAIN;
  int result = add_chunk(self, file->fd, file->file.st_size);
  if (result == 0 && path != NULL)
    result = atomic_file_move(file->fd, target->directory, target->name, path, self->error);
  return result;
}

static int write_chunk(struct file_request *self) {
  struct file_target target;
  self->is_foreign = true;
  if (file_target_find(&target, self->at, self->path, true, self->error) != 0)
    return -1;
  struct file_version file = {.fd = open_file(self, &target)};
  self->is_foreign = file.fd < 0;
  int result = file.fd >= 0 ? write_chunk_to(self, &target, &file) : -1;
  file_version_release(&file);
  file_target_release(&target);
  return result;
}

int atomic_file_append(const struct atomic_file_chunk *chunk, struct error *error) {
  struct file_request request = {.at = AT_FDCWD,
                                 .path = chunk->path,
                                 .error = error,
                                 .source = -1,
                                 .chunk = chunk,
                                 .chunk_length = decode(chunk, -1)};
  int result;
  struct stat file, renamed;
  if (request.chunk_length < 0)
    result = error_set(error, "content is not base64");
  else if (request.chunk_length > ATOMIC_FILE_UPLOAD_CHUNK_MAX)
    result = error_set(error, "a chunk exceeds the %d bytes one step may carry",
                       ATOMIC_FILE_UPLOAD_CHUNK_MAX);
  else
    result = perform(&request, write_chunk);
  if (result != 0 && chunk->rename_to != NULL && !request.is_foreign &&
      lstat(chunk->path, &file) == 0 && S_ISREG(file.st_mode) &&
      (stat(chunk->rename_to, &renamed) != 0 || !descriptor_same_file(&file, &renamed)))
    (void)unlink(chunk->path);
  return result;
}
