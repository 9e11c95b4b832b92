#ifndef AGENT_REDIS_HOLD_H
#define AGENT_REDIS_HOLD_H

#include <stddef.h>
#include <sys/uio.h>

/*
 * What has been written for Redis and not been acknowledged: a queue of records (encoded commands)
 * in the very bytes that are sent. Three marks move through it, each behind the one before:
 * acknowledged, sent, released to be sent. When a connection is lost, what was sent and not
 * acknowledged is sent again.
 *
 *   char *out = hold_reserve(&hold, n);  … exactly n bytes …   hold_commit(&hold)
 *   hold_release_all(&hold)              what is committed may be sent
 *   n = hold_unsent(&hold, iov, 8);  write;  hold_sent(&hold, written)
 *   hold_acknowledged(&hold)             once per record, in order
 *   hold_rewind(&hold)                   after a lost connection
 *
 * Records lie in chunks of 64 KiB (a larger record has a chunk of its own), and are never moved;
 * a chunk is freed with its last record.
 */
struct hold {
  struct hold_chunk *first; /* of the oldest record */
  struct hold_chunk *last;
  struct hold_chunk *send; /* where sending goes on */
  size_t send_at;          /* offset in `send` */
  size_t bytes;            /* not acknowledged */
  size_t records;          /* not acknowledged */
  size_t reserved;         /* length of the record being written, 0 for none */
};

void hold_init(struct hold *self);
void hold_free(struct hold *self);

/* Room for one record of exactly this length (> 0). Aborts when out of memory. */
char *hold_reserve(struct hold *self, size_t length);
void hold_commit(struct hold *self);

/* Everything committed so far may be sent. */
void hold_release_all(struct hold *self);

/* The next bytes to send, at most `most` pieces; returns the number of pieces. */
int hold_unsent(const struct hold *self, struct iovec *pieces, int most);

/* So many of them were written. */
void hold_sent(struct hold *self, size_t length);

/* The oldest record, or NULL when there is none. */
const char *hold_oldest(const struct hold *self, size_t *length);

/* The oldest record arrived; it must have been sent. */
void hold_acknowledged(struct hold *self);

/* Sends again from the oldest record that is not acknowledged. */
void hold_rewind(struct hold *self);

#endif
