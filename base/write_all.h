#ifndef BASE_WRITE_ALL_H
#define BASE_WRITE_ALL_H

#include <stddef.h>

/* Writes all of the bytes to a blocking descriptor, in as many calls as that takes. Returns 0, or
   -1 with errno; what was written until then stays. */
int write_all(int fd, const char *bytes, size_t length);

/* Asks for the errors that a file system would report only when the file is closed. Some over a
   network say only then that they have no room for what they took. Nothing is synced. Returns 0, or
   -1 with errno; `fd` stays open. */
int write_all_flush(int fd);

#endif
