#ifndef AGENT_FILES_ACCESS_UPLOAD_H
#define AGENT_FILES_ACCESS_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * A file that arrives in chunks: the first one makes it, each further one is appended, and with the
 * last one it gets its name. Between them it is there for everybody under the name that it has.
 *
 * Paths are as of atomic_file_write: a relative one begins at the current directory, links are
 * followed and stay, missing directories are created, and only a regular file is written. What lies
 * under the new name is replaced as by atomic_file_move.
 */

/* The most bytes of a chunk, and of the file; wire/PROTOCOL.md, writeBytes. */
#define UPLOAD_CHUNK_MAX 4194304
#define UPLOAD_FILE_MAX 26214400

struct upload_chunk {
  const char *path, *base64;
  size_t length;         /* of that */
  bool append;           /* else what the file had before is gone */
  const char *rename_to; /* of the last chunk; else NULL */
};

/* A chunk is appended whole or not at all, unless the process is killed meanwhile. When the last
   one fails the file is removed, since nobody will name it again, except where `path` is a link,
   leads to the file of the new name or to no regular file, or may not be written. The error has the
   reason first. */
int upload_write(const struct upload_chunk *chunk, struct error *error);

#endif
