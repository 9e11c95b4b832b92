#pragma once

#include <stddef.h>

/*
 * A tree of source files such as a coding task has. The same seed gives the same bytes. It has
 * modules with nested directories of 24 classes each, most of them of 30 to 200 lines. Most of it
 * is ASCII; some files have CRLF, a byte order mark or comments in other scripts. There are also
 * binary files and directories that searches skip.
 *
 * With SOURCE_TREE_SEED, 50,000 files are 254 MB in 6,179,258 lines, of which have
 *
 *   TransactionScope               1,132 lines
 *   TODO, FIXME or HACK            5,319 lines
 *   a word that ends in Exception  35,619 lines
 */
#define SOURCE_TREE_SEED 20261122

struct source_tree {
  size_t files;   /* that searches read */
  size_t lines;   /* in these */
  size_t bytes;   /* of these */
  size_t omitted; /* files that searches skip */
};

/* Writes the tree below `root`, which is an empty directory. A failure ends the bench. */
struct source_tree source_tree_make(const char *root, size_t files, unsigned long long seed);
