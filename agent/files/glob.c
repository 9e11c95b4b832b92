#include "agent/files/glob.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/files/glob_text.h"
#include "wire/memory.h"
#include "wire/utf8.h"

/*
 * A glob is compiled to its alternatives without braces, these to components, these to tokens, and
 * matched like that. No automaton is needed, since at both levels a star that has found the first
 * place for what stands between it and the next star never has to find another one: a later place
 * leaves less of the path for the rest. So only the last star is ever tried again.
 */

/* A character is the bytes of its UTF-8 sequence as one number, or BROKEN plus the byte where there
   is none. No order but that of ASCII and of code points is asked of it, and UTF-8 keeps theirs. */
#define BROKEN UINT64_C(0x100000000)

enum token_kind { CHARACTER, ANY, STAR, CLASS };

struct token {
  enum token_kind kind;
  uint64_t character; /* of a CLASS: index of its first range */
  size_t ranges;      /* of a CLASS */
  bool negated;
};

struct range {
  uint64_t first;
  uint64_t last;
};

struct component {
  size_t token; /* index of the first */
  size_t tokens;
  bool is_globstar; /* a "**" */
};

struct alternative {
  size_t component; /* index of the first */
  size_t components;
  bool only_directories;
  int last_byte; /* in which every path that fits ends, or -1 */
};

struct glob {
  struct token *tokens;
  struct range *ranges;
  struct component *components;
  struct alternative *alternatives;
  size_t token_count;
  size_t range_count;
  size_t component_count;
  size_t alternative_count;
  bool is_of_name; /* no "/" in it */
};

/* The character at text[*at], which is stepped over. */
static uint64_t next_character(const char *text, size_t length, size_t *at) {
  unsigned char byte = (unsigned char)text[*at];
  size_t size = byte < 0x80 ? 1 : utf8_sequence(text + *at, length - *at);
  if (size == 0) {
    *at += 1;
    return BROKEN + byte;
  }
  uint64_t character = 0;
  for (size_t end = *at + size; *at < end; *at += 1)
    character = character << 8 | (unsigned char)text[*at];
  return character;
}

/* --- compiling: a byte of the expanded text makes one token, one range, one component at most ---
 */

static void end_component(struct glob *self) {
  struct component *component = &self->components[self->component_count];
  size_t first = component->token;
  size_t end = self->token_count;
  component->is_globstar =
      end - first == 2 && self->tokens[first].kind == STAR && self->tokens[first + 1].kind == STAR;
  /* Stars beside each other are one. */
  self->token_count = first;
  for (size_t i = first; i < end; i++)
    if (i == first || self->tokens[i].kind != STAR || self->tokens[i - 1].kind != STAR)
      self->tokens[self->token_count++] = self->tokens[i];
  component->tokens = self->token_count - first;
  self->component_count++;
  self->components[self->component_count].token = self->token_count;
}

/* One character of a bracket expression, which may be escaped. */
static uint64_t class_character(const char *text, size_t length, size_t *at) {
  if (text[*at] == '\\')
    *at += 1;
  return next_character(text, length, at);
}

/* `text` is a whole bracket expression. */
static int add_class(struct glob *self, const char *text, size_t length, struct error *error) {
  struct token token = {.kind = CLASS, .character = self->range_count};
  size_t end = length - 1;
  size_t at = 1;
  token.negated = text[at] == '!' || text[at] == '^';
  at += token.negated;
  do { /* a "]" in front is not the end */
    struct range range;
    range.first = class_character(text, end, &at);
    range.last = range.first;
    if (at + 1 < end && text[at] == '-') {
      at++;
      range.last = class_character(text, end, &at);
    }
    if (range.last < range.first)
      return error_set(error, "glob: a range runs backwards in %.*s", (int)length, text);
    self->ranges[self->range_count++] = range;
  } while (at < end);
  token.ranges = self->range_count - token.character;
  self->tokens[self->token_count++] = token;
  return 0;
}

/* One unit of the text, without braces. */
static int add_unit(struct glob *self, const char *text, size_t length, size_t *at,
                    struct error *error) {
  struct token token = {.kind = CHARACTER};
  switch (text[*at]) {
  case '[': {
    size_t unit = glob_text_unit(text + *at);
    *at += unit;
    return add_class(self, text + *at - unit, unit, error);
  }
  case '*':
    token.kind = STAR;
    *at += 1;
    break;
  case '?':
    token.kind = ANY;
    *at += 1;
    break;
  case '\\':
    *at += 1;
    /* fall through */
  default:
    token.character = next_character(text, length, at);
  }
  if (token.kind == CHARACTER && token.character == '/')
    end_component(self);
  else
    self->tokens[self->token_count++] = token;
  return 0;
}

static int last_byte(const struct glob *self, const struct alternative *alternative) {
  if (alternative->components == 0)
    return -1;
  const struct component *last =
      &self->components[alternative->component + alternative->components - 1];
  if (last->tokens == 0 || self->tokens[last->token + last->tokens - 1].kind != CHARACTER)
    return -1;
  return (int)(self->tokens[last->token + last->tokens - 1].character & 0xFF);
}

