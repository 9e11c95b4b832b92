#ifndef AGENT_FILES_TREE_TREE_RENDER_H
#define AGENT_FILES_TREE_TREE_RENDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * A directory as a picture of characters, as directoryTree answers with:
 *
 *   src/
 *   ├── lib/
 *   │   └── a.c
 *   └── main.c
 *
 * The first line is the name of the root's full path (agent/files/full_path.h), each has its `\n`.
 * Directories come first, each group is in the order of bytes. A symbolic link to a directory is
 * one, and is not gone into. Directories of agent/files/default_excludes.h are left out, but not
 * the root.
 *
 * A name never looks like another line: control characters (C1 and the separators U+2028 and U+2029
 * too) and what is not UTF-8 become U+FFFD. What cannot be read is shown without what is in it;
 * what vanishes meanwhile may be shown or not.
 *
 * Memory: what the text has room for is kept, twice at most: at most 2 * TREE_RENDER_MAX bytes of
 * lines, 12 of them or more for each kept name, whose own cost is some 60. The globs are bounded by
 * TREE_RENDER_GLOBS_MAX and their own limits. Descriptors: one for each of WALK_DEPTH_MAX levels.
 */
#define TREE_RENDER_MAX ((size_t)1000000)
#define TREE_RENDER_GLOBS_MAX ((size_t)1000)

struct tree_render {
  size_t entries; /* lines below the root's */
  size_t missed;  /* directories that could not be looked into, or not to their end */
  bool cut;       /* there are more; the text ends with a whole line */
};

/*
 * Adds to `content`, which is empty. `max_depth` is at least 1, which stands for the directory's
 * own entries; deeper than WALK_DEPTH_MAX is not gone. `exclude_globs` (agent/files/glob.h) are
 * matched against mere names, and end with NULL; NULL for none. After an error nothing was added.
 */
int tree_render_write(struct tree_render *self, const char *path, unsigned max_depth,
                      const char *const *exclude_globs, struct buffer *content,
                      struct error *error);

#endif
