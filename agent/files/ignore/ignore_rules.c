#include "agent/files/ignore/ignore_rules.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/files/glob/glob.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "base/utf8.h"

/* A file of some hundred lines is common, and each entry of a tree is held against all of it. So
   the rules are in buckets by the last byte of what they match, linked from the last rule to the
   first, and those that end with a wildcard are in one more. An entry is held against two buckets,
   in the order of their rules together. */
#define BUCKETS 257
#define ANY_BYTE 256
#define NONE UINT32_MAX

struct ignore_rule {
  uint32_t glob;   /* offset of its text, without braces */
  uint32_t before; /* the rule in front of it in its bucket */
  uint16_t length;
  bool shows, only_directories, is_of_name;
};

struct ignore_rules {
  struct buffer text; /* of the globs, each with a NUL */
  struct ignore_rule *rules;
  uint32_t count, capacity;
  size_t in_vain; /* bytes that braces were expanded to, which are too many for a glob */
  uint32_t last[BUCKETS];
};

static_assert(GLOB_EXPANDED_MAX <= UINT16_MAX, "the length of a rule");

/* --- reading --- */

static void add_rule(struct ignore_rules *self, struct ignore_rule rule, const char *glob) {
  if (self->count == self->capacity) {
    self->capacity = self->capacity * 2 + 16;
    self->rules = memory_resize(self->rules, self->capacity * sizeof *self->rules);
  }
  size_t length = strlen(glob);
  int byte = glob_text_last_byte(glob, length);
  uint32_t *last = &self->last[byte < 0 ? ANY_BYTE : byte];
  rule.glob = (uint32_t)self->text.length;
  rule.length = (uint16_t)length;
  rule.before = *last;
  *last = self->count;
  self->rules[self->count++] = rule;
  buffer_add(&self->text, glob, length + 1);
}

/* Adds a rule for each glob that this one stands for. */
static void add_glob(struct ignore_rules *self, struct ignore_rule rule, const char *glob) {
  struct error error;
  struct glob_texts texts;
  if (glob_text_check(glob, &error) != 0)
    return;
  if (strchr(glob, '{') == NULL) {
    add_rule(self, rule, glob);
    return;
  }
  if (glob_text_expand(glob, &texts, &error) != 0) {
    self->in_vain += GLOB_EXPANDED_MAX;
    return;
  }
  for (size_t at = 0; at < texts.length; at += strlen(texts.text + at) + 1)
    if (texts.text[at] != '\0')
      add_rule(self, rule, texts.text + at);
  free(texts.text);
}

static bool is_space(char character) {
  return character == ' ' || (character >= '\t' && character <= '\r');
}

/* `line` has no line ending; it is written to. */
static void add_line(struct ignore_rules *self, char *line) {
  size_t length = strlen(line);
  if (length < 2 || memcmp(line + length - 2, "\\ ", 2) != 0)
    while (length > 0 && is_space(line[length - 1]))
      length--;
  line[length] = '\0';
  if (line[0] == '#')
    return;
  struct ignore_rule rule = {.shows = line[0] == '!'};
  line += rule.shows;
  bool is_escaped = !rule.shows && line[0] == '\\' && (line[1] == '!' || line[1] == '#');
  line += is_escaped;
  bool is_anchored = line[0] == '/';
  line += is_anchored;
  length = strlen(line);
  rule.only_directories = length > 0 && line[length - 1] == '/';
  line[length - rule.only_directories] = '\0';
  rule.is_of_name = !is_anchored && strchr(line, '/') == NULL;
  if (line[0] != '\0')
    add_glob(self, rule, line);
}

struct ignore_rules *ignore_rules_new(const char *text, size_t length, bool *is_too_long) {
  *is_too_long = length > IGNORE_RULES_MAX;
  if (*is_too_long)
    return NULL;
  struct ignore_rules *self = memory_allocate(sizeof *self);
  *self = (struct ignore_rules){.count = 0};
  memset(self->last, 0xFF, sizeof self->last);
  size_t at = utf8_is_marked(text, length) ? UTF8_MARK_LENGTH : 0;
  while (at < length && !*is_too_long) {
    const char *start = text + at;
    const char *newline = memchr(start, '\n', length - at);
    size_t line_length = newline != NULL ? (size_t)(newline - start) : length - at;
    at += line_length + 1;
    bool is_text = memchr(start, '\0', line_length) == NULL &&
                   utf8_valid_prefix(start, line_length) == line_length;
    line_length -= newline != NULL && line_length > 0 && start[line_length - 1] == '\r';
    char *line = memory_copy(start, line_length);
    if (is_text)
      add_line(self, line);
    free(line);
    *is_too_long = self->text.length + self->in_vain > 2 * IGNORE_RULES_MAX;
  }
  if (self->count > 0 && !*is_too_long)
    return self;
  ignore_rules_free(self);
  return NULL;
}

void ignore_rules_free(struct ignore_rules *self) {
  if (self == NULL)
    return;
  buffer_release(&self->text);
  free(self->rules);
  free(self);
}

/* --- judging --- */

static bool matches(const struct ignore_rules *self, const struct ignore_rule *rule,
                    const char *path, size_t length, const char *name) {
  const char *glob = self->text.bytes + rule->glob;
  if (rule->is_of_name)
    return glob_text_matches_name(glob, rule->length, name, length - (size_t)(name - path));
  return glob_text_matches(glob, rule->length, path, length);
}

enum ignore_verdict ignore_rules_judge(const struct ignore_rules *self, const char *path,
                                       size_t length, bool is_directory) {
  if (length == 0)
    return IGNORE_SILENT;
  const char *slash = memrchr(path, '/', length);
  const char *name = slash != NULL ? slash + 1 : path;
  uint32_t by_byte = self->last[(unsigned char)path[length - 1]];
  uint32_t others = self->last[ANY_BYTE];
  while (by_byte != NONE || others != NONE) {
    uint32_t *next = others == NONE || (by_byte != NONE && by_byte > others) ? &by_byte : &others;
    const struct ignore_rule *rule = &self->rules[*next];
    if ((is_directory || !rule->only_directories) && matches(self, rule, path, length, name))
      return rule->shows ? IGNORE_SHOWS : IGNORE_HIDES;
    *next = rule->before;
  }
  return IGNORE_SILENT;
}
