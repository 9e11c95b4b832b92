#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Decides when an execution sends the lines that it has collected. It is pure: the caller passes
 * the time, in milliseconds of any clock that does not go back. A batch is due
 *   - when it has BATCHER_LINES lines, or its oldest line is BATCHER_AGE_MS old, as the protocol
 *     promises;
 *   - at once, if its first line follows a pause of BATCHER_PAUSE_MS, so that single lines are sent
 *     one by one;
 *   - BATCHER_GAP_MS after the batch before it, for the first BATCHER_QUICK batches after a silence
 *     of BATCHER_AGE_MS: a short burst does not wait for the bound, and a continuous stream costs
 *     its reader at most ten batches per second.
 */
#define BATCHER_LINES 50
#define BATCHER_AGE_MS 100
#define BATCHER_PAUSE_MS 25
#define BATCHER_GAP_MS 10
#define BATCHER_QUICK 5

struct batcher {
  unsigned lines;
  unsigned quick;    /* how many more batches are due after the gap */
  int64_t oldest_ms; /* when the batch began */
  int64_t newest_ms; /* when the last line came */
  int64_t sent_ms;   /* when the last batch was sent */
  bool after_pause;  /* the batch began after a pause */
};

/* Begins without lines. `now_ms` counts as the end of a silence: the first line is due at once. */
void batcher_init(struct batcher *self, int64_t now_ms);

/* Notes that a line was collected. */
void batcher_add(struct batcher *self, int64_t now_ms);

/* Returns how long the batch may still wait: 0 if it is due, -1 if it is empty. */
int64_t batcher_due_in_ms(const struct batcher *self, int64_t now_ms);

/* Notes that all lines were sent. */
void batcher_flushed(struct batcher *self, int64_t now_ms);
