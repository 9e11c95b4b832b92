#ifndef INJECT_COPY_TREE_H
#define INJECT_COPY_TREE_H

#include <stddef.h>

/*
 * Copies the content of one directory into an empty one: files with their modes and times, symbolic
 * links as links, directories recursively, all of it written out to the disk. Other kinds of files are skipped. Returns 0, or -1 with
 * errno; then the path at which it failed, relative to the directory, has been appended to `where`,
 * a string in a buffer of `where_size` bytes, cut where that ends. Both descriptors stay the
 * caller's.
 */
int copy_tree(int from, int to, char *where, size_t where_size);

/* Removes a file, or a directory with all that is in it; no name is no error. Others may do the same
   meanwhile. Returns 0, or -1 with errno. */
int copy_tree_remove(int directory, const char *name);

#endif
