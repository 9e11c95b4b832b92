#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "agent/files/access/line_range.h"
#include "agent/files/grep/line_matcher.h"
#include "tests/test.h"

#define E_ACUTE "\xC3\xA9"

static int forbid_executable_memory(void) {
  enum { PROT = offsetof(struct seccomp_data, args[2]) }; /* little-endian: the low half first */
  static struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mprotect, 0, 2),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, PROT),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Runs a test in a child process that gets no executable memory. The test must return 0; its
   assertions would not be seen. */
static void no_jit_run(int (*test)(void)) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    pcre2_jit_free_unused_memory(NULL); /* PCRE2 keeps memory of earlier patterns */
    if (forbid_executable_memory() != 0)
      _exit(254);
    if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
      _exit(253);
    _exit(test());
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* A text, followed by bytes that must not matter. */
struct target {
  char *bytes;
  size_t length;
};

static struct target subject_of(const char *text, size_t length) {
  struct target target = {.bytes = malloc(length + MEMSCAN_SLACK), .length = length};
  if (target.bytes == NULL)
    abort();
  if (length > 0)
    memcpy(target.bytes, text, length);
  memset(target.bytes + length, 'a', MEMSCAN_SLACK);
  return target;
}

/* Writes the numbers of the matching lines, each with a space behind it, or the error. */
static void run(struct line_matcher *pattern, const struct target *target, char *out, size_t size) {
  struct matched_line line = {.next = 0};
  struct error error;
  int found;
  size_t used = 0;
  out[0] = '\0';
  line_matcher_begin(pattern, target->bytes, target->length, false);
  while ((found = line_matcher_next(pattern, line.next, &line, &error)) > 0 && used + 32 < size) {
    size_t number = 1 + line_range_newlines(target->bytes, line.start);
    used += (size_t)snprintf(out + used, size - used, "%zu ", number);
  }
  if (found < 0)
    (void)snprintf(out + used, size - used, "%s", error.text);
}

static const char *lines_of(const char *source, const char *text, size_t length, char out[256]) {
  struct error error;
  struct line_matcher *pattern = line_matcher_new(source, &error);
  if (pattern == NULL) {
    (void)snprintf(out, 256, "%s", error.text);
    return out;
  }
  struct target target = subject_of(text, length);
  run(pattern, &target, out, 256);
  free(target.bytes);
  line_matcher_free(pattern);
  return out;
}

struct row {
  const char *pattern, *text, *lines;
};

