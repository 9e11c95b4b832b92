#include "agent/files/grep/search.h"
#include "agent/kinds/kinds.h"

struct grep {
  char *pattern;
  char *glob;
  unsigned head_limit;
  unsigned context_before;
  unsigned context_after;
  bool prefix_paths;
  unsigned output; /* enum search_output */
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct grep *self = step->fields;
  struct search search = {.path = step->target,
                          .pattern = self->pattern,
                          .glob = self->glob,
                          .head_limit = self->head_limit,
                          .context_before = self->context_before,
                          .context_after = self->context_after,
                          .prefix_paths = self->prefix_paths,
                          .output = (enum search_output)self->output};
  struct search_result result;
  if (search_run(&search, &output->content, &result, error) != 0)
    return -1;
  if (result.is_cut)
    kind_warn(output, "grep truncated at %zu matches", result.matches);
  if (result.skipped > 0)
    kind_warn(output,
              "grep passed over %zu lines that are too long for the pattern, the first in %s",
              result.skipped, result.first);
  if (result.skipped_root != NULL)
    kind_warn(output, "grep passed over %s", result.skipped_root);
  kind_warn_unread(output, result.unread);
  return 0;
}

static const char *const outputs[] = {[SEARCH_CONTENT] = "content",
                                      [SEARCH_FILES] = "filesWithMatches",
                                      [SEARCH_COUNTS] = "count",
                                      NULL};

static const struct step_field fields[] = {
    {.name = "pattern",
     .type = &step_field_text,
     .offset = offsetof(struct grep, pattern),
     .required = true,
     .minimum = 1},
    {.name = "glob", .type = &step_field_text, .offset = offsetof(struct grep, glob)},
    {.name = "headLimit",
     .type = &step_field_count,
     .offset = offsetof(struct grep, head_limit),
     .fallback = 1000},
    {.name = "contextBefore",
     .type = &step_field_count,
     .offset = offsetof(struct grep, context_before)},
    {.name = "contextAfter",
     .type = &step_field_count,
     .offset = offsetof(struct grep, context_after)},
    {.name = "prefixPaths",
     .type = &step_field_flag,
     .offset = offsetof(struct grep, prefix_paths)},
    {.name = "outputMode",
     .type = &step_field_choice,
     .offset = offsetof(struct grep, output),
     .choices = outputs},
};

const struct kind grep_kind = {
    .wire = {.name = "grep", .target = "path", .table = STEP_TABLE(fields, struct grep)},
    .work = work,
    .has_content = true,
    .read_only = true};
