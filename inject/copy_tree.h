#ifndef INJECT_COPY_TREE_H
#define INJECT_COPY_TREE_H

#include <stddef.h>

/*
 * Copies what is in one directory into another, empty one: files with their modes and times,
 * symbolic links as they are, directories with all that is in them. Other kinds of files are left
 * out. Returns 0, or -1 with errno, and in `where` the path below the directory at which it failed.
 * Both descriptors stay the caller's.
 */
int copy_tree(int from, int to, char *where, size_t where_size);

#endif
