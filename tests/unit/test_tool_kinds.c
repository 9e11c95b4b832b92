/* The tools with the kinds of steps that they call, from arguments to text, without an engine. */

#include "agent/kinds/kind.h"
#include "agent/tools/tool.h"
#include "tests/support/tree.h"
#include "tests/test.h"

/* Executes the step like the engine. */
static bool run(struct tool_call *call, struct buffer *text) {
  struct request request = {0};
  struct output output = {0};
  struct error error = {.text = ""};
  struct execution_result end = {0};
  tool_call_request(call, &request);
  int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(chdir(request.step.working_directory), 0);
  if (kind_execute(&request.step, &output, &error) == 0) {
    end.output =
        (struct captured_stream){.bytes = output.content.bytes, .length = output.content.length};
    assert_int_equal(output.warnings.length, 0);
  } else {
    end.exit_code = 1;
    end.errors = (struct captured_stream){.bytes = error.text, .length = strlen(error.text)};
  }
  bool failed = tool_call_answer(call, &end, text);
  assert_int_equal(fchdir(before), 0);
  close(before);
  buffer_release(&output.content);
  step_release(&request.step);
  return failed;
}

/* In arguments and text, $ is the directory; quotes are as in quoted.h. */
static void expect(const struct tree *tree, const char *tool, const char *json, bool fails,
                   const char *expected) {
  const struct tool_settings settings = {.limits = {.timeout_default = 30, .timeout_maximum = 60},
                                         .directory = tree->path};
  struct buffer given = {0};
  struct buffer wanted = {0};
  for (; *json != '\0'; json++)
    buffer_add(&given, *json == '$' ? tree->path : json, *json == '$' ? strlen(tree->path) : 1);
  for (; *expected != '\0'; expected++)
    buffer_add(&wanted, *expected == '$' ? tree->path : expected,
               *expected == '$' ? strlen(tree->path) : 1);
  buffer_add(&given, "", 1);
  buffer_add(&wanted, "", 1);
  quoted_in_place(given.bytes);
  cJSON *arguments = cJSON_Parse(given.bytes);
  struct buffer text = {0};
  struct tool_call *call = tool_call_new(tool_find(tool), arguments, &settings, "id", &text);
  assert_non_null(call);
  assert_int_equal(run(call, &text), fails);
  buffer_add(&text, "", 1);
  assert_string_equal(text.bytes, wanted.bytes);
  tool_call_free(call);
  cJSON_Delete(arguments);
  buffer_release(&given);
  buffer_release(&wanted);
  buffer_release(&text);
}

TREE_TEST(a_file_is_written_edited_and_read) {
  expect(tree, "write_file", "{'path':'$/f','content':'one\\ntwo\\nthree\\n'}", false,
         "Successfully wrote 14 bytes to $/f");
  expect(tree, "edit_file",
         "{'path':'$/f','edits':[{'old_string':'two','new_string':'2'},"
         "{'old_string':'e','new_string':'E','replace_all':true}]}",
         false,
         "Edited $/f (2 changes)\n\n@ line 2:\n- two\n+ 2\n\n\n@ line 1 (3 occurrences):\n"
         "- e\n+ E\n");
  expect(tree, "read_file", "{'path':'$/f'}", false, "onE\n2\nthrEE\n");
  expect(tree, "read_file", "{'path':'$/f','limit':2}", false,
         "onE\n2\n... (showing lines 1-2 of 3; continue with offset=3)");
  expect(tree, "read_file", "{'path':'$/f','offset':2,'limit':1e15}", false, "2\nthrEE");
  expect(tree, "read_file", "{'path':'$/f','offset':1e15}", true,
         "Error: offset 2147483647 is past the end of the file (3 lines)");
}

/* A page may have one more line than other tools may return. */
TREE_TEST(lines_are_read_from_a_file_of_any_size) {
  struct buffer text = {0}, page = {0};
  for (int i = 1; i <= 200000; i++)
    buffer_add_format(&text, "%07d\n", i);
  buffer_add(&text, "\xFF", 2);
  tree_write(tree, "f", text.bytes, 0644);
  buffer_add(&page, text.bytes, 102400);
  buffer_add_string(&page, "... (truncated at line 12800 of more; continue with offset=12801)");
  buffer_add(&page, "", 1);
  expect(tree, "read_file", "{'path':'$/f'}", true,
         "Error: file exceeds 1 MB limit: use offset and limit");
  expect(tree, "read_file", "{'path':'$/f','offset':1}", false, page.bytes);
  expect(tree, "read_file", "{'path':'$/f','offset':200000,'limit':1}", false,
         "0200000\n... (showing lines 200000-200000 of more; continue with offset=200001)");
  expect(tree, "read_file", "{'path':'$/f','offset':200001}", true,
         "Error: binary or non-UTF-8 content not supported");
  buffer_release(&text);
  buffer_release(&page);
}

