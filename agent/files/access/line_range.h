#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

/* Chooses a range of lines of a text file, as PROTOCOL.md, readFile, describes, or a page of it for
   a model. regular_file.c passes it the text piece by piece. The hard part is a file of any size,
   of which only the chosen lines are kept. Pure. */
struct line_range {
  unsigned start_line; /* from 1; 0 means the first */
  unsigned line_count; /* 0 means all that follow */
  bool numbered;       /* each line begins with its number and a tab */
};

/* Whether the range is the whole file. */
bool line_range_is_all(const struct line_range *self);

/* Returns 0 if the content is valid UTF-8, or -1 with the error. */
int line_range_check(const char *content, size_t length, struct error *error);

/* Returns the number of "\n" in a text. */
uint64_t line_range_newlines(const char *text, size_t length);

/* Chooses the lines of a range from a text of any length that arrives in pieces, as long as
   line_choice_goes_on. Takes memory for the chosen lines, up to a bound. */
struct line_choice {
  uint64_t first, last; /* line numbers from 1; a `last` of UINT64_MAX means all that follow */
  size_t max;
  struct buffer text; /* the first `max` bytes of the chosen lines, joined by "\n" */
  uint64_t chosen;    /* bytes of the chosen lines */
  uint64_t behind;    /* bytes behind them */
  uint64_t bytes;     /* of the whole text so far */
  uint64_t ends;      /* "\n" in it */
  char newest;        /* its last byte */
};

/* Up to this size, all lines of a text are counted, whatever is chosen. */
#define LINE_CHOICE_COUNTED ((size_t)1048576)

void line_choice_init(struct line_choice *self, const struct line_range *range, size_t max);
void line_choice_release(struct line_choice *self);
void line_choice_add(struct line_choice *self, const char *piece, size_t length);

/* Whether more of the text can change the answer. */
bool line_choice_goes_on(const struct line_choice *self);

/* At the end of the text, whether all lines were counted. */
bool line_choice_is_counted(const struct line_choice *self);

/* Return the kept text and the number of bytes that were chosen, without a byte order mark. */
const char *line_choice_text(const struct line_choice *self, size_t *length);
uint64_t line_choice_length(const struct line_choice *self);

/* Adds the chosen lines, which must be text, without a byte order mark. Numbers are right-aligned
   to the width of the file's last line number, so that ranges of one file line up, or to that of
   the last chosen line if not all lines were counted. After an error `to` is unchanged. */
int line_range_add(const struct line_choice *choice, bool numbered, struct buffer *to,
                   struct error *error);

/*
 * Adds a page for a model, with a hint how to get the next one. The page is the unchanged text if
 * all of it is chosen and it has at most LINE_PAGE_MAX bytes. Otherwise it is the chosen lines and,
 * if there are more, a line that says so and where to continue. The text behind the last "\n" is a
 * line if it is not empty. If not all lines were counted, `more` replaces their number. The shown
 * lines must be text. Returns -1 also if the first line is past the end; it adds nothing then.
 */
#define LINE_PAGE_MAX ((size_t)102400)
int line_page_add(const struct line_choice *choice, struct buffer *to, struct error *error);

/* How many bytes of the text the choice must keep for a page. */
#define LINE_PAGE_KEPT (LINE_PAGE_MAX + 4)
