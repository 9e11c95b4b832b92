#pragma once

#include "agent/files/tree/levels.h"
#include "base/buffer.h"
#include "base/error.h"

/* Renders a directory tree as text (PROTOCOL.md, directoryTree). Entries are chosen level by level
   (levels.h) and names are printable (printable_add). A directory that cannot be read is shown
   without content. */
#define TREE_RENDER_CUT "… [truncated at 1000 entries — narrow the root or lower max_depth]"
#define TREE_RENDER_GLOBS_MAX ((size_t)1000)

/* Adds the tree to `content`, which is empty; nothing after an error. `max_depth` is as for
   levels_read. `exclude_globs` (agent/files/glob/glob.h) are matched against names; they end with
   NULL, or are NULL. `repository` is as for walk_reference. */
int tree_render_write(const char *path, unsigned max_depth, const char *const *exclude_globs,
                      const char *repository, struct buffer *content, struct levels_found *found,
                      struct error *error);
