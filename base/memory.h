#pragma once

#include <stdarg.h>
#include <stddef.h>

/* Allocation that cannot fail: if the C library returns NULL, these functions write a line to
   stderr and end the program. The caller releases what they return with free(3). */
#define MEMORY_EXHAUSTED_EXIT 3 /* the same as AGENT_EXIT_ERROR */
void *memory_allocate(size_t size);
void *memory_zeros(size_t size);

/* Like realloc(3); `old` may be NULL. */
void *memory_resize(void *old, size_t size);

/* Copies the bytes and adds a NUL. */
char *memory_copy(const char *text, size_t length);

/* Returns a new text, formatted as by printf(3). */
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *memory_format_list(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));

/* Writes to stderr that there is no memory for `what`, and ends the program. */
void memory_exhausted(const char *what) __attribute__((noreturn));
