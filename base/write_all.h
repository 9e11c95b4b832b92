#pragma once

#include <stddef.h>

/* Writes all bytes to a blocking descriptor, with as many calls as necessary. Returns 0, or -1 with
   errno; part of the bytes may have been written then. */
int write_all(int fd, const char *bytes, size_t length);

/* Asks for errors that a file system would otherwise report only when the file is closed, such as a
   full disk of a network file system. It syncs nothing. Returns 0, or -1 with errno; `fd` stays
   open. */
int write_all_flush(int fd);
