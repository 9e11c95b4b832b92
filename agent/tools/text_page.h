#ifndef AGENT_TOOLS_TEXT_PAGE_H
#define AGENT_TOOLS_TEXT_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * A page of a text file for a model, which is told how to get the next one. Pure.
 *
 * The text as it is, when all of it is asked for and it has at most TEXT_PAGE_MAX bytes. Otherwise
 * the chosen lines joined by "\n", and where there are more, a line that says so:
 *
 *   ... (showing lines 1-20 of 300; continue with offset=21)
 *   ... (truncated at line 812 of 3000; continue with offset=813)   more than TEXT_PAGE_MAX bytes
 *   ... (truncated mid-line 1 of 3)                                 one line alone is more than that
 *
 * What follows the last "\n" is a line when it is not empty.
 */
#define TEXT_PAGE_MAX ((size_t)102400)

/* `offset`: the first line, from 1; 0: the first. `limit`: the most lines; 0: all. Returns 0, or -1
   with the error when the offset is past the end. */
int text_page_add(const char *text, size_t length, uint64_t offset, uint64_t limit,
                  struct buffer *out, struct error *error);

#endif
