#include <limits.h>
#include <sys/prctl.h>
#include <uchar.h>

#include <cjson/cJSON.h>

#include "agent/files/grep/search.h"
#include "tests/support/tree.h"
#include "tests/test.h"

#define LIMIT 1000

/* The answer; `text` has it in short: `path:1:text` for a match, `path-1-text` for context,
   `path=2` for a count, each with a space behind it. */
struct answer {
  int result;
  struct search_result found;
  char text[4096];
  struct error error;
};

static void add_entry(char *out, size_t size, const cJSON *entry) {
  const char *path = cJSON_GetStringValue(cJSON_GetObjectItem(entry, "path"));
  const cJSON *line = cJSON_GetObjectItem(entry, "line");
  const cJSON *count = cJSON_GetObjectItem(entry, "count");
  assert_non_null(path);
  if (line == NULL && count == NULL) {
    assert_int_equal(cJSON_GetArraySize(entry), 1);
    (void)snprintf(out, size, "%s ", path);
  } else if (line == NULL) {
    assert_int_equal(cJSON_GetArraySize(entry), 2);
    (void)snprintf(out, size, "%s=%d ", path, (int)cJSON_GetNumberValue(count));
  } else {
    assert_int_equal(cJSON_GetArraySize(entry), 4);
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItem(entry, "kind"));
    char mark = strcmp(kind, "match") == 0 ? ':' : '-';
    assert_true(mark == ':' || strcmp(kind, "context") == 0);
    (void)snprintf(out, size, "%s%c%d%c%s ", path, mark, (int)cJSON_GetNumberValue(line), mark,
                   cJSON_GetStringValue(cJSON_GetObjectItem(entry, "text")));
  }
}

/* The path is relative to the tree. */
static struct answer ask(const struct tree *tree, struct search search) {
  static struct answer answer;
  struct buffer content = {0};
  memset(&answer, 0, sizeof answer);
  search.path = tree_path(tree, search.path == NULL ? "" : search.path);
  if (search.head_limit == 0)
    search.head_limit = LIMIT;
  answer.result = search_run(&search, &content, &answer.found, &answer.error);
  if (answer.result == 0) {
    cJSON *array = cJSON_ParseWithLength(content.bytes, content.length);
    assert_true(cJSON_IsArray(array));
    const cJSON *entry;
    size_t length = 0;
    cJSON_ArrayForEach(entry, array) {
      add_entry(answer.text + length, sizeof answer.text - length, entry);
      length += strlen(answer.text + length);
    }
    cJSON_Delete(array);
  }
  buffer_release(&content);
  return answer;
}

static const char *found(const struct tree *tree, struct search search) {
  static struct answer answer;
  answer = ask(tree, search);
  if (answer.result != 0)
    fail_msg("%s", answer.error.text);
  assert_false(answer.found.is_cut);
  assert_int_equal(answer.found.skipped.count, 0);
  return answer.text;
}

#define FOUND(tree, ...) found(tree, (struct search){__VA_ARGS__})

/* The answer of a search by an absolute path. */
struct absolute {
  int result;
  struct search_result found;
  struct buffer content; /* the caller releases it */
  struct error error;
};

static struct absolute ask_path(const char *path, const char *pattern, unsigned head_limit) {
  struct absolute answer = {0};
  const struct search search = {.path = path, .pattern = pattern, .head_limit = head_limit};
  answer.result = search_run(&search, &answer.content, &answer.found, &answer.error);
  return answer;
}

static void write_bytes(const struct tree *tree, const char *name, const char *bytes,
                        size_t length) {
  int fd = openat(tree->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, bytes, length), length);
  close(fd);
}

static void check_refused(const struct tree *tree, const char *path, const char *reason) {
  struct answer answer = ask(tree, (struct search){.path = path, .pattern = "yes"});
  assert_int_equal(answer.result, -1);
  assert_string_equal(answer.error.text, formatted("%s%s", reason, tree_path(tree, path)));
}

