/* The first line is a pattern, the others are a text: the lines that a search matches, against
   PCRE2's interpreter without optimizations, line by line. A byte of the pattern that is not ASCII
   stands for a piece of syntax, so that random bytes make patterns. */

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "agent/files/grep/line_matcher.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"

/* So few that an expensive pattern is noticed before our matcher is tried. */
#define TRIES 20000
#define PATTERN_MAX 200
#define TEXT_MAX 4000

static const char *const syntax[] = {
    ".*",          ".",           "\\d",       "\\w",
    "\\s",         "\\D",         "\\W",       "\\S",
    "\\h",         "\\N",         "\\V",       "\\R",
    "\\X",         "\\b",         "\\B",       "^",
    "$",           "\\A",         "\\z",       "\\Z",
    "\\G",         "\\K",         "\\p{Lu}",   "\\p{L}",
    "\\P{Nd}",     "\\P{Lu}",     "\\p{^L}",   "[^a]",
    "[ab]",        "[^\\w-]",     "[a-c\\d]",  "[[:alpha:]]",
    "[^a\\s]",     "[\\s\\S]",    "[^\\W]",    "[\\P{L}a]",
    "(",           "(",           "(?:",       "(?:",
    "(?>",         "(?=",         "(?!",       "(?<=",
    "(?<!",        "(?i:",        "(?|",       "(?s:",
    "(?U:",        "(?x)",        "(?i)",      "(?<n>",
    "(?(1)",       ")",           ")",         ")",
    ")",           "|",           "|",         "|",
    "*",           "+",           "?",         "{2}",
    "{1,2}",       "{2,}",        "{,2}",      "{0,2}",
    "{0}",         "*?",          "+?",        "??",
    "{1,2}?",      "*+",          "++",        "?+",
    "{,2}+",       "\\1",         "\\2",       "\\k<n>",
    "\\g{-1}",     "(?1)",        "(?R)?",     "(*F)",
    "(*SKIP)",     "(*PRUNE)",    "(*COMMIT)", "(*THEN)",
    "(*ACCEPT)",   "(*NOTEMPTY)", "\xC3\xA9",  "\xE2\x84\xAA",
    "\xC5\xBF",    "\\x{100}",    "\\xe9",     "[\\x{100}-\\x{2000}]",
    "[^\xC3\xA9]", "\\n",         "\\x0a",     "[\\n]",
};

/* Adds the missing ")" at the end. */
static void read_pattern(const char *line, size_t length, char *pattern) {
  size_t at = 0;
  int open = 0;
  for (size_t i = 0; i < length && at < PATTERN_MAX; i++) {
    unsigned char byte = (unsigned char)line[i];
    char one[2] = {line[i], '\0'};
    const char *piece =
        byte < 0x80 ? one : syntax[(byte - 0x80u) % (sizeof syntax / sizeof *syntax)];
    for (const char *c = piece; *c != '\0'; c++)
      open += (*c == '(') - (*c == ')');
    memcpy(pattern + at, piece, strlen(piece));
    at += strlen(piece);
  }
  for (; open > 0; open--)
    pattern[at++] = ')';
  pattern[at] = '\0';
}

static pcre2_code *compile_plain(const char *pattern, uint32_t more) {
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  demand(context != NULL);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int reason;
  size_t offset;
  pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   more | PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_DUPNAMES |
                                       PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_POSSESS |
                                       PCRE2_NO_START_OPTIMIZE | PCRE2_NO_DOTSTAR_ANCHOR,
                                   &reason, &offset, context);
  pcre2_compile_context_free(context);
  return code;
}

/* Sets the offsets of matching lines; returns false if PCRE2 gives up on one. */
static bool match_plain(const char *pattern, const char *text, size_t length, bool *matches) {
  pcre2_code *codes[] = {compile_plain(pattern, 0),
                         compile_plain(pattern, PCRE2_MATCH_INVALID_UTF)};
  pcre2_match_data *found = pcre2_match_data_create(1, NULL);
  pcre2_match_context *context = pcre2_match_context_create(NULL);
  demand(found != NULL && context != NULL);
  pcre2_set_match_limit(context, TRIES);
  bool is_done = codes[0] != NULL && codes[1] != NULL;
  struct matched_line line = {.next = 0};
  while (is_done && line.next < length) {
    matched_line_from(&line, text, length, line.next);
    size_t size = line.end - line.start;
    bool is_broken = utf8_valid_prefix(text + line.start, size) < size;
    int result = pcre2_match(codes[is_broken], (PCRE2_SPTR)text + line.start, size, 0, PCRE2_NO_JIT,
                             found, context);
    is_done = result >= PCRE2_ERROR_NOMATCH;
    matches[line.start] = result >= 0;
  }
  pcre2_match_context_free(context);
  pcre2_match_data_free(found);
  pcre2_code_free(codes[0]);
  pcre2_code_free(codes[1]);
  return is_done;
}

static void compare(const char *pattern, const char *text, size_t length) {
  static bool plain[TEXT_MAX + 1];
  memset(plain, 0, sizeof plain);
  if (memchr(text, '\0', length) != NULL || !match_plain(pattern, text, length, plain))
    return;
  struct error error;
  struct line_matcher *matcher = line_matcher_new(pattern, &error);
  if (matcher == NULL) {
    demand(strcmp(error.text, LINE_MATCHER_LINE_BREAK) == 0 && memchr(plain, 1, length) == NULL);
    return;
  }
  line_matcher_begin(matcher, text, length, false);
  struct matched_line line = {.next = 0};
  size_t at = 0; /* the first line that is not compared */
  int found = 1;
  while (found > 0) {
    found = line_matcher_next(matcher, line.next, &line, &error);
    size_t end = found == 0 ? length : line.start;
    for (; at < end; at++)
      demand(!plain[at]);
    if (found > 0)
      demand(plain[at++]);
  }
  line_matcher_free(matcher);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char pattern[4 * PATTERN_MAX];
  static char text[TEXT_MAX + MEMSCAN_SLACK];
  const uint8_t *newline = memchr(data, '\n', size);
  size_t first = newline == NULL ? size : (size_t)(newline - data);
  size_t rest = newline == NULL ? 0 : size - first - 1;
  if (rest > TEXT_MAX || memchr(data, '\0', first) != NULL)
    return 0;
  read_pattern((const char *)data, first, pattern);
  if (rest > 0)
    memcpy(text, newline + 1, rest);
  compare(pattern, text, rest);
  return 0;
}
