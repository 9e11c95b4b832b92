#ifndef AGENT_FILES_ACCESS_REGULAR_FILE_H
#define AGENT_FILES_ACCESS_REGULAR_FILE_H

#include <stdint.h>
#include <sys/types.h>

#include "agent/files/access/line_range.h"
#include "base/buffer.h"
#include "base/error.h"

/*
 * Reads a file whose name is not trusted: it may be a directory, a FIFO without a writer, a
 * terminal, or grow while it is read. The path is resolved once, and only a regular file is opened:
 * opening a FIFO would wake its writer, opening a device may start it.
 *
 * A missing file, or a missing directory on the way to it, is `file not found: <full path>`. Other
 * errors too name the reason first and the full path last (path_fail).
 */

/* The longest text and the largest image, in bytes; wire/PROTOCOL.md, readFile. */
#define REGULAR_FILE_MAX 1048576
#define REGULAR_FILE_IMAGE_MAX 5242880
#define REGULAR_FILE_TOO_LARGE "file exceeds 1 MB limit"

enum regular_file_form {
  REGULAR_FILE_LINES, /* those of a text file */
  /* For a reader who can show text and images a line in front says which of them it is, whatever
     the file's name:

       text/plain   its lines follow
       image/png    its bytes as base64; so with image/jpeg, image/gif and image/webp

     An image is what begins as one and is not UTF-8, or has a NUL. */
  REGULAR_FILE_MEDIA,
  REGULAR_FILE_PAGE, /* the same for a model, and the lines as line_page.h has them */
};

/* Adds the lines of a range to `to`, of which after an error it may have a part. A relative path
   begins at the current directory. Without a range, all of a file of at most REGULAR_FILE_MAX
   bytes, all of which is text. With one, of a file of any size lines of at most so many bytes
   together, which alone must be text: `the chosen lines exceed 1 MB`. Takes memory for what is
   chosen, twice, or for the image. */
int regular_file_cut(const char *path, const struct line_range *range, enum regular_file_form form,
                     struct buffer *to, struct error *error);

/* Reads all of a text file, which regular_file_open has opened, into an empty buffer. `path` is for
   the error; a relative one begins at the current directory. */
int regular_file_text(int fd, const char *path, struct buffer *text, struct error *error);

/* Reads up to `length` bytes from `offset` on, of a file of any size, into an empty buffer: fewer
   at the end of the file, none behind it. `*size` is the size of the file, or, where that is not
   known, as much as was read of it. */
int regular_file_bytes(const char *path, uint64_t offset, size_t length, struct buffer *bytes,
                       uint64_t *size, struct error *error);

/* Opens for reading; a relative path begins at the directory `at`, or AT_FDCWD. Symbolic links are
   followed. Returns a descriptor that is the caller's, at its beginning, close-on-exec and
   non-blocking (files of /proc may have nothing to read yet), or -1. */
int regular_file_open(int at, const char *path, struct error *error);

/* Adds what is read from `offset` on, or where that is -1 from the descriptor's: `max` bytes at
   most, for which room is made; memory that is not read into is never touched. `size` is that of
   the file, where its end need not be found by a read; else 0. Returns 0, or -1 with errno. */
int regular_file_fill(int fd, off_t offset, size_t size, size_t max, struct buffer *bytes);

/* Adds all that the descriptor has from where it is, of a file whose size need not be known: up to
   `max` bytes, and one more where there are more. Returns 0, or -1 with errno. */
int regular_file_read_on(int fd, size_t max, struct buffer *bytes);

#endif