TREE_TEST(a_byte_order_mark_is_not_part_of_the_text) {
  tree_write(tree, "a", "\xEF\xBB\xBFusing x;\n\xEF\xBB\xBFusing y;\n", 0600);
  tree_make(tree, "b=\xEF\xBB\xBF");
  assert_string_equal(FOUND(tree, .pattern = "^using"), "a:1:using x; ");
  assert_string_equal(FOUND(tree, .path = "b", .pattern = ""), "");
}

static void write_utf16(const struct tree *tree, const char *name, const char16_t *units,
                        size_t count, bool is_big, size_t spare) {
  char *bytes = malloc(2 * count + spare);
  assert_non_null(bytes);
  memset(bytes, 'x', 2 * count + spare);
  for (size_t i = 0; i < count; i++) {
    bytes[2 * i + is_big] = (char)(units[i] & 0xFF);
    bytes[2 * i + !is_big] = (char)(units[i] >> 8);
  }
  write_bytes(tree, name, bytes, 2 * count + spare);
  free(bytes);
}

#define UTF16(tree, name, text, ...)                                                               \
  write_utf16(tree, name, u"\xFEFF" text, sizeof(u"\xFEFF" text) / 2 - 1, __VA_ARGS__)

TREE_TEST(utf16_with_a_byte_order_mark_is_text) {
  UTF16(tree, "be", u"yes 1\n\x20AC\xD83D\xDE00 yes\n", true, 0);
  UTF16(tree, "broken", u"\xDE00yes\xD83D\nyes\xD83D\xD83D\xDE00\nyes \xD83D", false, 1);
  UTF16(tree, "empty", u"", true, 0);
  UTF16(tree, "le", u"no\r\nyes \xE9\r\n\r\nyes \x2028\n", false, 0);
  UTF16(tree, "nul", u"yes\0", false, 0);
  write_utf16(tree, "unmarked", u"yes", 3, false, 0);
  assert_string_equal(FOUND(tree, .pattern = "^(\\W+ )?yes"),
                      "be:1:yes 1 be:2:\xE2\x82\xAC\xF0\x9F\x98\x80 yes "
                      "broken:2:yes\xEF\xBF\xBD\xF0\x9F\x98\x80 "
                      "broken:3:yes \xEF\xBF\xBD\xEF\xBF\xBD "
                      "le:2:yes \xC3\xA9 le:4:yes \xE2\x80\xA8 ");
  assert_string_equal(FOUND(tree, .pattern = "^\\W?yes\\W$"),
                      "broken:1:\xEF\xBF\xBDyes\xEF\xBF\xBD ");
  assert_string_equal(FOUND(tree, .path = "le", .pattern = "\\w$", .context_after = 1),
                      "le:1:no le:2:yes \xC3\xA9 le-3- ");
  assert_string_equal(FOUND(tree, .path = "empty", .pattern = ""), "");
  assert_string_equal(FOUND(tree, .path = "nul", .pattern = "yes.$"), "nul:1:yes ");
}