static const struct row rows[] = {
    {"b", "a\nb\nab\n", "2 3 "},
    {"b", "a\nb", "2 "},
    {"b", "", ""},
    {"", "a\n\nb\n", "1 2 3 "},
    {"", "", ""},
    {"x*", "a\n\nb", "1 2 3 "},
    {"^$", "\na\n\n", "1 3 "},
    {"^$", "a\n", ""},
    {"^$", "a\r\n\r\n", "2 "},
    {"^", "a\nb\n", "1 2 "},
    {"$", "a\nb\n", "1 2 "},
    {"\\s", "a\n \nb\n", "2 "},
    {"\\s+$", "a\n\nb \n\n\n", "3 "},
    {"^\\s*$", "a\n\n \nb\r\n\r\n", "2 3 5 "},
    {"b$", "ab\r\nbc\r\nb\n", "1 3 "},
    {"b.$", "ab\r\nabc\r\n", "2 "},
    {"b.c", "b\rc\n", "1 "}, /* a lone CR ends no line */
    {"\\r", "a\r\nb\rc\r\n\r\n", "2 "},
    {"\\r$", "a\r\nb\r", "2 "}, /* no "\n" behind it */
    {"a\\sb", "a\nb\na b\n", "3 "},
    {"a[^x]b", "a\nb\na-b\n", "3 "},
    {"a[\\s\\S]*b", "a\nb\na-b\n", "3 "},
    {"(?s)a.*b", "a\nb\na-b\n", "3 "},
    {"\\Ab", "a\nb\nab\n", "2 "},
    {"b\\z", "a\nba\nab\n", "3 "},
    {"b\\Z", "ba\nab\n", "2 "},
    {"\\Gb", "ab\nb\n", "2 "},
    {"(?-m)^b$", "a\nb\nc\n", "2 "},
    {"(?<=a)b", "ab\nb\na\nb\n", "1 "},
    {"(?<!a)b", "ab\na\nb\n", "3 "},
    {"a(?!b)", "ab\na\nb\n", "2 "},
    {"(?<!\\n)^b", "a\nb\n", "2 "}, /* a look-behind does not see the previous line */
    {"(?<!\\s)^b", "a\na\nb\n", "3 "},
    {"a$(?!\\s)", "b\nb\na\nb\n", "3 "},
    {"a(?=\\s)", "a\na b\n", "2 "},
    {"\\B", "a\nb\n", ""}, /* the text after the last newline is not a line */
    {"(?<x>a|b)\\k<x>", "ab\nbb\n", "2 "},
    {"(?<x>a)|(?<x>b)", "c\nb\n", "2 "},
    {"(?i)CLASS", "Class\nclassic\nglass\n", "1 2 "},
    {"(?i)kiss", "KISS\n\xE2\x84\xAAi\xC5\xBF\xC5\xBF\n", "1 2 "}, /* Kelvin, long s */
    {"(?i)\xC3\x89T\xC3\x89", E_ACUTE "t" E_ACUTE "\nete\n", "1 "},
    {"^" E_ACUTE "$", E_ACUTE "\ne\n", "1 "},
    {"^.$", E_ACUTE "\n" E_ACUTE E_ACUTE "\n", "1 "},
    {"\\P{Nd}*\\P{Lu}", "A\na\n", "2 "}, /* both classes match "a" */
    {"main*(?:s)?+.", "mai\nmain\nmains\n", "2 3 "},
    {"(?<=\\b|ab?)if", "if\nbif\n" E_ACUTE "if\nabif\n", "1 4 "},
    {"(kelvi|ab\\1?)", "a\nab\n" E_ACUTE "ab\n", "2 3 "},
    {"(?<x>kelvi|ab\\k<x>?)", "a\nab\n", "2 "},
    {"([^a]+\\1?){2,}+", "\xF0\x9F\x98\x80\xF0\x9F\x98\x80\na\n", "1 "},
    {"(?x) # [\n (kelvi | ab \\1?)", "a\nab\n", "2 "},
    {"(*NOTEMPTY)x*", "a\nax\n\n", "2 "},
    {"(*COMMIT)b", "ab\nb\n", "2 "},
    {"[^\\x{20ac}](?R)?(*SKIP)[^a]", E_ACUTE "ab" E_ACUTE "k\n", ""},
    {"\\R*?\\s5", "a\r5\n", "1 "},
    /* A count in one alternative does not apply to the other, nor behind an optional part. */
    {"foo\\d{2}|bar", "foo bar\n" E_ACUTE " bar\n" E_ACUTE " foo12\n", "1 2 3 "},
    {"foo\\h{2}|bar", "x bar\nfoo \n", "1 "},
    {"x?\\.\\d{2,}", E_ACUTE " .12\n", "1 "},
    {"ab{\t2\t}c", "abbc\n", "1 "},
    {"ab{2,\t3}c", "abbc\n", "1 "},
    {"\\p{\t^Nd}*\\p{Lu}", "A\n", "1 "},
    {"(*NO_JIT)b", "a\nb\n", "2 "},
    {"\\p{L}+", "42\n\xCE\xB1\n", "2 "},
    {"\\p{Lu}", "a\n\xC3\x89\nA\n", "2 3 "},
    {"^\\w+$", E_ACUTE "t" E_ACUTE "\na b\nab\n", "1 3 "},
    {"^\\d$", "\xD9\xA3\n3\n", "1 2 "}, /* three, in Arabic */
    {"\\x{e9}", E_ACUTE "\n\xE9\n", "1 "},
    {"\\xe9|x", "ASCII\nx\n", "2 "},
    {"[\\x{17f}]", "s\n\xC5\xBF\n", "2 "},
    {"(?i)[\\x{17f}]", "x\ns\n", "2 "}, /* in a text that is ASCII */
    {"a\xC2\xA0*b", "ab\n", "1 "},
    /* Syntax of other engines. */
    {"^caf\\u00e9$", "caf" E_ACUTE "\ncafe\n", "1 "},
    {"[^\\u0000-\\u007F]", "a\n" E_ACUTE "\n", "2 "},
    {"^[\\ud83d\\ude00]$", "\xF0\x9F\x98\x80\n", "1 "},
    {"\\\\u00e9", E_ACUTE "\n\\u00e9\n", "2 "},
    {"\\Q\\u00e9\\E$", E_ACUTE "\n\\u00e9\n", "2 "},
    {"^[\\w-.]+$", "a-b.c\na b\n" E_ACUTE "-\n", "1 3 "},
    {"^[\\d-x]+$", "1-x\n2y\n", "1 "},
    {"^[]\\p{L}-\\pN-_]+$", "]-_1\n;\n", "1 "},
    {"^[^[:alpha:]-.]$", "-\n1\n", "2 "},
    {"^[\\\\w-z]$", "x\n-\n", "1 "},
    {"^[\\Q\\w-z]\\E]+$", "\\w-]\nx\n", "1 "},
    {"^[\\cw-\\cz\\w-]$", "-\n\x18\n", "1 2 "},
    {"^\\w-.$", "a-b\na.b\n", "1 "},
    {"(?#[)^[\\w-.]$", "-\n", "1 "},
    /* Invalid bytes match nothing; the text around them does. */
    {"^a", "\xFF\na\xFF\n", "2 "},
    {"word", "\xFF\x81word\x81\xFF\n", "1 "},
    {"\\bword\\b", "\xFF\x81word\x81\xFF\n", "1 "},
    {"a.b", "a\377b\naxb\n", "2 "},
    {"a[^x]b", "a\303b\na" E_ACUTE "b\n", "2 "},
    {"n" E_ACUTE, "\xE2n" E_ACUTE "\xE2\n", "1 "},
    {"^x$", "\xC3\nx\n", "2 "},
    {".*foo", "\xFF foo\n", "1 "},
    {"(.*)x", "a\xFFx\n", "1 "},
    {".*\\d", "\xFF\na\xFF\x35\n", "2 "},
    {"(?>\\X{1,2}).", "\xC3\x9F\xE2\x80\xC3\n\xFF\x61\x62\x63\n", "2 "},
};

