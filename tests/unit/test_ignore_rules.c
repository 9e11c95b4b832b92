#include "agent/files/glob/glob.h"
#include "base/clock.h"
#include "tests/test.h"

/* Returns '-' if no rule matches the path, 'h' if it is hidden, 's' if it is shown. A "/" at its
   end makes it a directory. */
static char judged(const char *text, size_t length, const char *path) {
  static const char verdicts[] = {[GLOBS_SILENT] = '-', [GLOBS_MATCH] = 'h', [GLOBS_EXCEPT] = 's'};
  bool is_too_long;
  struct globs *rules = globs_of_ignore_file(text, length, &is_too_long);
  size_t path_length = strlen(path);
  bool is_directory = path[path_length - 1] == '/';
  char verdict = '-';
  if (rules != NULL)
    verdict = verdicts[globs_classify(rules, path, path_length - is_directory, is_directory)];
  globs_free(rules);
  return verdict;
}

struct row {
  const char *text;
  const char *path;
  char verdict;
};

static void check(const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char verdict = judged(rows[i].text, strlen(rows[i].text), rows[i].path);
    if (verdict != rows[i].verdict)
      fail_msg("%s: %s is %c, not %c", rows[i].text, rows[i].path, verdict, rows[i].verdict);
  }
}

#define CHECK_ROWS(ROWS) check(ROWS, sizeof(ROWS) / sizeof *(ROWS))

TEST(markers_and_blanks_around_a_pattern_are_understood) {
  static const struct row rows[] = {
      {"#a", "#a", '-'},
      {"\\#a", "#a", 'h'},
      {"\\!a", "!a", 'h'},
      {" #a", " #a", 'h'},
      {"a  \t", "a", 'h'},
      {"a\\ ", "a ", 'h'},
      {"a\\ ", "a", '-'},
      {"a\r\n", "a", 'h'},
      {"a\\ \r\n", "a ", 'h'},
      {"\n\n  \na", "a", 'h'},
      {"a/  ", "a/", 'h'},
      {"\xEF\xBB\xBF"
       "a\n",
       "a", 'h'},
      {"\xEF\xBB\xBF#a\nb", "b", 'h'},
  };
  CHECK_ROWS(rows);
}

TEST(a_line_that_is_no_glob_is_ignored) {
  static const struct row rows[] = {
      {"[\na", "a", 'h'},      {"{a\nb", "b", 'h'},   {"}\nb", "b", 'h'},  {"a\\", "a", '-'},
      {"[z-a]", "z", '-'},     {"!\n", "a", '-'},     {"/\n", "a", '-'},   {"!/\n", "a/", '-'},
      {"# \xE9\na", "a", 'h'}, {"\xE9\nb", "b", 'h'}, {"a\\/", "a/", '-'},
  };
  CHECK_ROWS(rows);
  assert_int_equal(judged("a\0\nb", 4, "b"), 'h');
  assert_int_equal(judged("a\0\nb", 4, "a"), '-');
}

/* As in ripgrep and git. */
TEST(a_wildcard_matches_one_byte) {
  static const struct row rows[] = {
      {"caf?", "caf\xC3\xA9", '-'}, {"caf??", "caf\xC3\xA9", 'h'}, {"[\xC3\xA9]", "\xC3\xA9", '-'},
      {"[!a]", "\xC3\xA9", '-'},    {"[!a]?", "\xC3\xA9", 'h'},    {"*\xC3\xA9", "\xC3\xA9", 'h'},
      {"?", "\xFF", 'h'},
  };
  CHECK_ROWS(rows);
}

TEST(a_file_without_rules_is_null) {
  bool is_too_long = true;
  assert_null(globs_of_ignore_file("# x\n\n", 5, &is_too_long));
  assert_false(is_too_long);
}

static char *repeated(const char *line, size_t length) {
  char *text = malloc(length + 1);
  assert_non_null(text);
  for (size_t at = 0; at < length; at++)
    text[at] = line[at % strlen(line)];
  text[length] = '\0';
  return text;
}

TEST(a_file_that_is_too_long_is_not_used) {
  bool is_too_long = false;
  char *text = repeated("a\n", GLOBS_FILE_MAX + 2);
  assert_null(globs_of_ignore_file(text, GLOBS_FILE_MAX + 2, &is_too_long));
  assert_true(is_too_long);
  struct globs *rules = globs_of_ignore_file(text, GLOBS_FILE_MAX, &is_too_long);
  assert_false(is_too_long);
  assert_non_null(rules);
  globs_free(rules);
  free(text);
  text = repeated("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}\n", GLOBS_FILE_MAX);
  assert_null(globs_of_ignore_file(text, GLOBS_FILE_MAX, &is_too_long));
  assert_true(is_too_long);
  free(text);
  text = repeated("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}\n", GLOBS_FILE_MAX);
  assert_null(globs_of_ignore_file(text, GLOBS_FILE_MAX, &is_too_long));
  assert_true(is_too_long);
  free(text);
}

TEST(the_worst_rules_take_bounded_time) {
  static const char line[] = "**/*a*a*a*a*a*a*a*a*b*/**/*c*\n";
  size_t length = GLOBS_FILE_MAX - GLOBS_FILE_MAX % (sizeof line - 1);
  char *text = repeated(line, length);
  char *path = repeated("aaaaaaaaaaaaaaa/", 511);
  int64_t begin = clock_monotonic_ms();
  bool is_too_long;
  struct globs *rules = globs_of_ignore_file(text, length, &is_too_long);
  assert_int_equal(globs_classify(rules, path, 511, false), GLOBS_SILENT);
  assert_in_range(clock_monotonic_ms() - begin, 0, 30000);
  globs_free(rules);
  free(path);
  free(text);
}
