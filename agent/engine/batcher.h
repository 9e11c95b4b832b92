#ifndef AGENT_ENGINE_BATCHER_H
#define AGENT_ENGINE_BATCHER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * When collected lines leave: at 50 lines, or when the oldest is 100 ms old, whichever comes first
 * (the contract's soft batch); and a line that follows 100 ms of silence at once. Pure: it is told
 * the time, in milliseconds of any clock that does not go back.
 */
#define BATCHER_LINES 50
#define BATCHER_AGE_MS 100

struct batcher {
  unsigned lines;
  int64_t oldest_ms;
  int64_t newest_ms;
  bool after_silence; /* the batch began with a line after silence */
};

/* `now_ms` counts as the end of a silence: the first line leaves at once. */
void batcher_init(struct batcher *self, int64_t now_ms);

/* A line was collected. */
void batcher_add(struct batcher *self, int64_t now_ms);

/* How long the batch may still wait: 0 when it is due, -1 when there is none. */
int64_t batcher_due_in_ms(const struct batcher *self, int64_t now_ms);

/* All collected lines left. */
void batcher_flushed(struct batcher *self);

#endif