/* "~" is the home directory, unless there is a file of that name. */
TREE_TEST(paths_may_begin_at_the_home_directory) {
  tree_make_directory(tree, "home", 0755);
  assert_int_equal(setenv("HOME", tree_path(tree, "home"), 1), 0);
  expect(tree, "write_file", "{'path':'~/f','content':'one'}", false,
         "Successfully wrote 3 bytes to ~/f");
  expect(tree, "read_file", "{'path':'$/home/f'}", false, "one");
  expect(tree, "edit_file", "{'path':'~/f','edits':[{'old_string':'one','new_string':'two'}]}",
         false, "Edited $/home/f (1 change)\n\n@ line 1:\n- one\n+ two\n");
  expect(tree, "list_directory", "{'path':'~'}", false, "file          3  f\n");
  expect(tree, "grep", "{'path':'~/','pattern':'t'}", false, "$/home/f:1:two");
  expect(tree, "read_file", "{'path':'~f'}", true, "Error: file not found: $/~f");
  assert_int_equal(unsetenv("HOME"), 0);
  expect(tree, "read_file", "{'path':'~/f'}", true,
         "Error: ~/f: HOME is not set, so ~ stands for no directory");
  tree_make_directory(tree, "~", 0755);
  expect(tree, "read_file", "{'path':'~/f'}", true, "Error: file not found: $/~/f");
  expect(tree, "write_file", "{'path':'~/f','content':'its own'}", false,
         "Successfully wrote 7 bytes to ~/f");
  expect(tree, "read_file", "{'path':'$/~/f'}", false, "its own");
}

TREE_TEST(directories_are_listed_and_drawn) {
  expect(tree, "list_directory", "{'path':'$'}", false, "(empty directory)");
  tree_write(tree, "a\nb", "", 0644);
  tree_write(tree, "main.c", "int main;\n", 0644);
  tree_make_directory(tree, "src", 0755);
  assert_int_equal(symlinkat("src", tree->fd, "to_src"), 0);
  assert_int_equal(symlinkat("main.c", tree->fd, "to_main"), 0);
  assert_int_equal(symlinkat("nowhere", tree->fd, "to_none"), 0);
  expect(tree, "list_directory", "{'path':'$'}", false,
         "file          0  a\uFFFDb\n"
         "file         10  main.c\n"
         "dir           -  src\n"
         "file         10  to_main\n"
         "file          7  to_none\n"
         "dir           -  to_src\n");
  expect(tree, "directory_tree", "{'path':'$/.','exclude':['to_*','a*']}", false,
         "./\n\u251C\u2500\u2500 src/\n\u2514\u2500\u2500 main.c");
}

TREE_TEST(grep_shows_each_match_with_its_path_and_line) {
  tree_write(tree, "a.c", "one\ntwo\nthree\n", 0644);
  tree_write(tree, "b.h", "two\ntwo\n", 0644);
  expect(tree, "grep", "{'path':'$','pattern':'two','context_before':1}", false,
         "$/a.c-1-one\n$/a.c:2:two\n$/b.h:1:two\n$/b.h:2:two");
  expect(tree, "grep", "{'path':'.','pattern':'three'}", false, "a.c:3:three");
  expect(tree, "grep", "{'pattern':'three'}", false, "a.c:3:three");
  expect(tree, "grep", "{'path':'./','pattern':'three'}", false, "./a.c:3:three");
  expect(tree, "grep", "{'path':'a.c','pattern':'three'}", false, "a.c:3:three");
  expect(tree, "grep", "{'path':'$/a.c','pattern':'three'}", false, "$/a.c:3:three");
  expect(tree, "grep", "{'path':'$','pattern':'two','head_limit':1}", false,
         "$/a.c:2:two\n... (truncated at 1 matches)");
  expect(tree, "grep", "{'path':'$','pattern':'two','output_mode':'files_with_matches'}", false,
         "$/a.c\n$/b.h");
  expect(tree, "grep", "{'path':'$','pattern':'two','output_mode':'count','glob':'*.h'}", false,
         "$/b.h:2");
  expect(tree, "grep", "{'path':'$/none','pattern':'two'}", true, "Error: path not found: $/none");
  expect(tree, "grep", "{'path':'$','pattern':'four'}", false, "(no matches)");
  tree_write(tree, ".env", "three\n", 0644);
  expect(tree, "grep", "{'path':'$','pattern':'three'}", false,
         "$/a.c:3:three\n... (left out 0 directories and 1 file that are hidden or ignored)");
  expect(tree, "grep", "{'path':'$','pattern':'three','search_hidden':true}", false,
         "$/.env:1:three\n$/a.c:3:three");
  tree_make_directory(tree, "bin", 0755);
  tree_write(tree, "bin/x", "four\n", 0644);
  expect(tree, "grep", "{'pattern':'four'}", false,
         "(no matches)\n"
         "... (left out 0 directories and 1 file that are hidden or ignored)\n"
         "... (did not search 1 directory that is always left out: bin)");
  expect(tree, "grep", "{'path':'$','pattern':'four','search_hidden':true}", false,
         "(no matches)\n... (did not search 1 directory that is always left out: $/bin)");
  expect(tree, "grep", "{'pattern':'four','glob':'*.py','search_hidden':true}", false,
         "(no matches)\n"
         "... (found no file that matches the glob '*.py')\n"
         "... (did not search 1 directory that is always left out: bin)");
  expect(tree, "grep", "{'pattern':'four','glob':'bin/*'}", false, "bin/x:1:four");
}

