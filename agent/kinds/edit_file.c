#include "agent/files/access/atomic_file.h"
#include "agent/files/access/text_edit.h"
#include "agent/kinds/kind.h"

struct edit_file {
  struct step_list edits;
};

struct edit_request {
  const struct step *step;
  struct buffer *report;
};

/* Reports from the beginning, because the edits may be applied again. */
static int apply(void *context, struct buffer *text, struct error *error) {
  const struct edit_request *self = context;
  const struct edit_file *fields = self->step->fields;
  size_t count = fields->edits.count;
  self->report->length = 0;
  buffer_add_format(self->report, "Edited %s (%zu change%s)", self->step->target, count,
                    count == 1 ? "" : "s");
  return text_edit_apply(fields->edits.items, count, text, self->report, error);
}

static int work(const struct step *step, struct output *output, struct error *error) {
  struct edit_request editing = {step, &output->content};
  const struct atomic_file_edit edit = {apply, &editing};
  return atomic_file_edit(step->target, &edit, error);
}

static const struct step_field edit_fields[] = {
    STEP_FIELD("oldString", bytes, struct text_edit, old, .required = true),
    STEP_FIELD("newString", bytes, struct text_edit, new, .required = true),
    STEP_FIELD("replaceAll", flag, struct text_edit, all)};

static const struct step_table edit_table = STEP_TABLE(edit_fields, struct text_edit);

static const struct step_field fields[] = {
    STEP_FIELD("edits", list, struct edit_file, edits, .required = true, .element = &edit_table)};

const struct kind edit_file_kind = {
    KIND_WIRE("editFile", STEP_CHOICE_NO_NUMBER, "path", struct edit_file), .work = work,
    .has_content = true, .reads_first = true};
