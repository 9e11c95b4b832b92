#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "agent/frontends/redis/connection/error_reply.h"
#include "agent/frontends/redis/connection/reply_parser.h"
#include "agent/frontends/redis/connection/url.h"
#include "base/error.h"
#include "base/log.h"

/*
 * A connection to Redis that reconnects by itself, to the server that has the job's keys at that
 * time (endpoint.h). It resolves, connects and does the handshake without blocking the loop; then
 * the owner's encoded commands go out, and replies come back in order. It neither keeps nor repeats
 * commands: after a loss the owner sends again whatever was not answered.
 *
 *   STOPPED -> DIALING              redis_connection_start
 *   DIALING -> HANDSHAKING          the socket is connected: CLIENT SETNAME is sent, AUTH, SELECT
 *                                   and ROLE if the URL needs them, and the owner's commands
 *   HANDSHAKING -> READY            every reply of the handshake is good
 *   DIALING, HANDSHAKING, READY -> PAUSING      lost, or rejected with a transient error; or a
 *                                   sentinel has named the master
 *   PAUSING -> DIALING              the pause is over; there is none after a redirection
 *   any -> STOPPED                  redis_connection_stop; before failed()
 *
 * Pauses double until a reply is useful. A connected socket is not enough, because the next command
 * may lose it for the same reason. Once the connection has been ready, half of each pause is
 * random, so that a fleet of agents does not reconnect in one wave. The connection never gives up:
 * its owner knows how long to wait.
 *
 * An outage lasts from the first failure until a reply is useful. Each reason is logged once per
 * outage. An error reply that comes and goes, such as OOM, is logged once in
 * REDIS_CONNECTION_REPEAT_MS, however many outages it causes.
 *
 * The owner may call every function except redis_connection_free inside a callback.
 */
#define REDIS_CONNECTION_FIRST_PAUSE_MS 500 /* before the connection was ready for the first time */
#define REDIS_CONNECTION_PAUSE_MIN_MS 100
#define REDIS_CONNECTION_PAUSE_MAX_MS 5000
#define REDIS_CONNECTION_REPEAT_MS (60 * 1000)

enum redis_connection_state {
  REDIS_CONNECTION_STOPPED,
  REDIS_CONNECTION_PAUSING,
  REDIS_CONNECTION_DIALING,
  REDIS_CONNECTION_HANDSHAKING,
  REDIS_CONNECTION_READY
};

/* Every function except `ready`, `reply` and `failed` may be NULL. */
struct redis_connection_handler {
  /* The owner may send. `value` is the reply that handshake_commands.value names, or nil. */
  void (*ready)(void *owner, const struct reply *value);
  /* The handshake has succeeded; with `early`, this may be after ready(). */
  void (*greeted)(void *owner);
  /* One for each command, in order. */
  void (*reply)(void *owner, const struct reply *reply);
  /* redis_connection_write may write more, after it has written less than all. */
  void (*writable)(void *owner);
  /* A ready connection was lost; it reconnects. Redis may or may not have executed the commands
     without a reply. */
  void (*disconnected)(void *owner);
  /* An attempt to connect has failed; another one follows. */
  void (*unreachable)(void *owner);
  /* Redis permanently rejects a command of the owner in the handshake. Returns true if the
     handshake continues. NULL: it never does. */
  bool (*rejected)(void *owner, int index, const char *text);
  /* The connection has stopped: Redis rejects the handshake with a permanent error, such as a wrong
     password or a missing permission. */
  void (*failed)(void *owner, const struct error *error);
};

/* Commands of the owner that must succeed before the connection is ready, except those for which
   `rejected` returns true. */
struct handshake_commands {
  const char *text; /* encoded */
  size_t length;
  int count; /* of commands */
  int first; /* this many are sent with the login, and the others only after good replies to them;
                0: all are sent with the login */
  int value; /* the index of the command whose string reply ready() gets */
};

struct redis_connection_options {
  const struct redis_url *url;
  const char *role;                         /* in the log: "outbox" */
  const char *name;                         /* in CLIENT LIST, if Redis accepts it */
  struct handshake_commands final_commands; /* the end of every handshake */
  bool discard_values;                      /* see struct reply_parser */
  bool keep_memory;                         /* see struct reply_parser */
  bool early; /* ready before the reply, if CLIENT SETNAME is the whole handshake */
  size_t (*largest_string)(void); /* see reply_parser_init */
};

struct redis_connection;

/* The URL, the log, the handler and the final commands must outlive the connection; the name is
   copied. */
struct redis_connection *redis_connection_new(struct event_base *base, const struct log *log,
                                              const struct redis_connection_options *options,
                                              const struct redis_connection_handler *handler,
                                              void *owner);
void redis_connection_free(struct redis_connection *self);

/* Connects, unless that has begun before. Returns true if the connection is ready already; ready()
   does not follow then. */
bool redis_connection_start(struct redis_connection *self);

/* Closes the connection and does not reconnect. Idempotent. */
void redis_connection_stop(struct redis_connection *self);

bool redis_connection_is_ready(const struct redis_connection *self);

/* Sets the reason why the connection is not ready, for a person: "cannot connect to redis:6379:
   …", or that there is no answer yet. The code is one of connection_error.h, or an errno. */
void redis_connection_error(const struct redis_connection *self, struct error *error);

/* Returns how many times the connection was ready again after a loss. */
uint64_t redis_connection_reconnections(const struct redis_connection *self);

/* Whether the connection is stopped, or an attempt has failed since it was ready last. */
bool redis_connection_is_unreachable(const struct redis_connection *self);

/* Writes what the socket takes now and returns the number of bytes; 0 unless the connection is
   ready. writable() or disconnected() follows if that is less than all. */
size_t redis_connection_write(struct redis_connection *self, const struct iovec *pieces, int count);

/* Writes encoded commands that a socket in order takes at once; reconnects if it does not. */
void redis_connection_send(struct redis_connection *self, const char *commands);

/* See redis_socket_set_reply_timeout. */
void redis_connection_set_reply_timeout(struct redis_connection *self, int milliseconds_from_now);

/* Closes a ready connection, calls disconnected(), and reconnects after a pause. */
void redis_connection_reconnect(struct redis_connection *self, const char *why);

/* Handles an error reply. If another connection may help, reconnects and returns true: at once if
   the keys have moved to another node of a cluster, else as redis_connection_reconnect does.
   Returns false for a permanent error; nothing was done then. */
bool redis_connection_recover(struct redis_connection *self, const char *text);

/* See error_reply_explain. */
struct error_reply_text redis_connection_explain(const struct redis_connection *self,
                                                 const char *text);

/* Ends an outage and resets the pauses. To be called after a useful reply. */
void redis_connection_mark_healthy(struct redis_connection *self);
