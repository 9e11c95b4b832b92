#include "agent/files/glob/glob_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* A bracket expression that begins at text[0]. */
static size_t brackets(const char *text) {
  size_t at = 1;
  if (text[at] == '!' || text[at] == '^')
    at++;
  if (text[at] == ']')
    at++;
  while (text[at] != ']') {
    if (text[at] == '\\' && text[at + 1] != '\0')
      at++;
    if (text[at] == '\0')
      return 0;
    at++;
  }
  return at + 1;
}

size_t glob_text_unit(const char *text) {
  if (text[0] == '[')
    return brackets(text);
  if (text[0] == '\\')
    return text[1] == '\0' ? 0 : 2;
  return 1;
}

int glob_text_check(const char *text, struct error *error) {
  if (strnlen(text, GLOB_LENGTH_MAX + 1) > GLOB_LENGTH_MAX)
    return error_set(error, "glob: longer than %zu bytes", GLOB_LENGTH_MAX);
  size_t open = 0;
  size_t outermost = 0;
  for (size_t at = 0; text[at] != '\0';) {
    size_t unit = glob_text_unit(text + at);
    if (unit == 0 && text[at] == '[')
      return error_set(error, "glob: no ] for the [ at offset %zu", at);
    if (unit == 0)
      return error_set(error, "glob: nothing after the \\ at offset %zu", at);
    if (text[at] == '}' && open-- == 0)
      return error_set(error, "glob: no { for the } at offset %zu", at);
    if (text[at] == '{' && open++ == 0)
      outermost = at;
    at += unit;
  }
  if (open > 0)
    return error_set(error, "glob: no } for the { at offset %zu", outermost);
  return 0;
}

/* Offset of the first brace, or of the end. */
static size_t find_brace(const char *text) {
  size_t at = 0;
  while (text[at] != '\0' && text[at] != '{')
    at += glob_text_unit(text + at);
  return at;
}

/* Offset of the "," or "}" that ends the alternative at `at`. */
static size_t alternative_end(const char *text, size_t at) {
  for (size_t depth = 0;; at += glob_text_unit(text + at)) {
    if (depth == 0 && (text[at] == ',' || text[at] == '}'))
      return at;
    if (text[at] == '{')
      depth++;
    if (text[at] == '}')
      depth--;
  }
}

/* False when there is no room. */
static bool append(struct glob_texts *self, const char *text, size_t length) {
  if (length > GLOB_EXPANDED_MAX - self->length)
    return false;
  memcpy(self->text + self->length, text, length);
  self->length += length;
  return true;
}

/* Appends `text` once for each alternative of its first braces, with that in their place. */
static bool expand_braces(const char *text, size_t brace, struct glob_texts *to) {
  size_t length = strlen(text);
  size_t end = brace;
  while (text[end] != '}')
    end = alternative_end(text, end + 1);
  for (size_t at = brace; at < end;) {
    size_t stop = alternative_end(text, at + 1);
    if (!append(to, text, brace) || !append(to, text + at + 1, stop - at - 1) ||
        !append(to, text + end + 1, length - end)) /* with the NUL */
      return false;
    at = stop;
  }
  return true;
}

/* Expands the first braces of each text; *done when there were none. */
static bool expand_round(const struct glob_texts *from, struct glob_texts *to, bool *done) {
  *done = true;
  to->length = 0;
  for (size_t at = 0; at < from->length;) {
    const char *text = from->text + at;
    size_t size = strlen(text) + 1;
    size_t brace = find_brace(text);
    bool fits = true;
    if (text[brace] == '\0') {
      fits = append(to, text, size);
    } else {
      *done = false;
      fits = expand_braces(text, brace, to);
    }
    if (!fits)
      return false;
    at += size;
  }
  return true;
}

/*
 * Expands all texts round by round, not each by itself: no round copies more than the limit, and
 * there are at most as many rounds as braces. So nested braces and thousands of empty ones take no
 * longer than others.
 */
int glob_text_expand(const char *text, struct glob_texts *texts, struct error *error) {
  struct glob_texts from = {.text = memory_allocate(GLOB_EXPANDED_MAX)};
  struct glob_texts to = {.text = memory_allocate(GLOB_EXPANDED_MAX)};
  bool fits = append(&from, text, strlen(text) + 1);
  for (bool done = false; fits && !done;) {
    fits = expand_round(&from, &to, &done);
    struct glob_texts swap = from;
    from = to;
    to = swap;
  }
  free(to.text);
  if (!fits) {
    free(from.text);
    return error_set(error, "glob: its braces expand to more than %zu bytes", GLOB_EXPANDED_MAX);
  }
  *texts = from;
  return 0;
}
