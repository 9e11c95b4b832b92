#pragma once

#include <stdbool.h>

/* Copies everything but the content of a file to its replacement, for atomic_file.c. The hard part
   is the order: owner and group are set before the content is written, and the rest after it,
   because write(2) clears set-id bits. */

/* Gives the file `to` the owner and the group of `from`. Returns false if it cannot have both; it
   then keeps its own. */
bool file_attributes_keep_owner(int to, int from);

/* Copies mode, access list and extended attributes to `to`, which is open for writing and has the
   same owner and group. `from` is open for reading, or for writing only, in which case fewer
   extended attributes are copied. Attributes that this process may not read or set are skipped,
   except access lists. So are `security.capability`, `security.ima` and `security.evm`, which
   belong to the old content. Returns 0, or -1 with errno; `to` must not be used then. */
int file_attributes_copy(int to, int from);
