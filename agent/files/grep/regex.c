#include "agent/files/grep/regex.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/memory.h"

#define STACK_FIRST ((size_t)32 * 1024)

/* A shorter text is matched without a look at the clock: by so many tries in all, that most never
   need. */
#define SHORT ((size_t)4096)
#define SHORT_TRIES 2000000

/* What happens between two looks at the clock. */
#define CALLS 64

static const uint32_t options[] = {
    [REGEX_ASCII] = 0,
    [REGEX_UTF8] = PCRE2_UTF | PCRE2_UCP,
    [REGEX_BROKEN] = PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF,
};

struct code {
  pcre2_code *code;
  bool is_ready;   /* machine code was asked for */
  bool is_machine; /* and is there */
};

struct regex {
  char *source;
  struct code codes[REGEX_TEXTS]; /* that for ASCII may be NULL */
  /* The same with a call before each step, to look at the clock; made when first needed. PCRE2
     counts tries for each place where a match may start, and not the bytes that one runs over: in
     a long text they are no measure of time. */
  struct code timed[REGEX_TEXTS];
  pcre2_match_data *found;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
  size_t calls;
  int64_t end; /* of the time for this text */
  int refusal;
};

/* What may be left out is a choice: x?, x*, and x{0,1} or x{,1}. Braces may be of something else:
   \p{L}. */
static bool counts_and_chooses(const char *source) {
  const char *brace = strchr(source, '{');
  bool counts = brace != NULL;
  bool chooses = strpbrk(source, "|?*") != NULL;
  for (; brace != NULL && !chooses; brace = strchr(brace + 1, '{'))
    chooses = brace[1] < '1' || brace[1] > '9';
  return counts && chooses;
}

/* What PCRE2 (10.46) makes wrong is not asked of it where it may matter:

   - It takes some neighbours to have no character in common that have many: \P{Nd}*\P{Lu} does not
     match "a", nor \R*\s "\r" without Unicode. It then gives nothing back between them.
   - Its machine code looks for how a match may begin, and there takes a count for one of the next
     choice, too: foo\d{2}|bar is searched for as if it were foo\d{2}|bbar. */
static uint32_t without_mistakes(const char *source) {
  bool has_such_neighbours = strstr(source, "\\P") != NULL || strstr(source, "\\p{^") != NULL ||
                             strstr(source, "\\p{ ^") != NULL || strstr(source, "\\R") != NULL;
  return (has_such_neighbours ? PCRE2_NO_AUTO_POSSESS : 0) |
         (counts_and_chooses(source) ? PCRE2_NO_START_OPTIMIZE : 0);
}

static pcre2_code *compile(const char *source, uint32_t more, int *code, size_t *offset) {
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  if (context == NULL)
    memory_exhausted("a pattern");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_code *made = pcre2_compile((PCRE2_SPTR)source, PCRE2_ZERO_TERMINATED,
                                   more | without_mistakes(source) | PCRE2_MULTILINE |
                                       PCRE2_DUPNAMES | PCRE2_NEVER_BACKSLASH_C,
                                   code, offset, context);
  pcre2_compile_context_free(context);
  return made;
}

/* An expression that is ASCII itself says the same of ASCII with and without Unicode, unless verbs
   in front of it ask for one. What names a character above U+00FF is not even compiled without. */
static bool says_the_same(const char *source) {
  for (const char *at = source; *at != '\0'; at++)
    if ((unsigned char)*at >= 0x80)
      return false;
  return strstr(source, "(*") == NULL;
}

/* The processor's time: that of a process which is stopped or has to wait does not run on. */
static int64_t now(void) {
  struct timespec time;
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0)
    return 0;
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int look_at_clock(pcre2_callout_block *block, void *owner) {
  struct regex *self = owner;
  (void)block;
  return ++self->calls % CALLS == 0 && now() >= self->end ? PCRE2_ERROR_MATCHLIMIT : 0;
}

struct regex *regex_new(const char *source, struct error *error) {
  struct regex *self = memory_allocate(sizeof *self);
  *self = (struct regex){.source = memory_copy(source, strlen(source)),
                         .found = pcre2_match_data_create(1, NULL),
                         .context = pcre2_match_context_create(NULL)};
  if (self->found == NULL || self->context == NULL)
    memory_exhausted("a pattern");
  pcre2_set_callout(self->context, look_at_clock, self);
  pcre2_set_depth_limit(self->context, REGEX_TRIES_MAX);
  pcre2_set_heap_limit(self->context, REGEX_HEAP_KIB);
  for (int kind = REGEX_TEXTS - 1; kind >= 0; kind--) {
    if (kind == REGEX_ASCII && !says_the_same(source))
      continue;
    int code = 0;
    size_t offset = 0;
    self->codes[kind].code = compile(source, options[kind], &code, &offset);
    if (self->codes[kind].code == NULL && kind != REGEX_ASCII) {
      unsigned char message[160];
      (void)pcre2_get_error_message(code, message, sizeof message);
      (void)error_set(error, "pattern: %s at offset %zu", (const char *)message, offset);
      regex_free(self);
      return NULL;
    }
  }
  return self;
}

