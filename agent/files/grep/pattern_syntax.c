#include "agent/files/grep/pattern_syntax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PCRE2 rejects patterns with more open groups. */
#define GROUPS_MAX 250

struct reader {
  const char *at; /* in the source */
  struct buffer *to;
  bool in_class;
  bool is_unusual;
  bool is_extended;
  size_t open;      /* groups */
  size_t capturing; /* of these */
  bool captures[GROUPS_MAX];
};

static void copy(struct reader *self, size_t length) {
  buffer_add(self->to, self->at, length);
  self->at += length;
}

/* Copies up to and with the end; all that is left where there is none. */
static void copy_through(struct reader *self, const char *end) {
  const char *found = strstr(self->at, end);
  copy(self, found == NULL ? strlen(self->at) : (size_t)(found - self->at) + strlen(end));
}

static bool is_one_of(char byte, const char *bytes) {
  return byte != '\0' && strchr(bytes, byte) != NULL;
}

/* The number of \uhhhh; -1 for anything else. */
static long utf16_unit(const char *text) {
  if (text[0] != '\\' || text[1] != 'u' || strspn(text + 2, "0123456789abcdefABCDEF") < 4)
    return -1;
  char digits[5] = {text[2], text[3], text[4], text[5], '\0'};
  return strtol(digits, NULL, 16);
}

static void rewrite_utf16(struct reader *self) {
  long number = utf16_unit(self->at);
  self->at += 6;
  long low = number >= 0xD800 && number < 0xDC00 ? utf16_unit(self->at) : -1;
  if (low >= 0xDC00 && low < 0xE000) {
    number = 0x10000 + ((number - 0xD800) << 10) + (low - 0xDC00);
    self->at += 6;
  }
  char code[16];
  buffer_add(self->to, code,
             (size_t)snprintf(code, sizeof code, "\\x{%04lx}", (unsigned long)number));
}

/* After \w and the like, in a class. */
static void rewrite_hyphen(struct reader *self) {
  if (self->at[0] == '-' && self->at[1] != '\0' && !is_one_of(self->at[1], "[]"))
    buffer_add_string(self->to, "\\");
}

static void read_escape(struct reader *self) {
  char letter = self->at[1];
  if (letter == 'Q') {
    copy_through(self, "\\E");
  } else if (utf16_unit(self->at) >= 0) {
    rewrite_utf16(self);
  } else {
    self->is_unusual |= letter == 'g' && is_one_of(self->at[2], "<'");
    self->is_unusual |= is_one_of(letter, "123456789gk") && !self->in_class && self->capturing > 0;
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
}

/* "[" and what may follow it as itself. */
static void open_class(struct reader *self) {
  self->in_class = true;
  copy(self, 1);
  if (*self->at == '^')
    copy(self, 1);
  if (*self->at == ']')
    copy(self, 1);
}

static void read_in_class(struct reader *self) {
  size_t name = self->at[0] == '[' && self->at[1] == ':' ? strcspn(self->at + 2, ":]\\[") : 0;
  if (name > 0 && strncmp(self->at + 2 + name, ":]", 2) == 0) {
    copy(self, name + 4);
    rewrite_hyphen(self);
    return;
  }
  self->in_class = *self->at != ']';
  copy(self, 1);
}

/* By what follows "(?": recursion, a condition, or a reference. */
static bool is_unusual_group(const char *at) {
  return is_one_of(*at, "R&(+0123456789") || (at[0] == 'P' && is_one_of(at[1], "=>")) ||
         (at[0] == '-' && is_one_of(at[1], "0123456789"));
}

/* By what follows "(?": flags, x among them. */
static bool is_extended_group(const char *at) {
  size_t flags = strspn(at, "abcdefghijklmnopqrstuvwxyzADJPSTUW^-");
  return is_one_of(at[flags], ":)") && memchr(at, 'x', flags) != NULL;
}

/* Anywhere in the text, be it in a comment. */
static bool mentions_unusual(const char *text) {
  for (; (text = strpbrk(text, "\\(")) != NULL; text++)
    if (text[0] == '\\' ? is_one_of(text[1], "123456789gk")
                        : text[1] == '*' || (text[1] == '?' && is_unusual_group(text + 2)))
      return true;
  return false;
}

static void open_group(struct reader *self) {
  bool captures = self->at[1] != '?' && self->at[1] != '*';
  if (self->at[1] == '?') {
    const char *at = self->at + 2;
    const char *name = at + (*at == 'P');
    captures = *name == '\'' || (*name == '<' && !is_one_of(name[1], "=!*"));
    self->is_unusual |= is_unusual_group(at);
    self->is_extended |= is_extended_group(at);
  }
  self->is_unusual |= self->at[1] == '*';
  if (self->open < GROUPS_MAX)
    self->captures[self->open] = captures;
  self->open++;
  self->capturing += captures;
  copy(self, 1);
}

static void close_group(struct reader *self) {
  if (self->open > 0 && self->open-- <= GROUPS_MAX)
    self->capturing -= self->captures[self->open];
  copy(self, 1);
}

static void read_part(struct reader *self) {
  if (*self->at == '\\') {
    read_escape(self);
  } else if (self->in_class) {
    read_in_class(self);
  } else if (*self->at == '[') {
    open_class(self);
  } else if (strncmp(self->at, "(?#", 3) == 0) {
    copy_through(self, ")");
  } else if (strncmp(self->at, "(?[", 3) == 0) {
    self->is_unusual = true; /* a class with operators, of which "-" is one */
    copy(self, strlen(self->at));
  } else if (*self->at == '(') {
    open_group(self);
  } else if (*self->at == ')') {
    close_group(self);
  } else {
    copy(self, 1);
  }
}

void pattern_syntax_read(struct pattern_syntax *self, const char *source) {
  *self = (struct pattern_syntax){.is_unusual = false};
  struct reader reader = {.at = source, .to = &self->text};
  while (*reader.at != '\0')
    read_part(&reader);
  buffer_add(&self->text, "", 1);
  self->is_unusual = reader.is_unusual || (reader.is_extended && mentions_unusual(source));
}

size_t pattern_syntax_offset(const char *source, size_t offset) {
  struct buffer text = {.bytes = NULL};
  struct reader reader = {.at = source, .to = &text};
  const char *at = source; /* of the part that is read */
  size_t start = 0;        /* of the same in the text */
  while (*reader.at != '\0' && text.length < offset) {
    at = reader.at;
    start = text.length;
    read_part(&reader);
  }
  size_t rest = text.length >= offset ? offset - start : 0;
  size_t read = (size_t)(reader.at - at);
  buffer_release(&text);
  return (size_t)(at - source) + (rest < read ? rest : read);
}
