#include "agent/files/grep/regex.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buffer.h"
#include "base/memory.h"

/* --- rewriting the pattern for PCRE2 --- */

/*
 * A pattern is divided into escapes, quotes (\Q..\E), classes, groups and comments. Parts that
 * other engines accept and PCRE2 rejects are rewritten, all others are copied:
 *
 *   \u00e9, \ud83d\ude00   become \x{00e9}, \x{1f600}
 *   [\w-.], [[:alpha:]-.]  become [\w\-.], [[:alpha:]\-.]: behind a class, a hyphen is literal
 *
 * A pattern is unusual if PCRE2's optimizations and machine code are known or likely to get it
 * wrong: if it has verbs, recursion, conditions, or a reference to a group from within a capturing
 * group. With the option x, whose comments are not recognized, any reference makes it unusual.
 *
 * A pattern needs a line break if each alternative has a part that matches nothing but "\n", is not
 * optional, and is in no negative lookaround or condition. If that is not certain, it does not.
 */

/* PCRE2 rejects patterns with more open groups. */
#define GROUPS_MAX 250

/* An open group, or the pattern itself. */
struct group {
  bool captures;
  bool is_exempt;   /* its content need not match */
  bool needs_break; /* of the current alternative, so far */
  bool has_way;     /* an earlier alternative needs no line break */
};