void regex_free(struct regex *self) {
  if (self == NULL)
    return;
  for (int kind = 0; kind < REGEX_TEXTS; kind++) {
    pcre2_code_free(self->codes[kind].code);
    pcre2_code_free(self->timed[kind].code);
  }
  free(self->source);
  pcre2_match_data_free(self->found);
  pcre2_match_context_free(self->context);
  pcre2_jit_stack_free(self->stack);
  free(self);
}

size_t regex_shortest(const struct regex *self) {
  uint32_t length = 0;
  (void)pcre2_pattern_info(self->codes[REGEX_UTF8].code, PCRE2_INFO_MINLENGTH, &length);
  return length;
}

/* Machine code takes longer to be made than to be used once: it is made when first needed. Without
   it, everything is as it was. */
static void make_ready(struct regex *self, struct code *code) {
  code->is_ready = true;
  code->is_machine = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  if (!code->is_machine || self->stack != NULL)
    return;
  self->stack = pcre2_jit_stack_create(STACK_FIRST, REGEX_STACK, NULL);
  if (self->stack != NULL)
    pcre2_jit_stack_assign(self->context, NULL, self->stack);
}

/* The code that looks at the clock is longer: where it is too long, there is the other. */
static struct code *timed_code(struct regex *self, enum regex_text kind) {
  struct code *timed = &self->timed[kind];
  int reason;
  size_t offset;
  if (timed->code == NULL && !timed->is_ready)
    timed->code = compile(self->source, options[kind] | PCRE2_AUTO_CALLOUT, &reason, &offset);
  if (timed->code != NULL)
    return timed;
  timed->is_ready = true;
  return &self->codes[kind];
}

static int match_by(struct regex *self, struct code *code, enum regex_text kind, const char *text,
                    size_t length) {
  if (!code->is_ready)
    make_ready(self, code);
  PCRE2_SPTR target = (PCRE2_SPTR)text;
  int result = PCRE2_ERROR_JIT_BADOPTION;
  if (code->is_machine)
    result = pcre2_jit_match(code->code, target, length, 0, 0, self->found, self->context);
  /* The interpreter has more room than machine code, which there is none of for (*NO_JIT). It is
     told what is known of the text. */
  if (result == PCRE2_ERROR_JIT_STACKLIMIT || result == PCRE2_ERROR_JIT_BADOPTION)
    result = pcre2_match(code->code, target, length, 0,
                         PCRE2_NO_JIT | (kind == REGEX_BROKEN ? 0 : PCRE2_NO_UTF_CHECK),
                         self->found, self->context);
  return result;
}

static int answer(struct regex *self, int result, size_t *start) {
  if (result == PCRE2_ERROR_NOMATCH)
    return 0;
  if (result < 0) {
    self->refusal = result;
    return -1;
  }
  *start = pcre2_get_ovector_pointer(self->found)[0];
  return 1;
}

static enum regex_text there_is(const struct regex *self, enum regex_text kind) {
  return self->codes[kind].code == NULL ? REGEX_UTF8 : kind;
}

int regex_try(struct regex *self, enum regex_text kind, const char *text, size_t length,
              size_t *start) {
  kind = there_is(self, kind);
  self->end = INT64_MAX; /* for calls that the expression asks for */
  pcre2_set_match_limit(self->context, (uint32_t)(SHORT_TRIES / (length + 1) + 1));
  return answer(self, match_by(self, &self->codes[kind], kind, text, length), start);
}

int regex_match(struct regex *self, enum regex_text kind, const char *text, size_t length,
                size_t *start) {
  int found = length <= SHORT ? regex_try(self, kind, text, length, start) : -1;
  if (found >= 0)
    return found;
  kind = there_is(self, kind);
  self->end = now() + REGEX_MILLISECONDS;
  pcre2_set_match_limit(self->context, REGEX_TRIES_MAX);
  return answer(self, match_by(self, timed_code(self, kind), kind, text, length), start);
}

int regex_refusal(const struct regex *self, struct error *error) {
  unsigned char message[128];
  (void)pcre2_get_error_message(self->refusal, message, sizeof message);
  return error_set(error, "pattern too expensive: %s", (const char *)message);
}
