#ifndef TESTS_SUPPORT_REDIS_STORE_H
#define TESTS_SUPPORT_REDIS_STORE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/frontends/redis/connection/url.h"

/*
 * A Redis in the test's own loop, as far as an agent needs one: any number of connections, strings,
 * lists, sets and streams, transactions that fail when a watched key was written, and BLMOVE, which
 * waits. No key expires. What is executed is written down, so that a test sees its order.
 *
 *   store = redis_store_new(base)
 *   redis_store_do(store, "LPUSH sandbox:j:in {…}")        as another client
 *   redis_store_executed(store)                            one line each
 */
struct redis_store;

struct redis_store *redis_store_new(struct event_base *base);
void redis_store_free(struct redis_store *self);

struct redis_url redis_store_url(const struct redis_store *self);

/* No more connections are taken, and those that there are end; and taken again. */
void redis_store_go_away(struct redis_store *self);
void redis_store_come_back(struct redis_store *self);

/* Commands of the connection with this name are read, but neither executed nor answered, until the
   name is NULL again; a connection that only gets this name gets no answer to that either. "out":
   of sandbox:<job>:out. NULL also ends what a fault holds or mutes. */
void redis_store_hold(struct redis_store *self, const char *role);

/* The connection with this name is lost; `stray`: a BLMOVE that waits on it takes the next value
   nevertheless. */
void redis_store_lose(struct redis_store *self, const char *role, bool stray);

/* The data of now; restored, when Redis is killed and comes back with it. NULL: with nothing. */
struct redis_store_snapshot *redis_store_snapshot(const struct redis_store *self);
void redis_store_restore(struct redis_store *self, const struct redis_store_snapshot *snapshot);
void redis_store_snapshot_free(struct redis_store_snapshot *snapshot);

/* What happens to commands that begin so, instead of what Redis does. All texts are borrowed. */
struct redis_store_fault {
  const char *command; /* NULL: there is no fault; "": all of them */
  enum {
    REDIS_STORE_REFUSES,        /* `text` is the error, also in place of QUEUED */
    REDIS_STORE_REFUSES_INSIDE, /* it is queued, and `text` the error among the replies to EXEC */
    REDIS_STORE_ANSWERS, /* `text` are the bytes of the reply, and those of `endless` follow again
                            and again, as fast as they are taken (NULL: none do) */
    REDIS_STORE_HOLDS,   /* the connection is held, from this command on */
    REDIS_STORE_MUTES,   /* the replies are kept back, from that to this command on */
  } effect;
  const char *text, *endless;
  size_t skip;  /* so many are executed before, on all connections */
  size_t times; /* so many are concerned; 0: all */
};

/* There is one fault at a time; {0}: none. How many commands it has concerned. */
void redis_store_inject(struct redis_store *self, struct redis_store_fault fault);
int redis_store_injected(const struct redis_store *self);

/* Sends bytes that are the reply to nothing on the connection with this name. */
void redis_store_send(struct redis_store *self, const char *role, const char *bytes);

/* Reads no more from the connections that there are; reads from all of them. */
void redis_store_stop_reading(struct redis_store *self);
void redis_store_read_on(struct redis_store *self);

/* The bytes that arrived on all connections, with a NUL after them; `length` may be NULL. */
const char *redis_store_received(const struct redis_store *self, size_t *length);

/* Executes it; the last word may hold spaces where `words` says how many there are. */
void redis_store_do(struct redis_store *self, int words, const char *command);

/* The values of a key, one line each: a list from its head on, the data of a stream's entries, the
   value of a string. Empty: there is none. Valid until the next call of this. */
const char *redis_store_value(const struct redis_store *self, const char *key);

/* The value at this position, the head's is 0; NULL: there is none. How many there are. */
const char *redis_store_element(const struct redis_store *self, const char *key, size_t number);
size_t redis_store_count(const struct redis_store *self, const char *key);

/* What connections have executed that writes, each one a line "<role> <command>"; a transaction's
   commands stand between "<role> MULTI" and "<role> EXEC". */
const char *redis_store_executed(const struct redis_store *self);
void redis_store_forget_executed(struct redis_store *self);

/* How many connections have this role. */
int redis_store_connections(const struct redis_store *self, const char *role);

#endif
