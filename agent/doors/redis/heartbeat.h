#ifndef AGENT_DOORS_REDIS_HEARTBEAT_H
#define AGENT_DOORS_REDIS_HEARTBEAT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/net/url.h"
#include "base/error.h"
#include "base/log.h"

/*
 * Says that the agent is there: the key `heartbeat`, which lives for HEARTBEAT_SECONDS, is set
 * every HEARTBEAT_MS, over a connection of its own, so that nothing that the agent has to say
 * stands in front of it.
 *
 *   heartbeat_command   the first beat goes with the claim (outbox.h): there is no time in which a
 *                       job has an owner and no heartbeat
 *   heartbeat_start     the job is claimed
 *     committed()       what the key `committed` held at a beat, or before the first one on a new
 *                       connection; false: the job is another agent's, and the heartbeat stops
 *     detour()          there is no connection: this beat is the owner's to bring, if it can; true:
 *                       the one that it brought before has arrived
 *     silent()          Redis has not answered the beat before this one
 *     failed()          an error that does not pass: the heartbeat has stopped
 *   heartbeat_end       nobody is there any more
 *     ended()           what was sent has arrived, or the connection is lost: the owner may remove
 *                       the key, and nothing sets it again
 *   heartbeat_stop      whose the key is now is not known: it is left alone
 *
 * A beat is one wake-up: its answer is read when the next one is due. So an idle agent costs next
 * to nothing, and committed() is told what was HEARTBEAT_MS ago. The log says when nobody can see
 * the key (visibility.h).
 */
#define HEARTBEAT_MS 2000
#define HEARTBEAT_SECONDS 10

struct heartbeat;

struct heartbeat_handler {
  bool (*step_in_flight)(void *owner);
  bool (*committed)(void *owner, const char *value, size_t length); /* NULL: there is none */
  bool (*detour)(void *owner, const char *value, const char *seconds);
  void (*silent)(void *owner);
  void (*ended)(void *owner);
  void (*failed)(void *owner, const struct error *error);
};

/* Everything must outlive it. `name` is for CLIENT LIST. */
struct heartbeat *heartbeat_new(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const struct keys *keys,
                                const char *name, const struct heartbeat_handler *handler,
                                void *owner);
void heartbeat_free(struct heartbeat *self);

/* SET as it is to be sent now, to be freed. */
char *heartbeat_command(const struct heartbeat *self);

void heartbeat_start(struct heartbeat *self);

/* True: it has ended, also when it was never started; false: ended() follows, within
   HEARTBEAT_END_MS. Again is the same. */
#define HEARTBEAT_END_MS 1000
bool heartbeat_end(struct heartbeat *self);

/* Again is the same. */
void heartbeat_stop(struct heartbeat *self);

#endif
