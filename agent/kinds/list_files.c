#include "agent/files/tree/listing.h"
#include "agent/kinds/kind.h"

struct list_files {
  unsigned max_depth;
  unsigned sort_by; /* enum listing_order */
  bool with_sizes;
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct list_files *self = step->fields;
  struct levels_found result;
  enum listing_form form = output->for_model  ? LISTING_LINES
                           : self->with_sizes ? LISTING_JSON
                                              : LISTING_JSON_WITHOUT_SIZES;
  if (listing_write(step->target, self->max_depth, (enum listing_order)self->sort_by, form,
                    &output->content, &result, error) != 0)
    return -1;
  if (output->for_model && output->content.length == 0)
    buffer_add_string(&output->content, "(empty directory)");
  if (result.is_cut)
    kind_warn_cut(output, "directory ", result.entries, "entries");
  kind_warn_unread(output, result.unread);
  return 0;
}

static const struct step_choice orders[] = {[LISTING_BY_NAME] = {"name", 0},
                                            [LISTING_BY_SIZE] = {"size", 1},
                                            [LISTING_BY_MTIME] = {"mtime", 2},
                                            {0}};

static const struct step_field fields[] = {
    STEP_FIELD("maxDepth", count, struct list_files, max_depth, .fallback = 1),
    STEP_FIELD("sortBy", choice, struct list_files, sort_by, .choices = orders),
    STEP_FIELD("withSizes", flag, struct list_files, with_sizes, .fallback = true)};

const struct kind list_files_kind = {KIND_WIRE("listFiles", 4, "path", struct list_files),
                                     .work = work, .has_content = true, .read_only = true};
