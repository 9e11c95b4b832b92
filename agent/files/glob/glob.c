#include "agent/files/glob/glob.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

/*
 * A star first matches nothing. Where what follows it does not match, the last star takes one more
 * character, and only that one: a star that has found the first place for what stands up to the next
 * star never has to find a later one, since that leaves less of the path for the rest. For "**" and
 * components it is the same.
 *
 * A glob is read anew for each path. That costs less than to compile it: most names differ from it in
 * their first byte.
 */

#define NONE ((size_t)-1)

/* --- units and characters --- */

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

/* A byte that is part of no well-formed sequence counts as a character behind all others. */
#define BROKEN_BYTE 0x110000U

static uint32_t next_character(const char *text, size_t length, size_t *at) {
  unsigned char first = (unsigned char)text[*at];
  size_t size = first < 0x80 ? 1 : utf8_sequence(text + *at, length - *at);
  *at += size > 0 ? size : 1;
  if (size == 0)
    return BROKEN_BYTE + first;
  if (size == 1)
    return first;
  uint32_t character = first & (0xFFU >> (size + 1));
  for (size_t i = 1; i < size; i++)
    character = character << 6 | ((unsigned char)text[*at - size + i] & 0x3FU);
  return character;
}

/* One end of a range in brackets, which may be escaped. */
static uint32_t bracket_character(const char *text, size_t length, size_t *at) {
  *at += text[*at] == '\\';
  return next_character(text, length, at);
}

struct range {
  uint32_t first, last;
};

/* The range at text[*at], which is stepped over; `end` is where the last "]" is. */
static struct range next_range(const char *text, size_t end, size_t *at) {
  struct range range;
  range.first = bracket_character(text, end, at);
  range.last = range.first;
  if (*at + 1 < end && text[*at] == '-') {
    ++*at;
    range.last = bracket_character(text, end, at);
  }
  return range;
}

static size_t ranges_begin(const char *text) {
  return text[1] == '!' || text[1] == '^' ? 2 : 1;
}

/* `text` is a whole bracket expression. */
static bool is_in_brackets(const char *text, size_t length, uint32_t character) {
  size_t at = ranges_begin(text);
  bool is_negated = at == 2, is_in = false;
  while (at < length - 1 && !is_in) { /* a "]" in front is literal: length counts the last one */
    struct range range = next_range(text, length - 1, &at);
    is_in = range.first <= character && character <= range.last;
  }
  return is_in != is_negated;
}

/* --- the text --- */

/* Of brackets that are closed. */
static int check_ranges(const char *glob, struct error *error) {
  size_t unit;
  for (size_t start = 0; glob[start] != '\0'; start += unit) {
    unit = glob_text_unit(glob + start);
    if (glob[start] != '[')
      continue;
    for (size_t at = ranges_begin(glob + start); at < unit - 1;) {
      struct range range = next_range(glob + start, unit - 1, &at);
      if (range.last < range.first)
        return error_set(error, "glob: range out of order in %.*s", (int)unit, glob + start);
    }
  }
  return 0;
}

