#ifndef AGENT_FILES_TREE_LISTING_H
#define AGENT_FILES_TREE_LISTING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * What is in a directory, as listFiles answers with: a JSON array of
 *
 *   {"path":"/work/a","size_bytes":1,"mtime":"2026-05-05T10:00:00.123+00:00","is_directory":false}
 *
 * without spaces. Paths are full ones (agent/files/full_path.h). Directories have no `size_bytes`.
 * A symbolic link has the values of what it leads to, or its own where that is nothing; it is not
 * followed further. What may not be looked at, in a directory without the right to search it, has
 * neither `size_bytes` nor `mtime`. What vanishes meanwhile is no entry; a directory that cannot be
 * read is one, and nothing of what is in it.
 *
 * The order is over all entries of all levels, and ties are by path: the first LISTING_MAX of all
 * are given, whatever order the file system has. Directories count as files of size 0.
 *
 * A text that is LISTING_BYTES_MAX long takes no more entries: that is only so where long paths are
 * full of what JSON must escape. It is longer than that by one entry at most.
 *
 * Memory: LISTING_MAX paths, the text, and what an unsorted walk needs (agent/files/walk.h). A
 * path that is PATH_MAX bytes or longer below the root is no entry, since no call takes it. Time is
 * in proportion to the number of entries; by name, only what is among the first ones so far is
 * looked at.
 */
#define LISTING_MAX 1000
#define LISTING_BYTES_MAX ((size_t)16 * 1024 * 1024)

enum listing_order {
  LISTING_BY_NAME,  /* of full paths, in the order of bytes */
  LISTING_BY_SIZE,  /* the largest first */
  LISTING_BY_MTIME, /* the newest first, by nanoseconds */
};

struct listing_result {
  size_t entries; /* that are given */
  bool is_cut;    /* there are more */
  size_t missed;  /* directories that could not be looked into (walk_missed) */
};

/* Adds to `content`. `max_depth` is at least 1, which stands for the directory's own entries;
   deeper than WALK_DEPTH_MAX is not gone. Without sizes, no entry has
   `size_bytes`. After an error, nothing was added. */
int listing_write(const char *path, unsigned max_depth, enum listing_order order, bool with_sizes,
                  struct buffer *content, struct listing_result *found, struct error *error);

#endif