static int add_alternative(struct glob *self, const char *text, struct error *error) {
  if (text[0] == '.' && text[1] == '/')
    text++;
  if (text[0] == '/')
    text++;
  size_t length = strlen(text);
  struct alternative alternative = {.component = self->component_count};
  self->components[self->component_count].token = self->token_count;
  for (size_t at = 0; at < length;)
    if (add_unit(self, text, length, &at, error) != 0)
      return -1;
  /* What is behind the last slash is a component unless it is nothing. */
  if (self->components[self->component_count].token < self->token_count)
    end_component(self);
  else
    alternative.only_directories = self->component_count > alternative.component;
  alternative.components = self->component_count - alternative.component;
  alternative.last_byte = last_byte(self, &alternative);
  self->alternatives[self->alternative_count++] = alternative;
  return 0;
}

struct glob *glob_new(const char *text, struct error *error) {
  struct glob_texts texts;
  if (glob_text_check(text, error) != 0 || glob_text_expand(text, &texts, error) != 0)
    return NULL;
  struct glob *self = memory_allocate(sizeof *self);
  *self = (struct glob){.is_of_name = strchr(text, '/') == NULL};
  self->tokens = memory_allocate(texts.length * sizeof *self->tokens);
  self->ranges = memory_allocate(texts.length * sizeof *self->ranges);
  self->components = memory_allocate((texts.length + 1) * sizeof *self->components);
  self->alternatives = memory_allocate(texts.length * sizeof *self->alternatives);
  int result = 0;
  for (size_t at = 0; result == 0 && at < texts.length; at += strlen(texts.text + at) + 1)
    result = add_alternative(self, texts.text + at, error);
  free(texts.text);
  if (result != 0) {
    glob_free(self);
    return NULL;
  }
  return self;
}

void glob_free(struct glob *self) {
  if (self == NULL)
    return;
  free(self->tokens);
  free(self->ranges);
  free(self->components);
  free(self->alternatives);
  free(self);
}

/* --- matching --- */

static bool is_in_class(const struct glob *self, const struct token *token, uint64_t character) {
  const struct range *range = self->ranges + token->character;
  for (size_t i = 0; i < token->ranges; i++)
    if (range[i].first <= character && character <= range[i].last)
      return !token->negated;
  return token->negated;
}

static bool accepts(const struct glob *self, const struct token *token, uint64_t character) {
  switch (token->kind) {
  case CHARACTER:
    return token->character == character;
  case CLASS:
    return is_in_class(self, token, character);
  case ANY:
  case STAR:
    break;
  }
  return true;
}

static bool fits_name(const struct glob *self, const struct component *component, const char *name,
                      size_t length) {
  const struct token *token = self->tokens + component->token;
  const struct token *end = token + component->tokens;
  const struct token *behind_star = NULL;
  size_t star_at = 0; /* where what stands behind the star was last tried */
  for (size_t at = 0; at < length;) {
    if (token < end && token->kind == STAR) {
      behind_star = ++token;
      star_at = at;
      if (token == end)
        return true;
      continue;
    }
    size_t next = at;
    if (token < end && accepts(self, token, next_character(name, length, &next))) {
      token++;
      at = next;
    } else if (behind_star != NULL) {
      (void)next_character(name, length, &star_at);
      at = star_at;
      token = behind_star;
    } else {
      return false;
    }
  }
  while (token < end && token->kind == STAR)
    token++;
  return token == end;
}

/* The slash behind the component that begins at `at`, or the end. */
static size_t component_end(const char *path, size_t length, size_t at) {
  const char *slash = memchr(path + at, '/', length - at);
  return slash == NULL ? length : (size_t)(slash - path);
}

/* As fits_name, by components; `at` is behind the length when there is none left. */
static bool fits_path(const struct glob *self, const struct alternative *alternative,
                      const char *path, size_t length) {
  const struct component *component = self->components + alternative->component;
  const struct component *end = component + alternative->components;
  const struct component *behind_star = NULL;
  size_t star_at = 0;
  for (size_t at = 0; at <= length;) {
    if (component < end && component->is_globstar) {
      behind_star = ++component;
      star_at = at;
      if (component == end)
        return true;
      continue;
    }
    size_t stop = component_end(path, length, at);
    if (component < end && fits_name(self, component, path + at, stop - at)) {
      component++;
      at = stop + 1;
    } else if (behind_star != NULL) {
      star_at = component_end(path, length, star_at) + 1;
      at = star_at;
      component = behind_star;
    } else {
      return false;
    }
  }
  return component == end;
}

bool glob_matches(const struct glob *self, const char *path, size_t length, bool is_directory) {
  if (length == 0)
    return false;
  if (self->is_of_name) {
    const char *slash = memrchr(path, '/', length);
    if (slash != NULL) {
      length -= (size_t)(slash + 1 - path);
      path = slash + 1;
    }
  }
  int last = length > 0 ? (unsigned char)path[length - 1] : -1;
  for (size_t i = 0; i < self->alternative_count; i++) {
    const struct alternative *alternative = &self->alternatives[i];
    if (alternative->last_byte >= 0 && alternative->last_byte != last)
      continue;
    if ((is_directory || !alternative->only_directories) &&
        fits_path(self, alternative, path, length))
      return true;
  }
  return false;
}
