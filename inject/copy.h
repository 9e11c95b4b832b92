#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Copies files in constant memory. Functions return -1 with errno; part of the data may have been
   copied then. They close none of the caller's descriptors. */

/* Copies `size` bytes from the position of one file to another one, which is empty. */
int copy_bytes(int from, int to, off_t size);

/* Returns 1 if both files consist of the same `size` bytes, 0 if not, -1 if one cannot be read. */
int copy_bytes_same(int left, int right, off_t size);

/* Copies the content of a directory into an empty one and syncs it: files with their modes and
   times, symbolic links as links, directories recursively. Skips other kinds of files. Returns 0,
   or -1 after it has appended the path that failed, relative to the directory, to the string
   `where`, which is truncated to `where_size` bytes. */
int copy_tree(int from, int to, char *where, size_t where_size);

/* Removes a file, or a directory with its content. It is no error if there is none, or if others
   remove it at the same time. Returns 0 or -1. */
int copy_tree_remove(int directory, const char *name);
