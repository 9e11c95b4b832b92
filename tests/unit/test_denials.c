/* What a failed step prints, and which denials of its policy follow. */
#include "agent/confinement/denials.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "tests/support/as_user.h"
#include "tests/support/directory.h"
#include "tests/support/quoted.h"
#include "tests/test.h"

struct trial {
  /* With in/, which may be written, out/, in which each file may be written by the rights of the
     file system, and locked/, in which none may. */
  struct directory directory;
  const char *output, *expected;
  struct policy_fence fence;
};

enum { FILES = 2 * STEP_DENIALS_MAX };

static const char *file_path(const struct trial *self, int i) {
  return directory_path(&self->directory, formatted("out/%d", i));
}

static void make_file(const struct trial *self, const char *name, mode_t mode) {
  directory_touch(&self->directory, name);
  assert_int_equal(chmod(directory_path(&self->directory, name), mode), 0);
}

static int set_up(void **state) {
  struct trial *self = calloc(1, sizeof *self);
  assert_non_null(self);
  directory_init(&self->directory);
  assert_int_equal(chmod(self->directory.path, 0755), 0);
  static const char *const names[] = {"in", "out", "locked"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *path = directory_path(&self->directory, names[i]);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(chmod(path, i < 2 ? 0777 : 0555), 0);
  }
  for (int i = 0; i < FILES; i++)
    make_file(self, formatted("out/%d", i), 0666);
  make_file(self, "locked/file", 0444);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  static const char *const names[] = {"locked/file", "in", "out", "locked"};
  struct trial *self = *state;
  for (int i = 0; i < FILES; i++)
    (void)remove(file_path(self, i));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    (void)remove(directory_path(&self->directory, names[i]));
  directory_release(&self->directory);
  free(self);
  return 0;
}

/* Writes each denial as a line: the access, "!" if it is certain, and the path below the
   directory. */
static void describe(const struct trial *self, const struct confinement_plan *plan,
                     struct buffer *out) {
  static const char *const accesses[] = {"read", "write", "network"};
  const size_t length = strlen(self->directory.path);
  for (size_t i = 0; i < plan->report.denial_count; i++) {
    const struct step_denial *denial = &plan->report.denials[i];
    const char *path = denial->path != NULL ? denial->path : "";
    const bool is_below = strncmp(path, self->directory.path, length) == 0;
    buffer_add_format(out, "%s%s %s\n", accesses[denial->access], denial->is_certain ? "!" : "",
                      is_below ? path + length + 1 : path);
  }
  buffer_add(out, "", 1);
}

/* Runs as an ordinary user, whom the rights of the file system restrict. */
static int find(void *context, struct error *error) {
  static const struct confinement_options options;
  struct trial *self = context;
  struct confinement *confinement = confinement_new(&options, error);
  const struct step step = {.fence = &self->fence};
  struct confinement_plan plan;
  struct buffer text = {0};
  self->fence.best_effort = true;
  if (confinement == NULL || confinement_plan(confinement, &step, &plan, error) != 0)
    return -1;
  denials_find(&plan, confinement, &self->fence, self->directory.path, self->output,
               strlen(self->output));
  describe(self, &plan, &text);
  const int result = strcmp(text.bytes, self->expected) == 0
                         ? 0
                         : error_set(error, "'%s' gives '%s'", self->output, text.bytes);
  buffer_release(&text);
  denials_release(&plan);
  confinement_free(confinement);
  return result;
}

static void expect(struct trial *self, const char *output, const char *expected) {
  struct error error = {.text = ""};
  self->output = output;
  self->expected = expected;
  const int result =
      geteuid() == 0 ? as_user(NOBODY, NOBODY, find, self, &error) : find(self, &error);
  if (result != 0)
    fail_msg("%s", error.text);
}

#define DENIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

DENIAL_TEST(a_file_outside_is_certain_if_the_rights_allow_it) {
  static char *writable[] = {"in", NULL};
  trial->fence.write_paths = writable;
  expect(trial, "touch: cannot touch 'out/1': Permission denied\n", "write! out/1\n");
  expect(trial, "touch: cannot touch 'locked/file': Permission denied\n", "");
  expect(trial, "touch: cannot touch 'in/new': Permission denied\n", "");
  expect(trial, "mv: cannot move 'in/a' to 'out/1': Permission denied", "write! out/1\n");
}

DENIAL_TEST(a_path_is_found_in_the_messages_of_many_programs) {
  static const char *const messages[] = {
      "sh: 1: cannot create %s/out/1: Permission denied",
      "fatal: could not create leading directories of '%s/out/1': Permission denied",
      "PermissionError: [Errno 13] Permission denied: '%s/out/1'",
      "Error: EACCES: permission denied, open '%s/out/1'",
      "cp: cannot create regular file \xE2\x80\x98%s/out/1\xE2\x80\x99: Permission denied",
      "install: (%s/out/1) permission denied",
  };
  static char *writable[] = {"in", NULL};
  trial->fence.write_paths = writable;
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
    char text[256];
    const char *at = strstr(messages[i], "%s");
    (void)snprintf(text, sizeof text, "first line\n%.*s%s%s\nlast line\n", (int)(at - messages[i]),
                   messages[i], trial->directory.path, at + 2);
    expect(trial, text, "write! out/1\n");
  }
}

DENIAL_TEST(each_denial_is_reported_once_and_only_a_few) {
  struct buffer text = {0}, expected = {0};
  static char *writable[] = {NULL};
  trial->fence.write_paths = writable;
  for (int i = 0; i < 2 * FILES; i++)
    buffer_add_format(&text, "touch: cannot touch 'out/%d': Permission denied\n", i / 2);
  for (int i = 0; i < STEP_DENIALS_MAX; i++)
    buffer_add_format(&expected, "write! out/%d\n", i);
  buffer_add(&text, "", 1);
  buffer_add(&expected, "", 1);
  expect(trial, text.bytes, expected.bytes);
  buffer_release(&text);
  buffer_release(&expected);
}

DENIAL_TEST(outside_the_read_paths_reading_is_denied) {
  static char *readable[] = {"in", NULL};
  trial->fence.read_paths = readable;
  expect(trial, "cat: out/1: Permission denied", "read! out/1\n");
  expect(trial, "cat: in/file: Permission denied", "");
  expect(trial, "cat: out/missing: No such file or directory", "");
}

DENIAL_TEST(a_missing_network_is_certain_only_without_any_network) {
  static const char message[] = "curl: (6) Could not resolve host: example.org";
  expect(trial, message, "");
  trial->fence.network = POLICY_NETWORK_NONE;
  expect(trial, message, "network! \n");
  trial->fence.network = POLICY_NETWORK_LOOPBACK;
  expect(trial, message, "network \n");
}
