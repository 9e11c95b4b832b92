#include "agent/files/grep/line_matcher.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "agent/files/grep/pattern.h"
#include "base/memory.h"
#include "base/utf8.h"

/*
 * A call of PCRE2 costs more than most lines are worth. If every match contains one of a few
 * literals, these are searched for, and PCRE2 gets only the lines that contain one. Otherwise, it
 * gets each line.
 */

#define STACK_FIRST ((size_t)32 * 1024)

/* A line of at most this length is first matched without checking the clock, but with a limit on
   all backtracks that is rarely reached. */
#define SHORT ((size_t)4096)
#define SHORT_TRIES 2000000

/* Callouts between two checks of the clock. */
#define CALLOUTS 64

/* There is code for each kind of line. PCRE2 10.46 assumes that a leading .* matches only from the
   start of a line, but in text that is not UTF-8 it may also match from an invalid byte on. */
enum line_kind { UTF8, BROKEN, KINDS };

static const uint32_t kind_options[] = {
    [UTF8] = 0,
    [BROKEN] = PCRE2_MATCH_INVALID_UTF | PCRE2_NO_DOTSTAR_ANCHOR,
};

struct line_matcher {
  struct pattern pattern;
  uint32_t options;    /* of all codes */
  bool is_interpreted; /* machine code is not used */
  pcre2_code *codes[KINDS];
  /* The same with a callout before each item, which checks the clock; compiled on first use.
     PCRE2's match limit counts backtracks from each start offset, but not the bytes that an item
     runs over, so it is no measure of time in a long text. */
  pcre2_code *timed[KINDS];
  pcre2_match_data *found;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
  size_t calls;
  int64_t end; /* of the time for this line, by now() */

  const char *text;
  size_t length;
  bool is_text;     /* even if it has a NUL */
  bool has_returns; /* lines include the "\r" of their endings */
  bool is_examined; /* the following are set */
  bool has_nul;
  bool is_utf8;
};

/* --- the expression --- */

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
   would take up to ten times as long.

   - Auto-possessification assumes that some neighbors are disjoint that are not: \P{Nd}*\P{Lu}
     does not match "a", nor \R*\s "\r" without Unicode. It also overlooks what follows an atomic
     or possessive group that may be empty: n*(?:s)?+. does not match "n".
   - The machine code's search for the start of a match applies a count to the next alternative,
     too: it searches for foo\d{2}|bar as if it were foo\d{2}|bbar.
   - An unusual pattern is interpreted without optimizations. If a group refers to itself, the
     length of the shortest match is overestimated: (kelvi|ab\1?) does not match "ab"; and machine
     code may crash: ([^a]+\1?){2,}+. Verbs such as (*COMMIT) act on what the optimizations leave,
     and machine code treats (*SKIP) differently within recursion. */
static uint32_t workarounds(const struct pattern *pattern) {
  static const char *const neighbours[] = {"\\P", "\\p{^", "\\p{ ^", "\\R", "(?>",
                                           "?+",  "*+",    "++",     "}+"};
  const char *text = pattern->text.bytes;
  if (pattern->is_unusual)
    return PCRE2_NO_AUTO_POSSESS | PCRE2_NO_START_OPTIMIZE | PCRE2_NO_DOTSTAR_ANCHOR;
  uint32_t found = counts_and_chooses(text) ? PCRE2_NO_START_OPTIMIZE : 0;
  for (size_t i = 0; i < sizeof neighbours / sizeof *neighbours; i++)
    if (strstr(text, neighbours[i]) != NULL)
      found |= PCRE2_NO_AUTO_POSSESS;
  return found;
}

/* Also compiles to machine code, unless that is not used or not possible. */
static pcre2_code *compile(const struct line_matcher *self, enum line_kind kind, uint32_t more,
                           int *reason, size_t *offset) {
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (context == NULL)
    memory_exhausted("a pattern");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  if (!self->is_interpreted)
    pcre2_set_max_varlookbehind(context, 0);
  pcre2_code *made =
      pcre2_compile((PCRE2_SPTR)self->pattern.text.bytes, PCRE2_ZERO_TERMINATED,
                    self->options | kind_options[kind] | more, reason, offset, context);
  pcre2_compile_context_free(context);
  if (made != NULL && !self->is_interpreted && kind != BROKEN)
    (void)pcre2_jit_compile(made, PCRE2_JIT_COMPLETE);
  return made;
}

