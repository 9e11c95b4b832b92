#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/frontends/redis/connection/url.h"

/*
 * A Redis in the test's event loop, with the features that an agent needs: connections, strings,
 * lists, sets and streams, transactions that are aborted if a watched key was written, and a BLMOVE
 * that waits. Keys do not expire. Executed commands are recorded, so that a test sees their order.
 *
 *   store = redis_store_new(base)
 *   redis_store_do(store, "LPUSH sandbox:j:in {…}")        as another client
 *   redis_store_executed(store)                            one line each
 */
struct redis_store;

struct redis_store *redis_store_new(struct event_base *base);
void redis_store_free(struct redis_store *self);

struct redis_url redis_store_url(const struct redis_store *self);

/* Closes all connections and accepts no more; accepts connections again. */
void redis_store_go_away(struct redis_store *self);
void redis_store_come_back(struct redis_store *self);

/* Holds the connection with this role, such as "out" for sandbox:<job>:out: its commands are read,
   but neither executed nor answered, including the CLIENT SETNAME that sets the role. NULL releases
   all connections that this function or a fault has held or muted. */
void redis_store_hold(struct redis_store *self, const char *role);

/* Closes the connection with this role. If `stray` is true, a BLMOVE that waits on it still takes
   the next value. */
void redis_store_lose(struct redis_store *self, const char *role, bool stray);

/* Copies the data; restores it, as if Redis was killed and has loaded the snapshot. A NULL snapshot
   is empty. */
struct redis_store_snapshot *redis_store_snapshot(const struct redis_store *self);
void redis_store_restore(struct redis_store *self, const struct redis_store_snapshot *snapshot);
void redis_store_snapshot_free(struct redis_store_snapshot *snapshot);

/* A fault of commands with a certain beginning. All texts are borrowed. */
struct redis_store_fault {
  const char *command; /* the beginning; "": all commands; NULL: there is no fault */
  enum {
    REDIS_STORE_REFUSES,        /* `text` is the error, also instead of QUEUED */
    REDIS_STORE_REFUSES_INSIDE, /* the command is queued; `text` is its reply inside EXEC */
    REDIS_STORE_ANSWERS, /* `text` is the encoded reply; unless `endless` is NULL, its bytes follow
                            again and again, as fast as they are read */
    REDIS_STORE_HOLDS,   /* the connection is held from this command on */
    REDIS_STORE_MUTES,   /* no replies are sent from this command on */
  } effect;
  const char *text, *endless;
  size_t skip;  /* this many such commands are executed first, on all connections */
  size_t times; /* this many commands have the fault; 0: all */
};

/* Sets the fault, of which there is one at a time; {0} is none. The second function returns how
   many commands had it. */
void redis_store_inject(struct redis_store *self, struct redis_store_fault fault);
int redis_store_injected(const struct redis_store *self);

/* Sends bytes that are not a reply on the connection with this role. */
void redis_store_send(struct redis_store *self, const char *role, const char *bytes);

/* Stops reading from all existing connections; reads again. */
void redis_store_stop_reading(struct redis_store *self);
void redis_store_read_on(struct redis_store *self);

/* Returns the bytes that arrived on all connections, and a NUL. `length` may be NULL. */
const char *redis_store_received(const struct redis_store *self, size_t *length);

/* Executes a command of this many words as another client. The last word may contain spaces. */
void redis_store_do(struct redis_store *self, int words, const char *command);

/* Returns the values of a key, one line each: a list from its head on, the data of a stream's
   entries, or the value of a string. Empty if the key does not exist. Valid until the next call. */
const char *redis_store_value(const struct redis_store *self, const char *key);

/* Return the value at this position, where the head is 0, or NULL; and the number of values. */
const char *redis_store_element(const struct redis_store *self, const char *key, size_t number);
size_t redis_store_count(const struct redis_store *self, const char *key);

/* Returns the executed commands that write, one line "<role> <command>" each. The commands of a
   transaction are between "<role> MULTI" and "<role> EXEC". */
const char *redis_store_executed(const struct redis_store *self);
void redis_store_forget_executed(struct redis_store *self);

/* Returns the number of connections with this role. */
int redis_store_connections(const struct redis_store *self, const char *role);
