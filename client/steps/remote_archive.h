#pragma once

#include "client/steps/transfer.h"

/*
 * An archive in the sandbox, which the sandbox's tar packs or unpacks. The hard part is to find a
 * directory that has the space, and to leave nothing there.
 *
 *   remote_archive_begin(&archive, steps, hidden, directory, need, packed);
 *   archive.path: NULL if the sandbox has no tar; then there is nothing to end
 *   remote_archive_pack(&archive, from, &has_left_out), or remote_archive_unpack(&archive, to)
 *   remote_archive_end(&archive);
 *
 * Functions return 0, or the exit code after an error message.
 */
struct remote_archive {
  struct file_steps *steps;
  const char *hidden; /* the name of what is not complete */
  char name[48];
  char *directory; /* with the target: preferred */
  char *path;
  bool is_gnu, is_unpacked;
};

/* Makes an empty private file. It is in `directory` (may be "") or elsewhere. Needed are so many
   KiB or, if `packed` is not "", the size of that directory. The strings are copied, except the
   hidden name. */
int remote_archive_begin(struct remote_archive *self, struct file_steps *steps, const char *hidden,
                         const char *directory, uint64_t need, const char *packed);

/* Sets `*has_left_out` if entries are missing, of which tar has reported the reasons. */
int remote_archive_pack(struct remote_archive *self, const char *from, bool *has_left_out);

/* Unpacks into the directory if it exists. Otherwise makes it under the hidden name first. */
int remote_archive_unpack(struct remote_archive *self, const char *to);

/* Also accepts an archive whose begin has failed. */
void remote_archive_end(struct remote_archive *self);