TREE_TEST(context_lines_appear_once_and_in_order) {
  tree_write(tree, "a", "M1\n2\n3\n4\nM5\nM6\n7\n8\n9\nM10\n", 0600);
  tree_write(tree, "b", "1\r\nM2\r\n3", 0600);
  static const struct {
    unsigned before, after;
    const char *text;
  } rows[] = {
      {0, 0, "a:1:M1 a:5:M5 a:6:M6 a:10:M10 b:2:M2 "},
      {1, 0, "a:1:M1 a-4-4 a:5:M5 a:6:M6 a-9-9 a:10:M10 b-1-1 b:2:M2 "},
      {0, 1, "a:1:M1 a-2-2 a:5:M5 a:6:M6 a-7-7 a:10:M10 b:2:M2 b-3-3 "},
      {1, 1, "a:1:M1 a-2-2 a-4-4 a:5:M5 a:6:M6 a-7-7 a-9-9 a:10:M10 b-1-1 b:2:M2 b-3-3 "},
      {2, 2,
       "a:1:M1 a-2-2 a-3-3 a-4-4 a:5:M5 a:6:M6 a-7-7 a-8-8 a-9-9 a:10:M10 b-1-1 b:2:M2 b-3-3 "},
      {99, 0, "a:1:M1 a-2-2 a-3-3 a-4-4 a:5:M5 a:6:M6 a-7-7 a-8-8 a-9-9 a:10:M10 b-1-1 b:2:M2 "},
      {UINT_MAX, UINT_MAX,
       "a:1:M1 a-2-2 a-3-3 a-4-4 a:5:M5 a:6:M6 a-7-7 a-8-8 a-9-9 a:10:M10 b-1-1 b:2:M2 b-3-3 "},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_string_equal(FOUND(tree, .pattern = "M", .context_before = rows[i].before,
                              .context_after = rows[i].after),
                        rows[i].text);
  tree_write(tree, "a", "\n\nM\n\n\n", 0600);
  assert_string_equal(
      FOUND(tree, .path = "a", .pattern = "M", .context_before = 9, .context_after = 9),
      "a-1- a-2- a:3:M a-4- a-5- ");
}

TREE_TEST(the_head_limit_counts_matches) {
  tree_make(tree, "a=x\nM\nM\ny\nM\n b=M\nM\n");
  static const struct {
    enum search_output output;
    bool is_cut;
    unsigned limit, context;
    const char *text;
    size_t matches;
  } rows[] = {
      {SEARCH_CONTENT, false, 5, 0, "a:2:M a:3:M a:5:M b:1:M b:2:M ", 5},
      {SEARCH_CONTENT, true, 4, 0, "a:2:M a:3:M a:5:M b:1:M ", 4},
      {SEARCH_CONTENT, true, 3, 0, "a:2:M a:3:M a:5:M ", 3},
      {SEARCH_CONTENT, true, 2, 0, "a:2:M a:3:M ", 2},
      {SEARCH_CONTENT, true, 2, 1, "a-1-x a:2:M a:3:M a-4-y ", 2},
      {SEARCH_CONTENT, true, 1, 3, "a-1-x a:2:M ", 1},
      {SEARCH_FILES, false, 2, 0, "a b ", 2},
      {SEARCH_FILES, true, 1, 0, "a ", 1},
      {SEARCH_COUNTS, false, 2, 0, "a=3 b=2 ", 2},
      {SEARCH_COUNTS, true, 1, 0, "a=3 ", 1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct answer answer = ask(tree, (struct search){.pattern = "M",
                                                     .head_limit = rows[i].limit,
                                                     .context_before = rows[i].context,
                                                     .context_after = rows[i].context,
                                                     .output = rows[i].output});
    assert_int_equal(answer.result, 0);
    assert_string_equal(answer.text, rows[i].text);
    assert_int_equal(answer.found.matches, rows[i].matches);
    assert_int_equal(answer.found.is_cut, rows[i].is_cut);
  }
}

TREE_TEST(the_answer_has_a_size_limit) {
  static char text[900000];
  memset(text, '\n', sizeof text);
  write_bytes(tree, "a", text, sizeof text);
  struct absolute answer = ask_path(tree_path(tree, "a"), "", UINT_MAX);
  assert_int_equal(answer.result, 0);
  assert_true(answer.found.is_cut);
  const struct buffer *content = &answer.content;
  assert_in_range(content->length, 16 * 1024 * 1024, 16 * 1024 * 1024 + 1000);
  assert_memory_equal(content->bytes + content->length - 2, "}]", 2);
  size_t matches = 0;
  for (size_t at = 0; at < content->length; at++)
    matches += content->bytes[at] == '{';
  assert_int_equal(answer.found.matches, matches);
  buffer_release(&answer.content);
}

TREE_TEST(long_lines_are_cut_by_characters) {
  static const struct {
    const char *character, *shown;
  } rows[] = {{"x", "x"},
              {"\xC3\xA9", "\xC3\xA9"},
              {"\xE6\xA4\x9C", "\xE6\xA4\x9C"},
              {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
              {"\xFF", "\xEF\xBF\xBD"},
              {"\xE2\x80", "\xEF\xBF\xBD"},
              {"\"", "\\\""}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct buffer text = {0}, shown = {0};
    for (int k = 0; k < SEARCH_LINE_SHOWN; k++) {
      buffer_add_string(&text, rows[i].character);
      buffer_add_string(&shown, rows[i].shown);
    }
    buffer_add(&text, "\n", 1);
    (void)buffer_space(&text, text.length);
    buffer_add(&text, text.bytes, text.length - 1);
    buffer_add(&text, "y", 1);
    buffer_add(&shown, "", 1);
    write_bytes(tree, "a", text.bytes, text.length);
    struct absolute answer = ask_path(tree_path(tree, "a"), "^", LIMIT);
    buffer_add(&answer.content, "", 1);
    static const char form[] =
        "[{\"path\":\"a\",\"line\":1,\"text\":\"%s\",\"kind\":\"match\"},"
        "{\"path\":\"a\",\"line\":2,\"text\":\"%s\xE2\x80\xA6\",\"kind\":\"match\"}]";
    assert_string_equal(answer.content.bytes, formatted(form, shown.bytes, shown.bytes));
    buffer_release(&answer.content);
    buffer_release(&shown);
    buffer_release(&text);
  }
}

static void write_units(const struct tree *tree, const char *name, size_t units) {
  char *bytes = calloc(units, 2);
  assert_non_null(bytes);
  for (size_t i = 0; i < units; i++)
    bytes[2 * i] = 'x';
  memcpy(bytes, "\xFF\xFEy\0e\0s\0\n", 9);
  write_bytes(tree, name, bytes, 2 * units);
  free(bytes);
}

TREE_TEST(a_named_file_of_utf16_may_be_large) {
  write_units(tree, "a", SEARCH_FILE_MAX);
  assert_string_equal(FOUND(tree, .path = "a", .pattern = "^yes$"), "a:1:yes ");
  tree_make(tree, "huge=\xFF\xFEy");
  assert_int_equal(truncate(tree_path(tree, "huge"), (off_t)SEARCH_COPY_MAX + 1), 0);
  check_refused(tree, "huge", "UTF-16 file exceeds 64 MiB limit: ");
}

/* The process ends like a kind that fails. */
TREE_TEST(a_named_file_that_becomes_shorter_ends_the_search) {
  tree_make(tree, "a=x");
  const char *path = tree_path(tree, "a");
  pid_t pid = fork();
  if (pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)alarm(WAIT_BOUND_MS / 1000); /* it was never truncated during a read */
    for (;;)
      (void)ask_path(path, "y", LIMIT);
  }
  int status;
  while (waitpid(pid, &status, WNOHANG) == 0) { /* until it is truncated during a read */
    assert_int_equal(truncate(path, 64 * SEARCH_FILE_MAX), 0);
    assert_int_equal(truncate(path, 1), 0);
  }
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 1);
}

TEST(files_outside_a_tree_are_searched) {
  static const struct {
    const char *path, *pattern;
    size_t matches;
    const char *error; /* NULL if there is none */
  } rows[] = {
      {"/dev/zero", "", 0, "is a character device, not a regular file"},
      {"/dev/tty", "", 0, "is a character device, not a regular file"},
      {"/dev/null", "", 0, "is a character device, not a regular file"},
      {"/proc/self/status", "^Name:", 1, NULL},         /* stat() reports the size 0 for it */
      {"/proc/sys/kernel/ostype", "Linux", 1, NULL},    /* a read of 4 MiB fails */
      {"/proc/self/mem", "a", 0, "cannot read file ("}, /* otherwise there would be no matches */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct absolute answer = ask_path(rows[i].path, rows[i].pattern, 1);
    assert_int_equal(answer.result, rows[i].error == NULL ? 0 : -1);
    if (rows[i].error != NULL)
      assert_memory_equal(answer.error.text, rows[i].error, strlen(rows[i].error));
    assert_int_equal(answer.found.matches, rows[i].matches);
    buffer_release(&answer.content);
  }
}

static void change(int directory) {
  char name[16];
  for (int i = 0; i < 50; i++) {
    (void)snprintf(name, sizeof name, "d/%d", i);
    (void)mkdirat(directory, name, 0700);
    (void)unlinkat(directory, name, AT_REMOVEDIR);
    (void)symlinkat("..", directory, name);
    (void)unlinkat(directory, name, 0);
    (void)mknodat(directory, name, S_IFREG | 0600, 0);
  }
  (void)renameat(directory, "d", directory, "e");
  (void)renameat(directory, "e", directory, "d");
  for (int i = 0; i < 50; i++) {
    (void)snprintf(name, sizeof name, "d/%d", i);
    (void)unlinkat(directory, name, 0);
  }
}

/* Starts a process that changes the existing directory `d` of the tree and its content as fast as
   it can. It ends with the test. */
static pid_t changes_start(const struct tree *tree) {
  pid_t parent = getpid();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child > 0)
    return child;
  while (getppid() == parent)
    change(tree->fd);
  _exit(0);
}

