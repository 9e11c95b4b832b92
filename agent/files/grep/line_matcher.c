#include "agent/files/grep/line_matcher.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"

/*
 * A call of PCRE2 costs more than most lines are worth, so there are three ways to search:
 *
 *   - If every match contains one of a few literals, these are searched for, and PCRE2 gets only
 *     the lines that contain one (without this, \b\w+Exception\b takes 2.2 times as long).
 *   - Otherwise, if the pattern is local, PCRE2 gets BLOCK bytes of lines at once. Its match lies
 *     in the first matching line or before it. The line that contains it is matched alone, and
 *     the search continues behind it (1.4 to 1.8 times as fast as line by line).
 *   - Otherwise, and if PCRE2 gives up on a block, it gets each line alone.
 *
 * A pattern is local if it matches in any text that contains a matching line, in that line or
 * before it. The converse does not hold. Searching such a text is not slow, because no part of the
 * pattern matches an unbounded number of lines.
 */

/* --- reading a pattern --- */

/* The pattern is read atom by atom, in the syntax of PCRE2. Recursion, verbs, conditions, back
   references, comments and everything else that is not certainly understood end the reading, and
   then nothing is known about the pattern. */
#define DEPTH_MAX 50

struct pattern_reader {
  const char *at;
  size_t depth;      /* of groups */
  bool has_given_up; /* the pattern was not understood */
  bool is_local;     /* so far */
  bool folds;        /* (?i) */
  bool dot_is_any;   /* (?s) */
};

enum atom_kind {
  ATOM_CHARACTER,  /* a literal character */
  ATOM_EMPTY,      /* matches no character: \b, (?i), … */
  ATOM_GROUP,      /* its content follows */
  ATOM_LOOKAROUND, /* likewise, but it matches no character itself */
  ATOM_OTHER
};

struct atom {
  enum atom_kind kind;
  const char *text; /* of a character */
  size_t length;
  bool spans;     /* it may match the end of a line */
  bool spans_far; /* repeated, it may match any number of lines */
};

struct repetition {
  bool is_present, optional, is_possessive;
};

static void give_up(struct pattern_reader *self) {
  self->has_given_up = true;
  self->is_local = false;
}

/* Returns the length of {n}, {n,}, {,m} or {n,m}, which may contain spaces, or 0 for anything else.
   Sets `*optional` if n is 0 or missing. */
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

/* A brace that begins no repetition is a literal; one that almost does is not understood. */
static bool is_brace_literal(const char *text) {
  return !isdigit((unsigned char)text[1]) && text[1] != ',' && text[1] != ' ' && text[1] != '\t';
}

static void read_property(struct pattern_reader *self, struct atom *atom, bool negated) {
  const char *name = self->at;
  if (*name != '{') {
    self->at += *name != '\0';
    atom->spans = atom->spans_far = negated || strchr("LN", *name) == NULL;
    return;
  }
  const char *end = strchr(name, '}');
  if (end == NULL) {
    give_up(self);
    return;
  }
  atom->spans = atom->spans_far = negated || (name[1] != 'L' && name[1] != 'N') || end - name > 3;
  self->at = end + 1;
}

static struct atom read_escape(struct pattern_reader *self) {
  struct atom atom = {.kind = ATOM_OTHER};
  char letter = self->at[1];
  if (letter == '\0' || (unsigned char)letter >= 0x80) {
    give_up(self);
    return atom;
  }
  self->at += 2;
  if (strchr("dwhSVsWvDH", letter) != NULL) {
    atom.spans = strchr("sWvDH", letter) != NULL;
    atom.spans_far = strchr("DH", letter) != NULL;
  } else if (strchr("bBAzZGKRX", letter) != NULL) {
    atom.kind = strchr("RX", letter) != NULL ? ATOM_OTHER : ATOM_EMPTY;
    self->is_local &= strchr("bB", letter) != NULL;
  } else if (letter == 'p' || letter == 'P') {
    read_property(self, &atom, letter == 'P');
  } else if (letter == 't') {
    atom = (struct atom){.kind = ATOM_CHARACTER, .text = "\t", .length = 1};
  } else if (!isalnum((unsigned char)letter) && letter > ' ') {
    atom = (struct atom){.kind = ATOM_CHARACTER, .text = self->at - 1, .length = 1};
  } else {
    give_up(self);
  }
  return atom;
}

/* Returns the end of [:alpha:] within a class, or NULL for what only looks like it. */
static const char *skip_posix(const char *at) {
  if (*at == '^')
    at++;
  while (isalpha((unsigned char)*at))
    at++;
  return at[0] == ':' && at[1] == ']' ? at + 2 : NULL;
}

