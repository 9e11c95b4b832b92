#include "agent/frontends/request_files/env_files.h"

#include "base/buffer.h"
#include "tests/support/logged.h"
#include "tests/support/tree.h"
#include "tests/test.h"

/* Each variable is followed by a semicolon. */
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

/* Reading them does not block. */
TREE_TEST(files_that_cannot_be_variables_are_left_out) {
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

TREE_TEST(entries_without_a_name_and_a_path_are_ignored) {
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
