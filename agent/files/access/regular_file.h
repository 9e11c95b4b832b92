#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/files/access/line_range.h"
#include "base/buffer.h"
#include "base/error.h"

/* Reads a file whose name is not trusted: it may be a directory, a FIFO without a writer, a
   terminal, or grow while it is read. The path is resolved once, and only a regular file is opened,
   because opening a FIFO would wake its writer and opening a device may start it. A relative path
   begins at the current directory. Errors are those of path_fail. */

/* The longest text and the largest image in bytes (wire/PROTOCOL.md, readFile). */
#define REGULAR_FILE_MAX 1048576
#define REGULAR_FILE_IMAGE_MAX 5242880
#define REGULAR_FILE_TOO_LARGE "file exceeds 1 MB limit"

enum regular_file_form {
  REGULAR_FILE_LINES, /* the lines of a text file */
  REGULAR_FILE_MEDIA, /* a line with the media type, then the lines or an image as base64 */
  REGULAR_FILE_PAGE,  /* the same for a model, with a page of lines (line_page_add) */
};

/* Adds the lines of a range to `to`, which may have a part of them after an error. They are text of
   at most REGULAR_FILE_MAX bytes; the file may have any size. Takes twice the memory of the chosen
   lines, or that of the image. */
int regular_file_cut(const char *path, const struct line_range *range, enum regular_file_form form,
                     struct buffer *to, struct error *error);

/* Reads all of a text file that regular_file_open has opened into an empty buffer. `path` is for
   the error. */
int regular_file_text(int fd, const char *path, struct buffer *text, struct error *error);

/* Reads at most `length` bytes from `offset` on into an empty buffer; fewer at the end of the file.
   Sets `*size` to the size of the file or, if that is unknown, to the end of what was read. */
int regular_file_bytes(const char *path, uint64_t offset, size_t length, struct buffer *bytes,
                       uint64_t *size, struct error *error);

/* Opens a file for reading; a relative path begins at the directory `at`, or AT_FDCWD. Follows
   symbolic links. Returns a descriptor, which is non-blocking (a file of /proc may have nothing to
   read yet), or -1. */
int regular_file_open(int at, const char *path, struct error *error);

/* Adds at most `max` bytes from `offset` on, or from the position of the descriptor if it is -1.
   Reserves space for all of them, but touches only what is read. Returns 0, or -1 with errno. */
int regular_file_fill(int fd, off_t offset, size_t max, struct buffer *bytes);
