#ifndef TESTS_SUPPORT_AHEAD_H
#define TESTS_SUPPORT_AHEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/doors/redis/out/send_queue.h"
#include "tests/support/delivery_owner.h"

/*
 * A window that a delivery sends ahead, up to its EXEC, while the one before it is under way. What
 * is delivered are records with a number; 0 is the window before, alone.
 *
 *   ahead_start(owner)               or delivery_owner_start, what is wanted of Redis, ahead_go
 *   what happens meanwhile
 *   ahead_let_reply(owner)
 *   ahead_all_is_done(owner, 0, AHEAD_MORE)
 */

/* A record of this length takes a chunk; AHEAD_MORE of them are more than a window, and one fewer
   is less. */
enum { AHEAD_RECORD = SEND_QUEUE_CHUNK_SIZE - 1000 };
enum { AHEAD_WINDOW = BATCH_PIECES, AHEAD_MORE = AHEAD_WINDOW + 1 };

/* Holds "<number>-xxx…", so long. */
void ahead_put(struct delivery_owner *owner, int number, size_t length);

/* Holds records with these numbers, and goes. */
void ahead_put_records(struct delivery_owner *owner, int from, int to);

/* Sends number 0, and waits until that window, and what is asked behind it, has arrived. */
void ahead_send_first(struct delivery_owner *owner);

/* Waits until the window with this number in `committed` has arrived up to its EXEC; which must not
   follow. */
void ahead_await(struct delivery_owner *owner, int number);

/* The last command that arrived is a window's last but EXEC. For loop_until. */
bool ahead_is_last(void *owner);

/* Number 0 is answered up to its EXEC, and what follows is kept back; 1 to AHEAD_WINDOW are ahead,
   with the number 3 behind those of the claim and of the window before; AHEAD_MORE is held. */
void ahead_go(struct delivery_owner *owner);

/* Starts the delivery, and goes; number 0 is done. */
void ahead_start(struct delivery_owner *owner);

/* Sends what was kept back, and keeps back no more. */
void ahead_let_reply(struct delivery_owner *owner);

/* Waits until nothing is held; all of these numbers were done once, one behind the other. */
void ahead_all_is_done(struct delivery_owner *owner, int from, int to);

#endif