/* With lookbehind of variable length, the machine code of PCRE2 10.46 is wrong: (?<=\b|ab?)if
   misses "if". */
static int compile_codes(struct line_matcher *self, struct error *error) {
  int reason;
  size_t offset;
  self->codes[UTF8] = compile(self, UTF8, 0, &reason, &offset);
  if (self->codes[UTF8] == NULL) {
    self->is_interpreted = true;
    self->codes[UTF8] = compile(self, UTF8, 0, &reason, &offset);
  }
  if (self->codes[UTF8] != NULL)
    self->codes[BROKEN] = compile(self, BROKEN, 0, &reason, &offset);
  if (self->codes[BROKEN] != NULL)
    return 0;
  unsigned char message[160];
  (void)pcre2_get_error_message(reason, message, sizeof message);
  return error_set(error, "pattern: %s at offset %zu", (const char *)message,
                   pattern_source_offset(&self->pattern, offset));
}

/* Returns processor time in milliseconds. */
static int64_t now(void) {
  struct timespec time;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0)
    return 0;
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int check_clock(pcre2_callout_block *block, void *owner) {
  struct line_matcher *self = owner;
  (void)block;
  return ++self->calls % CALLOUTS == 0 && now() >= self->end ? PCRE2_ERROR_MATCHLIMIT : 0;
}

struct line_matcher *line_matcher_new(const char *source, struct error *error) {
  struct line_matcher *self = memory_zeros(sizeof *self);
  self->found = pcre2_match_data_create(1, NULL);
  self->context = pcre2_match_context_create(NULL);
  self->stack = pcre2_jit_stack_create(STACK_FIRST, LINE_MATCHER_STACK, NULL);
  if (self->found == NULL || self->context == NULL)
    memory_exhausted("a pattern");
  pcre2_jit_stack_assign(self->context, NULL, self->stack);
  pcre2_set_callout(self->context, check_clock, self);
  pcre2_set_depth_limit(self->context, LINE_MATCHER_TRIES_MAX);
  pcre2_set_heap_limit(self->context, LINE_MATCHER_HEAP_KIB);
  pattern_read(&self->pattern, source);
  self->is_interpreted = self->pattern.is_unusual;
  self->options = workarounds(&self->pattern) | PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE |
                  PCRE2_DUPNAMES | PCRE2_NEVER_BACKSLASH_C;
  int result = compile_codes(self, error);
  if (result == 0 && self->pattern.needs_break)
    result = error_set(error, LINE_MATCHER_LINE_BREAK);
  if (result == 0)
    return self;
  line_matcher_free(self);
  return NULL;
}

void line_matcher_free(struct line_matcher *self) {
  if (self == NULL)
    return;
  for (int kind = 0; kind < KINDS; kind++) {
    pcre2_code_free(self->codes[kind]);
    pcre2_code_free(self->timed[kind]);
  }
  pattern_release(&self->pattern);
  pcre2_match_data_free(self->found);
  pcre2_match_context_free(self->context);
  pcre2_jit_stack_free(self->stack);
  free(self);
}

/* --- a line --- */

/* Returns the code that checks the clock, or the other one if that is too long for PCRE2. */
static pcre2_code *timed_code(struct line_matcher *self, enum line_kind kind) {
  int reason;
  size_t offset;
  if (self->timed[kind] == NULL)
    self->timed[kind] = compile(self, kind, PCRE2_AUTO_CALLOUT, &reason, &offset);
  return self->timed[kind] != NULL ? self->timed[kind] : self->codes[kind];
}

