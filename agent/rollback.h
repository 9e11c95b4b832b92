#ifndef AGENT_ROLLBACK_H
#define AGENT_ROLLBACK_H

#include <stdbool.h>

#include "agent/history.h"
#include "agent/redis/outbox.h"
#include "agent/supply.h"
#include "base/log.h"

/*
 * Redis has gone back to a time before, or is empty: what is known here it knows again, and a step
 * that it hands out once more runs at most once and is answered once.
 *
 *   rollback_forgotten     what it had acknowledged is lost
 *   rollback_missing       nothing but that steps were taken is lost
 *   rollback_settles       of each step that is taken
 *     lost()               it has run, and its result is nowhere: the owner answers it
 */
struct rollback {
  const struct log *log;
  struct outbox *outbox;
  struct supply *supply;
  struct history *history; /* has every step that was begun */
  void (*lost)(void *owner, const struct queued *queued);
  void *owner;
  const char *running; /* inside the first two */
};

/* `running` is the id of the step that supply_next gave last and that was begun; NULL: there is
   none. */
void rollback_forgotten(struct rollback *self, const char *running);
void rollback_missing(struct rollback *self, const char *running);

/* True when the step came once more; then there is nothing left to be done for it. */
bool rollback_settles(struct rollback *self, const struct queued *queued);

#endif
