#include "agent/files/grep/pattern.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

/*
 * A pattern is divided into atoms with their quantifiers, groups, and comments. What each match of
 * a group contains is what each of its alternatives contains, and an alternative contains what its
 * atoms do that are not optional.
 */

/* More open groups are not understood. PCRE2 rejects those beyond 250. */
#define GROUPS_MAX 50

struct required {
  bool line_break;          /* a part that matches nothing but "\n" */
  struct literals literals; /* one of these, unless there are none */
};

/* An open group, or the pattern itself. */
struct group {
  bool captures;
  bool is_exempt; /* its content need not match */
  bool folds;     /* (?i) */
  bool has_earlier;
  struct required earlier; /* in each earlier alternative */
  struct required own;     /* in the current one, so far */
  struct byte_literal run; /* its last characters */
};

struct reader {
  const char *at; /* in the source */
  struct buffer *to;
  bool in_class, is_unusual, is_extended;
  bool is_unclear;  /* something may be wrongly taken for a literal */
  bool is_break;    /* the class has nothing but line breaks so far */
  size_t open;      /* groups */
  size_t capturing; /* groups among these */
  struct group groups[GROUPS_MAX + 1];
};

static void copy(struct reader *self, size_t length) {
  buffer_add(self->to, self->at, length);
  self->at += length;
}

/* Copies up to and including `end`, or the rest if there is none. */
static void copy_through(struct reader *self, const char *end) {
  const char *found = strstr(self->at, end);
  copy(self, found == NULL ? strlen(self->at) : (size_t)(found - self->at) + strlen(end));
}

static bool is_one_of(char byte, const char *bytes) {
  return byte != '\0' && strchr(bytes, byte) != NULL;
}

