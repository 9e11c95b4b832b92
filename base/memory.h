#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/* Allocation that cannot fail: where the C library would return NULL, each function writes a line
   to stderr and ends the program. The caller releases what they return with free(). */
#define MEMORY_EXHAUSTED_EXIT 3 /* as AGENT_EXIT_ERROR */
void *memory_allocate(size_t size);
void *memory_zeros(size_t size);

/* As realloc; `old` may be NULL. */
void *memory_resize(void *old, size_t size);

/* Writes to stderr that there is no memory for this, and ends the program. */
void memory_exhausted(const char *what) __attribute__((noreturn));

/* A copy of the bytes with a NUL after them. */
char *memory_copy(const char *text, size_t length);

#endif