static void changes_stop(pid_t changes) {
  assert_int_equal(kill(changes, SIGKILL), 0);
  assert_int_equal(waitpid(changes, NULL, 0), changes);
}

/* Another process creates and removes files and directories, which is no error. */
TREE_TEST(entries_that_vanish_during_a_search_are_no_error) {
  tree_make(tree, "z=yes d/");
  pid_t changes = changes_start(tree);
  for (int i = 0; i < 500; i++)
    assert_string_equal(FOUND(tree, .pattern = "yes"), "z:1:yes ");
  changes_stop(changes);
}

static void write_long_lines(const struct tree *tree, const char *name, size_t count,
                             size_t length) {
  char *text = malloc(count * (length + 1) + 8);
  assert_non_null(text);
  memcpy(text, "yes\n", 4);
  size_t at = 4;
  for (size_t i = 0; i < count; i++, at += length + 1) {
    memset(text + at, 'a', length);
    text[at + length] = '\n';
  }
  memcpy(text + at, "yes\n", 4);
  write_bytes(tree, name, text, at + 4);
  free(text);
}

static const char catastrophe[] = "(a|aa)+b?$(?<=!)|yes";

TREE_TEST(long_expensive_lines_are_skipped) {
  tree_make_directory(tree, "d", 0700);
  write_long_lines(tree, "d/a", 2, SEARCH_LINE_MAX + 1);
  write_long_lines(tree, "d/b", 1, SEARCH_LINE_MAX + 1);
  static const char *const texts[] = {[SEARCH_CONTENT] = "d/a:1:yes d/a:4:yes d/b:1:yes d/b:3:yes ",
                                      [SEARCH_FILES] = "d/a d/b ",
                                      [SEARCH_COUNTS] = "d/a=2 d/b=2 "};
  for (int output = SEARCH_CONTENT; output <= SEARCH_COUNTS; output++) {
    struct answer answer =
        ask(tree, (struct search){.pattern = catastrophe, .output = (enum search_output)output});
    assert_int_equal(answer.result, 0);
    assert_string_equal(answer.text, texts[output]);
    /* In this mode the first matching line of a file is sufficient. */
    assert_int_equal(answer.found.skipped.count, output == SEARCH_FILES ? 0 : 3);
    assert_string_equal(answer.found.skipped.first.text, output == SEARCH_FILES ? "" : "d/a:2");
  }
}

