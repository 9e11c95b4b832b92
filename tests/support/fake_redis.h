#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/frontends/redis/connection/url.h"

/*
 * A server in the test's loop whose replies the test chooses byte for byte: half a reply, a wrong
 * one, or none. It has one connection at a time, the newest. An error of the server fails the test.
 * redis_store.h is a Redis with data.
 */
struct fake_redis;

/* Listens on a unix socket, or with `tcp` on a port of 127.0.0.1. */
struct fake_redis *fake_redis_new(struct event_base *base, bool tcp);
void fake_redis_free(struct fake_redis *self);

/* Its address, valid while it exists. The caller may set user, password and database. */
struct redis_url fake_redis_url(struct fake_redis *self);

/* Stops listening, as if it did not run; listens again. */
void fake_redis_refuse(struct fake_redis *self);
void fake_redis_accept(struct fake_redis *self);

/* `answer` returns the reply to a command, or NULL for none. The default is +OK. */
void fake_redis_answer_with(struct fake_redis *self,
                            const char *(*answer)(void *owner, const char *command), void *owner);

/* The commands of all connections, words separated by one space; `fake_redis_command` returns NULL
   after the last. */
size_t fake_redis_commands(const struct fake_redis *self);
const char *fake_redis_command(const struct fake_redis *self, size_t number);

/* The number of connections so far. */
int fake_redis_connections(const struct fake_redis *self);

bool fake_redis_is_connected(const struct fake_redis *self);

void fake_redis_send(struct fake_redis *self, const char *bytes);

void fake_redis_close_connection(struct fake_redis *self);
