#ifndef AGENT_FILES_ACCESS_ATOMIC_FILE_H
#define AGENT_FILES_ACCESS_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/* The longest content, in bytes; wire/PROTOCOL.md, writeFile. */
#define ATOMIC_FILE_MAX 10485760

/*
 * Writes a file so that a reader sees all of the old content or all of the new, also when the
 * writer is killed. Nothing is synced to the disk: a sandbox and its disk end together. A killed
 * writer leaves at most one hidden file (base/staged_file.h), which the next write of the same file
 * by the same user removes.
 *
 * Writers of one file take turns, and do not lose each other's changes (file_version.h).
 *
 * A relative path begins at the directory `at`, or AT_FDCWD. Symbolic links are followed and stay,
 * and missing directories are created.
 *
 * A file that exists keeps its UTF-8 byte order mark (which is put in front of content without
 * one), its owner, group, mode, access list and extended attributes (file_attributes.h). Other hard
 * links keep the old content. A new file has the mode 0666 less the umask, or what the default
 * access list of its directory says.
 *
 * If this process cannot give the new file the owner and the group of the old one, it writes the
 * content into the old file (file_overwrite.h). That is not atomic. The same happens to a file of
 * another user in a directory in which this process may not create files.
 *
 * A file cannot be replaced where its directory is not writable, where its access list cannot be
 * kept, or where it is a mount point itself, as /etc/hosts in a container. It is then not written
 * at all.
 *
 * After an error the old content is there and nothing else is left, except directories that were
 * created. The error names the reason first and the full path last (path_fail). It says so if a
 * write in place has failed and the old content could not be put back.
 */
int atomic_file_write(int at, const char *path, const char *content, size_t length,
                      struct error *error);

/* Makes the new content of a file from its text. */
struct atomic_file_edit {
  /* Changes the text in place. Returns 0, or -1 with the reason. It is called again with the new
     text when somebody else has written the file meanwhile. */
  int (*apply)(void *context, struct buffer *text, struct error *error);
  void *context;
};

/* Reads a text file, changes it and writes it as atomic_file_write does. Errors of the read are as
   of regular_file.h. A change that somebody else makes between the read and the write is not lost:
   the edit is applied to the new content. */
int atomic_file_edit(const char *path, const struct atomic_file_edit *edit, struct error *error);

/* Gives a file, which is open for reading and writing as `fd` and has this name in the directory,
   the name `path`. What lies there is replaced or written in place, as by atomic_file_write, except
   for the byte order mark. When it is this very file nothing happens. On another file system, and
   to be written in place, the file is copied, then removed. After an error it has its old name. */
int atomic_file_move(int fd, int directory, const char *name, const char *path,
                     struct error *error);

/*
 * A file that arrives in chunks: the first one makes it, each further one is appended, and with the
 * last one it gets its name. Between them it is there for everybody under the name that it has.
 *
 * Paths are as of atomic_file_write: a relative one begins at the current directory, links are
 * followed and stay, missing directories are created, and only a regular file is written. What lies
 * under the new name is replaced as by atomic_file_move.
 */

/* The most bytes of a chunk, and of the file; wire/PROTOCOL.md, writeBytes. */
#define ATOMIC_FILE_UPLOAD_CHUNK_MAX 4194304
#define ATOMIC_FILE_UPLOAD_FILE_MAX 26214400

struct atomic_file_chunk {
  const char *path, *base64;
  size_t length;         /* of that */
  bool append;           /* else what the file had before is gone */
  const char *rename_to; /* of the last chunk; else NULL */
};

/* A chunk is appended whole or not at all, unless the process is killed meanwhile. When the last
   one fails the file is removed, since nobody will name it again, except where `path` is a link,
   leads to the file of the new name or to no regular file, or may not be written. The error has the
   reason first. */
int atomic_file_append(const struct atomic_file_chunk *chunk, struct error *error);

#endif
