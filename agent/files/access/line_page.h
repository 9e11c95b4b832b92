#ifndef AGENT_FILES_ACCESS_LINE_PAGE_H
#define AGENT_FILES_ACCESS_LINE_PAGE_H

#include "agent/files/access/line_range.h"
#include "base/buffer.h"
#include "base/error.h"

/*
 * A page of a text file for a model, which is told how to get the next one. Pure.
 *
 * The text as it is, when all of it is chosen and it has at most LINE_PAGE_MAX bytes. Otherwise the
 * chosen lines, and where there are more, a line that says so:
 *
 *   ... (showing lines 1-20 of 300; continue with offset=21)
 *   ... (truncated at line 812 of 3000; continue with offset=813)   more than LINE_PAGE_MAX bytes
 *   ... (truncated mid-line 1 of 3; execute for the rest of it: sed -n 1p FILE | tail -c +102401 | head -c 50000;
 *   continue with offset=2)                                         one line alone is more than that
 *
 * What follows the last "\n" is a line when it is not empty. Where not all lines were counted,
 * `more` stands for their number. What is shown must be UTF-8; a byte order mark is omitted.
 */
#define LINE_PAGE_MAX ((size_t)102400)

/* What the choice must keep of the text. */
#define LINE_PAGE_KEPT (LINE_PAGE_MAX + 4)

/* Returns 0, or -1 with the error, among others when the first line is past the end; nothing is
   added then. */
int line_page_add(const struct line_choice *choice, struct buffer *to, struct error *error);

#endif
