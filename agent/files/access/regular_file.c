#include "agent/files/access/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/files/access/path.h"
#include "base/printable.h"
#include "base/utf8.h"

static const int reading = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;

static int unreadable(struct error *error, int at, const char *path) {
  if (errno == ENOENT || errno == ENOTDIR)
    return path_fail(error, at, path, "file not found");
  return path_fail(error, at, path, "cannot read file (%s)", strerror(errno));
}

static int check(int fd, int at, const char *path, struct error *error) {
  struct stat file;
  if (fstat(fd, &file) != 0)
    return unreadable(error, at, path);
  if (!S_ISREG(file.st_mode))
    return path_fail(error, at, path, "is %s, not a regular file",
                     printable_file_kind(file.st_mode));
  return 0;
}

/* Opens the file that was found. If /proc is not mounted, resolves the path again and checks the
   type again. */
static int open_found(int found, int at, const char *path, struct error *error) {
  char self[64];
  (void)snprintf(self, sizeof self, "/proc/self/fd/%d", found);
  int fd = open(self, reading);
  if (fd >= 0)
    return fd;
  fd = openat(at, path, reading);
  if (fd < 0)
    return unreadable(error, at, path);
  if (check(fd, at, path, error) == 0)
    return fd;
  close(fd);
  return -1;
}

int regular_file_open(int at, const char *path, struct error *error) {
  int found = openat(at, path, O_PATH | O_CLOEXEC);
  if (found < 0)
    return unreadable(error, at, path);
  int fd = check(found, at, path, error) == 0 ? open_found(found, at, path, error) : -1;
  close(found);
  return fd;
}

/* The most bytes of one read(2): files of /proc/sys reject 4 MiB and more. */
#define READ_MAX ((size_t)2 * 1024 * 1024)

int regular_file_fill(int fd, off_t offset, size_t max, struct buffer *bytes) {
  char *space = buffer_space(bytes, max);
  ssize_t n = 1;
  for (size_t filled = 0; filled < max && n != 0; filled += n > 0 ? (size_t)n : 0) {
    size_t size = max - filled < READ_MAX ? max - filled : READ_MAX;
    n = offset < 0 ? read(fd, space + filled, size)
                   : pread(fd, space + filled, size, offset + (off_t)filled);
    if (n < 0 && errno != EINTR)
      return -1;
    bytes->length += n > 0 ? (size_t)n : 0;
  }
  return 0;
}

int regular_file_bytes(const char *path, uint64_t offset, size_t length, struct buffer *bytes,
                       uint64_t *size, struct error *error) {
  struct stat file = {0};
  int fd = regular_file_open(AT_FDCWD, path, error);
  if (fd < 0)
    return -1;
  int result = fstat(fd, &file);
  if (result == 0)
    result = regular_file_fill(fd, (off_t)offset, length, bytes);
  if (result != 0)
    (void)unreadable(error, AT_FDCWD, path);
  close(fd);
  uint64_t seen = bytes->length > 0 ? offset + bytes->length : 0;
  *size = (uint64_t)file.st_size > seen ? (uint64_t)file.st_size : seen;
  return result;
}

/* Reads one byte more, which shows that the file is too large. */
int regular_file_text(int fd, const char *path, struct buffer *text, struct error *error) {
  int result = regular_file_fill(fd, -1, REGULAR_FILE_MAX + 1, text) == 0
                   ? 0
                   : unreadable(error, AT_FDCWD, path);
  if (result == 0 && text->length > REGULAR_FILE_MAX)
    result = error_set(error, REGULAR_FILE_TOO_LARGE);
  return result == 0 ? line_range_check(text->bytes, text->length, error) : result;
}

/* --- lines --- */

#define PIECE ((size_t)64 * 1024)

/* Reads from the position of the descriptor. Returns 0, or -1 with errno. */
static int choose_lines(int fd, struct line_choice *choice) {
  struct buffer piece = {0};
  int result = 0;
  do {
    piece.length = 0;
    result = regular_file_fill(fd, -1, PIECE, &piece);
    line_choice_add(choice, piece.bytes, piece.length);
  } while (result == 0 && piece.length == PIECE && line_choice_goes_on(choice));
  buffer_release(&piece);
  return result;
}