/* Returns what pcre2_match returns. */
static int match_by(struct line_matcher *self, const pcre2_code *code, enum line_kind kind,
                    const char *text, size_t length) {
  const uint32_t options = kind == BROKEN ? 0 : PCRE2_NO_UTF_CHECK;
  int result = pcre2_match(code, (PCRE2_SPTR)text, length, 0, options, self->found, self->context);
  /* The interpreter has more memory to backtrack. */
  if (result == PCRE2_ERROR_JIT_STACKLIMIT)
    result = pcre2_match(code, (PCRE2_SPTR)text, length, 0, options | PCRE2_NO_JIT, self->found,
                         self->context);
  return result;
}

static int match_line(struct line_matcher *self, struct matched_line *line, struct error *error) {
  const char *text = self->text + line->start;
  size_t length = line->end - line->start;
  enum line_kind kind = self->is_utf8 || utf8_valid_prefix(text, length) == length ? UTF8 : BROKEN;
  int result = PCRE2_ERROR_MATCHLIMIT;
  if (length <= SHORT) {
    self->end = INT64_MAX; /* for callouts of the expression itself */
    pcre2_set_match_limit(self->context, (uint32_t)(SHORT_TRIES / (length + 1) + 1));
    result = match_by(self, self->codes[kind], kind, text, length);
  }
  if (result < PCRE2_ERROR_NOMATCH) {
    self->end = now() + LINE_MATCHER_MILLISECONDS;
    pcre2_set_match_limit(self->context, LINE_MATCHER_TRIES_MAX);
    result = match_by(self, timed_code(self, kind), kind, text, length);
  }
  if (result < PCRE2_ERROR_NOMATCH) {
    unsigned char message[128];
    (void)pcre2_get_error_message(result, message, sizeof message);
    return error_set(error, "pattern too expensive: %s", (const char *)message);
  }
  const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(self->found);
  line->match_start = ends[0];
  line->match_end = ends[1];
  return result != PCRE2_ERROR_NOMATCH;
}

/* --- the text --- */

void line_matcher_begin(struct line_matcher *self, const char *text, size_t length, bool is_text) {
  self->text = text;
  self->length = length;
  self->is_text = is_text;
  self->is_examined = false;
}

/* Returns whether the text has lines. */
static bool examine_text(struct line_matcher *self) {
  if (!self->is_examined) {
    self->has_nul = memchr(self->text, '\0', self->length) != NULL;
    self->is_utf8 = utf8_valid_prefix(self->text, self->length) == self->length;
  }
  self->is_examined = true;
  return self->is_text || !self->has_nul;
}

void matched_line_from(struct matched_line *line, const char *text, size_t length, size_t start) {
  const char *newline = memchr(text + start, '\n', length - start);
  size_t end = newline != NULL ? (size_t)(newline - text) : length;
  line->start = start;
  line->next = newline != NULL ? end + 1 : end;
  line->end = newline != NULL && end > start && text[end - 1] == '\r' ? end - 1 : end;
}

/* Returns the start of the next line that may match, or the end of the text. */
static size_t next_start(const struct line_matcher *self, size_t from) {
  const struct literals *literals = &self->pattern.literals;
  if (literals->count == 0)
    return from;
  size_t at = memscan_find(self->text, self->length, from, literals);
  if (at == self->length)
    return at;
  const char *before = memrchr(self->text + from, '\n', at - from);
  return before == NULL ? from : (size_t)(before - self->text) + 1;
}

/* Examines a text only if a line may match. */
int line_matcher_next(struct line_matcher *self, size_t from, struct matched_line *line,
                      struct error *error) {
  while ((from = next_start(self, from)) < self->length && examine_text(self)) {
    matched_line_from(line, self->text, self->length, from);
    line->end += self->has_returns && line->next - line->end == 2;
    int found = match_line(self, line, error);
    if (found != 0)
      return found;
    from = line->next;
  }
  return 0;
}

bool line_matcher_misses_return(struct line_matcher *self) {
  struct matched_line line;
  struct error ignored;
  if (!self->is_examined || memchr(self->text, '\r', self->length) == NULL)
    return false;
  self->has_returns = true;
  int found = line_matcher_next(self, 0, &line, &ignored);
  self->has_returns = false;
  return found > 0;
}
