#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/*
 * Memory that is there or the program is not: each call aborts, after one line on stderr, where the
 * C library would return NULL. What is returned is released with free().
 */
void *memory_allocate(size_t size);

/* As realloc; `old` may be NULL. */
void *memory_resize(void *old, size_t size);

/* Says on stderr that there is no memory for this, and aborts. */
void memory_exhausted(const char *what) __attribute__((noreturn));

/* A copy of the bytes with a NUL behind them. */
char *memory_copy(const char *text, size_t length);

#endif
