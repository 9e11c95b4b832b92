#include "agent/files/glob/glob.h"

#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

/*
 * A star first matches nothing. If what follows it does not match, the last star takes one more
 * byte. Earlier stars never change: a later match of the text between two stars would only leave
 * less of the path for the rest. The same holds for "**" and components.
 *
 * A glob is interpreted again for each path. That is cheaper than compiling it, because most names
 * differ from it in their first byte.
 */

#define NONE ((size_t)-1)

/* --- units and bytes --- */

static size_t brackets_length(const char *text) {
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
    return brackets_length(text);
  return text[0] != '\\' ? 1 : text[1] == '\0' ? 0 : 2;
}

/* Reads one end of a range in brackets, which may be escaped. */
static unsigned char bracket_byte(const char *text, size_t *at) {
  *at += text[*at] == '\\';
  return (unsigned char)text[(*at)++];
}

struct range {
  unsigned char first, last;
};

/* Reads the range at text[*at] and moves behind it; `end` is the offset of the last "]". */
static struct range next_range(const char *text, size_t end, size_t *at) {
  const unsigned char first = bracket_byte(text, at);
  const bool has_end = *at + 1 < end && text[*at] == '-';
  *at += has_end;
  return (struct range){first, has_end ? bracket_byte(text, at) : first};
}

static size_t ranges_begin(const char *text) {
  return text[1] == '!' || text[1] == '^' ? 2 : 1;
}

static bool is_in_brackets(const char *text, size_t length, unsigned char byte) {
  size_t at = ranges_begin(text);
  bool is_negated = at == 2, is_in = false;
  while (at < length - 1 && !is_in) { /* a leading "]" is literal */
    struct range range = next_range(text, length - 1, &at);
    is_in = range.first <= byte && byte <= range.last;
  }
  return is_in != is_negated;
}

/* --- the text --- */

/* Checks brackets of this length. */
static int check_ranges(const char *brackets, size_t length, struct error *error) {
  for (size_t at = ranges_begin(brackets); at < length - 1;) {
    struct range range = next_range(brackets, length - 1, &at);
    if (range.last < range.first)
      return error_set(error, "glob: range out of order in %.*s", (int)length, brackets);
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
    if (text[at] == '[' && check_ranges(text + at, unit, error) != 0)
      return -1;
    if (text[at] == '}' && open-- == 0)
      return error_set(error, "glob: no { for the } at offset %zu", at);
    if (text[at] == '{' && open++ == 0)
      outermost = at;
    at += unit;
  }
  return open > 0 ? error_set(error, "glob: no } for the { at offset %zu", outermost) : 0;
}

static size_t find_brace(const char *text) {
  size_t at = 0;
  while (text[at] != '\0' && text[at] != '{')
    at += glob_text_unit(text + at);
  return at;
}

/* Returns the offset of the "," or "}" that ends the alternative at `at`. */
static size_t alternative_end(const char *text, size_t at) {
  for (size_t depth = 0;; at += glob_text_unit(text + at)) {
    if (depth == 0 && (text[at] == ',' || text[at] == '}'))
      return at;
    depth += (size_t)(text[at] == '{') - (size_t)(text[at] == '}');
  }
}

/* Adds `text` once for each alternative of its first braces, which the alternative replaces. */
static void expand_braces(const char *text, size_t brace, struct buffer *to) {
  size_t length = strlen(text);
  size_t end = brace;
  while (text[end] != '}')
    end = alternative_end(text, end + 1);
  for (size_t at = brace; at < end && to->length <= GLOB_EXPANDED_MAX;) {
    size_t stop = alternative_end(text, at + 1);
    buffer_add(to, text, brace);
    buffer_add(to, text + at + 1, stop - at - 1);
    buffer_add(to, text + end + 1, length - end); /* with the NUL */
    at = stop;
  }
}

/* Expands the last text first. All texts together never have much more than the limit, so that
   nested braces and thousands of empty ones take no longer. */
int glob_text_expand(const char *text, struct buffer *texts, struct error *error) {
  struct buffer rest = {0}; /* texts that may have braces */
  buffer_add(&rest, text, strlen(text) + 1);
  while (rest.length > 0 && rest.length + texts->length <= GLOB_EXPANDED_MAX) {
    const char *before = memrchr(rest.bytes, '\0', rest.length - 1);
    size_t start = before == NULL ? 0 : (size_t)(before + 1 - rest.bytes);
    char *last = memory_copy(rest.bytes + start, rest.length - start - 1);
    size_t brace = find_brace(last);
    rest.length = start;
    if (last[brace] == '\0')
      buffer_add(texts, last, strlen(last) + 1);
    else
      expand_braces(last, brace, &rest);
    free(last);
  }
  bool is_complete = rest.length == 0;
  buffer_release(&rest);
  if (is_complete)
    return 0;
  buffer_release(texts);
  return error_set(error, "glob: its braces expand to more than %zu bytes", GLOB_EXPANDED_MAX);
}

