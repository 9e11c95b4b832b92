#include "agent/files/glob/wildcard.h"

#include <stdint.h>
#include <string.h>

#include "agent/files/glob/glob_text.h"
#include "base/utf8.h"

/*
 * A star first matches nothing. Where what follows it does not match, the last star takes one more
 * character, and only that one: a star that has found the first place for what stands up to the next
 * star never has to find a later one, since that leaves less of the path for the rest. For "**" and
 * components it is the same.
 */

#define NONE ((size_t)-1)

/* --- characters --- */

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
  uint32_t first;
  uint32_t last;
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
  bool is_negated = at == 2;
  bool is_in = false;
  while (at < length - 1 && !is_in) { /* a "]" in front is literal: length counts the last one */
    struct range range = next_range(text, length - 1, &at);
    is_in = range.first <= character && character <= range.last;
  }
  return is_in != is_negated;
}

int wildcard_check(const char *glob, size_t length, struct error *error) {
  size_t unit;
  for (size_t start = 0; start < length; start += unit) {
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

bool wildcard_matches_name(const char *glob, size_t glob_length, const char *name, size_t length) {
  size_t at = 0;
  size_t in = 0;
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

bool wildcard_matches(const char *glob, size_t glob_length, const char *path, size_t length) {
  size_t at = 0;
  size_t in = 0;
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
        wildcard_matches_name(glob + at, component, path + in, name)) {
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

int wildcard_last_byte(const char *glob, size_t length) {
  size_t last = 0;
  size_t unit = 0;
  for (size_t at = 0; at < length; at += unit) {
    last = at;
    unit = glob_text_unit(glob + at);
  }
  bool is_plain = strchr("*?[", glob[last]) == NULL;
  return is_plain ? (unsigned char)glob[length - 1] : -1;
}
