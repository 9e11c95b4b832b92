#ifndef AGENT_FRONTENDS_REQUEST_FILES_CLAIMS_H
#define AGENT_FRONTENDS_REQUEST_FILES_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/request_files/ipc_directory.h"

/*
 * Who executes a request: the one that makes the directory `.claim-<id>`. Scripts make it by mkdir
 * and never remove it. An agent puts a file `owner` with its instance, 16 hexadecimal digits, into
 * it, and holds a lock (flock) on the file `.agent-<instance>` as long as it lives: a claim whose
 * owner's lock can be taken, or is not there, is of an agent that is dead. One without `owner` is a
 * script's and left alone.
 *
 *   claims_open(&claims, directory)
 *   claims_take                       at most one of all who share the directory gets CLAIM_TAKEN
 *   claims_owner                      what a dead agent has left?
 *   claims_drop                       when request and result are gone
 *   claims_close                      removes the lock; claims stay
 *
 * All names of its own begin with `.agent-<instance>`: no other program in the directory looks at
 * those. No link is followed, and nothing is opened that is not a regular file or a directory. Who
 * may write in the directory can undo a claim; he cannot have anything made, changed or removed
 * outside of it.
 */
#define CLAIMS_INSTANCE_LENGTH 16

/* The dead agent that a sweep is about, and the one that the next is about; "": none is known. */
struct claims_sweep {
  char dead[CLAIMS_INSTANCE_LENGTH + 1];
  char next[CLAIMS_INSTANCE_LENGTH + 1];
  bool has_claims;
};

struct claims {
  int directory; /* the caller's */
  int lock;      /* -1: none */
  char instance[CLAIMS_INSTANCE_LENGTH + 1];
  uint64_t names;   /* that were made so far */
  bool plain_mkdir; /* the file system cannot rename without replacing: claims are made in place */
  struct claims_sweep sweep;
};

/* A claims_close is fine for it. */
#define CLAIMS_NONE                                                                                \
  (struct claims) {                                                                                \
    .directory = -1, .lock = -1                                                                    \
  }

/* Begins in this directory, and takes the lock in it when it can; -1: nothing is claimed until
   there is another one. An instance of before is kept. */
void claims_open(struct claims *self, int directory);
void claims_close(struct claims *self);

/* Makes the lock where there is none, or somebody has removed it. Returns 0, or -1 with errno. */
int claims_renew(struct claims *self);

enum claim {
  CLAIM_TAKEN,
  CLAIM_FOREIGN, /* somebody else has it */
  CLAIM_REFUSED  /* the system refuses it: errno, such as EACCES */
};

enum claim claims_take(struct claims *self, const char *id);

/* Removes one that this agent has, or one that is dead. */
void claims_drop(struct claims *self, const char *id);

enum claim_owner {
  CLAIM_OF_NOBODY, /* there is none */
  CLAIM_OF_SELF,
  CLAIM_OF_SCRIPT, /* or of what cannot be read */
  CLAIM_OF_AGENT,  /* that lives */
  CLAIM_OF_DEAD
};

/* Whose the claim is. For one of the dead `*lock` is the dead one's lock, held until the caller
   closes it so that no other agent comes to the same conclusion, or -1 where there is none any
   more; else it is -1. */
enum claim_owner claims_owner(const struct claims *self, const char *id, int *lock);

/* A sweep goes over all names of the directory: begin, each name, end. It removes what one dead
   agent has left under names of its own, and its lock when there is no claim of it; and it finds
   the dead one that the next sweep is about. Of a claim's name the id is returned, else NULL. */
void claims_sweep_begin(struct claims *self);
const char *claims_sweep_name(struct claims *self, const char *name);
void claims_sweep_end(struct claims *self);

/* Another name for a file of this agent's. */
struct ipc_name claims_make_name(struct claims *self);

#endif
