#include <fcntl.h>
#include <stdlib.h>

#include "agent/files/access/atomic_file.h"
#include "agent/files/access/regular_file.h"
#include "agent/files/access/text_edit.h"
#include "agent/kinds/kind.h"
#include "base/memory.h"

struct edit {
  struct step_bytes old_string, new_string;
  bool replace_all;
};

struct edit_file {
  struct step_list edits;
};

static int edit(const struct edit_file *self, struct buffer *text, struct buffer *report,
                struct error *error) {
  const struct edit *from = self->edits.items;
  struct text_edit *edits = memory_allocate(self->edits.count * sizeof *edits);
  for (size_t i = 0; i < self->edits.count; i++)
    edits[i] = (struct text_edit){.old_text = from[i].old_string.text,
                                  .old_length = from[i].old_string.length,
                                  .new_text = from[i].new_string.text,
                                  .new_length = from[i].new_string.length,
                                  .all = from[i].replace_all};
  int result = text_edit_apply(edits, self->edits.count, text, report, error);
  free(edits);
  return result;
}

static int work(const struct step *step, struct output *output, struct error *error) {
  const struct edit_file *self = step->fields;
  struct buffer text = {0};
  buffer_add_format(&output->content, "Edited %s (%zu change%s)", step->target, self->edits.count,
                    self->edits.count == 1 ? "" : "s");
  int result = regular_file_text(step->target, &text, error);
  if (result == 0)
    result = edit(self, &text, &output->content, error);
  if (result == 0)
    result = atomic_file_write(AT_FDCWD, step->target, text.bytes, text.length, error);
  buffer_release(&text);
  return result;
}

static const struct step_field edit_fields[] = {
    STEP_FIELD("oldString", bytes, struct edit, old_string, .required = true),
    STEP_FIELD("newString", bytes, struct edit, new_string, .required = true),
    STEP_FIELD("replaceAll", flag, struct edit, replace_all)};

static const struct step_table edit_table = STEP_TABLE(edit_fields, struct edit);

static const struct step_field fields[] = {
    STEP_FIELD("edits", list, struct edit_file, edits, .required = true, .element = &edit_table)};

const struct kind edit_file_kind = {
    KIND_WIRE("editFile", STEP_CHOICE_NO_NUMBER, "path", struct edit_file), .work = work,
    .has_content = true};
