#pragma once

#include <stddef.h>

#include "agent/files/tree/levels.h"
#include "base/buffer.h"
#include "base/error.h"

/*
 * Lists a directory: the JSON array of PROTOCOL.md, listFiles, or lines for a model of type, size
 * and name (printable_add):
 *
 *   file          1  a
 *   dir           -  src
 *
 * A symbolic link has the values of its target, or its own if it is dangling. Directories count as
 * files of size 0. If there are more than LEVELS_MAX entries, the first ones are listed. In the
 * order of names, these would all be in the first directory, so they are then chosen level by level
 * (levels.h). A path of PATH_MAX bytes or more below the root is omitted, since no system call
 * accepts it. The list also ends after LISTING_BYTES_MAX, which it exceeds by at most one entry.
 */
#define LISTING_BYTES_MAX ((size_t)16 * 1024 * 1024)

enum listing_order {
  LISTING_BY_NAME,  /* full paths in the order of bytes */
  LISTING_BY_SIZE,  /* largest first */
  LISTING_BY_MTIME, /* newest first, to the nanosecond */
};

enum listing_form {
  LISTING_JSON,
  LISTING_JSON_WITHOUT_SIZES,
  LISTING_JSON_WITH_MODES, /* and with the targets of symbolic links */
  LISTING_LINES
};

/* Adds the list to `content`; nothing after an error. `max_depth` is as for levels_read. With 0,
   the list has every entry of the directory itself, by name, up to LISTING_BYTES_MAX. */
int listing_write(const char *path, unsigned max_depth, enum listing_order order,
                  enum listing_form form, struct buffer *content, struct levels_found *found,
                  struct error *error);