static int check_rows(void) {
  int failed = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char out[256] = "";
    lines_of(rows[i].pattern, rows[i].text, strlen(rows[i].text), out);
    if (strcmp(out, rows[i].lines) != 0) {
      fprintf(stderr, "row %zu, %s: \"%s\", not \"%s\"\n", i, rows[i].pattern, out, rows[i].lines);
      failed = 1;
    }
  }
  return failed;
}

TEST(each_line_is_matched_by_itself) {
  assert_int_equal(check_rows(), 0);
}

TEST(results_without_jit_are_the_same) {
  no_jit_run(check_rows);
}

TEST(a_binary_text_has_no_lines) {
  char out[256];
  assert_string_equal(lines_of("word", "word\nword\0", 10, out), "");
  assert_string_equal(lines_of("\\w", "word\n\0", 6, out), "");
  assert_string_equal(lines_of("(?<!x)\\w", "word\n\0", 6, out), "");
  assert_string_equal(lines_of("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\0", 43, out),
                      "");
}

TEST(a_bad_pattern_is_reported_with_its_offset) {
  static const struct row refused[] = {
      {"ab(c", "", "pattern: missing closing parenthesis at offset 4"},
      {"[z-a]", "", "pattern: range out of order in character class at offset 3"},
      {"a\\Cb", "", "pattern: using \\C is disabled by the application at offset 3"},
      {"*", "", "pattern: quantifier does not follow a repeatable item at offset 0"},
      {"[\\w-[a]]", "", "pattern: invalid range in character class at offset 4"},
      {"[\\w-.]\\u00e9(", "", "pattern: missing closing parenthesis at offset 13"},
      {"\\u00e", "",
       "pattern: PCRE2 does not support \\F, \\L, \\l, \\N{name}, \\U, or \\u at offset 2"},
      {"\\ude00x", "",
       "pattern: disallowed Unicode code point (>= 0xd800 && <= 0xdfff) at offset 6"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    char out[256] = "";
    assert_string_equal(lines_of(refused[i].pattern, "", 0, out), refused[i].lines);
  }
  struct error error;
  assert_null(line_matcher_new("\xFF", &error));
  assert_non_null(strstr(error.text, "UTF-8"));
}

TEST(a_pattern_that_needs_a_line_break_is_rejected) {
  static const char patterns[] =
      "a\\nb\0a\nb\0a\n\0\\n\0\\r\\n\0a\\n+\0a\\n{2}\0a\\n{1,}?b\0a\\n0\0(\\n)\0(a|b)\\n\0"
      "a\\n|b\\n\0(a\\n|b\\n)+\0(?:a\\n)b\0(?|a\\n|b\\n)\0(?<x>\\n)\0(?=\\n)\0(?<=\\n)a\0"
      "a(?=b\\n)\0(?>\\n)\0(?i)a\\n\0(?:(?:x|\\n)y|(\\n))\\n\0[\\n]\0[\n]\0[\\n\\x0a]+b\0"
      "\\x0a\0\\x0Ab\0\\x{a}\0\\x{000A}\0\\xa\0\\xAz\0\\012\0\\0123\0\\o{12}\0\\x{ a }\0\\cJ\0"
      "\\cj\0\\u000a\0\\Qa\nb\\E\0\\Q\n\0^(.*)\\n\\1$\0(\\w+)\\n(?1)\0(?x) a \\n b\0a(?#b)\\n\0"
      "(?(?=a)b|c)\\n\0\\[\\n\0]\\n\0[]]\\n\0[^]]\\n\0[[:alpha:]]\\n\0";
  for (const char *pattern = patterns; pattern < patterns + sizeof patterns - 1;
       pattern += strlen(pattern) + 1) {
    char out[256] = "";
    lines_of(pattern, "", 0, out);
    if (strcmp(out, LINE_MATCHER_LINE_BREAK) != 0)
      fail_msg("%s: %s", pattern, out);
  }
}

/* A pattern that only mentions a line break matches as before. */
TEST(a_pattern_that_may_match_without_a_line_break_is_accepted) {
  static const char of_a[] = /* they match the line "a" */
      "a\\n?\0a\\n*\0a\\x0a?\0a\\xa?\0a\\x{0a}?\0a\\012?\0a\\o{12}?\0a\\cJ?\0a\\u000a?\0"
      "a\\n{0,2}\0a\\n{ 0}\0a\\n{,2}\0a(\\r?\\n)?\0a(?:\\n|$)\0a\\n|\0|\\n\0(?|a|\\n)\0"
      "a(?!\\n)\0(?<!\\n)a\0a(?=\\n)?\0[[:alpha:]\\n]\0\\Q\n\\E?a\0\\xab|a\0(?#\\n)a\0"
      "a\\n(?#b)?\0a(*ACCEPT)\\n\0(x)?(?(1)\\n|a)\0(?(DEFINE)(?<x>\\n))a\0a(?:\\n(?:b\\n))?\0";
  static const struct row others[] = {
      {"a\\n??b", "ab\n", "1 "},          {"a\\n|b", "a\nb\n", "2 "},
      {"a[^\\n]", "ab\n", "1 "},          {"a[\\nb]", "ab\n", "1 "},
      {"a[b\\n]", "ab\n", "1 "},          {"a[\\r\\n]b", "a\rb\n", "1 "},
      {"a[\\t-\\n]b", "a\tb\n", "1 "},    {"[]\\n]", "]\n", "1 "},
      {"[\\n\\Qb\\E]", "b\n", "1 "},      {"a\\Rb", "a\rb\n", "1 "},
      {"\\\\n", "\\n\n", "1 "},           {"\\Q\\n\\E", "\\n\n", "1 "},
      {"(?x) a \n b", "ab\n", "1 "},      {"(?x) a \\n ? b", "ab\n", "1 "},
      {"(?x) a # \\n\n b", "ab\n", "1 "},
  };
  for (const char *pattern = of_a; pattern < of_a + sizeof of_a - 1;
       pattern += strlen(pattern) + 1) {
    char out[256] = "";
    if (strcmp(lines_of(pattern, "a\n", 2, out), "1 ") != 0)
      fail_msg("%s: %s", pattern, out);
  }
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    char out[256] = "";
    const char *text = others[i].text;
    if (strcmp(lines_of(others[i].pattern, text, strlen(text), out), others[i].lines) != 0)
      fail_msg("%s: %s", others[i].pattern, out);
  }
}

