#include "agent/files/access/regular_file.h"
#include "agent/kinds/kind.h"

struct read_file {
  struct line_range lines;
  bool with_media_type;
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct read_file *self = step->fields;
  enum regular_file_form form = output->for_model       ? REGULAR_FILE_PAGE
                                : self->with_media_type ? REGULAR_FILE_MEDIA
                                                        : REGULAR_FILE_LINES;
  output->is_bounded = true;
  return regular_file_cut(step->target, &self->lines, form, &output->content, error);
}

static const struct step_field fields[] = {
    STEP_FIELD("startLine", count, struct read_file, lines.start_line),
    STEP_FIELD("lineCount", count, struct read_file, lines.line_count),
    STEP_FIELD("withLineNumbers", flag, struct read_file, lines.numbered),
    STEP_FIELD("withMediaType", flag, struct read_file, with_media_type)};

const struct kind read_file_kind = {KIND_WIRE("readFile", 2, "path", struct read_file),
                                    .work = work, .has_content = true, .read_only = true};
