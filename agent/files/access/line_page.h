#ifndef AGENT_FILES_ACCESS_LINE_PAGE_H
#define AGENT_FILES_ACCESS_LINE_PAGE_H

#include "agent/files/access/line_range.h"
#include "base/buffer.h"
#include "base/error.h"

/*
 * A page of a text file for a model, with a hint how to get the next one. Pure.
 *
 * The page is the unchanged text if all of it is chosen and it has at most LINE_PAGE_MAX bytes.
 * Otherwise it is the chosen lines and, if there are more, a line that says so and where to
 * continue. The text behind the last "\n" is a line if it is not empty. If not all lines were
 * counted, `more` replaces their number. The shown lines must be UTF-8; a byte order mark is
 * omitted.
 */
#define LINE_PAGE_MAX ((size_t)102400)

/* How many bytes of the text the choice must keep. */
#define LINE_PAGE_KEPT (LINE_PAGE_MAX + 4)

/* Returns 0, or -1 with the error, for example if the first line is past the end; it adds nothing
   then. */
int line_page_add(const struct line_choice *choice, struct buffer *to, struct error *error);

#endif
