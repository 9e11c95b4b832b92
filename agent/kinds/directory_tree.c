#include "agent/files/tree/tree_render.h"
#include "agent/kinds/kinds.h"

struct directory_tree {
  unsigned max_depth;
  char **exclude_globs;
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct directory_tree *self = step->fields;
  struct tree_render tree;
  if (tree_render_write(&tree, step->target, self->max_depth,
                        (const char *const *)self->exclude_globs, &output->content, error) != 0)
    return -1;
  if (tree.is_cut)
    kind_warn(output, "directory tree truncated at %zu entries", tree.entries);
  kind_warn_unread(output, tree.unread);
  return 0;
}

static const struct step_field fields[] = {
    {.name = "maxDepth",
     .type = &step_field_count,
     .offset = offsetof(struct directory_tree, max_depth),
     .fallback = 4},
    {.name = "excludeGlobs",
     .type = &step_field_texts,
     .offset = offsetof(struct directory_tree, exclude_globs)},
};

const struct kind directory_tree_kind = {
    .wire = {.name = "directoryTree",
             .target = "path",
             .table = STEP_TABLE(fields, struct directory_tree)},
    .work = work,
    .has_content = true,
    .read_only = true};