struct reader {
  const char *at; /* in the source */
  struct buffer *to;
  bool in_class, is_unusual, is_extended;
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

static long utf16_unit(const char *text) {
  if (text[0] != '\\' || text[1] != 'u' || strspn(text + 2, "0123456789abcdefABCDEF") < 4)
    return -1;
  char digits[5] = {text[2], text[3], text[4], text[5], '\0'};
  return strtol(digits, NULL, 16);
}

/* --- line breaks --- */

/* Groups beyond the maximum share one. */
static struct group *innermost(struct reader *self) {
  return &self->groups[self->open < GROUPS_MAX ? self->open : GROUPS_MAX];
}

/* Notes that the last part matches nothing but line breaks, unless what follows may make it
   optional; a comment may hide that. */
static void note_break(struct reader *self) {
  const char *at = self->at;
  at += self->is_extended ? strspn(at, " \t\n\v\f\r") : 0;
  bool may_be_optional =
      *at == '{' ? is_one_of(at[1 + strspn(at + 1, " \t")], "0,")
                 : is_one_of(*at, "?*") || strncmp(at, "(?#", 3) == 0 || strncmp(at, "\\E", 2) == 0;
  innermost(self)->needs_break |= !may_be_optional;
}

static bool group_needs_break(const struct group *self) {
  return self->needs_break && !self->has_way && !self->is_exempt;
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
    return strncmp(at + 1, "012", 3) == 0 ? 4 : 0;
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

/* --- parts --- */

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
  if (!self->in_class && memchr(start, '\n', (size_t)(self->at - start)) != NULL)
    note_break(self);
}

static void read_escape(struct reader *self) {
  char letter = self->at[1];
  size_t break_length = break_escape(self->at);
  self->is_break &= break_length > 0;
  if (letter == 'Q') {
    read_quote(self);
  } else if (utf16_unit(self->at) >= 0) {
    rewrite_utf16(self);
  } else if (break_length > 0) {
    copy(self, break_length);
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
  if (break_length > 0 && !self->in_class)
    note_break(self);
}

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
  if (name > 0 && strncmp(self->at + 2 + name, ":]", 2) == 0) {
    copy(self, name + 4);
    rewrite_hyphen(self);
    self->is_break = false;
    return;
  }
  self->in_class = *self->at != ']';
  self->is_break &= !self->in_class || *self->at == '\n';
  copy(self, 1);
  if (!self->in_class && self->is_break)
    note_break(self);
}

/* Whether "(?" and this text begin a recursion, a condition or a reference. */
static bool is_unusual_group(const char *at) {
  return is_one_of(*at, "R&(+0123456789") || (at[0] == 'P' && is_one_of(at[1], "=>")) ||
         (at[0] == '-' && is_one_of(at[1], "0123456789"));
}

/* Whether "(?" and this text set the flag x. */
static bool is_extended_group(const char *at) {
  size_t flags = strspn(at, "abcdefghijklmnopqrstuvwxyzADJPSTUW^-");
  return is_one_of(at[flags], ":)") && memchr(at, 'x', flags) != NULL;
}

/* Whether the text has anything unusual, even in a comment. */
static bool mentions_unusual(const char *text) {
  for (; (text = strpbrk(text, "\\(")) != NULL; text++)
    if (text[0] == '\\' ? is_one_of(text[1], "123456789gk")
                        : text[1] == '*' || (text[1] == '?' && is_unusual_group(text + 2)))
      return true;
  return false;
}

static void open_group(struct reader *self) {
  struct group group = {.captures = self->at[1] != '?' && self->at[1] != '*'};
  const char *at = self->at + 2;
  if (self->at[1] == '?') {
    const char *name = at + (*at == 'P');
    group.captures = *name == '\'' || (*name == '<' && !is_one_of(name[1], "=!*"));
    group.is_exempt = is_one_of(at[*at == '<'], "!(");
    self->is_unusual |= is_unusual_group(at);
    self->is_extended |= is_extended_group(at);
  }
  self->is_unusual |= self->at[1] == '*';
  self->groups[0].is_exempt |= self->at[1] == '*'; /* such as (*ACCEPT) */
  self->open++;
  *innermost(self) = group;
  self->capturing += group.captures;
  copy(self, self->at[1] == '?' && *at == '|' ? 3 : 1); /* this "|" separates no alternatives */
}

static void close_group(struct reader *self) {
  struct group group = *innermost(self);
  copy(self, 1);
  if (self->open == 0)
    return;
  self->open--;
  self->capturing -= group.captures;
  if (group_needs_break(&group))
    note_break(self);
}

static void read_outside(struct reader *self) {
  if (*self->at == '[') {
    open_class(self);
  } else if (strncmp(self->at, "(?#", 3) == 0) {
    copy_through(self, ")");
  } else if (strncmp(self->at, "(?[", 3) == 0) {
    self->is_unusual = true; /* a class with operators, such as "-" */
    self->groups[0].is_exempt = true;
    copy(self, strlen(self->at));
  } else if (*self->at == '(') {
    open_group(self);
  } else if (*self->at == ')') {
    close_group(self);
  } else {
    bool is_break = *self->at == '\n' && !self->is_extended;
    struct group *group = innermost(self);
    if (*self->at == '|') {
      group->has_way |= !group->needs_break;
      group->needs_break = false;
    }
    copy(self, 1);
    if (is_break)
      note_break(self);
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

/* Adds the rewritten pattern with a NUL. Returns whether it is unusual. */
static bool rewrite(const char *source, struct buffer *text, bool *needs_break) {
  struct reader reader = {.at = source, .to = text};
  while (*reader.at != '\0')
    read_part(&reader);
  buffer_add(text, "", 1);
  bool may_have_comments = reader.is_extended && strchr(source, '#') != NULL;
  *needs_break = group_needs_break(&reader.groups[0]) && !may_have_comments;
  return reader.is_unusual || (reader.is_extended && mentions_unusual(source));
}

static size_t source_offset(const char *source, size_t offset) {
  struct buffer text = {.bytes = NULL};
  struct reader reader = {.at = source, .to = &text};
  const char *at = source; /* the current part */
  size_t start = 0;        /* its offset in the text */
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

/* --- matching --- */

#define STACK_FIRST ((size_t)32 * 1024)

/* A text of at most this length is first matched without checking the clock, but with a limit on
   all backtracks that is rarely reached. */
#define SHORT ((size_t)4096)
#define SHORT_TRIES 2000000

/* Callouts between two checks of the clock. */
#define CALLOUTS 64

/* PCRE2 10.46 assumes that a leading .* matches only from the start of a line, but in text that is
   not UTF-8 it may also match from an invalid byte on. */
static const uint32_t options[] = {
    [REGEX_ASCII] = 0,
    [REGEX_UTF8] = PCRE2_UTF | PCRE2_UCP,
    [REGEX_BROKEN] = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_NO_DOTSTAR_ANCHOR,
};

struct code {
  pcre2_code *code;
  bool is_ready;   /* machine code was requested, */
  bool is_machine; /* and it exists */
};

struct regex {
  struct buffer text;             /* the rewritten pattern */
  uint32_t options;               /* of all codes */
  bool is_interpreted;            /* machine code is not used */
  bool needs_break;               /* see regex_needs_line_break */
  struct code codes[REGEX_TEXTS]; /* the one for ASCII may be NULL */
  /* The same with a callout before each item, which checks the clock; compiled on first use.
     PCRE2's match limit counts backtracks from each start offset, but not the bytes that an item
     runs over, so it is no measure of time in a long text. */
  struct code timed[REGEX_TEXTS];
  pcre2_match_data *found;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
  size_t calls;
  int64_t end;   /* of the time for this text, by now() */
  int error;     /* the last error of PCRE2, */
  size_t offset; /* and its offset if it is the compiler's */
};

/* Whether the pattern has a count in braces and an alternative, such as x? and x{,1}. May be wrong
   about other braces, as in \p{L}. */
static bool counts_and_chooses(const char *source) {
  const char *brace = strchr(source, '{');
  bool counts = brace != NULL;
  bool chooses = strpbrk(source, "|?*") != NULL;
  for (; brace != NULL && !chooses; brace = strchr(brace + 1, '{'))
    chooses = brace[1] < '1' || brace[1] > '9';
  return counts && chooses;
}

/* Returns options that avoid errors of PCRE2 10.46. Without all of these optimizations, a search
   would take up to twice as long.

   - Auto-possessification assumes that some neighbors are disjoint that are not: \P{Nd}*\P{Lu}
     does not match "a", nor \R*\s "\r" without Unicode. It also overlooks what follows an atomic
     or possessive group that may be empty: n*(?:s)?+. does not match "n".
   - The machine code's search for the start of a match applies a count to the next alternative,
     too: it searches for foo\d{2}|bar as if it were foo\d{2}|bbar.
   - An unusual pattern is interpreted without optimizations. If a group refers to itself, the
     length of the shortest match is overestimated: (kelvi|ab\1?) does not match "ab"; and machine
     code may crash: ([^a]+\1?){2,}+. Verbs such as (*COMMIT) act on what the optimizations leave,
     and machine code treats (*SKIP) differently within recursion. */
static uint32_t workarounds(const char *text, bool is_unusual) {
  static const char *const neighbours[] = {"\\P", "\\p{^", "\\p{ ^", "\\R", "(?>",
                                           "?+",  "*+",    "++",     "}+"};
  if (is_unusual)
    return PCRE2_NO_AUTO_POSSESS | PCRE2_NO_START_OPTIMIZE | PCRE2_NO_DOTSTAR_ANCHOR;
  uint32_t found = counts_and_chooses(text) ? PCRE2_NO_START_OPTIMIZE : 0;
  for (size_t i = 0; i < sizeof neighbours / sizeof *neighbours; i++)
    if (strstr(text, neighbours[i]) != NULL)
      found |= PCRE2_NO_AUTO_POSSESS;
  return found;
}

static pcre2_code *compile(struct regex *self, uint32_t more, bool lookbehind) {
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (context == NULL)
    memory_exhausted("a pattern");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  if (!lookbehind)
    pcre2_set_max_varlookbehind(context, 0);
  pcre2_code *made = pcre2_compile((PCRE2_SPTR)self->text.bytes, PCRE2_ZERO_TERMINATED,
                                   more | self->options, &self->error, &self->offset, context);
  pcre2_compile_context_free(context);
  return made;
}

/* The code for text that is not UTF-8 accepts every pattern that the others accept. With lookbehind
   of variable length, the machine code of PCRE2 10.46 is wrong: (?<=\b|ab?)if misses "if". */
static int compile_first(struct regex *self, const char *source, struct error *error) {
  struct code *code = &self->codes[REGEX_BROKEN];
  code->code = compile(self, options[REGEX_BROKEN], false);
  if (code->code == NULL) {
    self->is_interpreted = true;
    code->code = compile(self, options[REGEX_BROKEN], true);
  }
  if (code->code != NULL)
    return 0;
  unsigned char message[160];
  (void)pcre2_get_error_message(self->error, message, sizeof message);
  return error_set(error, "pattern: %s at offset %zu", (const char *)message,
                   source_offset(source, self->offset));
}

/* Whether the expression matches the same ASCII text with and without Unicode: it is ASCII itself
   and has no leading verb that sets a mode. */
static bool is_same_in_ascii(const char *source) {
  for (const char *at = source; *at != '\0'; at++)
    if ((unsigned char)*at >= 0x80)
      return false;
  return strstr(source, "(*") == NULL;
}

/* Returns processor time in milliseconds. */
static int64_t now(void) {
  struct timespec time;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0)
    return 0;
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int check_clock(pcre2_callout_block *block, void *owner) {
  struct regex *self = owner;
  (void)block;
  return ++self->calls % CALLOUTS == 0 && now() >= self->end ? PCRE2_ERROR_MATCHLIMIT : 0;
}

struct regex *regex_new(const char *source, struct error *error) {
  struct regex *self = memory_allocate(sizeof *self);
  *self = (struct regex){.found = pcre2_match_data_create(1, NULL),
                         .context = pcre2_match_context_create(NULL)};
  if (self->found == NULL || self->context == NULL)
    memory_exhausted("a pattern");
  pcre2_set_callout(self->context, check_clock, self);
  pcre2_set_depth_limit(self->context, REGEX_TRIES_MAX);
  pcre2_set_heap_limit(self->context, REGEX_HEAP_KIB);
  self->is_interpreted = rewrite(source, &self->text, &self->needs_break);
  self->options = workarounds(self->text.bytes, self->is_interpreted) | PCRE2_MULTILINE |
                  PCRE2_DUPNAMES | PCRE2_NEVER_BACKSLASH_C;
  if (compile_first(self, source, error) != 0) {
    regex_free(self);
    return NULL;
  }
  self->codes[REGEX_UTF8].code = compile(self, options[REGEX_UTF8], true);
  if (is_same_in_ascii(self->text.bytes))
    self->codes[REGEX_ASCII].code = compile(self, options[REGEX_ASCII], true);
  return self;
}

void regex_free(struct regex *self) {
  if (self == NULL)
    return;
  for (int kind = 0; kind < REGEX_TEXTS; kind++) {
    pcre2_code_free(self->codes[kind].code);
    pcre2_code_free(self->timed[kind].code);
  }
  buffer_release(&self->text);
  pcre2_match_data_free(self->found);
  pcre2_match_context_free(self->context);
  pcre2_jit_stack_free(self->stack);
  free(self);
}

bool regex_needs_line_break(const struct regex *self) {
  return self->needs_break;
}

size_t regex_min_length(const struct regex *self) {
  uint32_t length = 0;
  (void)pcre2_pattern_info(self->codes[REGEX_UTF8].code, PCRE2_INFO_MINLENGTH, &length);
  return length;
}

/* Compiles to machine code on first use, because that takes longer than one match. If it fails, the
   code is interpreted. */
static void make_ready(struct regex *self, struct code *code) {
  code->is_ready = true;
  code->is_machine = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  if (!code->is_machine || self->stack != NULL)
    return;
  self->stack = pcre2_jit_stack_create(STACK_FIRST, REGEX_STACK, NULL);
  if (self->stack != NULL)
    pcre2_jit_stack_assign(self->context, NULL, self->stack);
}

/* Returns the code that checks the clock, or the other one if that is too long for PCRE2. */
static struct code *timed_code(struct regex *self, enum regex_text kind) {
  struct code *timed = &self->timed[kind];
  if (timed->code == NULL && !timed->is_ready)
    timed->code = compile(self, options[kind] | PCRE2_AUTO_CALLOUT, true);
  timed->is_ready |= timed->code == NULL;
  return timed->code != NULL ? timed : &self->codes[kind];
}

static int match_by(struct regex *self, struct code *code, enum regex_text kind, const char *text,
                    size_t length) {
  if (!code->is_ready && !self->is_interpreted && kind != REGEX_BROKEN)
    make_ready(self, code);
  PCRE2_SPTR target = (PCRE2_SPTR)text;
  int result = PCRE2_ERROR_JIT_STACKLIMIT;
  /* pcre2_jit_match ignores (*NOTEMPTY), but patterns with verbs are interpreted. */
  if (code->is_machine)
    result = pcre2_jit_match(code->code, target, length, 0, 0, self->found, self->context);
  /* The interpreter has more memory to backtrack. */
  if (result == PCRE2_ERROR_JIT_STACKLIMIT)
    result = pcre2_match(code->code, target, length, 0,
                         PCRE2_NO_JIT | (kind == REGEX_BROKEN ? 0 : PCRE2_NO_UTF_CHECK),
                         self->found, self->context);
  return result;
}

static int to_result(struct regex *self, int result, struct regex_span *span) {
  if (result == PCRE2_ERROR_NOMATCH)
    return 0;
  if (result < 0) {
    self->error = result;
    return -1;
  }
  const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(self->found);
  *span = (struct regex_span){.start = ends[0], .end = ends[1]};
  return 1;
}

static enum regex_text code_kind(const struct regex *self, enum regex_text kind) {
  return self->codes[kind].code == NULL ? REGEX_UTF8 : kind;
}

int regex_try(struct regex *self, enum regex_text kind, const char *text, size_t length,
              struct regex_span *span) {
  kind = code_kind(self, kind);
  self->end = INT64_MAX; /* for callouts of the expression itself */
  pcre2_set_match_limit(self->context, (uint32_t)(SHORT_TRIES / (length + 1) + 1));
  return to_result(self, match_by(self, &self->codes[kind], kind, text, length), span);
}

int regex_match(struct regex *self, enum regex_text kind, const char *text, size_t length,
                struct regex_span *span, struct error *error) {
  int found = length <= SHORT ? regex_try(self, kind, text, length, span) : -1;
  if (found >= 0)
    return found;
  kind = code_kind(self, kind);
  self->end = now() + REGEX_MILLISECONDS;
  pcre2_set_match_limit(self->context, REGEX_TRIES_MAX);
  found = to_result(self, match_by(self, timed_code(self, kind), kind, text, length), span);
  if (found >= 0)
    return found;
  unsigned char message[128];
  (void)pcre2_get_error_message(self->error, message, sizeof message);
  return error_set(error, "pattern too expensive: %s", (const char *)message);
}
