#ifndef AGENT_FRONTENDS_REDIS_INTAKE_INFLIGHT_READER_H
#define AGENT_FRONTENDS_REDIS_INTAKE_INFLIGHT_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/delivery/outbox.h"
#include "agent/frontends/redis/keys.h"

/*
 * Reads the list `inflight` from the oldest step to the newest, in pages of several LINDEX, as many
 * as are small enough to share a round trip. Batches of the outbox go in between, and may remove
 * steps: so the owner says for each page where it begins, when it is known what was delivered. The
 * first read, at boot, asks before for what was started.
 *
 *   inflight_reader_read     from place() on, at most so many in the first page; when none is running
 *     place()              the position of the next payload, from the tail, 1
 *     payload()            one for each step, in order; returns whether more are wanted
 *     end()                once; `complete`: the list ends here. The next read may begin inside
 */
/* In one page, at the most: commands, and bytes of payloads as far as can be foreseen. */
#define INFLIGHT_READER_COMMANDS 128
#define INFLIGHT_READER_BYTES ((size_t)1 << 20)

struct inflight_reader_handler {
  size_t (*place)(void *owner);
  bool (*payload)(void *owner, const struct claimed *claimed);
  void (*end)(void *owner, bool complete);
};

struct inflight_reader {
  struct outbox *outbox;
  const struct keys *keys;
  const struct inflight_reader_handler *handler;
  void *owner;
  char *started;          /* at boot: the id of the step that was started; NULL: none was. Owned */
  int64_t started_events; /* how many of its events are in the stream; -1: not known */
  int started_version;    /* their schemaVersion; 1 where it is not known, and at first */
  unsigned boot_due;      /* answers, before those of the page; at first 2 */
  bool is_running;
  bool is_wanted;  /* more is, and there may be more */
  size_t commands; /* in this page, or the last one, except for those at boot; at first 1 */
  size_t due;      /* answers */
  size_t bytes;    /* that came in this page */
};

/* Outbox and keys must outlive it. */
void inflight_reader_read(struct inflight_reader *self, size_t most);

#endif
