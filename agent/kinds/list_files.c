#include "agent/files/tree/listing.h"
#include "agent/kinds/kind.h"

struct list_files {
  unsigned max_depth;
  unsigned sort_by; /* enum listing_order */
  bool with_sizes, all_entries;
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct list_files *self = step->fields;
  struct levels_found result;
  enum listing_form form = output->for_model   ? LISTING_LINES
                           : self->all_entries ? LISTING_JSON_WITH_MODES
                           : self->with_sizes  ? LISTING_JSON
                                               : LISTING_JSON_WITHOUT_SIZES;
  const unsigned depth = self->all_entries ? 0 : self->max_depth;
  const unsigned order = self->all_entries ? LISTING_BY_NAME : self->sort_by;
  if (listing_write(step->target, depth, (enum listing_order)order, form, &output->content, &result,
                    error) != 0)
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
    STEP_FIELD("withSizes", flag, struct list_files, with_sizes, .fallback = true),
    STEP_FIELD("allEntries", flag, struct list_files, all_entries)};

const struct kind list_files_kind = {KIND_WIRE("listFiles", 4, "path", struct list_files),
                                     .work = work, .has_content = true, .read_only = true};
