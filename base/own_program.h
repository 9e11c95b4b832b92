#ifndef BASE_OWN_PROGRAM_H
#define BASE_OWN_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* The file that this process executes: as the kernel knows it (/proc/self/exe), or, where /proc is
   not mounted, under the path that was executed. */

/* Opens it for reading, close-on-exec. Returns the descriptor, or -1 with errno. */
int own_program_open(void);

/* Writes the absolute path of its directory, with a NUL; `size` is at least PATH_MAX. Returns false
   when it is not known. */
bool own_program_directory(char *out, size_t size);

#endif
