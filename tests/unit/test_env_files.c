#include "agent/frontends/request_files/env_files.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buffer.h"
#include "tests/support/logged.h"
#include "tests/support/quoted.h"
#include "tests/support/tree.h"
#include "tests/test.h"

/* The variables, a line each. */
static void expect(struct env_files *files, const char *expected) {
  struct buffer out = {0};
  char **variables = env_files_read(files);
  for (char **variable = variables; *variable != NULL; variable++) {
    buffer_add_string(&out, *variable);
    buffer_add_string(&out, ";");
    free(*variable);
  }
  free(variables);
  buffer_add(&out, "", 1);
  assert_string_equal(out.bytes, expected);
  buffer_release(&out);
}

TREE_TEST(values_are_files_without_line_endings_at_the_end) {
  struct log log = logged_open(LOG_WARN);
  tree_make(tree, "a=secret b l>a");
  tree_write(tree, "c", "\xEF\xBB\xBFtwo\nlines\n\n", 0600);
  struct env_files *files =
      env_files_new(formatted("A=%s:B=%s:C=%s:L=%s", tree_path(tree, "a"), tree_path(tree, "b"),
                              tree_path(tree, "c"), tree_path(tree, "l")),
                    &log);
  expect(files, "A=secret;B=;C=two\nlines;L=secret;");
  tree_write(tree, "a", "rotated", 0600);
  expect(files, "A=rotated;B=;C=two\nlines;L=rotated;");
  env_files_free(files);
  close(log.fd);
}

TREE_TEST(a_file_that_is_missing_is_no_variable_and_one_warning) {
  struct log log = logged_open(LOG_WARN);
  struct env_files *files = env_files_new(formatted("A=%s", tree_path(tree, "a")), &log);
  expect(files, "");
  expect(files, "");
  assert_int_equal(logged_count(&log, "commands have no A: "), 1);
  assert_int_equal(logged_count(&log, "No such file or directory"), 1);
  tree_write(tree, "a", "x", 0600);
  expect(files, "A=x;");
  assert_int_equal(unlinkat(tree->fd, "a", 0), 0);
  expect(files, "");
  assert_int_equal(logged_count(&log, "commands have no A: "), 2);
  env_files_free(files);
  close(log.fd);
}

/* None of them blocks. */
TREE_TEST(what_no_variable_can_hold_is_left_out) {
  struct log log = logged_open(LOG_WARN);
  tree_make(tree, "d/ f|");
  tree_write(tree, "bad", "\xFF", 0600);
  struct env_files *files =
      env_files_new(formatted("D=%s:F=%s:BAD=%s:ZERO=/dev/zero", tree_path(tree, "d"),
                              tree_path(tree, "f"), tree_path(tree, "bad")),
                    &log);
  expect(files, "");
  assert_int_equal(logged_count(&log, "no regular file"), 3);
  assert_int_equal(logged_count(&log, "no UTF-8 text"), 1);
  env_files_free(files);
  close(log.fd);
}

TREE_TEST(what_is_no_name_and_path_is_ignored) {
  struct log log = logged_open(LOG_WARN);
  tree_make(tree, "a=x");
  struct env_files *files =
      env_files_new(formatted("nothing:=/x:N=::A=%s:A=/y:", tree_path(tree, "a")), &log);
  expect(files, "A=x;");
  assert_int_equal(logged_count(&log, "ignored"), 4);
  env_files_free(files);
  files = env_files_new(NULL, &log);
  expect(files, "");
  env_files_free(files);
  close(log.fd);
}
