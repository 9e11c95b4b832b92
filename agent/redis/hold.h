#ifndef AGENT_REDIS_HOLD_H
#define AGENT_REDIS_HOLD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * What has been written for Redis and is not delivered: a queue of encoded commands, in the very
 * bytes that are sent. They leave a window at a time: the oldest ones that lie in one piece.
 *
 *   char *out = hold_reserve(&hold, n);  … exactly n bytes …   hold_commit(&hold, commands)
 *   hold_window(&hold, &window)          send it, as often as it takes
 *   hold_delivered(&hold)                it arrived
 *
 * A window stays what it is until it is delivered, whatever is committed meanwhile: what is sent
 * again must be what was sent.
 *
 * Bytes lie in chunks of HOLD_CHUNK_SIZE (what is larger has a chunk of its own) and are never
 * moved; a chunk is freed with its last byte.
 */
#define HOLD_CHUNK_SIZE ((size_t)64 * 1024)

struct hold {
  struct hold_chunk *first; /* of the oldest commands */
  struct hold_chunk *last;
  size_t bytes;       /* not delivered */
  size_t reserved;    /* what hold_reserve gave room for */
  size_t window;      /* bytes of the window, from the first chunk's start; 0 for none */
  size_t window_size; /* commands in it */
};

struct hold_window {
  const char *bytes;
  size_t length;
  size_t commands;
};

void hold_init(struct hold *self);
void hold_free(struct hold *self);

/* Room for exactly so many bytes (> 0), which become one piece. Aborts when out of memory. */
char *hold_reserve(struct hold *self, size_t length);

/* What was reserved is written, and is so many commands. */
void hold_commit(struct hold *self, size_t commands);

/* The window; false when nothing is held. */
bool hold_window(struct hold *self, struct hold_window *window);
void hold_delivered(struct hold *self);

/* Everything that is held, oldest first: the first piece with NULL, each next one with the piece
   before. False when there is no more. */
bool hold_next_piece(const struct hold *self, struct hold_window *piece);

#endif
