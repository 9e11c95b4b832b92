#ifndef INJECT_COPY_H
#define INJECT_COPY_H

#include <stddef.h>
#include <sys/types.h>

/* Copies files in constant memory. Functions return -1 with errno, after which a part may have been
   copied. Descriptors stay the caller's. */

/* Copies `size` bytes from the beginning of one file to an empty other one: inside the kernel,
   which shares the blocks where the file system can, else through a buffer. Returns 0 or -1. */
int copy_bytes(int from, int to, off_t size);

/* 1 when both files consist of the same `size` bytes, else 0; -1 when one cannot be read. */
int copy_bytes_same(int left, int right, off_t size);

/* Copies the content of one directory into an empty one: files with their modes and times, symbolic
   links as links, directories recursively, all of it written out to the disk. Other kinds of files
   are skipped. Returns 0, or -1; then the path at which it failed, relative to the directory, has
   been appended to `where`, a string in a buffer of `where_size` bytes, cut where that ends. */
int copy_tree(int from, int to, char *where, size_t where_size);

/* Removes a file, or a directory with all that is in it; no name is no error. Others may do the
   same meanwhile. Returns 0 or -1. */
int copy_tree_remove(int directory, const char *name);

#endif
