#ifndef AGENT_FILES_ACCESS_TEXT_EDIT_H
#define AGENT_FILES_ACCESS_TEXT_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"
#include "wire/step_field.h"

/*
 * Replaces pieces of a text by others, for editFile. Pure.
 *
 * A line ending in an edit, "\n" or "\r\n", stands for either in the text. The new piece gets the
 * line endings of the old one, or, where that has none, the first of the text. The rest of the text
 * stays byte for byte.
 */
struct text_edit {
  struct step_bytes old; /* not empty, and not the new text */
  struct step_bytes new; /* may be empty */
  bool all;              /* each occurrence of the old text; else there must be exactly one */
};

/* The most lines of an edit's old and of its new text that the report shows. */
#define TEXT_EDIT_LINES_MAX 20

/* Applies the edits in their order, each to the text that the one before has left, and adds to
   `report` where each was and what it changed. An error names the edit where there are several; the
   edits before it may have changed the text. */
int text_edit_apply(const struct text_edit *edits, size_t count, struct buffer *text,
                    struct buffer *report, struct error *error);

#endif
