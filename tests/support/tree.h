#pragma once

#include <stdbool.h>
#include <sys/types.h>

/*
 * A directory for the files and directories of one test, used by descriptor and removed with its
 * content. It is below TMPDIR if that is short enough for the path of a socket, or else below /tmp.
 * An error fails the test.
 */
struct tree {
  char path[40];
  int fd;
};

/* For cmocka. */
int tree_set_up(void **state);
int tree_tear_down(void **state);
#define TREE_TEST(NAME) TEST_WITH(struct tree *tree, NAME, tree_set_up, tree_tear_down)

/* All names are relative to the tree. Returns the full path, valid until eight more were
   requested. */
const char *tree_path(const struct tree *self, const char *name);

void tree_write(const struct tree *self, const char *name, const char *content, mode_t mode);
void tree_make_directory(const struct tree *self, const char *name, mode_t mode);
void tree_expect(const struct tree *self, const char *name, const char *content, mode_t mode);
int tree_open(const struct tree *self, const char *name); /* a directory */

/* Makes the files of these words, separated by one space: "a/" is a directory, "a/b" an empty file,
   "b=text" a file with this content, "l>a/b" a link, "p|" a FIFO. Modes are the usual ones. */
void tree_make(const struct tree *self, const char *words);

/* Makes this many nested directories of this name. */
void tree_make_chain(const struct tree *self, const char *name, int levels);

bool tree_has(const struct tree *self, const char *name);

/* The number of entries of one directory, including hidden ones. */
int tree_count(const struct tree *self, const char *name);
