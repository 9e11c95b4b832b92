#include "agent/files/access/regular_file.h"
#include "agent/kinds/kinds.h"

static int work(const struct step *step, struct output *output, struct error *error) {
  return regular_file_cut(step->target, step->fields, &output->content, error);
}

static const struct step_field fields[] = {
    {.name = "startLine",
     .type = &step_field_count,
     .offset = offsetof(struct line_range, start_line)},
    {.name = "lineCount",
     .type = &step_field_count,
     .offset = offsetof(struct line_range, line_count)},
    {.name = "withLineNumbers",
     .type = &step_field_flag,
     .offset = offsetof(struct line_range, numbered)},
};

const struct kind read_file_kind = {
    .wire = {.name = "readFile", .target = "path", .table = STEP_TABLE(fields, struct line_range)},
    .work = work,
    .has_content = true,
    .read_only = true};
