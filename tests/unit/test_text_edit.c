/* Replacing parts of a text: the search, the replacement and the report. */
#include "agent/files/access/text_edit.h"
#include "tests/test.h"

/* Each edit is "old>new", with a leading "*" to replace all; NULL after the last one. */
struct row {
  const char *text;
  const char *edits[3];
  const char *result; /* NULL if there is an error */
  const char *words;  /* the report, or the error */
};

static struct text_edit parse(const char *words) {
  bool all = words[0] == '*';
  const char *old = words + all, *arrow = strchr(old, '>');
  return (struct text_edit){.old = {(char *)(uintptr_t)old, (size_t)(arrow - old)},
                            .new = {(char *)(uintptr_t)(arrow + 1), strlen(arrow + 1)},
                            .all = all};
}

static void check(const struct row *row) {
  struct text_edit edits[3];
  size_t count = 0;
  for (; count < 3 && row->edits[count] != NULL; count++)
    edits[count] = parse(row->edits[count]);
  struct buffer text = {0}, report = {0};
  struct error error = {.text = ""};
  buffer_add_string(&text, row->text);
  int result = text_edit_apply(edits, count, &text, &report, &error);
  buffer_add(&text, "", 1);
  buffer_add(&report, "", 1);
  print_message("%s: %s\n", row->text, row->edits[0]);
  assert_string_equal(result == 0 ? report.bytes : error.text, row->words);
  assert_int_equal(result, row->result != NULL ? 0 : -1);
  if (row->result != NULL)
    assert_string_equal(text.bytes, row->result);
  buffer_release(&text);
  buffer_release(&report);
}

#define CHECK_ROWS(rows)                                                                           \
  for (size_t i = 0; i < sizeof(rows) / sizeof *(rows); i++)                                       \
  check(&(rows)[i])

TEST(one_occurrence_is_replaced) {
  static const struct row rows[] = {
      {"a b c", {"b>x"}, "a x c", "\n\n@ line 1:\n- b\n+ x\n"},
      {"one\ntwo\n", {"two\n>"}, "one\n", "\n\n@ line 2:\n- two\n"},
      {"one\ntwo", {"one\ntwo>1"}, "1", "\n\n@ line 1:\n- one\n- two\n+ 1\n"},
      {"one\ntwo", {"\n>\n\n"}, "one\n\ntwo", "\n\n@ line 1:\n- \n+ \n+ \n"},
      {"aaa", {"aaa>aa"}, "aa", "\n\n@ line 1:\n- aaa\n+ aa\n"},
      {"x", {"x>"}, "", "\n\n@ line 1:\n- x\n"},
      {"a", {"a>b", "b>c"}, "c", "\n\n@ line 1:\n- a\n+ b\n\n\n@ line 1:\n- b\n+ c\n"},
      {"a\nb\n",
       {"a>1\n2", "b>3"},
       "1\n2\n3\n",
       "\n\n@ line 1:\n- a\n+ 1\n+ 2\n\n\n@ line 3:\n- b\n+ 3\n"},
  };
  CHECK_ROWS(rows);
}

TEST(all_occurrences_are_replaced_on_request) {
  static const struct row rows[] = {
      {"a b a", {"*a>x"}, "x b x", "\n\n@ line 1 (2 occurrences):\n- a\n+ x\n"},
      {"b\na", {"*a>aa"}, "b\naa", "\n\n@ line 2 (1 occurrence):\n- a\n+ aa\n"},
      {"aaaa", {"*aa>a"}, "aa", "\n\n@ line 1 (2 occurrences):\n- aa\n+ a\n"}, /* none overlaps */
      {"aba", {"*a>"}, "b", "\n\n@ line 1 (2 occurrences):\n- a\n"},
  };
  CHECK_ROWS(rows);
}

TEST(edits_that_cannot_be_applied_are_named) {
  static const struct row rows[] = {
      {"a", {">x"}, NULL, "old_string is required"},
      {"a", {"*>x"}, NULL, "old_string is required"},
      {"a", {"a>a"}, NULL, "old_string and new_string are identical"},
      {"a\n", {"a\r\n>a\n"}, NULL, "old_string and new_string are identical"},
      {"", {"a>b"}, NULL, "old_string not found in the file"},
      {"b", {"*a>b"}, NULL, "old_string not found in the file"},
      {"b", {"bb>b"}, NULL, "old_string not found in the file"},
      {"a",
       {"a>b", "a>c"},
       NULL,
       "edits[1]: old_string not found (an earlier edit may have changed it)"},
      {"a", {"b>c", "a>c"}, NULL, "edits[0]: old_string not found in the file"},
      {"x\na\n\na",
       {"a>b"},
       NULL,
       "old_string matches 2 times at lines 2, 4 — add surrounding context to make it unique, or "
       "set replace_all"},
      {"a a\na", {"b>", "a>b"}, NULL, "edits[0]: old_string not found in the file"},
      {"a\na\na\na\na\na\na\na\na\na\na\na",
       {"a>b"},
       NULL,
       "old_string matches 12 times at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, … — add surrounding "
       "context to make it unique, or set replace_all"},
  };
  CHECK_ROWS(rows);
}

#define WITH_OTHER " has it with other white space, quotes, dashes or Unicode normalization"