static struct atom read_class(struct pattern_reader *self) {
  struct atom atom = {.kind = ATOM_OTHER};
  const char *at = self->at + 1;
  bool negated = *at == '^';
  at += negated;
  bool has_newline = false; /* the class lists it */
  for (const char *first = at; *at != ']' || at == first;) {
    const char *posix = at[0] == '[' && at[1] == ':' ? skip_posix(at + 2) : NULL;
    if (*at == '\0' || (at[0] == '[' && strchr(".=:", at[1]) != NULL && posix == NULL) ||
        (at[0] == '\\' && (at[1] == '\0' || at[1] == 'Q' || at[1] == 'E'))) {
      give_up(self);
      return atom;
    }
    if (posix != NULL) {
      at = posix;
      has_newline |= !negated; /* perhaps; the worse is assumed either way */
    } else if (*at == '\\') {
      has_newline |= negated ? at[1] == 'n' || at[1] == 's'
                             : isalpha((unsigned char)at[1]) && strchr("dwhSrtb", at[1]) == NULL;
      at += 2;
    } else {
      at++;
    }
  }
  self->at = at + 1;
  atom.spans = atom.spans_far = negated != has_newline;
  return atom;
}

/* Reads (?flags) or (?flags: including the last character; returns false for anything else. (?m) is
   always set. */
static bool read_flags(struct pattern_reader *self, const char *at) {
  for (; *at != ')' && *at != ':'; at++) {
    if (*at != 'i' && *at != 's' && *at != 'm')
      return false;
    self->folds |= *at == 'i';
    self->dot_is_any |= *at == 's';
  }
  self->at = at + 1;
  return true;
}

static const char *skip_name(const char *at) {
  at += *at == 'P';
  char end = *at == '<' ? '>' : *at;
  if (*at != '<' && *at != '\'')
    return NULL;
  at++;
  while (isalnum((unsigned char)*at) || *at == '_')
    at++;
  return *at == end ? at + 1 : NULL;
}

/* Reads from "(" to the content of the group; (?i) has none. */
static enum atom_kind read_group_head(struct pattern_reader *self) {
  const char *at = self->at + 1;
  self->at = at;
  if (*at == '*')
    give_up(self);
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
    give_up(self);
  } else if (self->at[-1] == ')') {
    return ATOM_EMPTY;
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
    give_up(self);
  self->at += atom.length;
  return atom;
}

static struct atom read_atom(struct pattern_reader *self) {
  struct atom atom = {.kind = ATOM_EMPTY};
  switch (*self->at) {
  case '\\':
    return read_escape(self);
  case '[':
    return read_class(self);
  case '(':
    atom.kind = read_group_head(self);
    return atom;
  case '.':
    atom.kind = ATOM_OTHER;
    atom.spans = atom.spans_far = self->dot_is_any;
    self->at++;
    return atom;
  case '^':
  case '$':
    self->at++;
    return atom;
  case '*':
  case '+':
  case '?':
    give_up(self);
    return atom;
  case '{':
    if (!is_brace_literal(self->at))
      give_up(self);
    return read_character(self);
  default:
    return read_character(self);
  }
}

static struct repetition read_repetition(struct pattern_reader *self) {
  struct repetition repetition = {.optional = *self->at == '*' || *self->at == '?'};
  size_t length = repetition.optional || *self->at == '+';
  if (*self->at == '{')
    length = braces(self->at, &repetition.optional);
  if (length == 0)
    return (struct repetition){0};
  repetition.is_present = true;
  self->at += length;
  repetition.is_possessive = *self->at == '+';
  self->at += *self->at == '+' || *self->at == '?';
  return repetition;
}

/* --- literals --- */

/* Every match contains one of these, unless there are none. */
struct literals {
  struct byte_literal items[MEMSCAN_LITERALS_MAX];
  size_t count;
};

static struct literals read_alternatives(struct pattern_reader *self);

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

static void end_run(struct literals *best, struct literals *run) {
  run->count = 1;
  keep_better(best, run);
  run->items[0].length = 0;
}

/* Whether caseless matching accepts nothing but ASCII: not for k and s, which Unicode also folds to
   the Kelvin sign and the long s, nor for letters outside ASCII. */
static bool can_fold(const struct atom *atom) {
  return atom->length == 1 && (unsigned char)atom->text[0] < 0x80 &&
         (atom->text[0] | 0x20) != 'k' && (atom->text[0] | 0x20) != 's';
}

