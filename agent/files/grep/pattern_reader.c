#include "agent/files/grep/pattern_reader.h"

#include <string.h>

static bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

static bool is_letter(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

void pattern_reader_lose(struct pattern_reader *self) {
  self->is_lost = true;
  self->is_local = false;
}

/* {n}, {n,}, {,m} or {n,m}, with spaces as they may be; 0: it is none. `*optional`: n is 0,
   or is not there. */
static size_t braces(const char *text, bool *optional) {
  size_t at = 1 + strspn(text + 1, " ");
  size_t digits = strspn(text + at, "0123456789");
  *optional = strspn(text + at, "0") == digits;
  at += digits;
  at += strspn(text + at, " ");
  if (text[at] == ',') {
    at += 1 + strspn(text + at + 1, " ");
    size_t more = strspn(text + at, "0123456789");
    digits += more;
    at += more;
    at += strspn(text + at, " ");
  }
  return digits > 0 && text[at] == '}' ? at + 1 : 0;
}

/* A brace that begins no repetition stands for itself; one that nearly does is left alone. */
static bool is_brace_literal(const char *text) {
  return !is_digit(text[1]) && text[1] != ',' && text[1] != ' ' && text[1] != '\t';
}

static void read_property(struct pattern_reader *self, struct atom *atom, bool negated) {
  atom->kind = ATOM_OTHER;
  const char *name = self->at;
  if (*name != '{') {
    self->at += *name != '\0';
    atom->spans = atom->spans_far = negated || strchr("LN", *name) == NULL;
    return;
  }
  const char *end = strchr(name, '}');
  if (end == NULL) {
    pattern_reader_lose(self);
    return;
  }
  atom->spans = atom->spans_far = negated || (name[1] != 'L' && name[1] != 'N') || end - name > 3;
  self->at = end + 1;
}

static struct atom read_escape(struct pattern_reader *self) {
  struct atom atom = {.kind = ATOM_OTHER};
  char letter = self->at[1];
  if (letter == '\0' || (unsigned char)letter >= 0x80) {
    pattern_reader_lose(self);
    return atom;
  }
  self->at += 2;
  if (strchr("dwhSV", letter) != NULL) {
    return atom;
  } else if (strchr("sWv", letter) != NULL) {
    atom.spans = true;
  } else if (strchr("DH", letter) != NULL) {
    atom.spans = atom.spans_far = true;
  } else if (letter == 'b' || letter == 'B') {
    atom.kind = ATOM_NOTHING;
  } else if (strchr("AzZGK", letter) != NULL) {
    atom.kind = ATOM_NOTHING;
    self->is_local = false;
  } else if (letter == 'R' || letter == 'X') {
    self->is_local = false;
  } else if (letter == 'p' || letter == 'P') {
    read_property(self, &atom, letter == 'P');
  } else if (letter == 't') {
    atom = (struct atom){.kind = ATOM_CHARACTER, .text = "\t", .length = 1};
  } else if (!is_letter(letter) && !is_digit(letter) && letter > ' ') {
    atom = (struct atom){.kind = ATOM_CHARACTER, .text = self->at - 1, .length = 1};
  } else {
    pattern_reader_lose(self);
  }
  return atom;
}

/* Behind a "[" in a class: [:alpha:] is one thing, and what only looks like it is left alone. */
static const char *skip_posix(const char *at) {
  if (*at == '^')
    at++;
  while (is_letter(*at))
    at++;
  return at[0] == ':' && at[1] == ']' ? at + 2 : NULL;
}

static struct atom read_class(struct pattern_reader *self) {
  struct atom atom = {.kind = ATOM_OTHER};
  const char *at = self->at + 1;
  bool negated = *at == '^';
  at += negated;
  bool names_ends = false; /* of lines */
  for (const char *first = at; *at != ']' || at == first;) {
    if (*at == '\0' || (at[0] == '[' && (at[1] == '.' || at[1] == '=')) ||
        (at[0] == '\\' && (at[1] == '\0' || at[1] == 'Q' || at[1] == 'E'))) {
      pattern_reader_lose(self);
      return atom;
    }
    if (at[0] == '[' && at[1] == ':') {
      at = skip_posix(at + 2);
      names_ends |= !negated; /* it may have an end, and a negated class may be without it */
      if (at == NULL) {
        pattern_reader_lose(self);
        return atom;
      }
    } else if (*at == '\\') {
      names_ends |= negated ? at[1] == 'n' || at[1] == 's'
                            : is_letter(at[1]) && strchr("dwhSrtb", at[1]) == NULL;
      at += 2;
    } else {
      at++;
    }
  }
  self->at = at + 1;
  atom.spans = atom.spans_far = negated != names_ends;
  return atom;
}

/* (?flags) or (?flags: up to the end or the colon; false when there is anything else. */
static bool read_flags(struct pattern_reader *self, const char *at) {
  bool on = true;
  for (; *at != ')' && *at != ':'; at++) {
    switch (*at) {
    case 'i':
      self->folds = on;
      break;
    case 's':
      self->dot_is_any = on;
      break;
    case 'm': /* is how it is compiled, and makes no difference on a line */
      self->is_local &= on;
      break;
    case 'n':
    case 'J':
    case 'U':
      break;
    case '-':
      if (!on)
        return false;
      on = false;
      break;
    default:
      return false;
    }
  }
  self->at = at + 1;
  return true;
}

/* Behind the name of a group; NULL when it is none. */
static const char *skip_name(const char *at) {
  at += *at == 'P';
  char end = *at == '<' ? '>' : *at;
  if (*at != '<' && *at != '\'')
    return NULL;
  at++;
  while (is_letter(*at) || is_digit(*at) || *at == '_')
    at++;
  return *at == end ? at + 1 : NULL;
}

/* What stands between "(" and what is in the group; (?i) has nothing in it. */
static enum atom_kind read_group_head(struct pattern_reader *self) {
  const char *at = self->at + 1;
  self->at = at;
  if (*at == '*')
    pattern_reader_lose(self);
  if (*at != '?')
    return ATOM_GROUP;
  at++;
  size_t behind = *at == '<';
  if (at[behind] == '=' || at[behind] == '!') {
    self->at = at + behind + 1;
    return ATOM_LOOKAROUND;
  }
  const char *name_end = skip_name(at);
  if (name_end != NULL) {
    self->at = name_end;
  } else if (*at == ':' || *at == '|' || *at == '>') {
    self->at = at + 1;
  } else if (!read_flags(self, at)) {
    pattern_reader_lose(self);
  } else if (self->at[-1] == ')') {
    return ATOM_NOTHING;
  }
  return ATOM_GROUP;
}

static struct atom read_character(struct pattern_reader *self) {
  unsigned char first = (unsigned char)*self->at;
  struct atom atom = {.kind = ATOM_CHARACTER, .text = self->at, .length = 1};
  if (first >= 0x80)
    while (((unsigned char)self->at[atom.length] & 0xC0) == 0x80)
      atom.length++;
  if (atom.length > 4 || first == '\n')
    pattern_reader_lose(self);
  self->at += atom.length;
  return atom;
}

struct atom pattern_reader_atom(struct pattern_reader *self) {
  struct atom atom = {.kind = ATOM_NOTHING};
  switch (*self->at) {
  case '\\':
    return read_escape(self);
  case '[':
    return read_class(self);
  case '(':
    atom.kind = read_group_head(self);
    return atom;
  case '^':
  case '$':
    self->at++;
    return atom;
  case '.':
    self->at++;
    atom.kind = ATOM_OTHER;
    atom.spans = atom.spans_far = self->dot_is_any;
    return atom;
  case '*':
  case '+':
  case '?':
    pattern_reader_lose(self);
    return atom;
  case '{':
    if (!is_brace_literal(self->at))
      pattern_reader_lose(self);
    return read_character(self);
  default:
    return read_character(self);
  }
}

struct repetition pattern_reader_repetition(struct pattern_reader *self) {
  struct repetition repetition = {.optional = *self->at == '*' || *self->at == '?'};
  size_t length = repetition.optional || *self->at == '+';
  if (*self->at == '{')
    length = braces(self->at, &repetition.optional);
  if (length == 0)
    return (struct repetition){0};
  repetition.is_any = true;
  self->at += length;
  repetition.is_possessive = *self->at == '+';
  self->at += *self->at == '+' || *self->at == '?';
  return repetition;
}
