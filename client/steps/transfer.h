#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/steps/file_steps.h"

/* Moves files of any size out of the sandbox and into it, in pieces that fit into a step. `read`,
   `write` and `cp` use it. The hard part is to leave neither half a file nor a temporary one.
   Functions return 0, or the exit code after an error message. */

/* --- out of the sandbox: readBytes ------------------------------------------------------------ */

/* Reads a file piece by piece. If it grows meanwhile, it is read up to its first size, which is
   `size`. If it shrinks, it ends earlier. `changed` says so. */
struct transfer_in {
  struct file_steps *steps;
  const char *path;
  bool is_quiet; /* the caller's: it reports a step that fails */
  uint64_t offset, size;
  const char *changed; /* how the file has changed; NULL: not as far as is known */
  struct buffer bytes; /* the piece; empty at the end; the caller releases it */
  enum { TRANSFER_NEW, TRANSFER_BEGUN, TRANSFER_OVER } state;
};
int transfer_next(struct transfer_in *self);

/* Prints a warning if the file has changed. */
void transfer_warn(const struct transfer_in *self);

/* Writes the whole file to standard output or standard error. */
int transfer_print(struct file_steps *steps, const char *path, bool to_stderr);

enum transfer_type {
  TRANSFER_ABSENT,
  TRANSFER_FILE,
  TRANSFER_DIRECTORY,
  TRANSFER_STREAM /* outside of the sandbox: a device, a FIFO, a socket, or a dangling link */
};

/* Whether the last step has failed because its path does not exist. */
bool transfer_is_absent(const struct file_steps *steps);

/* Sets the type of a path in the sandbox. */
int transfer_find_type(struct file_steps *steps, const char *path, enum transfer_type *type);

/* --- into the sandbox: writeBytes ------------------------------------------------------------- */

/* Writes a file under a hidden name beside its own, and renames it when it is complete; the release
   removes what was not committed. One step is enough for a file of TRANSFER_PIECE bytes. A file of
   writeBytes has at most 25 MiB; a larger one is joined by sh, cat, chmod and mv there. */
#define TRANSFER_PIECE ((size_t)1024 * 1024)

struct transfer_out {
  struct file_steps *steps;
  const char *path;
  char *part, *whole; /* hidden names; the whole only exists for a large file */
  bool is_quiet;      /* the caller's: it reports a step that fails */
  bool has_mode;      /* the caller's; without a mode, the file has that of writeBytes */
  mode_t mode;        /* the caller's */
  bool replaces;      /* the caller's: the file exists, and writeBytes would keep its mode */
  enum { OUT_NEW, OUT_BEGUN, OUT_COMMITTED } state;
  struct buffer piece;
  size_t part_size; /* bytes sent to the part */
  size_t writes;    /* steps that wrote to the part */
  size_t parts;     /* parts that were appended to the whole */
};

/* Checks that the sandbox has the programs for a file of this size. Returns 0, or the code of the
   step that has failed. Writes no message. */
int transfer_try_size(struct file_steps *steps, uint64_t size);

void transfer_out_begin(struct transfer_out *self, struct file_steps *steps, const char *path);
int transfer_put(struct transfer_out *self, const char *bytes, size_t length);
int transfer_commit(struct transfer_out *self);
void transfer_out_release(struct transfer_out *self);

/* --- commands in the sandbox ------------------------------------------------------------------ */

/* Returns the path of another name in the same directory. The caller frees it. */
char *transfer_beside(const char *path, const char *name);

/* Runs a command whose words end with NULL, without a time limit: a large copy takes as long as it
   takes. Writes no message. */
int transfer_run(struct file_steps *steps, const char *const *words);

/* Returns EXIT_FOUND for an exit code of a command itself, and another code as it is. */
int transfer_code(int code);

/* Runs a command, with a message if it fails. Returns its transfer_code. */
int transfer_run_loudly(struct file_steps *steps, const char *const *words);

/* Sets the mode, in octal, or the time of the last change, in seconds since 1970. If the sandbox
   has no program for it, says so once, with this name. Every other failure is reported, and that
   of a mode sets `has_wrong_mode`. Neither is an error. */
enum transfer_property { TRANSFER_MODE, TRANSFER_MTIME };
int transfer_keep(struct file_steps *steps, enum transfer_property property, long long value,
                  const char *path, const char *name);

/* Runs a command that removes paths, also after a signal. If it fails, says what may be left. */
void transfer_clean_up(struct file_steps *steps, const char *const *words, const char *const *paths,
                       size_t count);

/* Removes two paths like that. */
void transfer_remove(struct file_steps *steps, const char *path, const char *other);
