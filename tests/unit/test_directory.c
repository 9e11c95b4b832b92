#include <sys/types.h>

#include "agent/files/access/directory.h"
#include "tests/support/quoted.h"
#include "tests/support/tree.h"
#include "tests/test.h"

/* One of each kind. */
static void make_kinds(const struct tree *tree) {
  tree_make(tree, "directory/ file fifo| to-directory>directory to-link>to-directory to-file>file "
                  "to-nothing>nothing loop>loop");
}

static const struct {
  const char *name;
  unsigned char type;
  bool is_one;
  const char *refusal; /* the path follows; NULL if it can be opened */
} kinds[] = {
    {"directory", DT_DIR, true, NULL},
    {"file", DT_REG, false, "is a regular file, not a directory: "},
    {"fifo", DT_FIFO, false, "is a FIFO, not a directory: "},
    {"to-directory", DT_LNK, true, NULL},
    {"to-link", DT_LNK, true, NULL},
    {"to-file", DT_LNK, false, "is a regular file, not a directory: "},
    {"to-nothing", DT_LNK, false, "directory not found: "},
    {"loop", DT_LNK, false, "cannot read directory (Too many levels of symbolic links): "},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void expect_refusal(const struct tree *tree, const char *name, const char *refusal) {
  const char *path = tree_path(tree, name);
  const char *expected = formatted("%s%s", refusal, path);
  struct error error = {.text = ""};
  assert_null(directory_open(path, &error));
  assert_string_equal(error.text, expected);
}

TREE_TEST(anything_but_a_directory_is_rejected_by_its_kind) {
  make_kinds(tree);
  for (size_t i = 0; i < KINDS; i++) {
    struct error error = {.text = "none"};
    if (kinds[i].refusal != NULL) {
      expect_refusal(tree, kinds[i].name, kinds[i].refusal);
      continue;
    }
    DIR *opened = directory_open(tree_path(tree, kinds[i].name), &error);
    assert_non_null(opened);
    assert_string_equal(error.text, "none");
    assert_int_equal(fcntl(dirfd(opened), F_GETFD), FD_CLOEXEC);
    closedir(opened);
  }
  expect_refusal(tree, "missing", "directory not found: ");
  expect_refusal(tree, "missing/below", "directory not found: ");
  expect_refusal(tree, "file/below", "directory not found: ");
}

TREE_TEST(an_unknown_type_is_looked_up) {
  make_kinds(tree);
  for (size_t i = 0; i < KINDS; i++) {
    assert_int_equal(directory_type(tree->fd, kinds[i].name, DT_UNKNOWN), kinds[i].type);
    assert_int_equal(directory_type(tree->fd, kinds[i].name, DT_SOCK), DT_SOCK); /* believed */
  }
  assert_int_equal(directory_type(tree->fd, "missing", DT_UNKNOWN), -1);
  tree_make_directory(tree, "closed", 0600); /* only its names may be read */
  tree_write(tree, "closed/x", "", 0600);
  int closed = tree_open(tree, "closed");
  assert_int_equal(seteuid(65534), 0);
  int type = directory_type(closed, "x", DT_UNKNOWN);
  assert_int_equal(seteuid(0), 0);
  assert_int_equal(type, DT_UNKNOWN);
  close(closed);
}
