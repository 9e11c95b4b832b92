#ifndef CLIENT_TAR_TAR_H
#define CLIENT_TAR_TAR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"

/*
 * Directories as tar, as sandbox cp moves them. It is written and read here rather than by the tar
 * of this machine: there may be none (the carrier image has none), each has other options, and what
 * a sandbox sends must not be trusted with a name.
 *
 * Written is ustar; what does not fit, long names and sizes from 8 GiB on, as GNU tar does, since
 * that is what busybox and toybox read, too, which do not know the names of pax. Read are all of
 * these, and pax.
 */

/* --- writing ---------------------------------------------------------------------------------- */

struct tar_sink {
  /* Returns 0; another value ends it. */
  int (*put)(void *owner, const char *bytes, size_t length);
  /* Something that is left out, and why. */
  void (*leave_out)(void *owner, const char *name, const char *why);
  void *owner;
};

/* Writes what is in the directory; its own entry is "./". Returns 0; what `put` has returned; or -1
   with the error. */
int tar_pack(const char *directory, const struct tar_sink *sink, struct error *error);

/* --- reading ---------------------------------------------------------------------------------- */

struct tar_source {
  /* Reads up to `size` bytes: sets how many, 0 at the end. Returns 0; another value ends it. */
  int (*get)(void *owner, char *bytes, size_t size, size_t *length);
  void (*leave_out)(void *owner, const char *name, const char *why);
  void *owner;
};

/*
 * Makes what the archive has, below an open directory and never elsewhere: absolute names, ".." and
 * names that lead through a link end it. Links that lead out, devices and the like are left out. A
 * file gets its name when it is whole. Owners and set-id bits are not kept; directories that are
 * there keep their modes, with `is_new` except the open one. Returns as tar_pack.
 */
int tar_unpack(int directory, bool is_new, const struct tar_source *source, struct error *error);

/* Removes an entry of a directory, and what is below; links are not followed. */
void tar_remove(int directory, const char *name);

#endif
