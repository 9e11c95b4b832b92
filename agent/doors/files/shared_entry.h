#ifndef AGENT_DOORS_FILES_SHARED_ENTRY_H
#define AGENT_DOORS_FILES_SHARED_ENTRY_H

#include <stdbool.h>
#include <sys/stat.h>

/*
 * Entries of a directory in which other programs may give any name to anything else at any moment.
 * A name is therefore looked up once, and what was found is worked on by its descriptor. No link is
 * followed.
 */

/* Opens a regular file for reading. What it is is known before it is opened: to open a FIFO would
   wake its writer, to open a device may start it. Returns a descriptor that does not block and is
   close-on-exec, or -1 with errno: ENXIO where it is no regular file, and `*file` says what. */
int shared_entry_open_file(int directory, const char *name, struct stat *file);

/* Opens a directory by O_PATH: for names below it and for fstat. Returns -1 with errno. */
int shared_entry_open_directory(int directory, const char *name);

/* Makes a directory with this mode whatever the umask, so that nothing need be changed afterwards
   that may have become another one. Returns 0, or -1 with errno. */
int shared_entry_make_directory(int directory, const char *name, mode_t mode);

/* Whether the name is, at this moment, that of the open one. */
bool shared_entry_is(int directory, const char *name, int fd);

#endif
