#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "wire/step_field.h"

/*
 * Replaces, edits, moves and appends files for the kinds writeFile, editFile and writeBytes. The
 * kinds call it in a supervisor. atomic_file_write below names the hard part.
 */

/* The longest content in bytes (wire/PROTOCOL.md, writeFile). */
#define ATOMIC_FILE_MAX 10485760

/*
 * Writes a file as PROTOCOL.md, writeFile and "Several writers of one file", promises: a reader
 * sees the whole old content or the whole new one, even if the writer is killed (staged_file.h),
 * and writers of one file take turns (file_version.h).
 *
 * The hard part is the file that cannot simply be replaced. Its byte order mark, its owner, group,
 * mode, access list and extended attributes are kept (file_attributes.h). If the new file cannot
 * have the same owner and group, or no file can be created beside that of another user, the content
 * is written into the old file. A full disk does not destroy the old content then: the file gets
 * its new length first, and what was overwritten is restored from memory if a later write fails.
 *
 * A relative path begins at the directory `at`, or AT_FDCWD. Symbolic links are followed and kept,
 * and missing directories are created. After an error, the old content is there and nothing else is
 * left except created directories. Errors are those of path_fail.
 */
int atomic_file_write(int at, const char *path, const char *content, size_t length,
                      struct error *error);

/* Reads a text file (regular_file.h), edits it and writes it as atomic_file_write does. `apply`
   changes the text in place and returns 0, or -1 with the reason. It is called again if another
   process changes the file between the read and the write. */
struct atomic_file_edit {
  int (*apply)(void *context, struct buffer *text, struct error *error);
  void *context;
};
int atomic_file_edit(const char *path, const struct atomic_file_edit *edit, struct error *error);

/* Moves the file `name` of `directory` to `path`. `fd` is the same file, open for reading and
   writing. A file at `path` is replaced or written in place as by atomic_file_write, except for the
   byte order mark; if it is the same file, nothing happens. To another file system, or in place,
   the file is copied and then removed. After an error it keeps its old name. */
int atomic_file_move(int fd, int directory, const char *name, const char *path,
                     struct error *error);

/* The most bytes of a chunk and of the whole file (wire/PROTOCOL.md, writeBytes). */
#define ATOMIC_FILE_UPLOAD_CHUNK_MAX 4194304
#define ATOMIC_FILE_UPLOAD_FILE_MAX 26214400

/* A part of a file that arrives in chunks: the first one creates the file, which is visible from
   then on, further ones are appended, and the last one renames it as by atomic_file_move. */
struct atomic_file_chunk {
  const char *path;
  struct step_bytes base64;
  bool append;     /* otherwise the old content is dropped */
  char *rename_to; /* of the last chunk; else NULL */
};

/* Appends the whole chunk or nothing, unless the process is killed. If the last chunk fails,
   removes the file, since nobody will name it again, unless `path` is a link, leads to the file of
   the new name or to no regular file, or may not be written. */
int atomic_file_append(const struct atomic_file_chunk *chunk, struct error *error);
