#include "agent/files/access/regular_file.h"
#include "agent/kinds/kinds.h"

struct read_file {
  struct line_range lines;
  bool with_media_type;
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct read_file *self = step->fields;
  return (self->with_media_type ? regular_file_cut_media : regular_file_cut)(
      step->target, &self->lines, &output->content, error);
}

static const struct step_field fields[] = {
    {.name = "startLine",
     .type = &step_field_count,
     .offset = offsetof(struct read_file, lines.start_line)},
    {.name = "lineCount",
     .type = &step_field_count,
     .offset = offsetof(struct read_file, lines.line_count)},
    {.name = "withLineNumbers",
     .type = &step_field_flag,
     .offset = offsetof(struct read_file, lines.numbered)},
    {.name = "withMediaType",
     .type = &step_field_flag,
     .offset = offsetof(struct read_file, with_media_type)},
};

const struct kind read_file_kind = {.wire = {.name = "readFile",
                                             .number = 2,
                                             .target = "path",
                                             .table = STEP_TABLE(fields, struct read_file)},
                                    .work = work,
                                    .has_content = true,
                                    .read_only = true};
