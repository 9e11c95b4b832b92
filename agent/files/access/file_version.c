#include "agent/files/access/file_version.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "agent/files/access/regular_file.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/file_lock.h"

/* Appending a line takes much less, even on a busy machine. */
#define APPEND_WAIT_MS 100

void file_version_release(struct file_version *self) {
  descriptor_close(self->fd);
  self->fd = -1;
}

bool file_version_lock(struct file_version *self, int at, const char *path, int flags) {
  struct stat named;
  (void)file_lock(self->fd, LOCK_EX, FILE_VERSION_WAIT_MS);
  return fstat(self->fd, &self->file) == 0 && fstatat(at, path, &named, flags) == 0 &&
         descriptor_same_file(&named, &self->file);
}

static bool is_same_time(struct timespec a, struct timespec b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Compares the content, because a file may change twice within one tick of its clock. */
static bool has_text(const struct file_version *self, const struct buffer *text) {
  struct buffer now = {0};
  bool has = text->length == 0 ||
             (regular_file_fill(self->fd, 0, text->length, &now) == 0 &&
              now.length == text->length && memcmp(now.bytes, text->bytes, text->length) == 0);
  buffer_release(&now);
  return has;
}

bool file_version_is_current(const struct file_version *self, const struct buffer *text, int at,
                             const char *path, int flags) {
  struct stat now;
  if (text != NULL && !has_text(self, text))
    return false;
  if (fstatat(at, path, &now, flags) != 0)
    return self->fd < 0 && errno == ENOENT;
  const struct stat *then = &self->file;
  return self->fd >= 0 && descriptor_same_file(&now, then) &&
         (text == NULL ||
          (now.st_size == then->st_size && is_same_time(now.st_mtim, then->st_mtim) &&
           is_same_time(now.st_ctim, then->st_ctim)));
}

/* Waits until nobody has the file open for writing, which is when fcntl(2) grants a read lease; not
   for a file of another user, which grants none. A process that opens the file meanwhile causes a
   signal: SIGURG, which is ignored by default. */
static void await_writers(int fd) {
  int64_t end_ms = clock_monotonic_ms() + APPEND_WAIT_MS;
  (void)fcntl(fd, F_SETSIG, SIGURG);
  while (fcntl(fd, F_SETLEASE, F_RDLCK) != 0) {
    if (errno != EAGAIN || clock_monotonic_ms() >= end_ms)
      return;
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  (void)fcntl(fd, F_SETLEASE, F_UNLCK);
}

int file_version_add_appended(const struct file_version *self, const struct buffer *text,
                              struct buffer *appended) {
  struct stat file;
  await_writers(self->fd);
  if (fstat(self->fd, &file) != 0)
    return -1;
  if (file.st_size <= (off_t)text->length || !has_text(self, text))
    return 0;
  return regular_file_fill(self->fd, (off_t)text->length, (size_t)file.st_size - text->length,
                           appended);
}
