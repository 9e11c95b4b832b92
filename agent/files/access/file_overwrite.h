#ifndef AGENT_FILES_ACCESS_FILE_OVERWRITE_H
#define AGENT_FILES_ACCESS_FILE_OVERWRITE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Writes new content into a file that exists, as editors do. The file keeps its owner, its rights
 * and all of its names. This is not atomic: a reader may see parts of the old and of the new
 * content, and after a SIGKILL the file may stay like that.
 *
 * A full disk does not destroy the old content. The file gets its new length first, which needs the
 * space. If a write fails after that, as it can on a file system that never writes to the same
 * blocks again, what was overwritten is put back from memory.
 *
 * `fd` is open for writing, and for reading if the file may be read. Returns 0, or -1 with errno:
 * the old content is then there, unless `*is_torn`, which says that it could not be put back. Takes
 * as much memory as the shorter of the old and the new content.
 */
int file_overwrite(int fd, const char *bytes, size_t length, bool *is_torn);

#endif
