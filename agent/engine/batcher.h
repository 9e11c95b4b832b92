#ifndef AGENT_ENGINE_BATCHER_H
#define AGENT_ENGINE_BATCHER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * When collected lines leave. Pure: it is told the time, in milliseconds of any clock that does not
 * go back. A batch is due
 *   - when it holds BATCHER_LINES lines, or its oldest line is BATCHER_AGE_MS old: the bound that
 *     the protocol promises;
 *   - at once, when its first line follows a pause of BATCHER_PAUSE_MS: lines that come one by one
 *     leave one by one;
 *   - BATCHER_GAP_MS after the batch before it, for the first BATCHER_QUICK batches after a silence
 *     of BATCHER_AGE_MS: a short burst does not wait for the bound, and a stream that goes on costs
 *     its reader no more than ten batches a second.
 */
#define BATCHER_LINES 50
#define BATCHER_AGE_MS 100
#define BATCHER_PAUSE_MS 25
#define BATCHER_GAP_MS 10
#define BATCHER_QUICK 5

struct batcher {
  unsigned lines;
  unsigned quick;    /* how many more batches may leave after the gap alone */
  int64_t oldest_ms; /* of the lines collected */
  int64_t newest_ms; /* the last line ever */
  int64_t left_ms;   /* the last batch */
  bool after_pause;  /* the batch began with a line after a pause */
};

/* `now_ms` counts as the end of a silence: the first line leaves at once. */
void batcher_init(struct batcher *self, int64_t now_ms);

/* A line was collected. */
void batcher_add(struct batcher *self, int64_t now_ms);

/* How long the batch may still wait: 0 when it is due, -1 when there is none. */
int64_t batcher_due_in_ms(const struct batcher *self, int64_t now_ms);

/* All collected lines left. */
void batcher_flushed(struct batcher *self, int64_t now_ms);

#endif