static void add_to_run(const struct pattern_reader *self, struct literals *best,
                       struct literals *run, const struct atom *atom) {
  struct byte_literal *literal = &run->items[0];
  if (literal->length + atom->length > MEMSCAN_LITERAL_MAX)
    end_run(best, run);
  for (size_t i = 0; i < atom->length; i++) {
    char lower = (char)(atom->text[i] | 0x20);
    bool folded = self->folds && lower >= 'a' && lower <= 'z';
    literal->folds[literal->length] = folded ? 0x20 : 0;
    literal->bytes[literal->length++] = (unsigned char)(folded ? lower : atom->text[i]);
  }
}

static void add_atom(const struct pattern_reader *self, struct literals *best, struct literals *run,
                     const struct atom *atom, const struct literals *content,
                     struct repetition repetition) {
  if (atom->kind == ATOM_EMPTY || atom->kind == ATOM_LOOKAROUND)
    return;
  bool is_known =
      atom->kind == ATOM_CHARACTER && !repetition.optional && (!self->folds || can_fold(atom));
  if (is_known)
    add_to_run(self, best, run, atom);
  if (!is_known || repetition.is_present)
    end_run(best, run);
  if (atom->kind == ATOM_GROUP && !repetition.optional)
    keep_better(best, content);
}

static struct literals read_group(struct pattern_reader *self) {
  if (self->has_given_up || ++self->depth > DEPTH_MAX) {
    give_up(self);
    return (struct literals){.count = 0};
  }
  struct literals content = read_alternatives(self);
  self->depth--;
  if (self->has_given_up || *self->at != ')')
    give_up(self);
  else
    self->at++;
  return content;
}

/* An atom that cannot match the end of a line stops there like at the end of a text. One that can
   makes the pattern non-local in lookaround and if it is possessive, as any group may be. */
static struct literals read_sequence(struct pattern_reader *self) {
  struct literals best = {.count = 0};
  struct literals run = {.count = 1};
  while (!self->has_given_up && *self->at != '\0' && *self->at != '|' && *self->at != ')') {
    struct literals content = {.count = 0};
    bool folds = self->folds, dot_is_any = self->dot_is_any;
    struct atom atom = read_atom(self);
    if (atom.kind == ATOM_GROUP || atom.kind == ATOM_LOOKAROUND) {
      content = read_group(self);
      self->folds = folds;
      self->dot_is_any = dot_is_any;
    }
    if (self->has_given_up)
      break;
    struct repetition repetition = read_repetition(self);
    if ((atom.spans && (self->depth > 0 || repetition.is_possessive)) ||
        (atom.spans_far && repetition.is_present))
      self->is_local = false;
    add_atom(self, &best, &run, &atom, &content, repetition);
  }
  end_run(&best, &run);
  return best;
}

static struct literals read_alternatives(struct pattern_reader *self) {
  struct literals all = read_sequence(self);
  while (!self->has_given_up && *self->at == '|') {
    self->at++;
    struct literals one = read_sequence(self);
    unite(&all, &one);
  }
  return all;
}

static bool read_pattern(const char *pattern, struct literals *literals) {
  struct pattern_reader reader = {.at = pattern, .is_local = true};
  *literals = read_alternatives(&reader);
  if (*reader.at != '\0')
    give_up(&reader);
  if (reader.has_given_up)
    literals->count = 0;
  for (size_t i = 0; i < literals->count; i++)
    byte_literal_choose(&literals->items[i]);
  return reader.is_local;
}

/* --- matching --- */

/* Small, because the time for a block may grow with its square. */
#define BLOCK ((size_t)2048)

/* A pattern whose matches have at least this many characters is not matched in blocks, because
   PCRE2 rejects shorter lines at once. */
#define LONG_MATCH 16

struct line_matcher {
  struct regex *regex;
  struct literals literals;
  bool in_blocks;
  const char *text;
  size_t length;
  bool is_text;     /* even if it has a NUL */
  bool is_examined; /* `traits` and `is_utf8` are set */
  unsigned traits;
  bool is_utf8;
};

struct line_matcher *line_matcher_new(const char *source, struct error *error) {
  struct regex *regex = regex_new(source, error);
  if (regex == NULL)
    return NULL;
  if (regex_needs_line_break(regex)) {
    regex_free(regex);
    (void)error_set(error, LINE_MATCHER_LINE_BREAK);
    return NULL;
  }
  struct line_matcher *self = memory_allocate(sizeof *self);
  *self = (struct line_matcher){.regex = regex};
  self->in_blocks = read_pattern(source, &self->literals) && regex_min_length(regex) < LONG_MATCH;
  return self;
}

void line_matcher_free(struct line_matcher *self) {
  if (self == NULL)
    return;
  regex_free(self->regex);
  free(self);
}

void line_matcher_begin(struct line_matcher *self, const char *text, size_t length, bool is_text) {
  self->text = text;
  self->length = length;
  self->is_text = is_text;
  self->is_examined = false;
}

