#ifndef AGENT_FILES_TREE_TREE_RENDER_H
#define AGENT_FILES_TREE_TREE_RENDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Renders a directory tree as text, for directoryTree:
 *
 *   src/
 *   ├── lib/
 *   │   └── a.c
 *   └── main.c
 *
 * The first line is the last component of the root's full path (agent/files/access/full_path.h), or
 * "./" where the path is "." or ends in "/.". Lines are joined by `\n`: none follows the last one.
 * Directories come first, each group in the order of bytes. A symbolic link to a directory is shown
 * as a directory, without its content. Directories named in walk_default_excludes are excluded,
 * except the root.
 *
 * A name never looks like another line: control characters (C1 and the separators U+2028 and U+2029
 * too) and bytes that are not UTF-8 become U+FFFD. A directory that cannot be read is shown without
 * its content; what vanishes meanwhile may be shown or not.
 *
 * Memory: at most 2 * TREE_RENDER_MAX bytes of lines, each of 12 bytes or more, and some 60 bytes
 * for each of these. The globs are bounded by TREE_RENDER_GLOBS_MAX and their own limits.
 * Descriptors: one for each of WALK_DEPTH_MAX levels.
 */
#define TREE_RENDER_MAX ((size_t)1000000)
#define TREE_RENDER_GLOBS_MAX ((size_t)1000)

struct tree_render {
  size_t entries; /* lines below the root's */
  size_t unread;  /* directories that could not be read, or not to their end */
  bool is_cut;    /* there are more lines; the text ends with a whole one */
};

/*
 * Adds to `content`, which is empty. `max_depth` is at least 1, the directory's own entries; deeper
 * levels than WALK_DEPTH_MAX are not visited. `exclude_globs` (agent/files/glob/glob.h) are matched
 * against names and end with NULL; NULL for none. After an error nothing was added.
 */
int tree_render_write(struct tree_render *self, const char *path, unsigned max_depth,
                      const char *const *exclude_globs, struct buffer *content,
                      struct error *error);

#endif
