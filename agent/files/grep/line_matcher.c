#include "agent/files/grep/line_matcher.h"

#include <stdlib.h>
#include <string.h>

#include "agent/files/grep/prefilter.h"
#include "base/memory.h"
#include "base/utf8.h"

/*
 * A call of PCRE2 costs more than most lines do. So
 *
 *   - where every match contains one of a few literals (agent/files/grep/prefilter.h), these are
 *     searched for, and only lines that contain one are given to PCRE2;
 *   - else, where the pattern is local (prefilter.h), PCRE2 gets BLOCK bytes of lines at once. What
 *     it finds there is in the first line that matches or before: that line is matched alone, and
 *     the search goes on after it;
 *   - else, and where PCRE2 gives up on a block, it gets each line by itself.
 *
 * The time for a block may grow with its square, so that it is a small one.
 */
#define BLOCK ((size_t)2048)

/* PCRE2 rejects lines that are shorter than the shortest match at once. A pattern whose matches are
   at least this long, in characters, is not matched in blocks. */
#define LONG_MATCH 16

struct line_matcher {
  struct regex *regex;
  struct prefilter prefilter;
  bool in_blocks;
  const char *text;
  size_t length;
  bool is_text;     /* whatever is in it */
  bool is_examined; /* traits and is_utf8 are those of the text */
  unsigned traits;
  bool is_utf8;
};

struct line_matcher *line_matcher_new(const char *source, struct error *error) {
  struct regex *regex = regex_new(source, error);
  if (regex == NULL)
    return NULL;
  struct line_matcher *self = memory_allocate(sizeof *self);
  *self = (struct line_matcher){.regex = regex};
  prefilter_read(&self->prefilter, source);
  self->in_blocks = self->prefilter.is_local && regex_min_length(regex) < LONG_MATCH;
  return self;
}

void line_matcher_free(struct line_matcher *self) {
  if (self == NULL)
    return;
  regex_free(self->regex);
  free(self);
}

void line_matcher_begin(struct line_matcher *self, const char *text, size_t length, bool is_text) {
  self->text = text;
  self->length = length;
  self->is_text = is_text;
  self->is_examined = false;
}

static void examine_text(struct line_matcher *self) {
  self->is_examined = true;
  self->traits = memscan_traits(self->text, self->length);
  self->is_utf8 = (self->traits & BYTE_HIGH) == 0 ||
                  utf8_valid_prefix(self->text, self->length) == self->length;
}

static bool is_binary(const struct line_matcher *self) {
  return !self->is_text && (self->traits & BYTE_NUL) != 0;
}

void matched_line_from(struct matched_line *line, const char *text, size_t length, size_t start) {
  size_t end = start + memscan_first(text + start, length - start, '\n');
  line->start = start;
  line->next = end < length ? end + 1 : end;
  line->end = end < length && end > start && text[end - 1] == '\r' ? end - 1 : end;
}

/* Sets `*line` to the line that contains the byte at `at`, which may be its "\n"; the line starts
   at `from` or later. */
static void line_around(const struct line_matcher *self, size_t from, size_t at,
                        struct matched_line *line) {
  const char *before = memrchr(self->text + from, '\n', at - from);
  size_t start = before == NULL ? from : (size_t)(before - self->text) + 1;
  matched_line_from(line, self->text, self->length, start);
}

static enum regex_text text_kind(const struct line_matcher *self, const char *text, size_t length) {
  if ((self->traits & BYTE_HIGH) == 0 || (memscan_traits(text, length) & BYTE_HIGH) == 0)
    return REGEX_ASCII;
  return self->is_utf8 || utf8_valid_prefix(text, length) == length ? REGEX_UTF8 : REGEX_BROKEN;
}

static int match_line(struct line_matcher *self, const struct matched_line *line,
                      struct error *error) {
  const char *text = self->text + line->start;
  size_t start, length = line->end - line->start;
  int found = regex_match(self->regex, text_kind(self, text, length), text, length, &start);
  return found < 0 ? regex_error(self->regex, error) : found;
}

/* The first line that matches of those that start before `limit`. */
static int next_by_line(struct line_matcher *self, size_t from, size_t limit,
                        struct matched_line *line, struct error *error) {
  int found = 0;
  while (found == 0 && from < limit) {
    matched_line_from(line, self->text, self->length, from);
    found = match_line(self, line, error);
    from = line->next;
  }
  return found;
}

static int next_by_literal(struct line_matcher *self, size_t from, struct matched_line *line,
                           struct error *error) {
  for (;;) {
    size_t at = memscan_find(self->text, self->length, from, self->prefilter.literals,
                             self->prefilter.literal_count);
    if (at == self->length)
      return 0;
    if (!self->is_examined)
      examine_text(self);
    if (is_binary(self))
      return 0;
    line_around(self, from, at, line);
    int found = match_line(self, line, error);
    if (found != 0)
      return found;
    from = line->next;
  }
}

/* The end of the line that contains the byte BLOCK bytes after `from`. */
static size_t block_end(const struct line_matcher *self, size_t from) {
  if (self->length - from <= BLOCK)
    return self->length;
  struct matched_line last;
  matched_line_from(&last, self->text, self->length, from + BLOCK);
  return last.next;
}

/* Where one line matches, the next one often does: it is matched first. */
static int next_by_block(struct line_matcher *self, size_t from, struct matched_line *line,
                         struct error *error) {
  if (from < self->length) {
    matched_line_from(line, self->text, self->length, from);
    int found = match_line(self, line, error);
    if (found != 0)
      return found;
    from = line->next;
  }
  while (from < self->length) {
    size_t end = block_end(self, from);
    const char *text = self->text + from;
    enum regex_text kind = text_kind(self, text, end - from);
    size_t start = 0;
    bool is_suitable = kind != REGEX_BROKEN && end - from <= 2 * BLOCK; /* no long line */
    int found = is_suitable ? regex_try(self->regex, kind, text, end - from, &start) : -1;
    if (found < 0) {
      found = next_by_line(self, from, end, line, error);
      if (found != 0)
        return found;
    }
    /* The end of the block, after its last "\n", is in none of its lines. */
    if (found == 0 || (start == end - from && text[start - 1] == '\n')) {
      from = end;
      continue;
    }
    line_around(self, from, from + start, line);
    found = match_line(self, line, error);
    if (found != 0)
      return found;
    from = line->next;
  }
  return 0;
}

int line_matcher_next(struct line_matcher *self, size_t from, struct matched_line *line,
                      struct error *error) {
  if (self->prefilter.literal_count > 0)
    return next_by_literal(self, from, line, error);
  if (!self->is_examined)
    examine_text(self);
  if (is_binary(self))
    return 0;
  /* In a block, $ does not match before "\r\n". */
  if (self->in_blocks && (self->traits & BYTE_RETURN) == 0)
    return next_by_block(self, from, line, error);
  return next_by_line(self, from, self->length, line, error);
}
