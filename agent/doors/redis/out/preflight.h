#ifndef AGENT_DOORS_REDIS_OUT_PREFLIGHT_H
#define AGENT_DOORS_REDIS_OUT_PREFLIGHT_H

#include "agent/doors/redis/client/handshake.h"
#include "agent/doors/redis/keys.h"

/*
 * What is asked of the server before anything is done in its name: whether each key is of the type
 * that it should be, and whether each command would be allowed. So that what is wrong is said at
 * boot, with the command and the key, and not with the first result. The last command of all is GET
 * committed, after a WATCH. Does no I/O.
 */
#define PREFLIGHT_COUNT 25

struct preflight {
  char *text;
};

/* The keys are read during the call only. */
void preflight_init(struct preflight *self, const struct keys *keys);
void preflight_release(struct preflight *self);

/* Valid as long as the permissions are. */
struct handshake_probe preflight_probe(const struct preflight *self);

#endif
