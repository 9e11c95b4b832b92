#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "wire/step_field.h"

/* Replaces parts of a text, as PROTOCOL.md, editFile, describes, and reports each change. The kind
   editFile calls it. The hard part is to tell a model why its old text was not found. Pure. */
struct text_edit {
  struct step_bytes old; /* not empty, and different from `new` */
  struct step_bytes new; /* may be empty */
  bool all;              /* replaces every occurrence; otherwise there must be exactly one */
};

/* The most lines that the report shows of the old and of the new text of an edit. */
#define TEXT_EDIT_LINES_MAX 20

/* Applies the edits in order, each to the result of the one before, and adds to `report` where each
   was and what it changed. If there are several, an error names the edit. Earlier edits may have
   changed the text then. */
int text_edit_apply(const struct text_edit *edits, size_t count, struct buffer *text,
                    struct buffer *report, struct error *error);