/* Typical errors of models that quote a text. */
TEST(the_error_names_the_line_of_a_similar_text) {
  static const struct row rows[] = {
      {"x\n\tif (a)\n\t\treturn;\n",
       {"  if (a)\n    return;>y"},
       NULL,
       "old_string not found in the file; line 2" WITH_OTHER},
      {"a\n\n\nb  c", {"b c>y"}, NULL, "old_string not found in the file; line 4" WITH_OTHER},
      {"a\xC2\xA0"
       "b",
       {"a b>y"},
       NULL,
       "old_string not found in the file; line 1" WITH_OTHER},
      {"say \u201Chi\u201D \u2014 it\u2019s",
       {"\"hi\" - it's>y"},
       NULL,
       "old_string not found in the file; line 1" WITH_OTHER},
      {"\ncaf\u00E9 \u1EC7",
       {"cafe\u0301 e\u0323\u0302>y"},
       NULL,
       "old_string not found in the file; line 2" WITH_OTHER},
      {"\nA\u030A\xFF",
       {"\u00C5\xFF>y"},
       NULL,
       "old_string not found in the file; line 2" WITH_OTHER},
      {"a b",
       {"a b>c", "a\tb>c"},
       NULL,
       "edits[1]: old_string not found (an earlier edit may have changed it)"},
      {"a b, d e",
       {"a b>c", "d\te>c"},
       NULL,
       "edits[1]: old_string not found (an earlier edit may have changed it); line 1" WITH_OTHER},
      {"a", {" \n>y"}, NULL, "old_string not found in the file"},
      {"\u00D8 \u4E2D", {"O\u4E2D>y"}, NULL, "old_string not found in the file"},
      {"a\xE2\x80",
       {"a>b", "\xE2 \x80>c"},
       NULL,
       "edits[1]: old_string not found (an earlier edit may have changed it); line 1" WITH_OTHER},
  };
  CHECK_ROWS(rows);
}

/* The text has "\r\n", "\n", or both. */
TEST(line_endings_stay_as_they_are) {
  static const struct row rows[] = {
      {"a\r\nb\r\nc\r\n", {"a\nb>1\n2"}, "1\r\n2\r\nc\r\n", "\n\n@ line 1:\n- a\n- b\n+ 1\n+ 2\n"},
      {"a\r\nb\r\n", {"a\r\nb>1\r\n2"}, "1\r\n2\r\n", "\n\n@ line 1:\n- a\n- b\n+ 1\n+ 2\n"},
      {"a\nb\n", {"a\r\nb>1\r\n2"}, "1\n2\n", "\n\n@ line 1:\n- a\n- b\n+ 1\n+ 2\n"},
      {"a\r\nb\r\n", {"b>1\n2"}, "a\r\n1\r\n2\r\n", "\n\n@ line 2:\n- b\n+ 1\n+ 2\n"},
      {"a\r\nb\nc\nd\r\n",
       {"b\nc>1\n2"},
       "a\r\n1\n2\nd\r\n",
       "\n\n@ line 2:\n- b\n- c\n+ 1\n+ 2\n"},
      {"a\r\nb\nc", {"*\n>\n\n"}, "a\r\n\r\nb\n\nc", "\n\n@ line 1 (2 occurrences):\n- \n+ \n+ \n"},
      {"a\r\nb", {"a>x"}, "x\r\nb", "\n\n@ line 1:\n- a\n+ x\n"},
      {"a\r\nb", {"\nb>!"}, "a!", "\n\n@ line 1:\n- \n- b\n+ !\n"},
      {"a\rb\r\n", {"a\rb>c"}, "c\r\n", "\n\n@ line 1:\n- a\rb\n+ c\n"},
      {"a", {"a>b\r\nc"}, "b\nc", "\n\n@ line 1:\n- a\n+ b\n+ c\n"},
  };
  CHECK_ROWS(rows);
}

/* The result would have 20 TB. */
TEST(a_text_that_would_be_too_large_is_rejected) {
  enum { LENGTH = 1000000, LONG = 20000000 };
  struct buffer text = {0}, report = {0};
  struct error error;
  char *replacement = malloc(LONG);
  memset(replacement, 'b', LONG);
  memset(buffer_space(&text, LENGTH), 'a', LENGTH);
  text.length = LENGTH;
  const struct text_edit edits[] = {{{"a", 1}, {replacement, LONG}, true},
                                    {{"a", 1}, {replacement, 11}, true}};
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(text_edit_apply(&edits[i], 1, &text, &report, &error), -1);
    assert_string_equal(error.text, "content exceeds 10 MB limit");
    assert_int_equal(text.length, LENGTH);
    assert_int_equal(report.length, 0);
  }
  free(replacement);
  buffer_release(&text);
}

TEST(nul_bytes_are_text) {
  struct buffer text = {0}, report = {0};
  struct error error;
  buffer_add(&text, "a\0b\0c", 5);
  const struct text_edit edit = {{"\0b", 2}, {"x\0", 2}, false};
  assert_int_equal(text_edit_apply(&edit, 1, &text, &report, &error), 0);
  assert_int_equal(text.length, 5);
  assert_memory_equal(text.bytes, "ax\0\0c", 5);
  buffer_release(&text);
  buffer_release(&report);
}

TEST(long_pieces_are_shown_in_part) {
  char old[256] = "", expected[1024] = "\n\n@ line 1:\n";
  for (int line = 1; line <= 21; line++) {
    snprintf(old + strlen(old), sizeof old - strlen(old), "%d\n", line);
    if (line <= TEXT_EDIT_LINES_MAX)
      snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "- %d\n", line);
  }
  strcat(expected, "- ... (1 more line)\n+ x\n");
  char edit[512];
  snprintf(edit, sizeof edit, "%s>x\n", old);
  const struct row row = {old, {edit}, "x\n", expected};
  check(&row);

  strcat(old, "22\n23");
  snprintf(edit, sizeof edit, "%s>", old);
  *strstr(expected, "- ... ") = '\0';
  strcat(expected, "- ... (3 more lines)\n");
  const struct row longer = {old, {edit}, "", expected};
  check(&longer);
}
