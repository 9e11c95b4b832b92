#ifndef AGENT_FILES_ACCESS_ATOMIC_FILE_H
#define AGENT_FILES_ACCESS_ATOMIC_FILE_H

#include <stddef.h>

#include "base/error.h"

/* The most that is written, in bytes. */
#define ATOMIC_FILE_MAX 10485760

/*
 * Writes a file so that a reader sees all of the old one or all of the new one, whatever happens;
 * after a crash of the machine, too. A killed writer leaves one hidden file at the most
 * (base/staged_file.h), which the next write of the same file by the same user removes. Writers of
 * one file come one after the other.
 *
 * A relative path begins at the directory `at`, or AT_FDCWD. Symbolic links are followed and stay,
 * and directories that are missing are made (agent/files/target.h).
 *
 * A file that exists keeps its mode; its owner and group as far as this process may give files
 * away, and what it may not give away loses the rights that were another's (set-id bits, and those
 * of the group); and its UTF-8 byte order mark, which is put in front of content without one. Its
 * other hard links keep the old content; extended attributes and access lists are not kept. A new
 * file's mode is 0666 less the umask.
 *
 * A file whose directory takes no new ones, and one that is a mount point by itself, as /etc/hosts
 * in a container, cannot be replaced, and is not written in any other way.
 *
 * After an error the old file stands as it was, and nothing else, except directories that were
 * made. The error names the reason first and the path last, where a long one is cut.
 */
int atomic_file_write(int at, const char *path, const char *content, size_t length,
                      struct error *error);

#endif
