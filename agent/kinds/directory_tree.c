#include <stdlib.h>

#include "agent/files/tree/tree_render.h"
#include "agent/kinds/kind.h"

struct directory_tree {
  unsigned max_depth;
  char **exclude_globs;
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct directory_tree *self = step->fields;
  struct levels_found found;
  char *repository = kind_repository(step);
  int result =
      tree_render_write(step->target, self->max_depth, (const char *const *)self->exclude_globs,
                        repository, &output->content, &found, error);
  free(repository);
  kind_warn_unread(output, result == 0 ? found.unread : 0);
  return result;
}

static const struct step_field fields[] = {
    STEP_FIELD("maxDepth", count, struct directory_tree, max_depth, .fallback = 4),
    STEP_FIELD("excludeGlobs", texts, struct directory_tree, exclude_globs)};

const struct kind directory_tree_kind = {
    KIND_WIRE("directoryTree", 6, "path", struct directory_tree), .work = work, .has_content = true,
    .read_only = true};
