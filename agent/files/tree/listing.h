#ifndef AGENT_FILES_TREE_LISTING_H
#define AGENT_FILES_TREE_LISTING_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/tree/levels.h"
#include "base/buffer.h"
#include "base/error.h"

/*
 * Lists what is in a directory, for listFiles: a JSON array of
 *
 *   {"path":"/work/a","size_bytes":1,"mtime":"2026-05-05T10:00:00.123+00:00","is_directory":false}
 *
 * without spaces, or for a model lines of type, size and name,
 *
 *   file          1  a
 *   dir           -  src
 *
 * where control characters and what is not UTF-8 become U+FFFD. Paths are full ones (path_full).
 * Directories have no `size_bytes`. A symbolic link has the values of its target, or its own where
 * it is dangling; it is not descended into. An entry of a directory without search permission has
 * neither `size_bytes` nor `mtime`. What vanishes meanwhile is no entry; a directory that cannot be
 * read is one, without its content.
 *
 * The entries of all levels are ordered together, ties by path, whatever order the file system has.
 * Directories count as files of size 0. Of more than LISTING_MAX entries, by size and by time the
 * first in this order are given. By name these would be the whole of the first directory and
 * nothing of the root. So entries are then chosen level by level, the first by path within a level,
 * those in the directories of walk_default_excludes last of all, and ordered as always.
 *
 * The list also ends where it is LISTING_BYTES_MAX long, which it exceeds by one entry at most.
 * Only long paths full of characters that JSON has to escape get it there.
 *
 * Memory: LISTING_MAX paths, the text, and an unsorted walk (agent/files/tree/walk.h). A path of
 * PATH_MAX bytes or more below the root is no entry, since no system call takes it. Time is in
 * proportion to the number of entries; by name, to that of the levels that are needed, and stat is
 * called only for entries that are among the first so far.
 */
#define LISTING_MAX LEVELS_MAX
#define LISTING_BYTES_MAX ((size_t)16 * 1024 * 1024)

enum listing_order {
  LISTING_BY_NAME,  /* of full paths, in the order of bytes */
  LISTING_BY_SIZE,  /* the largest first */
  LISTING_BY_MTIME, /* the newest first, by nanoseconds */
};

enum listing_form { LISTING_JSON, LISTING_JSON_WITHOUT_SIZES, LISTING_LINES };

/* Adds to `content`. `max_depth` is at least 1, the directory's own entries; deeper levels than
   WALK_DEPTH_MAX are not visited. After an error, nothing was added. */
int listing_write(const char *path, unsigned max_depth, enum listing_order order,
                  enum listing_form form, struct buffer *content, struct levels_found *found,
                  struct error *error);

#endif
