#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "agent/frontends/redis/connection/command.h"

/*
 * The queue of encoded commands that are not delivered yet, as the bytes that are sent. The outbox
 * adds commands, and the delivery sends them in batches, one transaction each.
 *
 *   out = send_queue_reserve(&queue, n);  … write exactly n bytes …
 *   send_queue_commit(&queue, commands)
 *   batch = send_queue_batch(&queue)         send the batch, as often as needed
 *   send_queue_remove_batch(&queue)          the batch was executed
 *
 * A batch must be resent byte for byte, so it does not change until it is removed, even if more
 * commands are committed meanwhile. Bytes lie in chunks and never move. Emptied chunks are reused;
 * all except one are freed when the queue is empty.
 */

/* Bytes in a chunk. Commands that are longer get a chunk of their own. With its header of 40 bytes,
   a chunk has the smallest size for which musl's malloc calls mmap (MMAP_THRESHOLD, 131052, in
   mallocng's meta.h). So a freed chunk is returned to the system and leaves no hole in the heap. */
#define SEND_QUEUE_CHUNK_SIZE ((size_t)131052 - 40)

/* Chunks in a batch. Redis executes a transaction of this size in one or two milliseconds, and its
   other clients wait meanwhile. Smaller batches would be slower, because each one costs a round
   trip. */
#define BATCH_PIECES 4

struct batch {
  struct iovec pieces[BATCH_PIECES];
  int count;       /* 0: there is no batch */
  size_t length;   /* bytes in all pieces */
  size_t left_out; /* bytes of removed commands, which count as queued until the batch leaves */
  size_t commands;
};

struct send_queue {
  struct send_queue_chunk *first; /* has the oldest commands */
  struct send_queue_chunk *last;
  struct send_queue_chunk *spares; /* emptied chunks, at most BATCH_PIECES */
  int spare_count;
  size_t bytes;       /* in the queue */
  uint64_t delivered; /* bytes that have left the queue since the program started */
  size_t reserved;    /* bytes that wait for send_queue_commit; 0: none */
  struct batch batch;
};

/* Frees all chunks. An empty queue is {0}. */
void send_queue_free(struct send_queue *self);

/* Returns space for exactly `length` bytes (> 0), which one batch will contain as a whole. */
char *send_queue_reserve(struct send_queue *self, size_t length);

/* Queues the reserved bytes, which the caller has written, as this number of commands. */
void send_queue_commit(struct send_queue *self, size_t commands);

/* Returns the oldest batch, which the first call fixes; NULL if nothing is queued. */
const struct batch *send_queue_batch(struct send_queue *self);

/* Reads the first `max` words of the batch's command with this index. */
void batch_find(const struct batch *self, size_t index, struct command_word *words, size_t max);

/* Removes commands of the batch, but not all. To be called only if Redis has not executed it. */
typedef bool send_queue_predicate(const void *owner, const struct command_word words[3]);
void send_queue_leave_out(struct send_queue *self, send_queue_predicate *is_left_out,
                          const void *owner);

/* Removes the batch that send_queue_batch has returned, if there is one. */
void send_queue_remove_batch(struct send_queue *self);

/* Sets *piece to the queued bytes of the chunk with this number, from the oldest on. A piece has
   whole commands only. Returns false if there are fewer chunks. */
bool send_queue_piece(const struct send_queue *self, size_t number, struct iovec *piece);
