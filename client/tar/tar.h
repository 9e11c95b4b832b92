#pragma once

#include <stdbool.h>

#include "client/tar/tree.h"

/* Packs and unpacks directories for `sandbox cp`. The tar of this machine is not used: the carrier
   image has none, and the archive of a sandbox is not trusted. The hard part is to unpack it
   without leaving the directory. Archives are written as ustar, with long names and large sizes as
   in GNU tar, because busybox and toybox do not read pax. All of these and pax are read. */

/* --- writing ---------------------------------------------------------------------------------- */

struct tar_sink {
  /* Returns 0; any other value ends the archive. */
  int (*put)(void *owner, const char *bytes, size_t length);
  void *owner;
};

/* Packs a directory, as "./". Returns 0, what `put` has returned, or -1 with the error. */
int tar_pack(const char *directory, const struct tar_sink *sink, const struct tree_report *report,
             struct error *error);

/* The same entry by entry, with the content of a file between the first two calls. Zeros replace
   the content of which fewer bytes were `put` than its size. Return what `put` has returned. */
int tar_begin_entry(const struct tar_sink *sink, const struct tree_entry *entry);
int tar_end_entry(const struct tar_sink *sink, const struct tree_entry *entry, uint64_t put);
int tar_end(const struct tar_sink *sink);

/* --- reading ---------------------------------------------------------------------------------- */

struct tar_source {
  /* Reads up to `size` bytes, and none only at the end. Returns 0; any other value ends it. */
  int (*get)(void *owner, char *bytes, size_t size, size_t *length);
  void (*leave_out)(void *owner, const char *name, const char *why);
  void *owner;
};

/* Unpacks below an open directory and never elsewhere. It is an error if a name is absolute,
   contains "..", is too long or too deep, or leads through a link or a file. Links that lead out of
   the directory, special files, and entries that cannot be written are left out. A file gets its
   name when it is complete. Owners and set-id bits are ignored. An archive without an end is
   incomplete. Existing directories keep their modes; the open one does only if it is not new.
   Returns the same values as tar_pack. */
int tar_unpack(int directory, bool is_new, const struct tar_source *source, struct error *error);

/* Sets the time of a file's last change, if the file system can keep it. */
void tar_set_mtime(int fd, int64_t seconds);

/* Removes an entry of a directory and everything below. Does not follow links. */
void tar_remove(int directory, const char *name);
