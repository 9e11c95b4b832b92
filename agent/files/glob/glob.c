#include "agent/files/glob/glob.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "agent/files/glob/glob_text.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "base/utf8.h"

/*
 * A glob is translated to regular expressions of PCRE2: each of its alternatives without braces to
 * one branch, and as many branches together as PCRE2's limit on the size of an expression surely
 * allows.
 *
 *   ?             [^/]
 *   *             (?>[^/]*?…)      where … is what stands up to the next star in the component
 *   the last *    [^/]*
 *   **            (?>(?:[^/]*+/)*?…)   where … is what stands up to the next "**"
 *   the last **   (?:[^/]*+/)*
 *
 * The atomic groups keep the time bounded: a star that has found the first place for what follows
 * it up to the next star never has to find another one, since a later place leaves less of the path
 * for the rest. So only the last star is ever tried again.
 *
 * PCRE2 matches well-formed UTF-8 only. A byte that is part of no well-formed sequence is given to
 * it as one of the last code points, U+10FF80 to U+10FFFF, in the glob and in the path alike.
 */
#define BROKEN_BYTE 0x10FF00U

/* How often a code is interpreted before machine code is made of it: making it takes as long as
   some hundred matches. */
#define INTERPRETED_MAX 100

/* Bytes of alternatives in one expression: GLOB_LENGTH_MAX bytes, whatever they are, take less than
   the 64 KiB that PCRE2 allows a compiled expression (LINK_SIZE 2). */
#define BRANCHES_LENGTH_MAX GLOB_LENGTH_MAX

struct glob_code {
  pcre2_code *code;
  bool only_directories;
  bool is_machine;
  unsigned uses;
};

struct glob {
  struct glob_code *codes;
  size_t code_count;
  pcre2_match_data *found;
  bool is_of_name; /* no "/" in it */
};

/* An expression under construction. */
struct expression {
  struct buffer text;
  size_t branches_length; /* of the globs in it */
  bool only_directories;
};

/* --- characters --- */

/* The code point at text[*at], which is stepped over. */
static uint32_t next_character(const char *text, size_t length, size_t *at) {
  const unsigned char *bytes = (const unsigned char *)text + *at;
  size_t size = utf8_sequence(text + *at, length - *at);
  *at += size > 0 ? size : 1;
  if (size == 0)
    return BROKEN_BYTE + bytes[0];
  if (size == 1)
    return bytes[0];
  uint32_t character = bytes[0] & (0xFFU >> (size + 1));
  for (size_t i = 1; i < size; i++)
    character = character << 6 | (bytes[i] & 0x3FU);
  return character;
}

static void add_character(struct buffer *to, uint32_t character) {
  char text[16];
  (void)snprintf(text, sizeof text, "\\x{%x}", (unsigned)character);
  buffer_add_string(to, text);
}

/* One character of a bracket expression, which may be escaped. */
static uint32_t bracket_character(const char *text, size_t length, size_t *at) {
  if (text[*at] == '\\')
    *at += 1;
  return next_character(text, length, at);
}

/* `text` is a whole bracket expression. It never matches "/", though a range may hold it. */
static int add_brackets(struct buffer *to, const char *text, size_t length, struct error *error) {
  size_t end = length - 1;
  size_t at = 1;
  bool negated = text[at] == '!' || text[at] == '^';
  at += negated;
  buffer_add_string(to, negated ? "[^/" : "(?!/)[");
  do { /* a "]" in front is literal */
    uint32_t first = bracket_character(text, end, &at);
    uint32_t last = first;
    if (at + 1 < end && text[at] == '-') {
      at++;
      last = bracket_character(text, end, &at);
    }
    if (last < first)
      return error_set(error, "glob: range out of order in %.*s", (int)length, text);
    add_character(to, first);
    buffer_add_string(to, "-");
    add_character(to, last);
  } while (at < end);
  buffer_add_string(to, "]");
  return 0;
}

/* --- components --- */

