#include <fcntl.h>

#include "agent/files/access/atomic_file.h"
#include "agent/files/access/regular_file.h"
#include "agent/files/access/text_edit.h"
#include "agent/kinds/kind.h"

struct edit_file {
  struct step_list edits;
};

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct edit_file *self = step->fields;
  struct buffer text = {0};
  buffer_add_format(&output->content, "Edited %s (%zu change%s)", step->target, self->edits.count,
                    self->edits.count == 1 ? "" : "s");
  int result = regular_file_text(step->target, &text, error);
  if (result == 0)
    result = text_edit_apply(self->edits.items, self->edits.count, &text, &output->content, error);
  if (result == 0)
    result = atomic_file_write(AT_FDCWD, step->target, text.bytes, text.length, error);
  buffer_release(&text);
  return result;
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
    .has_content = true};
