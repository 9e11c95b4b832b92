#ifndef TESTS_SUPPORT_FAKE_REDIS_H
#define TESTS_SUPPORT_FAKE_REDIS_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/frontends/redis/connection/url.h"

/*
 * A server in the test's own loop whose replies are the test's, byte for byte: half a reply, a
 * wrong one, none. It has one connection at a time, the newest. An error of its own fails the test.
 * redis_store.h is a Redis with data.
 */
struct fake_redis;

/* Listens on a unix socket; with `tcp` on a port of 127.0.0.1. */
struct fake_redis *fake_redis_new(struct event_base *base, bool tcp);
void fake_redis_free(struct fake_redis *self);

/* Its address; valid while it exists. The caller may set user, password and database. */
struct redis_url fake_redis_url(struct fake_redis *self);

/* Stops listening, as if it were not running; listens again. */
void fake_redis_refuse(struct fake_redis *self);
void fake_redis_accept(struct fake_redis *self);

/* `answer` returns the bytes that reply to a command, or NULL for none. Without it: +OK. */
void fake_redis_answer_with(struct fake_redis *self,
                            const char *(*answer)(void *owner, const char *command), void *owner);

/* The commands that arrived on all connections, words joined by one space; `fake_redis_command`
   gives NULL beyond the last. */
size_t fake_redis_commands(const struct fake_redis *self);
const char *fake_redis_command(const struct fake_redis *self, size_t number);

/* Connections accepted so far. */
int fake_redis_connections(const struct fake_redis *self);

bool fake_redis_is_connected(const struct fake_redis *self);

void fake_redis_send(struct fake_redis *self, const char *bytes);

/* Sends one byte in each turn of the loop. The bytes are borrowed. */
void fake_redis_send_slowly(struct fake_redis *self, const char *bytes);

void fake_redis_close_connection(struct fake_redis *self);

#endif