/* Catastrophic patterns fail at the line, in bounded time and memory. */
static int check_limits(void) {
  static const char *const patterns[] = {"(a+)+$", "^(?:\\w|a)+\\d", "(a|aa)+\\d"};
  static const char text[] = "fine\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n";
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    struct error error;
    struct line_matcher *pattern = line_matcher_new(patterns[i], &error);
    struct target target = subject_of(text, strlen(text));
    struct matched_line line = {.next = 0};
    line_matcher_begin(pattern, target.bytes, target.length, false);
    int found = line_matcher_next(pattern, 0, &line, &error);
    free(target.bytes);
    line_matcher_free(pattern);
    if (found != -1 || line.start != 5 ||
        strcmp(error.text, "pattern too expensive: match limit exceeded") != 0) {
      fprintf(stderr, "%s: %d at %zu, %s\n", patterns[i], found, line.start, error.text);
      return 1;
    }
  }
  return 0;
}

TEST(an_expensive_pattern_is_an_error) {
  assert_int_equal(check_limits(), 0);
  no_jit_run(check_limits);
}

/* More than the stack of machine code, which ends at 25,000. The interpreter has enough memory
   and time. */
static int check_long_line(void) {
  enum { LENGTH = 40000 };
  char *text = malloc(LENGTH);
  if (text == NULL)
    abort();
  memset(text, 'a', LENGTH);
  char out[256];
  int result = strcmp(lines_of("^(?:(a)|b)*$", text, LENGTH, out), "1 ");
  if (result != 0)
    fprintf(stderr, "%s\n", out);
  free(text);
  return result != 0;
}

