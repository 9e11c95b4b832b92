#ifndef AGENT_REDIS_PERMISSIONS_H
#define AGENT_REDIS_PERMISSIONS_H

#include "agent/redis/login.h"
#include "wire/keys.h"

/*
 * What is asked of the server before anything is done in its name: whether each key is of the type
 * that it should be, and whether each command would be allowed. So that what is wrong is said at
 * boot, with the command and the key, and not with the first result. The last command of all is GET
 * committed, after a WATCH. Does no I/O.
 */
#define PERMISSIONS_COUNT 25

struct permissions {
  char *text;
};

/* The keys are read during the call only. */
void permissions_init(struct permissions *self, const struct keys *keys);
void permissions_release(struct permissions *self);

/* Valid as long as the permissions are. */
struct login_probe permissions_probe(const struct permissions *self);

#endif
