#ifndef TESTS_SUPPORT_AHEAD_H
#define TESTS_SUPPORT_AHEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/redis/out/send_queue.h"
#include "tests/support/delivery_owner.h"

/*
 * A transaction that a delivery opens while the one before it is under way (pipeline.h). What is
 * delivered are records with a number; number 0 is the batch before, alone.
 *
 *   ahead_start(owner)               or delivery_owner_start, changes of owner->redis, ahead_go
 *   … what happens meanwhile …
 *   ahead_let_reply(owner)
 *   ahead_all_is_done(owner, 0, AHEAD_MORE)
 */

/* A record of this length takes a chunk: AHEAD_BATCH of them are a full batch, AHEAD_MORE more than
   one. */
enum { AHEAD_RECORD = SEND_QUEUE_CHUNK_SIZE - 1000 };
enum { AHEAD_BATCH = BATCH_PIECES, AHEAD_MORE = AHEAD_BATCH + 1 };

/* Queues "<number>-xxx…", of this length. */
void ahead_put(struct delivery_owner *owner, int number, size_t length);

/* Queues records with these numbers, and flushes. */
void ahead_put_records(struct delivery_owner *owner, int from, int to);

/* Sends number 0, and waits until its transaction and the probe after it have arrived. */
void ahead_send_first(struct delivery_owner *owner);

/* Waits until the transaction with this sequence in `committed` has arrived without its EXEC, which
   must not follow. */
void ahead_await(struct delivery_owner *owner, int number);

/* True when the last command that arrived is the SET of a transaction. For loop_until. */
bool ahead_is_last(void *owner);

/* Number 0 gets the replies before EXEC's, the rest is kept back. 1 to AHEAD_BATCH are in the open
   transaction, whose sequence is 3: 1 is the ownership transaction, 2 the batch of number 0.
   AHEAD_MORE is queued. */
void ahead_go(struct delivery_owner *owner);

/* delivery_owner_start and ahead_go; number 0 was executed. */
void ahead_start(struct delivery_owner *owner);

/* Sends the replies that were kept back, and keeps back no more. */
void ahead_let_reply(struct delivery_owner *owner);

/* Waits until the send queue is empty; each of these numbers must have been executed once, in
 * order. */
void ahead_all_is_done(struct delivery_owner *owner, int from, int to);

#endif
