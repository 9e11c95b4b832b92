#ifndef AGENT_FRONTENDS_REDIS_DELIVERY_SEND_QUEUE_H
#define AGENT_FRONTENDS_REDIS_DELIVERY_SEND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/*
 * The encoded commands that are not delivered, in the very bytes that are sent. They leave in
 * batches, one transaction each.
 *
 *   out = send_queue_reserve(&queue, n);  … write exactly n bytes …
 *   send_queue_commit(&queue, commands)
 *   batch = send_queue_batch(&queue)         send it, as often as needed
 *   send_queue_delivered(&queue)             it was executed
 *
 * A batch stays what it is until it is delivered, whatever is committed meanwhile: what is sent
 * again must be what was sent. Bytes lie in chunks and never move. Emptied chunks are used again;
 * when the queue is empty all but one are freed.
 */

/* Bytes in a chunk; what is longer gets a chunk of its own. With its head of 40 bytes a chunk has
   the least size that musl's malloc maps by itself (MMAP_THRESHOLD, 131052, in mallocng's meta.h):
   so what is freed goes back to the system and leaves no hole in the heap. */
#define SEND_QUEUE_CHUNK_SIZE ((size_t)131052 - 40)

/* Chunks in a batch. Redis executes a transaction in one go: one of this size takes it one or two
   milliseconds, in which its other clients wait. Between two of them it waits for the agent, so a
   small one would be slow. */
#define BATCH_PIECES 4

struct batch {
  struct iovec pieces[BATCH_PIECES];
  int count;     /* 0: there is no batch */
  size_t length; /* bytes in all pieces */
  size_t commands;
};

struct send_queue {
  struct send_queue_chunk *first; /* of the oldest commands */
  struct send_queue_chunk *last;
  struct send_queue_chunk *spares; /* emptied; at most BATCH_PIECES */
  int spare_count;
  size_t bytes;    /* not delivered */
  uint64_t gone;   /* bytes that were delivered since the beginning */
  size_t reserved; /* bytes that wait for send_queue_commit; 0: none */
  struct batch batch;
};

/* One with nothing in it is {0}. */
void send_queue_free(struct send_queue *self);

/* Returns space for exactly `length` bytes (> 0), which are never split over two batches; when they
   are written, they are queued as this number of commands. */
char *send_queue_reserve(struct send_queue *self, size_t length);
void send_queue_commit(struct send_queue *self, size_t commands);

/* The oldest batch, fixed by the first call; NULL when nothing is queued. */
const struct batch *send_queue_batch(struct send_queue *self);

/* Removes the oldest batch, if send_queue_batch was called for it. */
void send_queue_delivered(struct send_queue *self);

/* The bytes that are not delivered, in their order: false when there are not so many pieces.
   Commands are whole in each. */
bool send_queue_piece(const struct send_queue *self, size_t number, struct iovec *piece);

#endif
