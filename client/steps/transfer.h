#ifndef CLIENT_STEPS_TRANSFER_H
#define CLIENT_STEPS_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/steps/file_steps.h"

/* Bytes of any number out of a file of the sandbox, and into one. Functions return 0, or the exit
   code after they said why. */

/* --- out: readBytes --------------------------------------------------------------------------- */

/*
 *   struct transfer_in in = {.steps = &steps, .path = path};
 *   while ((code = transfer_next(&in)) == 0 && in.bytes.length > 0)
 *     … in.bytes …                                            in.size: of the whole file, as it was first
 *   buffer_release(&in.bytes)
 *
 * A file that grows meanwhile is read up to the size that it had; one that becomes shorter fails.
 */
struct transfer_in {
  struct file_steps *steps;
  const char *path;
  uint64_t offset, size;
  struct buffer bytes;       /* the piece; empty: the end */
  struct file_answer answer; /* of the piece, until the next call; its raw JSON is for --json */
  bool is_begun, is_over;
};
int transfer_next(struct transfer_in *self);
void transfer_in_release(struct transfer_in *self);

/* Writes the whole file to standard output, or to standard error, by terminal_put. */
int transfer_print(struct file_steps *steps, const char *path, bool to_stderr);

enum transfer_type {
  TRANSFER_ABSENT,
  TRANSFER_FILE,
  TRANSFER_DIRECTORY,
  TRANSFER_STREAM /* of this side only: a device, a FIFO, a socket, or a link to nothing */
};

/* What lies under a path of the sandbox. */
int transfer_look(struct file_steps *steps, const char *path, enum transfer_type *type);

/* --- into: writeBytes ------------------------------------------------------------------------- */

/*
 * A file that has its name when it is whole. Until then it lies under a hidden name beside that
 * one.
 *
 *   transfer_out_begin(&out, &steps, path)
 *   out.mode = 0755                                  0: as the sandbox has it
 *   transfer_put(&out, bytes, length)
 *   transfer_commit(&out)
 *   transfer_out_release(&out)                       always; removes what was not committed
 *
 * One step makes a file of up to TRANSFER_PIECE bytes. writeBytes ends at 25 MiB: a larger one is
 * put together by the sandbox's sh, cat and mv.
 */
#define TRANSFER_PIECE ((size_t)1024 * 1024)

struct transfer_out {
  struct file_steps *steps;
  const char *path;
  char *part, *whole; /* hidden names; `whole` of a large file */
  mode_t mode;
  bool replaces; /* the caller's: there is a file, whose mode writeBytes would keep */
  struct buffer piece;
  size_t part_size;
  uint64_t total; /* that were sent */
  bool is_begun, has_part, is_large, is_committed, has_warned;
};
void transfer_out_begin(struct transfer_out *self, struct file_steps *steps, const char *path);
int transfer_put(struct transfer_out *self, const char *bytes, size_t length);
int transfer_commit(struct transfer_out *self);
void transfer_out_release(struct transfer_out *self);

/* --- beside ----------------------------------------------------------------------------------- */

/* The path of another name beside this one's; to be freed. */
char *transfer_beside(const char *path, const char *name);

/* Runs a command, of words up to NULL. The answer is to be released; nothing is said. */
int transfer_run(struct file_steps *steps, const char *const *words, struct file_answer *answer);

/* Like that, but what failed is said. */
int transfer_run_loudly(struct file_steps *steps, const char *const *words);

/* Removes files and directories of the sandbox, whatever has happened; says which are left when it
   cannot. */
void transfer_remove(struct file_steps *steps, const char *const *paths, size_t count);

#endif
