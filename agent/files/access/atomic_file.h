#ifndef AGENT_FILES_ACCESS_ATOMIC_FILE_H
#define AGENT_FILES_ACCESS_ATOMIC_FILE_H

#include <stddef.h>

#include "agent/files/access/target.h"
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
 * and missing directories are created (agent/files/access/target.h).
 *
 * A file that exists keeps its UTF-8 byte order mark (which is put in front of content without one),
 * its mode, owner, access list and extended attributes, as agent/files/access/attributes.h says:
 * nobody gains rights by a write. Other hard links keep the old content. A new file has the mode
 * 0666 less the umask, or what the default access list of its directory says.
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

/* Gives a file, which is open for reading and writing as `fd`, the name `path`. What lies there is
   replaced, and what it was is kept, as by atomic_file_write, except for the byte order mark. When
   it is this very file nothing happens. On another file system the file is copied, then removed.
   After an error it has its old name. */
int atomic_file_move(int fd, const struct target *from, const char *path, struct error *error);

#endif
