#pragma once

#include "agent/frontends/request_files/ipc_directory.h"

/*
 * Decides which of several agents and scripts executes a request: the one that makes the directory
 * `.claim-<id>`. Scripts make it with mkdir and never remove it. An agent puts a file `state` into
 * it, and holds a lock (flock) on that file until it has written the result. If the lock is free
 * and the file does not say that the request is answered, the agent is dead. A claim without such a
 * file belongs to a script and is left alone.
 *
 *   claims_acquire            at most one process in the directory gets CLAIM_ACQUIRED
 *   claims_close_answered     once the result is written
 *   claims_remove             when request and result are gone
 *
 * No link is followed, and only regular files and directories are opened. A user who may write in
 * the directory can undo a claim, but cannot make the agent change anything outside of it.
 */
enum claim {
  CLAIM_ACQUIRED, /* the caller has made it */
  CLAIM_OF_DEAD,  /* an agent that is dead has made it */
  CLAIM_ANSWERED, /* an agent has made it and answered its request */
  CLAIM_FOREIGN,  /* another process has it */
  CLAIM_REFUSED   /* the system rejects it; errno says why */
};

/* Makes a claim, or takes over one that an agent has made. `*lock` is -1 before; it becomes the
   lock, a descriptor, if the result is one of the first three. */
enum claim claims_acquire(struct ipc_directory *ipc, const char *id, int *lock);

/* Only takes over: CLAIM_OF_DEAD, CLAIM_ANSWERED or CLAIM_FOREIGN. */
enum claim claims_take_over(const struct ipc_directory *ipc, const char *id, int *lock);

bool claims_exists(const struct ipc_directory *ipc, const char *id);

/* Records that the request was answered, and closes the lock. */
void claims_close_answered(int *lock);

/* Removes a claim of which the caller has the lock, and closes the lock. Returns 0, or -1 if the
   claim cannot be removed, and the caller keeps the lock. */
int claims_remove(const struct ipc_directory *ipc, const char *id, int *lock);

/* Returns the id if this is the name of a claim, else NULL. */
const char *claims_id_of(const char *name);