static const char *times(int count, const char *text) {
  static char texts[8][8192];
  static unsigned next;
  char *to = texts[next++ % 8];
  size_t length = strlen(text);
  assert_true(length * (size_t)count < sizeof texts[0]);
  for (int i = 0; i < count; i++)
    memcpy(to + length * (size_t)i, text, length);
  to[length * (size_t)count] = '\0';
  return to;
}

/* As for minified files, 160 of the 240 characters begin at the match, if there are that many. */
TREE_TEST(a_long_line_is_cut_around_its_match) {
  static const char arguments[] = "{'path':'f','pattern':'needle'}";
  static const struct {
    int before; /* characters in front of the match */
    int after;
    int shown_before, shown_after;
  } rows[] = {{0, 240, 0, 234},      {234, 1000, 234, 0},  {235, 1000, 80, 154},
              {1000, 2000, 80, 154}, {1000, 154, 80, 154}, {1000, 100, 134, 100},
              {1000, 0, 234, 0},     {241, 0, 234, 0},     {100, 0, 100, 0}};
  static const char *const characters[] = {"x", "\xC3\xA9", "\xF0\x9F\x98\x80"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t k = 0; k < sizeof characters / sizeof *characters; k++) {
      int before = rows[i].before, after = rows[i].after;
      if (k == 2 && before + after > 2000)
        continue;
      tree_write(tree, "f",
                 formatted("1\n%sneedle%s\n3\n", times(before, characters[k]),
                           times(after, characters[k])),
                 0644);
      expect(tree, "grep", arguments, false,
             formatted("f:2:%s%sneedle%s%s", before > rows[i].shown_before ? "…" : "",
                       times(rows[i].shown_before, characters[k]),
                       times(rows[i].shown_after, characters[k]),
                       after > rows[i].shown_after ? "…" : ""));
    }
  /* A longer match is shown from its start, and context from its own start. */
  tree_write(tree, "f",
             formatted("%s\n%sneedle%sb\n", times(300, "c"), times(300, "x"), times(300, "y")),
             0644);
  expect(tree, "grep", "{'path':'f','pattern':'needley+b','context_before':1}", false,
         formatted("f-1-%s…\nf:2:…%sneedle%s…", times(240, "c"), times(80, "x"), times(154, "y")));
  expect(tree, "grep", "{'path':'f','pattern':'x.*b'}", false,
         formatted("f:2:%s…", times(240, "x")));
}

/* The line is shown as text, which a NUL would end. */
TREE_TEST(a_match_behind_a_nul_is_shown) {
  FILE *file = fopen(tree_path(tree, "f"), "w");
  assert_non_null(file);
  assert_int_equal(fwrite("a\0b needle\0c\n\xFF\xFFneedle\xFF\n", 1, 23, file), 23);
  assert_int_equal(fclose(file), 0);
  expect(tree, "grep", "{'path':'f','pattern':'needle'}", false,
         "f:1:…b needle\nf:2:\xFF\xFFneedle\xFF");
}

TREE_TEST(a_list_is_cut_after_a_thousand_entries) {
  for (int i = 0; i < 1001; i++)
    tree_write(tree, formatted("%04d", i), "", 0644);
  struct buffer expected = {0};
  for (int i = 0; i < 1000; i++)
    buffer_add_string(&expected, formatted("file          0  %04d\n", i));
  buffer_add_string(&expected, "... (truncated at 1000 entries)");
  buffer_add(&expected, "", 1);
  expect(tree, "list_directory", "{'path':'$'}", false, expected.bytes);
  buffer_release(&expected);
}

/* Entries of 118 bytes. The tool's own limit is not mentioned, too. */
TREE_TEST(a_long_answer_is_cut_after_its_last_whole_line) {
  enum { LINE = 118, SHOWN = 102401 / LINE };
  struct buffer expected = {0};
  for (int i = 0; i < 1001; i++) {
    const char *name = formatted("%0100d", i);
    tree_write(tree, name, "", 0644);
    if (i < SHOWN)
      buffer_add_string(&expected, formatted("file          0  %s\n", name));
  }
  buffer_add_string(&expected, "... (truncated at 100 KB)");
  buffer_add(&expected, "", 1);
  expect(tree, "list_directory", "{'path':'$'}", false, expected.bytes);
  buffer_release(&expected);
}