TEST(long_lines_are_matched) {
  assert_int_equal(check_long_line(), 0);
  no_jit_run(check_long_line);
}

/* The time for one line is bounded for any length and pattern; otherwise these take minutes. The
   bound allows for a slow machine and a sanitizer. */
static int check_time(void) {
  enum { LENGTH = 1000000, MOST_MS = 5000 };
  static const char *const patterns_of_models[] = {
      "[A-Za-z0-9+/=]{40,}$",
      "(\\w+)=\\1;",
      "(public|private|protected)?\\s*(static\\s+)?\\w+\\s+\\w+\\s*\\(",
      ".*foo.*bar.*baz",
      "(\\w*)x(\\w*)y(\\w*)z",
      "\\w+\\s*=\\s*\\d+\\b;",
      "(a|aa)+$(?<=!)",
  };
  static const char *const lines[] = {"aaaaaaaa", "foobar,", "xyx=xy; ", "static f ", "\xC3\xA9x="};
  char *text = malloc(LENGTH + 16);
  if (text == NULL)
    abort();
  int failed = 0;
  for (size_t i = 0; i < sizeof patterns_of_models / sizeof *patterns_of_models; i++) {
    size_t k = i % (sizeof lines / sizeof *lines);
    for (size_t round = 0; round < 2; round++, k = (k + 1) % (sizeof lines / sizeof *lines)) {
      size_t length = 0;
      for (; length < LENGTH; length += strlen(lines[k]))
        memcpy(text + length, lines[k], strlen(lines[k]));
      memcpy(text + length, "=", 1);
      struct timespec begin, end;
      char out[256];
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
      lines_of(patterns_of_models[i], text, length + 1, out);
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
      long ms = (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
      if (ms > MOST_MS) {
        fprintf(stderr, "%s, \"%s\": %ld ms, %s\n", patterns_of_models[i], lines[k], ms, out);
        failed = 1;
      }
    }
  }
  free(text);
  return failed;
}

TEST(a_line_takes_bounded_time) {
  assert_int_equal(check_time(), 0);
  no_jit_run(check_time);
}

/* Long lines are matched by other code. */
static int compare_long_lines(void) {
  static const struct row ends[] = {
      {"\\w+=\\d+;", "n=42;", "1 "},
      {"^x", "x", ""},
      {"x$", "x", "1 "},
      {"\\Ax", "x", ""},
      {"\\Gx", "x", ""},
      {"\\G\\.+x", "x", "1 "},
      {"x\\z", "x", "1 "},
      {"(?<=[^.])x", "x", ""},
      {"(?<=\\.)x", "x", "1 "},
      {"(?s).*x", "x", "1 "},
      {".*foo.*bar", "foo, bar", "1 "},
      {".*foo.*bar", "bar, foo", ""},
      {"\\P{Nd}*\\P{Lu}$", "a", "1 "},
      {"(?C1)x(?C2)y", "xy", "1 "},
      {"(?(?=x)xy|z)", "xy", "1 "},
      {"(?i)" E_ACUTE "$", "\xC3\x89", "1 "},
      {"\\bword\\b", "\xFFword\xFF", "1 "},
  };
  enum { LENGTH = 30000 };
  char *text = malloc(LENGTH + 32);
  if (text == NULL)
    abort();
  int failed = 0;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    memset(text, '.', LENGTH);
    size_t length = LENGTH;
    memcpy(text + length, ends[i].text, strlen(ends[i].text));
    char out[256] = "";
    lines_of(ends[i].pattern, text, length + strlen(ends[i].text), out);
    if (strcmp(out, ends[i].lines) != 0) {
      fprintf(stderr, "%s: \"%s\", not \"%s\"\n", ends[i].pattern, out, ends[i].lines);
      failed = 1;
    }
  }
  free(text);
  return failed;
}

TEST(long_lines_have_the_same_results) {
  assert_int_equal(compare_long_lines(), 0);
  no_jit_run(compare_long_lines);
}

/* Checks how the library is compiled. */
TEST(patterns_become_machine_code) {
  uint32_t has_jit = 0;
  assert_int_equal(pcre2_config(PCRE2_CONFIG_JIT, &has_jit), 0);
  assert_int_equal(has_jit, 1);
}