static void examine_text(struct line_matcher *self) {
  self->is_examined = true;
  self->traits = memscan_traits(self->text, self->length);
  self->is_utf8 = (self->traits & BYTE_HIGH) == 0 ||
                  utf8_valid_prefix(self->text, self->length) == self->length;
}

static bool is_binary(const struct line_matcher *self) {
  return !self->is_text && (self->traits & BYTE_NUL) != 0;
}

void matched_line_from(struct matched_line *line, const char *text, size_t length, size_t start) {
  size_t end = start + memscan_first(text + start, length - start, '\n');
  line->start = start;
  line->next = end < length ? end + 1 : end;
  line->end = end < length && end > start && text[end - 1] == '\r' ? end - 1 : end;
}

/* Sets `*line` to the line of the byte at `at`, which may be its "\n"; it starts at `from` or
   later. */
static void line_around(const struct line_matcher *self, size_t from, size_t at,
                        struct matched_line *line) {
  const char *before = memrchr(self->text + from, '\n', at - from);
  size_t start = before == NULL ? from : (size_t)(before - self->text) + 1;
  matched_line_from(line, self->text, self->length, start);
}

static enum regex_text text_kind(const struct line_matcher *self, const char *text, size_t length) {
  if ((self->traits & BYTE_HIGH) == 0 || (memscan_traits(text, length) & BYTE_HIGH) == 0)
    return REGEX_ASCII;
  return self->is_utf8 || utf8_valid_prefix(text, length) == length ? REGEX_UTF8 : REGEX_BROKEN;
}

static int match_line(struct line_matcher *self, struct matched_line *line, struct error *error) {
  const char *text = self->text + line->start;
  size_t length = line->end - line->start;
  return regex_match(self->regex, text_kind(self, text, length), text, length, &line->match, error);
}

static int next_by_line(struct line_matcher *self, size_t from, size_t limit,
                        struct matched_line *line, struct error *error) {
  int found = 0;
  while (found == 0 && from < limit) {
    matched_line_from(line, self->text, self->length, from);
    found = match_line(self, line, error);
    from = line->next;
  }
  return found;
}

static int next_by_literal(struct line_matcher *self, size_t from, struct matched_line *line,
                           struct error *error) {
  for (;;) {
    size_t at =
        memscan_find(self->text, self->length, from, self->literals.items, self->literals.count);
    if (at == self->length)
      return 0;
    if (!self->is_examined)
      examine_text(self);
    if (is_binary(self))
      return 0;
    line_around(self, from, at, line);
    int found = match_line(self, line, error);
    if (found != 0)
      return found;
    from = line->next;
  }
}

/* Returns the end of the line that contains the byte BLOCK bytes after `from`. */
static size_t block_end(const struct line_matcher *self, size_t from) {
  if (self->length - from <= BLOCK)
    return self->length;
  struct matched_line last;
  matched_line_from(&last, self->text, self->length, from + BLOCK);
  return last.next;
}

/* Matches the next line alone first, because matching lines often follow each other. */
static int next_by_block(struct line_matcher *self, size_t from, struct matched_line *line,
                         struct error *error) {
  if (from < self->length) {
    matched_line_from(line, self->text, self->length, from);
    int found = match_line(self, line, error);
    if (found != 0)
      return found;
    from = line->next;
  }
  while (from < self->length) {
    size_t end = block_end(self, from);
    const char *text = self->text + from;
    enum regex_text kind = text_kind(self, text, end - from);
    struct regex_span span = {0};
    bool is_suitable = kind != REGEX_BROKEN && end - from <= 2 * BLOCK;
    int found = is_suitable ? regex_try(self->regex, kind, text, end - from, &span) : -1;
    if (found < 0) {
      found = next_by_line(self, from, end, line, error);
      if (found != 0)
        return found;
    }
    /* A match at the end of the block, behind its last "\n", is in none of its lines. */
    if (found == 0 || (span.start == end - from && text[span.start - 1] == '\n')) {
      from = end;
      continue;
    }
    line_around(self, from, from + span.start, line);
    found = match_line(self, line, error);
    if (found != 0)
      return found;
    from = line->next;
  }
  return 0;
}

int line_matcher_next(struct line_matcher *self, size_t from, struct matched_line *line,
                      struct error *error) {
  if (self->literals.count > 0)
    return next_by_literal(self, from, line, error);
  if (!self->is_examined)
    examine_text(self);
  if (is_binary(self))
    return 0;
  /* In a block, $ would not match before "\r\n". */
  if (self->in_blocks && (self->traits & BYTE_RETURN) == 0)
    return next_by_block(self, from, line, error);
  return next_by_line(self, from, self->length, line, error);
}