int glob_text_check(const char *text, struct error *error) {
  if (strnlen(text, GLOB_LENGTH_MAX + 1) > GLOB_LENGTH_MAX)
    return error_set(error, "glob: longer than %zu bytes", GLOB_LENGTH_MAX);
  size_t open = 0, outermost = 0;
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
  return check_ranges(text, error);
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

/* Expands all texts round by round, not each by itself: no round copies more than the limit, and
   there are at most as many rounds as braces. So nested braces and thousands of empty ones take no
   longer than others. */
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

/* --- a component --- */

/* Whether the unit at glob[*at] matches the character at name[*in]; both are stepped over. */
static bool match_unit(const char *glob, size_t glob_length, size_t *at, const char *name,
                       size_t length, size_t *in) {
  if (glob[*at] == '[') {
    size_t unit = glob_text_unit(glob + *at);
    *at += unit;
    return is_in_brackets(glob + *at - unit, unit, next_character(name, length, in));
  }
  if (glob[*at] == '?') {
    ++*at;
    (void)next_character(name, length, in);
    return true;
  }
  *at += glob[*at] == '\\';
  return next_character(glob, glob_length, at) == next_character(name, length, in);
}

bool glob_text_matches_name(const char *glob, size_t glob_length, const char *name, size_t length) {
  size_t at = 0, in = 0;
  size_t star = NONE; /* what follows the last one */
  size_t taken = 0;   /* where what it has taken ends */
  while (in < length) {
    if (at < glob_length && glob[at] == '*') {
      while (at < glob_length && glob[at] == '*')
        at++;
      if (at == glob_length)
        return true;
      star = at;
      taken = in;
    } else if (at == glob_length || !match_unit(glob, glob_length, &at, name, length, &in)) {
      if (star == NONE)
        return false;
      (void)next_character(name, length, &taken);
      at = star;
      in = taken;
    }
  }
  while (at < glob_length && glob[at] == '*')
    at++;
  return at == glob_length;
}

/* --- components --- */

/* A "/", which may be escaped. */
static bool is_slash(const char *text) {
  return text[0] == '/' || (text[0] == '\\' && text[1] == '/');
}

/* How long the component at the start of a text is. */
static size_t component_length(const char *text, size_t length) {
  size_t at = 0;
  while (at < length && !is_slash(text + at))
    at += glob_text_unit(text + at);
  return at;
}

static size_t name_length(const char *path, size_t length) {
  const char *slash = memchr(path, '/', length);
  return slash == NULL ? length : (size_t)(slash - path);
}

bool glob_text_matches(const char *glob, size_t glob_length, const char *path, size_t length) {
  size_t at = 0, in = 0;
  size_t stars = NONE; /* the component after the last "**" */
  size_t taken = 0;    /* where what it has taken ends */
  for (;;) {
    size_t component = component_length(glob + at, glob_length - at);
    bool is_last = at + component == glob_length;
    size_t next = is_last ? glob_length : at + component + glob_text_unit(glob + at + component);
    if (component == 2 && memcmp(glob + at, "**", 2) == 0) {
      if (is_last)
        return true; /* a component is left: each step below leaves one */
      at = stars = next;
      taken = in;
      continue;
    }
    size_t name = name_length(path + in, length - in);
    if (is_last == (in + name == length) &&
        glob_text_matches_name(glob + at, component, path + in, name)) {
      if (is_last)
        return true;
      at = next;
      in += name + 1;
      continue;
    }
    taken += stars == NONE ? 0 : name_length(path + taken, length - taken) + 1;
    if (stars == NONE || taken > length)
      return false;
    at = stars;
    in = taken;
  }
}

int glob_text_last_byte(const char *glob, size_t length) {
  size_t last = 0, unit = 0;
  for (size_t at = 0; at < length; at += unit) {
    last = at;
    unit = glob_text_unit(glob + at);
  }
  bool is_plain = strchr("*?[", glob[last]) == NULL;
  return is_plain ? (unsigned char)glob[length - 1] : -1;
}

/* --- a glob --- */

/* One of the globs without braces that the glob stands for. */
struct alternative {
  const char *text; /* in the texts */
  size_t length;
  bool only_directories;
};

struct glob {
  char *texts;
  bool is_of_name; /* no "/" in it, except at its end */
  size_t count;
  struct alternative alternatives[];
};

/* The glob without the "/" at its ends. */
static struct alternative read_alternative(const char *text) {
  text += text[0] == '.' && text[1] == '/';
  text += text[0] == '/';
  struct alternative self = {.text = text, .length = strlen(text)};
  size_t last = 0; /* unit */
  for (size_t at = 0; at < self.length; at += glob_text_unit(text + at))
    last = at;
  const char *end = text + last;
  if (strcmp(end, "/") == 0 || strcmp(end, "\\/") == 0) {
    self.only_directories = true;
    self.length = last;
  }
  return self;
}

static size_t count_texts(const struct glob_texts *texts) {
  size_t count = 0;
  for (size_t at = 0; at < texts->length; at += strlen(texts->text + at) + 1)
    count++;
  return count;
}

struct glob *glob_new(const char *text, struct error *error) {
  struct glob_texts texts = {0};
  if (glob_text_check(text, error) != 0 || glob_text_expand(text, &texts, error) != 0)
    return NULL;
  size_t count = count_texts(&texts);
  struct glob *self = memory_allocate(sizeof *self + count * sizeof *self->alternatives);
  self->texts = texts.text;
  const char *slash = strchr(text, '/');
  self->is_of_name = slash == NULL || slash[1] == '\0';
  self->count = 0;
  for (const char *one = texts.text; self->count < count; one += strlen(one) + 1)
    self->alternatives[self->count++] = read_alternative(one);
  return self;
}

void glob_free(struct glob *self) {
  if (self == NULL)
    return;
  free(self->texts);
  free(self);
}

bool glob_matches(const struct glob *self, const char *path, size_t length, bool is_directory) {
  const char *slash = self->is_of_name && length > 0 ? memrchr(path, '/', length) : NULL;
  if (slash != NULL) {
    length -= (size_t)(slash + 1 - path);
    path = slash + 1;
  }
  for (size_t i = 0; i < self->count; i++) {
    const struct alternative *one = &self->alternatives[i];
    if ((is_directory || !one->only_directories) && one->length > 0 && length > 0 &&
        glob_text_matches(one->text, one->length, path, length))
      return true;
  }
  return false;
}
