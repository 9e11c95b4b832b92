#ifndef AGENT_DOORS_REDIS_OUT_SEND_QUEUE_H
#define AGENT_DOORS_REDIS_OUT_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * What has been written for Redis and is not delivered: a queue of encoded commands, in the very
 * bytes that are sent. They leave a window at a time.
 *
 *   char *out = send_queue_reserve(&hold, n);  … exactly n bytes …   send_queue_commit(&hold,
 * commands) send_queue_batch(&hold)                   send it, as often as it takes
 *   send_queue_next_batch(&hold)            send that too, where it helps
 *   send_queue_delivered(&hold)                the first one arrived
 *
 * A window stays what it is until it is delivered, whatever is committed meanwhile: what is sent
 * again must be what was sent.
 *
 * Bytes lie in chunks of SEND_QUEUE_CHUNK_SIZE (what is larger has a chunk of its own) and are
 * never moved. Emptied chunks are used again, and freed when nothing is held, but for one.
 */

/* With its head it is the least that musl's malloc maps by itself (MMAP_THRESHOLD in mallocng's
   meta.h), in 32 pages: what has been delivered is the system's again, and not a hole. */
#define SEND_QUEUE_CHUNK_SIZE ((size_t)131052 - 40)

/* A window is at most so many chunks: Redis, which executes it in one go, is then away from its
   other clients for about a millisecond. */
#define BATCH_PIECES 2

struct batch {
  struct iovec pieces[BATCH_PIECES];
  int count; /* 0: there is no window */
  size_t length;
  size_t commands;
};

struct send_queue {
  struct send_queue_chunk *first; /* of the oldest commands */
  struct send_queue_chunk *last;
  struct send_queue_chunk *spares; /* emptied; at most a window's */
  int spare_count;
  size_t bytes;    /* not delivered */
  uint64_t gone;   /* bytes that were delivered, ever */
  size_t reserved; /* what send_queue_reserve gave room for */
  struct batch batch;
  struct batch next;
};

/* One chunk's part of what is held. */
struct send_queue_piece {
  const char *bytes;
  size_t length;
};

void send_queue_init(struct send_queue *self);
void send_queue_free(struct send_queue *self);

/* Room for exactly so many bytes (> 0), which become one piece. Aborts when out of memory. */
char *send_queue_reserve(struct send_queue *self, size_t length);

/* What was reserved is written, and is so many commands. */
void send_queue_commit(struct send_queue *self, size_t commands);

/* The window; NULL when nothing is held. */
const struct batch *send_queue_batch(struct send_queue *self);

/* What is to leave behind the window: NULL unless that is all that a window takes. */
const struct batch *send_queue_next_batch(struct send_queue *self);

void send_queue_delivered(struct send_queue *self);

/* Everything that is held, oldest first: the first piece with NULL, each next one with the piece
   before. False when there is no more. */
bool send_queue_next_piece(const struct send_queue *self, struct send_queue_piece *piece);

#endif