static int add_unit(struct buffer *to, const char *text, size_t length, size_t *at,
                    struct error *error) {
  if (text[*at] == '[') {
    size_t unit = glob_text_unit(text + *at);
    *at += unit;
    return add_brackets(to, text + *at - unit, unit, error);
  }
  if (text[*at] == '?') {
    *at += 1;
    buffer_add_string(to, "[^/]");
    return 0;
  }
  *at += text[*at] == '\\';
  add_character(to, next_character(text, length, at));
  return 0;
}

/* Whether there is a star from `at` on. */
static bool has_star(const char *text, size_t length, size_t at) {
  while (at < length && text[at] != '*')
    at += glob_text_unit(text + at);
  return at < length;
}

static int add_component(struct buffer *to, const char *text, size_t length, struct error *error) {
  bool in_group = false;
  for (size_t at = 0; at < length;) {
    if (text[at] != '*') {
      if (add_unit(to, text, length, &at, error) != 0)
        return -1;
      continue;
    }
    while (at < length && text[at] == '*')
      at++;
    if (in_group)
      buffer_add_string(to, ")");
    in_group = has_star(text, length, at);
    buffer_add_string(to, in_group ? "(?>[^/]*?" : "[^/]*");
  }
  return 0;
}

/* --- alternatives --- */

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

static bool is_globstar(const char *text, size_t length) {
  return length == 2 && memcmp(text, "**", 2) == 0;
}

/* Whether there is a "**" among these components. */
static bool has_globstar(const char *text, size_t length) {
  for (size_t at = 0; at < length;) {
    size_t component = component_length(text + at, length - at);
    if (is_globstar(text + at, component))
      return true;
    at += component;
    at += at < length ? glob_text_unit(text + at) : 0;
  }
  return false;
}

/* A branch. `text` may be empty, which is one component. */
static int add_branch(struct buffer *to, const char *text, size_t length, struct error *error) {
  bool in_group = false;
  size_t at = 0;
  for (bool is_last = false; !is_last;) {
    size_t component = component_length(text + at, length - at);
    const char *start = text + at;
    at += component;
    is_last = at == length;
    at += is_last ? 0 : glob_text_unit(text + at);
    if (!is_globstar(start, component)) {
      if (add_component(to, start, component, error) != 0)
        return -1;
      buffer_add_string(to, is_last ? "" : "/");
    } else if (is_last) {
      buffer_add_string(to, in_group ? ").+" : ".+");
    } else if (!is_globstar(text + at, component_length(text + at, length - at))) {
      /* of several in a row, the last one */
      buffer_add_string(to, in_group ? ")" : "");
      in_group = has_globstar(text + at, length - at);
      buffer_add_string(to, in_group ? "(?>(?:[^/]*+/)*?" : "(?:[^/]*+/)*");
    }
  }
  return 0;
}

/* --- expressions --- */

/* Compiles the expression, unless it is empty, and empties it. */
static int compile_expression(struct glob *self, struct expression *expression,
                              struct error *error) {
  struct buffer *text = &expression->text;
  if (text->length == 0)
    return 0;
  int reason;
  size_t offset;
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)text->bytes, text->length,
                                   PCRE2_UTF | PCRE2_DOTALL | PCRE2_ANCHORED | PCRE2_ENDANCHORED,
                                   &reason, &offset, NULL);
  if (code == NULL) {
    unsigned char message[128];
    (void)pcre2_get_error_message(reason, message, sizeof message);
    return error_set(error, "glob: %s", (const char *)message);
  }
  self->codes = memory_resize(self->codes, (self->code_count + 1) * sizeof *self->codes);
  self->codes[self->code_count++] =
      (struct glob_code){.code = code, .only_directories = expression->only_directories};
  text->length = 0;
  expression->branches_length = 0;
  return 0;
}

