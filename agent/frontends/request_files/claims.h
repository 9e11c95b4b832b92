#ifndef AGENT_FRONTENDS_REQUEST_FILES_CLAIMS_H
#define AGENT_FRONTENDS_REQUEST_FILES_CLAIMS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/frontends/request_files/ipc_directory.h"

/*
 * Decides which of several agents and scripts executes a request: the one that makes the directory
 * `.claim-<id>`. Scripts make it with mkdir and never remove it. An agent puts a file `owner` with
 * its instance, 16 hexadecimal digits, into it, and holds a lock (flock) on the file
 * `.agent-<instance>` while it runs. If the lock of a claim's owner is free or missing, that agent
 * is dead. A claim without `owner` belongs to a script and is left alone.
 *
 *   claims_open(&claims, directory)
 *   claims_acquire                    at most one process in the directory gets CLAIM_ACQUIRED
 *   claims_owner                      finds the claims of dead agents
 *   claims_drop                       when request and result are gone
 *   claims_close                      removes the lock; claims stay
 *
 * Every other name that an agent makes begins with `.agent-<instance>`, which no other program
 * looks at. No link is followed, and only regular files and directories are opened. A user who may
 * write in the directory can undo a claim, but cannot make the agent change anything outside of it.
 */
#define CLAIMS_INSTANCE_LENGTH 16

/* The dead agents of this sweep and of the next one; "": none. */
struct claims_sweep {
  char dead[CLAIMS_INSTANCE_LENGTH + 1];
  char next[CLAIMS_INSTANCE_LENGTH + 1];
  bool has_claims;
};

struct claims {
  int directory; /* the caller's */
  int lock;      /* -1: none */
  char instance[CLAIMS_INSTANCE_LENGTH + 1];
  uint64_t names;   /* made so far */
  bool plain_mkdir; /* the file system cannot rename without replacing: claims are made in place */
  struct claims_sweep sweep;
};

/* claims_close accepts it. */
#define CLAIMS_NONE                                                                                \
  (struct claims) {                                                                                \
    .directory = -1, .lock = -1                                                                    \
  }

/* Uses this directory, and takes the lock in it if possible; -1: nothing is claimed until there is
   another directory. Keeps the instance. */
void claims_open(struct claims *self, int directory);
void claims_close(struct claims *self);

/* Makes the lock unless it is there. Returns 0, or -1 with errno. */
int claims_renew(struct claims *self);

enum claim {
  CLAIM_ACQUIRED,
  CLAIM_FOREIGN, /* another process has it */
  CLAIM_REFUSED  /* the system rejects it; errno says why */
};

enum claim claims_acquire(struct claims *self, const char *id);

/* Removes a claim of this agent, or of a dead one. */
void claims_drop(struct claims *self, const char *id);

enum claim_owner {
  CLAIM_OF_NOBODY, /* there is no claim */
  CLAIM_OF_SELF,
  CLAIM_OF_SCRIPT, /* or its owner cannot be read */
  CLAIM_OF_AGENT,  /* that runs */
  CLAIM_OF_DEAD
};

/* Returns the owner of a claim. For CLAIM_OF_DEAD `*lock` is the dead agent's lock, which the
   caller closes, or -1 if there is none; while it is held, no other agent finds the same claim
   dead. Else `*lock` is -1. */
enum claim_owner claims_owner(const struct claims *self, const char *id, int *lock);

/* Between begin and end of a sweep, the caller passes each name of the directory to
   claims_sweep_name. The sweep removes the hidden files of one dead agent, and its lock if no claim
   of it is left; and it finds the dead agent of the next sweep. claims_sweep_name returns the id if
   the name is that of a claim, else NULL. */
void claims_sweep_begin(struct claims *self);
const char *claims_sweep_name(struct claims *self, const char *name);
void claims_sweep_end(struct claims *self);

/* Returns a new hidden name for a file of this agent. */
struct ipc_name claims_make_name(struct claims *self);

#endif