/* The pattern reaches the memory limit, which takes less time than to reach the time limit. */
TREE_TEST(too_many_skipped_lines_are_an_error) {
  struct search search = {.pattern = "^(?:(a)|b|.)*$"};
  char name[16];
  for (int i = 0; i <= SEARCH_SKIPPED_MAX; i++) {
    if (i == SEARCH_SKIPPED_MAX) {
      struct answer answer = ask(tree, search);
      assert_int_equal(answer.result, 0);
      assert_int_equal(answer.found.skipped.count, SEARCH_SKIPPED_MAX);
      assert_string_equal(answer.found.skipped.first.text, "f00:2");
    }
    (void)snprintf(name, sizeof name, "f%02d", i);
    write_long_lines(tree, name, 1, SEARCH_FILE_MAX - 100);
  }
  struct answer answer = ask(tree, search);
  assert_int_equal(answer.result, -1);
  assert_string_equal(answer.error.text, "pattern too expensive: heap limit exceeded: f20:2");
}

TREE_TEST(a_short_expensive_line_is_an_error) {
  write_long_lines(tree, "a", 1, SEARCH_LINE_MAX);
  struct answer answer = ask(tree, (struct search){.pattern = catastrophe});
  assert_int_equal(answer.result, -1);
  assert_string_equal(answer.error.text, "pattern too expensive: match limit exceeded: a:2");
}
