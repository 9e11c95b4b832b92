/*
 * A claim is made under a hidden name, with `state` in it, and then renamed to `.claim-<id>`
 * without replacing. So every process that sees the claim sees its state; a plain rename(2) would
 * replace the empty directory that a script has made.
 *
 * Any name may belong to another process a moment later, and may be a link to a directory
 * elsewhere. So a claim's directory is opened once; `state` is made, read and removed below that
 * descriptor. It replaces no file, and only a file that an agent has made is removed. By name, a
 * directory is only renamed, or removed if it is empty.
 *
 * Two agents may find the same dead one. The first holds the lock; the second finds the lock held,
 * as if the owner were alive.
 */
#include "agent/frontends/request_files/claims.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/staged_file.h"
#include "base/write_all.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1U << 0) /* of linux/fs.h, which musl does not have */
#endif

#define CLAIM_PREFIX ".claim-"

/* The file of a claim, and its text before and after the result is written: of one length, so that
   the second needs no space. */
#define STATE "state"
#define STATE_LENGTH ((size_t)8)
static const char running[] = "running\n", answered[] = "answered";

static struct ipc_name claim_name(const char *id) {
  return ipc_name(CLAIM_PREFIX, id, "");
}

const char *claims_id_of(const char *name) {
  const size_t prefix = sizeof CLAIM_PREFIX - 1;
  return strncmp(name, CLAIM_PREFIX, prefix) == 0 && name[prefix] != '\0' ? name + prefix : NULL;
}

bool claims_exists(const struct ipc_directory *ipc, const char *id) {
  return ipc_directory_has(ipc, claim_name(id).text);
}

/* Opens a directory with O_PATH, for names below it and for fstat(2). Returns -1 with errno. */
static int open_directory(int directory, const char *name) {
  return openat(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Returns what a claim with this `state` is to an agent that has its lock. */
static enum claim read_state(int state) {
  char text[STATE_LENGTH];
  if (pread(state, text, sizeof text, 0) != (ssize_t)sizeof text)
    return CLAIM_FOREIGN;
  if (memcmp(text, answered, sizeof text) == 0)
    return CLAIM_ANSWERED;
  return memcmp(text, running, sizeof text) == 0 ? CLAIM_OF_DEAD : CLAIM_FOREIGN;
}

/* --- making ---------------------------------------------------------------------------------- */

/* Removes what was made of a claim under this name, and closes it. Keeps errno. */
static void undo_claim(const struct ipc_directory *ipc, const char *name, int claim, int *lock) {
  if (*lock >= 0)
    ipc_directory_remove(claim, STATE, 0);
  ipc_directory_remove(ipc->tools, name, AT_REMOVEDIR);
  descriptor_close(claim);
  descriptor_close(*lock);
  *lock = -1;
}

/* Makes a claim. Returns its descriptor, or -1 with errno. Its state is empty until it is locked,
   because without a hidden name another agent would take it for that of a dead one. */
static int make_claim(const struct ipc_directory *ipc, const char *name, int *lock) {
  struct stat directory;
  if (fstat(ipc->tools, &directory) != 0 ||
      ipc_directory_make(ipc->tools, name, (directory.st_mode & 0777) | 0700) != 0)
    return -1;
  int claim = open_directory(ipc->tools, name);
  if (claim >= 0)
    *lock = ipc_directory_make_file(claim, STATE, "", 0);
  if (*lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) == 0 &&
      write_all(*lock, running, STATE_LENGTH) == 0)
    return claim;
  undo_claim(ipc, name, claim, lock);
  return -1;
}

/* The claim cannot be made; errno says why. */
static enum claim fail_or_take_over(const struct ipc_directory *ipc, const char *id, int *lock) {
  bool exists = errno == EEXIST || errno == ENOTEMPTY;
  return exists ? claims_take_over(ipc, id, lock) : CLAIM_REFUSED;
}

enum claim claims_acquire(struct ipc_directory *ipc, const char *id, int *lock) {
  const struct ipc_name name = claim_name(id), hidden = ipc_hidden_name();
  if (claims_exists(ipc, id))
    return claims_take_over(ipc, id, lock);
  int claim = make_claim(ipc, ipc->plain_mkdir ? name.text : hidden.text, lock);
  if (claim < 0)
    return ipc->plain_mkdir ? fail_or_take_over(ipc, id, lock) : CLAIM_REFUSED;
  if (!ipc->plain_mkdir && syscall(SYS_renameat2, ipc->tools, hidden.text, ipc->tools, name.text,
                                   RENAME_NOREPLACE) != 0) {
    undo_claim(ipc, hidden.text, claim, lock);
    ipc->plain_mkdir = errno == EINVAL || errno == ENOSYS;
    return ipc->plain_mkdir ? claims_acquire(ipc, id, lock) : fail_or_take_over(ipc, id, lock);
  }
  if (!staged_file_has_name(claim, ipc->tools, name.text)) { /* another process has moved it */
    undo_claim(ipc, hidden.text, claim, lock);
    errno = EBUSY;
    return CLAIM_REFUSED;
  }
  close(claim);
  return CLAIM_ACQUIRED;
}

/* --- the claims of other agents, and removal ------------------------------------------------- */

enum claim claims_take_over(const struct ipc_directory *ipc, const char *id, int *lock) {
  const struct ipc_name name = claim_name(id);
  struct stat file;
  enum claim result = CLAIM_FOREIGN;
  int claim = open_directory(ipc->tools, name.text);
  if (claim < 0)
    return CLAIM_FOREIGN;
  *lock = ipc_directory_open_file(claim, STATE, &file);
  if (*lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) == 0 &&
      staged_file_has_name(*lock, claim, STATE) &&
      staged_file_has_name(claim, ipc->tools, name.text))
    result = read_state(*lock);
  close(claim);
  if (result == CLAIM_FOREIGN) {
    descriptor_close(*lock);
    *lock = -1;
  }
  return result;
}

/* A lock that was taken over is open for reading only. Its owner is dead anyway. */
void claims_close_answered(int *lock) {
  (void)!pwrite(*lock, answered, STATE_LENGTH, 0);
  descriptor_close(*lock);
  *lock = -1;
}

/* The claim is renamed first: without its state it would look like a script's. */
int claims_remove(const struct ipc_directory *ipc, const char *id, int *lock) {
  const struct ipc_name name = claim_name(id), hidden = ipc_hidden_name();
  int result = 0;
  int claim = open_directory(ipc->tools, name.text);
  if (claim >= 0 && staged_file_has_name(*lock, claim, STATE)) {
    result = renameat(ipc->tools, name.text, ipc->tools, hidden.text);
    if (result == 0) {
      (void)unlinkat(claim, STATE, 0);
      (void)unlinkat(ipc->tools, hidden.text, AT_REMOVEDIR);
    }
  }
  descriptor_close(claim);
  if (result == 0) {
    descriptor_close(*lock);
    *lock = -1;
  }
  return result;
}