/* What regular_file_cut reads from an open file. */
struct cut {
  int fd;
  const char *path;
  const struct line_range *range;
  enum regular_file_form form;
  struct buffer *to;
};

static int add_choice(const struct cut *self, const struct line_choice *choice,
                      struct error *error) {
  const bool is_all = line_range_is_all(self->range);
  size_t length;
  const char *text = line_choice_text(choice, &length);
  if (is_all && choice->bytes > REGULAR_FILE_MAX)
    return error_set(error, "%s%s", REGULAR_FILE_TOO_LARGE,
                     self->form == REGULAR_FILE_PAGE ? ": use offset and limit" : "");
  if (self->form != REGULAR_FILE_PAGE)
    return line_choice_length(choice) > REGULAR_FILE_MAX
               ? error_set(error, "the chosen lines exceed 1 MB")
               : line_range_add(choice, self->range->numbered, self->to, error);
  if (is_all && line_range_check(text, length, error) != 0)
    return -1;
  return line_page_add(choice, self->to, error);
}

static int add_lines(const struct cut *self, struct error *error) {
  const bool is_page = self->form == REGULAR_FILE_PAGE && !line_range_is_all(self->range);
  struct line_choice choice;
  line_choice_init(&choice, self->range,
                   is_page ? LINE_PAGE_KEPT : REGULAR_FILE_MAX + UTF8_MARK_LENGTH);
  int result = choose_lines(self->fd, &choice) == 0 ? add_choice(self, &choice, error)
                                                    : unreadable(error, AT_FDCWD, self->path);
  line_choice_release(&choice);
  return result;
}

/* --- with its media type --- */

static bool has(const struct buffer *file, size_t at, const char *bytes, size_t length) {
  return file->length >= at + length && memcmp(file->bytes + at, bytes, length) == 0;
}

/* The last character may be incomplete. A NUL tells an image from a text that begins like one; a
   small GIF may otherwise be ASCII. */
static bool is_text(const struct buffer *file) {
  size_t whole = utf8_cut(file->bytes, file->length);
  return utf8_valid_prefix(file->bytes, whole) == whole &&
         memchr(file->bytes, '\0', file->length) == NULL;
}

/* Returns the type by the first bytes, with which a text may also begin, or NULL. */
static const char *image_type(const struct buffer *file) {
  if (has(file, 0, "\x89PNG\r\n\x1A\n", 8))
    return "image/png";
  if (has(file, 0, "\xFF\xD8\xFF", 3))
    return "image/jpeg";
  if (has(file, 0, "GIF87a", 6) || has(file, 0, "GIF89a", 6))
    return "image/gif";
  return has(file, 0, "RIFF", 4) && has(file, 8, "WEBP", 4) ? "image/webp" : NULL;
}

#define TYPE_BYTES ((size_t)12)

/* The descriptor is at the beginning of the file, and its position stays there. */
static int add_media(const struct cut *self, struct error *error) {
  struct buffer file = {0};
  int result = regular_file_fill(self->fd, 0, TYPE_BYTES, &file);
  const char *type = image_type(&file);
  if (result == 0 && type != NULL) {
    file.length = 0;
    result = regular_file_fill(self->fd, 0, (size_t)REGULAR_FILE_IMAGE_MAX + 1, &file);
  }
  const bool is_image = result == 0 && type != NULL && !is_text(&file);
  if (result != 0) {
    result = unreadable(error, AT_FDCWD, self->path);
  } else if (is_image && file.length > REGULAR_FILE_IMAGE_MAX) {
    result = error_set(error, "image exceeds 5 MB limit");
  } else {
    buffer_add_format(self->to, "%s\n", is_image ? type : "text/plain");
    if (is_image)
      buffer_add_base64(self->to, file.bytes, file.length);
    else
      result = add_lines(self, error);
  }
  buffer_release(&file);
  return result;
}

int regular_file_cut(const char *path, const struct line_range *range, enum regular_file_form form,
                     struct buffer *to, struct error *error) {
  int fd = regular_file_open(AT_FDCWD, path, error);
  if (fd < 0)
    return -1;
  const struct cut cut = {fd, path, range, form, to};
  int result = (form == REGULAR_FILE_LINES ? add_lines : add_media)(&cut, error);
  close(fd);
  return result;
}
