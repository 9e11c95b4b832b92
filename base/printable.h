#pragma once

#include <sys/types.h>

#include "base/buffer.h"

/*
 * Makes names safe and readable for people: of files, of kinds of files, and of signals. Logs,
 * errors and the client use it.
 */

/* Adds a file name so that it never looks like another line or another name: control characters
   (also C1, U+2028 and U+2029) and bytes that are not UTF-8 become U+FFFD. */
void printable_add(struct buffer *out, const char *name, size_t length);

/* Returns the kind of file that a mode of stat(2) stands for, such as "a directory". */
const char *printable_file_kind(mode_t mode);

/* Returns the name of a signal, such as "SIGTERM", or "another signal" for a real-time signal. */
const char *printable_signal(int signal);
