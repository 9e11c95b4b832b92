#ifndef AGENT_REDIS_HOLD_H
#define AGENT_REDIS_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * What has been written for Redis and is not delivered: a queue of encoded commands, in the very
 * bytes that are sent. They leave a window at a time.
 *
 *   char *out = hold_reserve(&hold, n);  … exactly n bytes …   hold_commit(&hold, commands)
 *   hold_window(&hold)                   send it, as often as it takes
 *   hold_window_behind(&hold)            send that too, where it helps
 *   hold_delivered(&hold)                the first one arrived
 *
 * A window stays what it is until it is delivered, whatever is committed meanwhile: what is sent
 * again must be what was sent.
 *
 * Bytes lie in chunks of HOLD_CHUNK_SIZE (what is larger has a chunk of its own) and are never
 * moved. Emptied chunks are used again, and freed when nothing is held, but for one.
 */

/* With its head it is the least that musl's malloc maps by itself (MMAP_THRESHOLD in mallocng's
   meta.h), in 32 pages: what has been delivered is the system's again, and not a hole. */
#define HOLD_CHUNK_SIZE ((size_t)131052 - 40)

/* A window is at most so many chunks: Redis, which executes it in one go, is then away from its
   other clients for about a millisecond. */
#define HOLD_WINDOW_PIECES 2

struct hold_window {
  struct iovec pieces[HOLD_WINDOW_PIECES];
  int count; /* 0: there is no window */
  size_t length;
  size_t commands;
};

struct hold {
  struct hold_chunk *first; /* of the oldest commands */
  struct hold_chunk *last;
  struct hold_chunk *spares; /* emptied; at most a window's */
  int spare_count;
  size_t bytes;    /* not delivered */
  uint64_t gone;   /* bytes that were delivered, ever */
  size_t reserved; /* what hold_reserve gave room for */
  struct hold_window window;
  struct hold_window behind;
};

/* One chunk's part of what is held. */
struct hold_piece {
  const char *bytes;
  size_t length;
};

void hold_init(struct hold *self);
void hold_free(struct hold *self);

/* Room for exactly so many bytes (> 0), which become one piece. Aborts when out of memory. */
char *hold_reserve(struct hold *self, size_t length);

/* What was reserved is written, and is so many commands. */
void hold_commit(struct hold *self, size_t commands);

/* The window; NULL when nothing is held. */
const struct hold_window *hold_window(struct hold *self);

/* What is to leave behind the window: NULL unless that is all that a window takes. */
const struct hold_window *hold_window_behind(struct hold *self);

void hold_delivered(struct hold *self);

/* Everything that is held, oldest first: the first piece with NULL, each next one with the piece
   before. False when there is no more. */
bool hold_next_piece(const struct hold *self, struct hold_piece *piece);

#endif
