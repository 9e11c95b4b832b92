#ifndef AGENT_DOORS_REDIS_IN_INFLIGHT_READER_H
#define AGENT_DOORS_REDIS_IN_INFLIGHT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/out/outbox.h"

/*
 * Reads the list `inflight` from the oldest step to the newest, payload by payload, between two
 * batches of the outbox: while it reads nothing is removed, so that positions stay. Several LINDEX
 * share a round trip, as many as are small enough.
 *
 *   inflight_reader_boot     at boot, before the outbox is ready; what was started comes first
 *   inflight_reader_read     later
 *     payload()            one for each step, in order; returns whether more are wanted
 *     end()                once; `complete`: the list ends here. The next read may begin inside
 */
/* In one round trip, at the most: commands, and bytes of payloads as far as can be foreseen. */
#define INFLIGHT_READER_COMMANDS 64
#define INFLIGHT_READER_BYTES ((size_t)1 << 20)

struct inflight_reader {
  struct outbox *outbox;
  const struct keys *keys;
  bool (*payload)(void *owner, const struct claimed *claimed);
  void (*end)(void *owner, bool complete);
  void *owner;

  char *started;          /* at boot: the id of the step that was started; NULL: none was */
  int64_t started_events; /* how many of its events are in the stream; -1: not known */
  int started_version;    /* their schemaVersion; 1 where it is not known */

  bool is_running;
  bool is_wanted;      /* more is, and there may be more */
  unsigned boot_asked; /* boot answers still due, the LINDEX not counted */
  size_t position;     /* of the next answer, from the oldest, 1 */
  size_t due;          /* answers, in this round trip */
  size_t commands;     /* in this round trip */
  size_t bytes;        /* that came in this round trip */
  uint64_t *removed;   /* hashes of those that were found to be on their way out */
  size_t removed_count;
};

/* Outbox and keys must outlive it. */
void inflight_reader_init(struct inflight_reader *self, struct outbox *outbox,
                          const struct keys *keys,
                          bool (*payload)(void *owner, const struct claimed *claimed),
                          void (*end)(void *owner, bool complete), void *owner);
void inflight_reader_release(struct inflight_reader *self);

/* Reads everything, and `started` before. */
void inflight_reader_boot(struct inflight_reader *self);

/* Reads from this position on (1: the oldest), so many in the first round trip. It must not be
   running. */
void inflight_reader_read(struct inflight_reader *self, size_t position, size_t commands);

/*
 * Inside payload(), at most once for each: whether this step's removal is on its way in the outbox.
 * A removal takes the oldest of equal payloads, so of these the first ones count as removed.
 */
bool inflight_reader_is_removed(struct inflight_reader *self, const struct claimed *claimed);

#endif
