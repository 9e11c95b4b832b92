#ifndef AGENT_FILES_ACCESS_ATOMIC_FILE_H
#define AGENT_FILES_ACCESS_ATOMIC_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* The longest content, in bytes; wire/PROTOCOL.md, writeFile. */
#define ATOMIC_FILE_MAX 10485760

/*
 * Writes a file so that a reader sees all of the old content or all of the new, also when the
 * writer is killed. Nothing is synced to the disk: a sandbox and its disk end together. A killed
 * writer leaves at most one hidden file (base/staged_file.h), which the next write of the same file
 * by the same user removes. Writers of one file wait for each other.
 *
 * A relative path begins at the directory `at`, or AT_FDCWD. Symbolic links are followed and stay,
 * and missing directories are created.
 *
 * A file that exists keeps its UTF-8 byte order mark (which is put in front of content without one),
 * its owner, group, mode, access list and extended attributes, as far as this process may read and set
 * them. Nobody gains rights by a write, except the process itself, which may become the owner:
 *
 * - What the new file inherited from its directory (a default access list) is removed.
 * - Where the owner or the group cannot be kept, the set-id bits are dropped. The new group, and
 *   everybody, then get only what the old group, all groups of the list and everybody had.
 * - Capabilities of a program (security.capability) and sums of the content (security.ima,
 *   security.evm) are not kept: they belong to the old content. write(2) drops the first as well.
 *
 * Other hard links keep the old content. A new file has the mode 0666 less the umask, or what the
 * default access list of its directory says.
 *
 * A file cannot be replaced where its directory is not writable, where its access list cannot be
 * kept, or where it is a mount point itself, as /etc/hosts in a container. It is then not written at
 * all.
 *
 * After an error the old file is unchanged and nothing else is left, except directories that were
 * created. The error names the reason first and the full path last (path_fail).
 */
int atomic_file_write(int at, const char *path, const char *content, size_t length,
                      struct error *error);

/* Gives a file, which is open for reading and writing as `fd` and has this name in the directory, the
   name `path`. What lies there is replaced, and what it was is kept, as by atomic_file_write, except for
   the byte order mark. When it is this very file nothing happens. On another file system the file is
   copied, then removed. After an error it has its old name. */
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
