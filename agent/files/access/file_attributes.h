#ifndef AGENT_FILES_ACCESS_FILE_ATTRIBUTES_H
#define AGENT_FILES_ACCESS_FILE_ATTRIBUTES_H

#include <stdbool.h>

/*
 * Copies what a file has beside its content to the file that is going to replace it: owner and
 * group first, before anything is written; then the rest, when all of the content is written,
 * because write(2) clears set-id bits.
 */

/* Gives the file `to` the owner and the group of `from`. Returns false if it cannot have both of
   them; it then has its own. */
bool file_attributes_keep_owner(int to, int from);

/* Copies mode, access list and extended attributes to `to`, which is open for writing and has the
   same owner and group. `from` is open for reading, or for writing only, which keeps fewer extended
   attributes. Attributes that this process may not read or set are left out, except access lists.
   `security.capability`, `security.ima` and `security.evm` belong to the old content and are left
   out. Returns 0, or -1 with errno: `to` may then have some of the attributes, and must not be
   used. */
int file_attributes_copy(int to, int from);

#endif
