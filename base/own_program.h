#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Opens the file that this process executes, which it finds by /proc/self/exe or, if /proc is not
   mounted, by the path that was executed. Returns the descriptor, or -1 with errno. */
int own_program_open(void);

/* Writes the absolute path of its directory with a NUL; `size` is at least PATH_MAX. Returns false
   if the path is not known. */
bool own_program_directory(char *out, size_t size);
