#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include <sys/types.h>

#include "base/buffer.h"

/* What people read. */

/* Adds a name so that it never looks like another line, or another name: control characters (C1 and
   the separators U+2028 and U+2029 too) and bytes that are not UTF-8 become U+FFFD. */
void printable_add(struct buffer *out, const char *name, size_t length);

/* What a mode of stat(2) stands for: "a directory", "a FIFO", … */
const char *printable_file_kind(mode_t mode);

/* "SIGTERM"; "another signal" for one that has no name here, such as a real-time signal. */
const char *printable_signal(int signal);

#endif