/* `one` is a glob without braces. */
static int add_alternative(struct glob *self, struct expression *expressions, const char *one,
                           struct error *error) {
  one += one[0] == '.' && one[1] == '/';
  one += one[0] == '/';
  size_t length = strlen(one);
  size_t last = 0; /* offset of the last component */
  for (size_t at = 0; at < length;) {
    at += component_length(one + at, length - at);
    at += at < length ? glob_text_unit(one + at) : 0;
    last = at < length ? at : last;
  }
  if (length == 0)
    return 0; /* no path fits */
  size_t component = component_length(one + last, length - last);
  bool only_directories = last + component < length;
  if (only_directories)
    length = last + component;
  struct expression *expression = &expressions[only_directories];
  if (expression->branches_length + length > BRANCHES_LENGTH_MAX &&
      compile_expression(self, expression, error) != 0)
    return -1;
  buffer_add_string(&expression->text, expression->text.length > 0 ? "|" : "");
  expression->branches_length += length;
  return add_branch(&expression->text, one, length, error);
}

struct glob *glob_new(const char *text, struct error *error) {
  struct glob_texts texts;
  if (glob_text_check(text, error) != 0 || glob_text_expand(text, &texts, error) != 0)
    return NULL;
  struct glob *self = memory_allocate(sizeof *self);
  *self = (struct glob){.found = pcre2_match_data_create(1, NULL),
                        .is_of_name = strchr(text, '/') == NULL};
  if (self->found == NULL)
    memory_exhausted("a glob");
  struct expression expressions[2] = {{.only_directories = false}, {.only_directories = true}};
  int result = 0;
  for (size_t at = 0; result == 0 && at < texts.length; at += strlen(texts.text + at) + 1)
    result = add_alternative(self, expressions, texts.text + at, error);
  for (size_t i = 0; i < 2; i++) {
    if (result == 0)
      result = compile_expression(self, &expressions[i], error);
    buffer_release(&expressions[i].text);
  }
  free(texts.text);
  if (result == 0)
    return self;
  glob_free(self);
  return NULL;
}

void glob_free(struct glob *self) {
  if (self == NULL)
    return;
  for (size_t i = 0; i < self->code_count; i++)
    pcre2_code_free(self->codes[i].code);
  free(self->codes);
  pcre2_match_data_free(self->found);
  free(self);
}

/* --- matching --- */

static bool code_matches(struct glob_code *self, pcre2_match_data *found, const char *path,
                         size_t length) {
  if (++self->uses == INTERPRETED_MAX)
    self->is_machine = pcre2_jit_compile(self->code, PCRE2_JIT_COMPLETE) == 0;
  PCRE2_SPTR target = (PCRE2_SPTR)path;
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  if (self->is_machine)
    result = pcre2_jit_match(self->code, target, length, 0, 0, found, NULL);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has more room */
    result =
        pcre2_match(self->code, target, length, 0, PCRE2_NO_JIT | PCRE2_NO_UTF_CHECK, found, NULL);
  return result >= 0;
}

static bool any_matches(const struct glob *self, const char *path, size_t length,
                        bool is_directory) {
  for (size_t i = 0; i < self->code_count; i++)
    if ((is_directory || !self->codes[i].only_directories) &&
        code_matches(&self->codes[i], self->found, path, length))
      return true;
  return false;
}

/* A path that is not UTF-8. */
static bool any_matches_broken(const struct glob *self, const char *path, size_t length,
                               bool is_directory) {
  struct buffer copy = {0};
  for (size_t at = 0; at < length;) {
    size_t start = at;
    uint32_t character = next_character(path, length, &at);
    const char broken[] = {'\xF4', '\x8F', (char)(0x80 | (character >> 6 & 0x3F)),
                           (char)(0x80 | (character & 0x3F))};
    if (at - start == 1 && (unsigned char)path[start] >= 0x80)
      buffer_add(&copy, broken, sizeof broken);
    else
      buffer_add(&copy, path + start, at - start);
  }
  bool result = any_matches(self, copy.bytes, copy.length, is_directory);
  buffer_release(&copy);
  return result;
}

bool glob_matches(const struct glob *self, const char *path, size_t length, bool is_directory) {
  const char *slash = self->is_of_name && length > 0 ? memrchr(path, '/', length) : NULL;
  if (slash != NULL) {
    length -= (size_t)(slash + 1 - path);
    path = slash + 1;
  }
  if (length == 0)
    return false;
  if (utf8_valid_prefix(path, length) != length)
    return any_matches_broken(self, path, length, is_directory);
  return any_matches(self, path, length, is_directory);
}
