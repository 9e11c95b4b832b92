#ifndef AGENT_FILES_TREE_TREE_RENDER_H
#define AGENT_FILES_TREE_TREE_RENDER_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/files/tree/levels.h"
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
 * The first line is the last component of the root's full path (agent/files/access/path.h), or
 * "./" where the path is "." or ends in "/.". Lines are joined by `\n`: none follows the last one.
 * Directories come first, each group in the order of bytes. A symbolic link to a directory is shown
 * as a directory, without its content. Directories named in walk_default_excludes are excluded,
 * except the root, and so is the reference directory (agent/files/tree/walk.h).
 *
 * Of more than TREE_RENDER_MAX entries the upper levels are shown: all that is directly in the
 * root, then the next level, and so on; of a level the first, in the order of their directories.
 * The last line then is TREE_RENDER_CUT.
 *
 * A name never looks like another line: control characters (C1 and the separators U+2028 and U+2029
 * too) and bytes that are not UTF-8 become U+FFFD. A directory that cannot be read is shown without
 * its content; what vanishes meanwhile may be shown or not.
 *
 * Memory: TREE_RENDER_MAX entries, and their lines, of up to 2,300 bytes. The globs are bounded by
 * TREE_RENDER_GLOBS_MAX and their own limits. Time is in proportion to the number of entries of the
 * levels that are needed.
 */
#define TREE_RENDER_MAX LEVELS_MAX
#define TREE_RENDER_CUT "… [truncated at 1000 entries — narrow the root or lower max_depth]"
#define TREE_RENDER_GLOBS_MAX ((size_t)1000)

/* Adds to `content`, which is empty. `max_depth` is at least 1, the directory's own entries; deeper
   levels than WALK_DEPTH_MAX are not visited. `exclude_globs` (agent/files/glob/glob.h) are matched
   against names and end with NULL; NULL for none. `repository` as for walk_reference. After an
   error nothing was added. */
int tree_render_write(const char *path, unsigned max_depth, const char *const *exclude_globs,
                      const char *repository, struct buffer *content, struct levels_found *found,
                      struct error *error);

#endif
