#ifndef INJECT_COPY_BYTES_H
#define INJECT_COPY_BYTES_H

#include <sys/types.h>

/*
 * Copies `size` bytes from the beginning of one file to an empty other one, in constant memory: as
 * a reflink where both lie on a file system that shares blocks, else inside the kernel, else
 * through a buffer. Returns 0, or -1 with errno, after which a part may have been copied.
 */
int copy_bytes(int from, int to, off_t size);

/* 1 when both files consist of the same `size` bytes, else 0; -1 with errno when one cannot be
   read. */
int copy_bytes_same(int left, int right, off_t size);

#endif