/* --- a path --- */

static bool is_slash(const char *text) {
  return text[0] == '/' || (text[0] == '\\' && text[1] == '/');
}

static bool matches_byte(const char *unit, size_t length, char byte) {
  if (byte == '/' || is_slash(unit))
    return byte == '/' && is_slash(unit);
  if (unit[0] == '[')
    return is_in_brackets(unit, length, (unsigned char)byte);
  return unit[0] == '?' || unit[length - 1] == byte;
}

/* A position of the glob and what the last star or "**" in front of it has matched so far. */
struct wildcard {
  size_t next;  /* behind the wildcard in the glob; NONE if there is no wildcard */
  size_t taken; /* the end of what it has matched */
};

/* Matches a whole name or path, whose components are not empty. */
static bool matches(const char *glob, size_t glob_length, const char *path, size_t length) {
  size_t at = 0, in = 0;
  struct wildcard star = {NONE, 0}, stars = {NONE, 0};
  bool begins = true; /* a component */
  while (at < glob_length || in < length) {
    const char *unit = glob + at;
    const size_t rest = glob_length - at;
    const bool is_any = begins && rest >= 2 && memcmp(unit, "**", 2) == 0;
    begins = false;
    if (is_any && rest == 2)
      return true; /* a component is left */
    if (is_any && is_slash(unit + 2)) {
      at += 2 + glob_text_unit(unit + 2);
      stars = (struct wildcard){at, in};
      star.next = NONE;
      begins = true;
    } else if (rest > 0 && unit[0] == '*') {
      star = (struct wildcard){++at, in};
    } else if (rest > 0 && in < length && matches_byte(unit, glob_text_unit(unit), path[in])) {
      begins = path[in++] == '/';
      at += glob_text_unit(unit);
      star.next = begins ? NONE : star.next;
    } else if (star.next != NONE && star.taken < length && path[star.taken] != '/') {
      at = star.next;
      in = ++star.taken;
    } else {
      const char *slash =
          stars.next != NONE ? memchr(path + stars.taken, '/', length - stars.taken) : NULL;
      if (slash == NULL)
        return false;
      at = stars.next;
      in = stars.taken = (size_t)(slash - path) + 1;
      star.next = NONE;
      begins = true;
    }
  }
  return true;
}

static size_t component_length(const char *text, size_t length) {
  size_t at = 0;
  while (at < length && !is_slash(text + at))
    at += glob_text_unit(text + at);
  return at;
}

/* --- a list --- */

struct rule {
  uint32_t glob; /* offset of its text, without braces */
  uint16_t length;
  uint16_t last; /* the last byte of all paths that match, or ANY_BYTE */
  bool shows, only_directories, is_of_name;
};

#define ANY_BYTE 256

struct globs {
  struct buffer text; /* of the globs */
  struct rule *rules;
  uint32_t count, capacity;
  size_t wasted; /* bytes of expanded braces that were too many for a glob */
};

static_assert(GLOB_EXPANDED_MAX <= UINT16_MAX, "the type of a rule's length");

struct globs *globs_new(void) {
  return memory_zeros(sizeof(struct globs));
}

void globs_free(struct globs *self) {
  if (self == NULL)
    return;
  buffer_release(&self->text);
  free(self->rules);
  free(self);
}

static size_t last_unit(const char *glob, size_t length) {
  size_t last = 0;
  for (size_t at = 0; at < length; at += glob_text_unit(glob + at))
    last = at;
  return last;
}

/* An empty glob matches nothing. */
static void add_rule(struct globs *self, struct rule rule, const char *glob, size_t length) {
  if (length == 0)
    return;
  if (self->count == self->capacity) {
    self->capacity = self->capacity * 2 + 16;
    self->rules = memory_resize(self->rules, self->capacity * sizeof *self->rules);
  }
  bool is_plain = strchr("*?[", glob[last_unit(glob, length)]) == NULL;
  rule.last = is_plain ? (unsigned char)glob[length - 1] : ANY_BYTE;
  rule.glob = (uint32_t)self->text.length;
  rule.length = (uint16_t)length;
  self->rules[self->count++] = rule;
  buffer_add(&self->text, glob, length + 1); /* with its NUL, or the "/" that was there */
}

static void add_alternative(struct globs *self, struct rule rule, const char *glob) {
  glob += glob[0] == '.' && glob[1] == '/';
  glob += glob[0] == '/';
  size_t length = strlen(glob), last = last_unit(glob, length);
  rule.only_directories = strcmp(glob + last, "/") == 0 || strcmp(glob + last, "\\/") == 0;
  add_rule(self, rule, glob, rule.only_directories ? last : length);
}

