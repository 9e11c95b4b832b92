#ifndef AGENT_FILES_ACCESS_LINE_RANGE_H
#define AGENT_FILES_ACCESS_LINE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * A range of lines of a text file, for readFile. Pure.
 *
 * The text is split at each `\n`: what follows the last one is a line, empty or not, and an empty
 * file has one line. The chosen lines are joined by `\n`, so that none follows the last one; all of
 * them are the text as it is. A `\r` is text.
 */
struct line_range {
  unsigned start_line; /* from 1; 0: the first */
  unsigned line_count; /* 0: all that follow */
  bool numbered;       /* each line begins with its number and a tab */
};

/* Whether no lines are asked for, but the file. */
bool line_range_is_all(const struct line_range *self);

/* Whether the content is text: all of it is UTF-8; NUL is. Returns 0, or -1 with the error. */
int line_range_check(const char *content, size_t length, struct error *error);

/*
 * The lines of a range, of a text of any length that comes in pieces. Takes memory for what is
 * chosen, up to a bound. Pure.
 *
 *   line_choice_init(&choice, &range, max)
 *   while there are pieces and line_choice_goes_on(&choice)
 *     line_choice_add(&choice, piece, length)
 *   line_range_add(&choice, …)           or a page of them (line_page.h)
 *   line_choice_release(&choice)
 *
 *   BEFORE --the first line begins--> INSIDE --the "\n" of the last one--> BEHIND
 */
enum line_choice_place { LINE_CHOICE_BEFORE, LINE_CHOICE_INSIDE, LINE_CHOICE_BEHIND };

struct line_choice {
  uint64_t first, last; /* numbers of lines, from 1; UINT64_MAX: all that follow */
  size_t max;
  enum line_choice_place place;
  struct buffer text; /* the chosen lines joined by "\n", the first `max` bytes of them */
  uint64_t chosen;    /* bytes of all of them */
  uint64_t behind;    /* bytes that came after them */
  uint64_t bytes;     /* of the text so far */
  uint64_t ends;      /* the "\n" of it */
  char newest;        /* its last byte */
};

/* The lines of a text of at most so many bytes are counted to its end, whatever is chosen. */
#define LINE_CHOICE_COUNTED ((size_t)1048576)

void line_choice_init(struct line_choice *self, const struct line_range *range, size_t max);
void line_choice_release(struct line_choice *self);
void line_choice_add(struct line_choice *self, const char *piece, size_t length);

/* False: what follows says nothing new. */
bool line_choice_goes_on(const struct line_choice *self);

/* At the end of the text: whether all of it was counted. */
bool line_choice_is_counted(const struct line_choice *self);

/* What is kept, without a UTF-8 byte order mark at the beginning of the text; and how many bytes of
   that were chosen. */
const char *line_choice_text(const struct line_choice *self, size_t *length);
uint64_t line_choice_length(const struct line_choice *self);

/* The number of the last chosen line. */
uint64_t line_choice_last(const struct line_choice *self);

/* Adds the chosen lines to `to`; fewer where the file ends earlier. Numbers are right-aligned to
   the width of the file's last one, so that ranges of one file line up; of a file of which not all
   lines were counted, to that of the last chosen one. A UTF-8 byte order mark is omitted. The
   chosen lines must be text. `to` grows by at most 11 bytes a line more than them; after an error
   it is unchanged. */
int line_range_add(const struct line_choice *choice, bool numbered, struct buffer *to,
                   struct error *error);

#endif
