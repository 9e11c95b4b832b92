#include "agent/files/glob/glob_names.h"

#include <stdint.h>
#include <stdlib.h>

#include "agent/files/glob/glob_text.h"
#include "base/memory.h"
#include "base/utf8.h"

/* A character is the bytes of its UTF-8 sequence as one number, or BROKEN plus the byte where there
   is none. No order but that of ASCII and of code points is asked of it, and UTF-8 keeps theirs. */
#define BROKEN UINT64_C(0x100000000)

enum token_kind { CHARACTER, ANY, STAR, CLASS };

struct glob_token {
  enum token_kind kind;
  uint64_t character; /* of a CLASS: index of its first range */
  size_t ranges;      /* of a CLASS */
  bool negated;
};

struct glob_range {
  uint64_t first;
  uint64_t last;
};

/* A byte of the text makes one token and one range at most. */
void glob_names_init(struct glob_names *self, size_t bytes) {
  *self = (struct glob_names){.tokens = memory_allocate(bytes * sizeof *self->tokens),
                              .ranges = memory_allocate(bytes * sizeof *self->ranges)};
}

void glob_names_release(struct glob_names *self) {
  free(self->tokens);
  free(self->ranges);
}

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

/* One character of a bracket expression, which may be escaped. */
static uint64_t class_character(const char *text, size_t length, size_t *at) {
  if (text[*at] == '\\')
    *at += 1;
  return next_character(text, length, at);
}

/* `text` is a whole bracket expression. */
static int add_class(struct glob_names *self, const char *text, size_t length,
                     struct error *error) {
  struct glob_token token = {.kind = CLASS, .character = self->range_count};
  size_t end = length - 1;
  size_t at = 1;
  token.negated = text[at] == '!' || text[at] == '^';
  at += token.negated;
  do { /* a "]" in front is not the end */
    struct glob_range range;
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

/* One unit of the text. */
static int add_unit(struct glob_names *self, const char *text, size_t length, size_t *at,
                    struct error *error) {
  struct glob_token token = {.kind = CHARACTER};
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
  self->tokens[self->token_count++] = token;
  return 0;
}

int glob_names_add(struct glob_names *self, struct glob_name *name, const char *text, size_t length,
                   struct error *error) {
  *name = (struct glob_name){.token = self->token_count};
  for (size_t at = 0; at < length;)
    if (add_unit(self, text, length, &at, error) != 0)
      return -1;
  name->tokens = self->token_count - name->token;
  return 0;
}

int glob_names_last_byte(const struct glob_names *self, const struct glob_name *name) {
  if (name->tokens == 0)
    return -1;
  const struct glob_token *last = &self->tokens[name->token + name->tokens - 1];
  return last->kind == CHARACTER ? (int)(last->character & 0xFF) : -1;
}

static bool is_in_class(const struct glob_names *self, const struct glob_token *token,
                        uint64_t character) {
  const struct glob_range *range = self->ranges + token->character;
  for (size_t i = 0; i < token->ranges; i++)
    if (range[i].first <= character && character <= range[i].last)
      return !token->negated;
  return token->negated;
}

static bool accepts(const struct glob_names *self, const struct glob_token *token,
                    uint64_t character) {
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

bool glob_names_fits(const struct glob_names *self, const struct glob_name *name, const char *text,
                     size_t length) {
  const struct glob_token *token = self->tokens + name->token;
  const struct glob_token *end = token + name->tokens;
  const struct glob_token *behind_star = NULL;
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
    if (token < end && accepts(self, token, next_character(text, length, &next))) {
      token++;
      at = next;
    } else if (behind_star != NULL) {
      (void)next_character(text, length, &star_at);
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