int globs_add(struct globs *self, const char *text, struct error *error) {
  struct buffer texts = {0};
  if (glob_text_check(text, error) != 0 || glob_text_expand(text, &texts, error) != 0)
    return -1;
  const char *slash = strchr(text, '/');
  struct rule rule = {.is_of_name = slash == NULL || slash[1] == '\0'};
  for (size_t at = 0; at < texts.length; at += strlen(texts.bytes + at) + 1)
    add_alternative(self, rule, texts.bytes + at);
  buffer_release(&texts);
  return 0;
}

enum globs_verdict globs_classify(const struct globs *self, const char *path, size_t length,
                                  bool is_directory) {
  if (self == NULL || length == 0)
    return GLOBS_SILENT;
  const char *slash = memrchr(path, '/', length);
  const char *name = slash != NULL ? slash + 1 : path;
  for (size_t i = self->count; i-- > 0;) {
    const struct rule *rule = &self->rules[i];
    if (rule->last != ANY_BYTE && rule->last != (unsigned char)path[length - 1])
      continue; /* most of the hundreds of rules of an ignore file */
    const char *glob = self->text.bytes + rule->glob;
    if ((is_directory || !rule->only_directories) &&
        (rule->is_of_name ? matches(glob, rule->length, name, length - (size_t)(name - path))
                          : matches(glob, rule->length, path, length)))
      return rule->shows ? GLOBS_EXCEPT : GLOBS_MATCH;
  }
  return GLOBS_SILENT;
}

/* --- below a directory --- */

/* Whether something below the path can match depends on the first components of the glob: either
   they match the path and others follow, or they end with a "**" that matches the rest of it. */
static enum globs_reach reach_of_path(const char *glob, size_t glob_length, const char *path,
                                      size_t length) {
  enum globs_reach reach = length == 0 ? GLOBS_BELOW : GLOBS_NOT_BELOW;
  size_t left = length > 0; /* components of the path for which the glob may still have one */
  for (size_t i = 0; i < length; i++)
    left += path[i] == '/';
  for (size_t at = 0, end; at < glob_length && reach < GLOBS_NAMED; at = end) {
    size_t size = component_length(glob + at, glob_length - at);
    bool is_any = size == 2 && memcmp(glob + at, "**", 2) == 0;
    end = at + size;
    if (!is_any && left-- == 0)
      break;
    if ((is_any || end < glob_length) && matches(glob, end, path, length))
      reach = is_any || strchr("*?[", glob[at]) != NULL ? GLOBS_BELOW : GLOBS_NAMED;
    end += end < glob_length ? glob_text_unit(glob + end) : 0;
  }
  return reach;
}

enum globs_reach globs_reach(const struct globs *self, const char *path, size_t length) {
  enum globs_reach reach = GLOBS_NOT_BELOW;
  for (size_t i = 0; i < self->count && reach < GLOBS_NAMED; i++) {
    const struct rule *rule = &self->rules[i];
    const char *glob = self->text.bytes + rule->glob;
    enum globs_reach one =
        rule->is_of_name ? GLOBS_BELOW : reach_of_path(glob, rule->length, path, length);
    reach = one > reach ? one : reach;
  }
  return reach;
}

/* --- an ignore file --- */

static void add_ignored(struct globs *self, struct rule rule, const char *glob) {
  struct error error;
  struct buffer texts = {0};
  if (glob_text_check(glob, &error) != 0)
    return;
  if (glob_text_expand(glob, &texts, &error) != 0)
    self->wasted += GLOB_EXPANDED_MAX;
  for (size_t at = 0; at < texts.length; at += strlen(texts.bytes + at) + 1)
    add_rule(self, rule, texts.bytes + at, strlen(texts.bytes + at));
  buffer_release(&texts);
}

/* `line` has no line ending; the function writes to it. */
static void add_line(struct globs *self, char *line) {
  size_t length = strlen(line);
  if (length < 2 || memcmp(line + length - 2, "\\ ", 2) != 0)
    while (length > 0 && isspace((unsigned char)line[length - 1]))
      length--;
  line[length] = '\0';
  if (line[0] == '#')
    return;
  struct rule rule = {.shows = line[0] == '!'};
  line += rule.shows;
  bool is_escaped = !rule.shows && line[0] == '\\' && (line[1] == '!' || line[1] == '#');
  line += is_escaped;
  bool is_anchored = line[0] == '/';
  line += is_anchored;
  length = strlen(line);
  rule.only_directories = length > 0 && line[length - 1] == '/';
  line[length - rule.only_directories] = '\0';
  rule.is_of_name = !is_anchored && strchr(line, '/') == NULL;
  add_ignored(self, rule, line);
}

struct globs *globs_of_ignore_file(const char *text, size_t length, bool *is_too_long) {
  *is_too_long = length > GLOBS_FILE_MAX;
  if (*is_too_long)
    return NULL;
  struct globs *self = globs_new();
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
    *is_too_long = self->text.length + self->wasted > 2 * GLOBS_FILE_MAX;
  }
  if (self->count > 0 && !*is_too_long)
    return self;
  globs_free(self);
  return NULL;
}