static bool begins_with(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Groups beyond the maximum share one. */
static struct group *innermost(struct reader *self) {
  return &self->groups[self->open < GROUPS_MAX ? self->open : GROUPS_MAX];
}

/* --- literals --- */

static size_t shortest(const struct literals *self) {
  size_t length = self->count > 0 ? MEMSCAN_LITERAL_MAX : 0;
  for (size_t i = 0; i < self->count; i++)
    if (self->items[i].length < length)
      length = self->items[i].length;
  return length;
}

/* Every match contains one of either list. Keeps the better list; a single byte is in too many
   lines. */
static void keep_better(struct literals *best, const struct literals *other) {
  size_t length = shortest(other), before = shortest(best);
  if (length >= 2 && (length > before || (length == before && other->count < best->count)))
    *best = *other;
}

static void unite(struct literals *self, const struct literals *other) {
  if (self->count == 0 || other->count == 0 || self->count + other->count > MEMSCAN_LITERALS_MAX) {
    self->count = 0;
    return;
  }
  memcpy(self->items + self->count, other->items, other->count * sizeof *other->items);
  self->count += other->count;
}

static void end_run(struct group *self) {
  const struct literals run = {.items = {self->run}, .count = 1};
  keep_better(&self->own.literals, &run);
  self->run.length = 0;
}

/* Whether caseless matching accepts nothing but ASCII: not for k and s, which Unicode also folds to
   the Kelvin sign and the long s, nor for letters outside ASCII. */
static bool can_fold(const char *character, size_t length) {
  return length == 1 && (character[0] | 0x20) != 'k' && (character[0] | 0x20) != 's';
}

static void add_to_run(struct group *self, const char *character, size_t length) {
  struct byte_literal *run = &self->run;
  if (run->length + length > MEMSCAN_LITERAL_MAX)
    end_run(self);
  for (size_t i = 0; i < length; i++) {
    char lower = (char)(character[i] | 0x20);
    bool folded = self->folds && lower >= 'a' && lower <= 'z';
    run->folds[run->length] = folded ? 0x20 : 0;
    run->bytes[run->length++] = (unsigned char)(folded ? lower : character[i]);
  }
}

/* --- quantifiers and the ends of atoms --- */

/* Returns the length of the quantifier at the start of a text, or 0. A text such as {,}, which is
   none, only hides the literal that it is. */
static size_t quantifier_length(const char *at) {
  if (*at != '{')
    return is_one_of(*at, "?*+");
  size_t length = 1 + strspn(at + 1, "0123456789, \t");
  return length > 1 && at[length] == '}' ? length + 1 : 0;
}

struct quantifier {
  bool is_present;
  bool is_optional; /* the atom may be absent */
};

/* Copies what follows an atom. A comment or a quote may hide that it is optional. */
static struct quantifier read_quantifier(struct reader *self) {
  if (self->is_extended)
    copy(self, strspn(self->at, " \t\n\v\f\r"));
  const char *at = self->at;
  size_t length = quantifier_length(at);
  if (length == 0)
    return (struct quantifier){.is_optional = begins_with(at, "(?#") || begins_with(at, "\\E") ||
                                              begins_with(at, "\\Q")};
  copy(self, length);
  copy(self, is_one_of(*self->at, "?+"));
  return (struct quantifier){
      .is_present = true,
      .is_optional = *at == '{' ? is_one_of(at[1 + strspn(at + 1, " \t")], "0,") : *at != '+'};
}

static void end_atom(struct reader *self, const struct required *content) {
  struct quantifier quantifier = read_quantifier(self);
  struct group *group = innermost(self);
  end_run(group);
  if (quantifier.is_optional)
    return;
  group->own.line_break |= content->line_break;
  keep_better(&group->own.literals, &content->literals);
}

/* Ends an atom that is neither a character nor a group. */
static void end_other(struct reader *self, bool is_break) {
  end_atom(self, &(struct required){.line_break = is_break});
}

static void end_character(struct reader *self, const char *character, size_t length) {
  struct quantifier quantifier = read_quantifier(self);
  struct group *group = innermost(self);
  bool is_known = !quantifier.is_optional && (!group->folds || can_fold(character, length));
  if (is_known)
    add_to_run(group, character, length);
  if (!is_known || quantifier.is_present)
    end_run(group);
}

/* --- escapes --- */

static long utf16_unit(const char *text) {
  if (text[0] != '\\' || text[1] != 'u' || strspn(text + 2, "0123456789abcdefABCDEF") < 4)
    return -1;
  char digits[5] = {text[2], text[3], text[4], text[5], '\0'};
  return strtol(digits, NULL, 16);
}

/* Returns the length of an escape that stands for "\n" alone, or 0 for any other. */
static size_t break_escape(const char *at) {
  static const char hex[] = "0123456789abcdefABCDEF";
  if ((at[1] == 'x' || at[1] == 'o') && at[2] == '{') {
    char *end;
    unsigned long number = strtoul(at + 3, &end, at[1] == 'x' ? 16 : 8);
    end += strspn(end, " \t");
    return number == '\n' && *end == '}' ? (size_t)(end + 1 - at) : 0;
  }
  switch (at[1]) {
  case 'n':
    return 2;
  case 'c':
    return is_one_of(at[2], "Jj") ? 3 : 0;
  case '0':
    return begins_with(at + 1, "012") ? 4 : 0;
  case 'u':
    return utf16_unit(at) == '\n' ? 6 : 0;
  case 'x':
    if (is_one_of(at[2], "Aa"))
      return is_one_of(at[3], hex) ? 0 : 3;
    return at[2] == '0' && is_one_of(at[3], "Aa") ? 4 : 0;
  default:
    return 0;
  }
}

static void rewrite_utf16(struct reader *self) {
  long number = utf16_unit(self->at);
  self->at += 6;
  long low = number >= 0xD800 && number < 0xDC00 ? utf16_unit(self->at) : -1;
  if (low >= 0xDC00 && low < 0xE000) {
    number = 0x10000 + ((number - 0xD800) << 10) + (low - 0xDC00);
    self->at += 6;
  }
  buffer_add_format(self->to, "\\x{%04lx}", (unsigned long)number);
}

/* Escapes a hyphen behind an escape such as \w in a class. */
static void rewrite_hyphen(struct reader *self) {
  if (self->at[0] == '-' && self->at[1] != '\0' && !is_one_of(self->at[1], "[]"))
    buffer_add_string(self->to, "\\");
}

static void read_quote(struct reader *self) {
  const char *start = self->at;
  copy_through(self, "\\E");
  self->is_break = false;
  if (!self->in_class)
    end_other(self, memchr(start, '\n', (size_t)(self->at - start)) != NULL);
}

/* Copies an escape that is neither rewritten nor a line break. */
static void copy_escape(struct reader *self) {
  char letter = self->at[1];
  self->is_unusual |= letter == 'g' && is_one_of(self->at[2], "<'");
  self->is_unusual |= is_one_of(letter, "123456789gk") && !self->in_class && self->capturing > 0;
  self->is_unclear |=
      !ispunct((unsigned char)letter) && !is_one_of(letter, "dDhHsSvVwWpPbBAzZGKRXt");
  copy(self, letter == '\0' ? 1 : 2);
  if (letter == 'c' && *self->at != '\0')
    copy(self, 1);
  if (is_one_of(letter, "pP") && *self->at == '{')
    copy_through(self, "}");
  else if (is_one_of(letter, "pP") && *self->at != '\0')
    copy(self, 1);
  if (self->in_class && is_one_of(letter, "dDhHsSvVwWpP"))
    rewrite_hyphen(self);
}

static void read_escape(struct reader *self) {
  const char *at = self->at;
  size_t break_length = break_escape(at);
  self->is_break &= break_length > 0;
  if (at[1] == 'Q') {
    read_quote(self);
    return;
  }
  if (utf16_unit(at) >= 0)
    rewrite_utf16(self);
  else if (break_length > 0)
    copy(self, break_length);
  else
    copy_escape(self);
  if (self->in_class)
    return;
  if (at[1] == 't' || ispunct((unsigned char)at[1]))
    end_character(self, at[1] == 't' ? "\t" : at + 1, 1);
  else
    end_other(self, break_length > 0);
}

/* --- classes --- */

/* Reads "[" and the characters that are literal behind it. */
static void open_class(struct reader *self) {
  self->in_class = true;
  copy(self, 1);
  self->is_break = !is_one_of(*self->at, "^]");
  if (*self->at == '^')
    copy(self, 1);
  if (*self->at == ']')
    copy(self, 1);
}

static void read_in_class(struct reader *self) {
  size_t name = self->at[0] == '[' && self->at[1] == ':' ? strcspn(self->at + 2, ":]\\[") : 0;
  if (name > 0 && begins_with(self->at + 2 + name, ":]")) {
    copy(self, name + 4);
    rewrite_hyphen(self);
    self->is_break = false;
    return;
  }
  self->in_class = *self->at != ']';
  self->is_break &= !self->in_class || *self->at == '\n';
  copy(self, 1);
  if (!self->in_class)
    end_other(self, self->is_break);
}

/* --- groups --- */

/* Whether "(?" and this text begin a recursion, a condition or a reference. */
static bool is_unusual_group(const char *at) {
  return is_one_of(*at, "R&(+0123456789") || (at[0] == 'P' && is_one_of(at[1], "=>")) ||
         (at[0] == '-' && is_one_of(at[1], "0123456789"));
}

static bool has_name(const char *at) {
  at += *at == 'P';
  return *at == '\'' || (*at == '<' && !is_one_of(at[1], "=!*"));
}

/* Returns the length of what belongs to "(?" in front of the group's content, or 0 if that is not
   known. The "(?i)" that ends with it has no content. */
static size_t head_length(const char *at) {
  size_t flags = strspn(at, "abcdefghijklmnopqrstuvwxyzADJPSTUW^-");
  if (is_one_of(at[flags], ":)"))
    return flags + 1;
  if (has_name(at)) {
    size_t name = *at == 'P' ? 2 : 1;
    size_t end = name + strcspn(at + name, ">'");
    return at[end] != '\0' ? end + 1 : 0;
  }
  size_t behind = *at == '<';
  return is_one_of(at[behind], "=!") ? behind + 1 : is_one_of(*at, "|>");
}

static void end_alternative(struct group *self) {
  end_run(self);
  if (self->has_earlier) {
    self->earlier.line_break &= self->own.line_break;
    unite(&self->earlier.literals, &self->own.literals);
  } else {
    self->earlier = self->own;
  }
  self->has_earlier = true;
  self->own = (struct required){.line_break = false};
}

/* Returns what each match of the group contains. */
static struct required end_group(struct group *self) {
  end_alternative(self);
  if (self->is_exempt)
    self->earlier = (struct required){.line_break = false};
  return self->earlier;
}

static void push_group(struct reader *self, struct group group) {
  self->open++;
  self->is_unclear |= self->open > GROUPS_MAX;
  self->groups[0].is_exempt |= self->open > GROUPS_MAX;
  *innermost(self) = group;
  self->capturing += group.captures;
}

static void open_group(struct reader *self) {
  const char *at = self->at;
  struct group group = {.captures = at[1] != '*', .folds = innermost(self)->folds};
  size_t length = 1;
  if (at[1] == '*') { /* such as (*ACCEPT) */
    self->is_unusual = true;
    self->groups[0].is_exempt = true;
  } else if (at[1] == '?') {
    size_t head = head_length(at + 2);
    bool has_flags = head > 0 && is_one_of(at[1 + head], ":)");
    group.captures = has_name(at + 2);
    group.is_exempt = is_one_of(at[at[2] == '<' ? 3 : 2], "!(");
    group.folds |= has_flags && memchr(at + 2, 'i', head) != NULL;
    self->is_extended |= has_flags && memchr(at + 2, 'x', head) != NULL;
    self->is_unusual |= is_unusual_group(at + 2);
    self->is_unclear |= head == 0;
    length = head > 0 ? head + 2 : 1;
  }
  copy(self, length);
  if (self->at[-1] == ')')
    innermost(self)->folds = group.folds;
  else
    push_group(self, group);
}

static void close_group(struct reader *self) {
  copy(self, 1);
  if (self->open == 0)
    return;
  struct group *group = innermost(self);
  struct required content = end_group(group);
  self->capturing -= group->captures;
  self->open--;
  end_atom(self, &content);
}

/* --- parts --- */

static void read_outside(struct reader *self) {
  const char *at = self->at;
  size_t length = quantifier_length(at); /* of a quantifier that a comment hid */
  if (*at == '[') {
    open_class(self);
  } else if (begins_with(at, "(?#")) {
    copy_through(self, ")");
  } else if (begins_with(at, "(?[")) {
    self->is_unusual = true; /* a class with operators, such as "-" */
    self->groups[0].is_exempt = true;
    copy(self, strlen(at));
  } else if (*at == '(') {
    open_group(self);
  } else if (*at == ')') {
    close_group(self);
  } else if (*at == '|') {
    copy(self, 1);
    end_alternative(innermost(self));
  } else if (length > 0 || is_one_of(*at, ".^$\n")) {
    copy(self, length > 0 ? length : 1);
    end_other(self, *at == '\n' && !self->is_extended);
  } else {
    length = utf8_sequence(at, strnlen(at, 4));
    copy(self, length > 0 ? length : 1);
    end_character(self, at, length > 0 ? length : 1);
  }
}

static void read_part(struct reader *self) {
  if (*self->at == '\\')
    read_escape(self);
  else if (self->in_class)
    read_in_class(self);
  else
    read_outside(self);
}

static struct reader *reader_new(const char *source, struct buffer *to) {
  struct reader *self = memory_zeros(sizeof *self);
  self->at = source;
  self->to = to;
  return self;
}

void pattern_read(struct pattern *self, const char *source) {
  *self = (struct pattern){.source = source};
  struct reader *reader = reader_new(source, &self->text);
  while (*reader->at != '\0')
    read_part(reader);
  buffer_add(&self->text, "", 1);
  const struct required required = end_group(&reader->groups[0]);
  bool may_have_comments = reader->is_extended && strchr(source, '#') != NULL;
  self->needs_break = required.line_break && !may_have_comments;
  self->is_unusual = reader->is_unusual || reader->is_extended;
  if (!self->is_unusual && !reader->is_unclear)
    self->literals = required.literals;
  literals_prepare(&self->literals);
  free(reader);
}

size_t pattern_source_offset(const struct pattern *self, size_t offset) {
  struct buffer text = {0};
  struct reader *reader = reader_new(self->source, &text);
  const char *at = self->source; /* the current part */
  size_t start = 0;              /* its offset in the text */
  while (*reader->at != '\0' && text.length < offset) {
    at = reader->at;
    start = text.length;
    read_part(reader);
  }
  size_t rest = text.length >= offset ? offset - start : 0;
  size_t read = (size_t)(reader->at - at);
  buffer_release(&text);
  free(reader);
  return (size_t)(at - self->source) + (rest < read ? rest : read);
}

void pattern_release(struct pattern *self) {
  buffer_release(&self->text);
}
