#ifndef AGENT_DOORS_REDIS_DELIVERY_PREFLIGHT_H
#define AGENT_DOORS_REDIS_DELIVERY_PREFLIGHT_H

#include <stdbool.h>

#include "agent/doors/redis/client/handshake.h"
#include "agent/doors/redis/keys.h"

/*
 * The commands that end the handshake of the outbox's connection: they check that each key has the
 * expected type and that each command of the agent is permitted, and change nothing. So a wrong key
 * or a missing permission fails at boot, with an error that names command and key, and not with the
 * first result. What would write leaves when the MULTI before it is accepted: where MULTI is refused
 * it would be executed. The last three are the first probe, WATCH and GET committed, and the MULTI
 * that opens the first transaction (pipeline.h). The handshake's value is the probe's. Does no I/O.
 *
 * A new command or key of the agent is added to the list in preflight.c.
 */
#define PREFLIGHT_COUNT 27
#define PREFLIGHT_FIRST 7 /* up to MULTI, which is the last of them */

struct preflight {
  char *text; /* encoded commands */
};

/* The keys are read during the call. `trims`: XTRIM is needed, too. */
void preflight_init(struct preflight *self, const struct keys *keys, bool trims);
void preflight_release(struct preflight *self);

/* Borrows the text of the preflight. */
struct handshake_probe preflight_probe(const struct preflight *self);

#endif
