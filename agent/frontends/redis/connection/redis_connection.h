#ifndef AGENT_FRONTENDS_REDIS_CONNECTION_REDIS_CONNECTION_H
#define AGENT_FRONTENDS_REDIS_CONNECTION_REDIS_CONNECTION_H

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "agent/frontends/redis/connection/error_reply.h"
#include "agent/frontends/redis/connection/url.h"
#include "base/error.h"
#include "base/log.h"

/*
 * A connection to Redis that reconnects by itself, to wherever the server is by then (endpoint.h).
 * It resolves, connects and does the handshake without blocking the loop. Then it moves bytes:
 * commands that the owner has encoded go out, replies come back in order. It neither keeps nor
 * repeats commands: what was not answered when the connection is lost, the owner sends again.
 *
 * No callback comes from inside redis_connection_start or redis_connection_write. Inside a callback
 * the owner may call every function but redis_connection_free.
 *
 *   STOPPED -> DIALING              redis_connection_start, redis_connection_prepare
 *   DIALING -> HANDSHAKING          the socket is connected: AUTH, SELECT and ROLE as far as the url
 *                                   asks for them, CLIENT SETNAME and the probe leave in one write
 *   HANDSHAKING -> READY            the last reply of the handshake is good
 *   HANDSHAKING -> PREPARED         the same, when it was only prepared
 *   PREPARED -> READY               redis_connection_start
 *   DIALING, HANDSHAKING, READY -> PAUSING      lost or refused for now
 *   PAUSING -> DIALING              the pause is over; a redirection has none
 *   any -> STOPPED                  redis_connection_stop, before failed(), or what was prepared failed
 *
 * Pauses double: before it was ready for the first time without chance, since a person may be
 * watching; after it half of each is random, so that a fleet of agents does not come back in one
 * wave. A useful reply makes them the shortest again: to be connected is not enough, for the next
 * command may lose it for the same reason as before. It never gives up: the owner knows how long to
 * wait.
 *
 * An outage lasts from the first failure until a reply is useful. A failure with the same reason as
 * the one before is logged once an outage. An error reply that comes and goes, as OOM does, is
 * logged once in REDIS_CONNECTION_NEWS_MS, however many outages it makes.
 */
#define CLIENT_BOOT_PAUSE_MS 500
#define REDIS_CONNECTION_PAUSE_MIN_MS 100
#define REDIS_CONNECTION_PAUSE_MAX_MS 5000
#define REDIS_CONNECTION_NEWS_MS (60 * 1000)

enum redis_connection_state {
  REDIS_CONNECTION_STOPPED,
  REDIS_CONNECTION_PAUSING,
  REDIS_CONNECTION_DIALING,
  REDIS_CONNECTION_HANDSHAKING,
  REDIS_CONNECTION_PREPARED,
  REDIS_CONNECTION_READY
};

struct redis_connection_handler {
  /* The socket is connected and the handshake is under way. May be NULL. */
  void (*connected)(void *owner);
  /* The handshake succeeded: the owner may send. `value` is the probe's; nil where it has none. */
  void (*ready)(void *owner, const redisReply *value);
  /* The handshake succeeded, also where it was ready before that: see `early`. May be NULL. */
  void (*greeted)(void *owner);
  /* One for each command, in order. */
  void (*reply)(void *owner, const redisReply *reply);
  /* After redis_connection_write took less than all. May be NULL. */
  void (*writable)(void *owner);
  /* A ready connection was lost; it reconnects. Whether Redis executed what was not answered is
     unknown. May be NULL. */
  void (*disconnected)(void *owner);
  /* An attempt to connect failed; another follows. May be NULL. */
  void (*unreachable)(void *owner);
  /* Stopped for good: the handshake was refused in a way that another attempt would not change
     (wrong password, no permission). */
  void (*failed)(void *owner, const struct error *error);
};

/* Commands of the owner that must succeed before the connection is ready. Borrowed. The first
   `multi_key` ones name several keys, and later ones name each key alone: NOPERM for the first ones
   is ignored, as it does not say which key is meant. */
struct handshake_commands {
  const char *text; /* encoded commands */
  size_t length;
  int count; /* of commands */
  int multi_key;
  int first; /* so many commands leave with the login, the others when these are replied to and none
                is refused; 0: all leave with the login */
  int value; /* the index of the command whose reply the owner wants; a string */
};

struct redis_connection_options {
  const struct redis_url *url;
  const char *role;                         /* in the log: "outbox" */
  const char *name;                         /* in CLIENT LIST, if Redis accepts it */
  struct handshake_commands final_commands; /* ends every handshake */
  bool discard_values;                      /* once ready: see reply_parser_discard_values */
  bool poll_replies;                        /* once ready: see connection_poll_replies */
  bool early;       /* ready once it is dialed, where the handshake is the name alone: what
                                   that is answered is looked at when it comes */
  bool keep_memory; /* once ready: see reply_parser_keep_memory */
  size_t (*largest_string)(void); /* see reply_parser_init; NULL: REPLY_PARSER_BEGINNING */
};

struct redis_connection;

/* The url, the log, the handler and the probe must outlive the client; the name is copied. */
struct redis_connection *redis_connection_new(struct event_base *base, const struct log *log,
                                              const struct redis_connection_options *options,
                                              const struct redis_connection_handler *handler,
                                              void *owner);
void redis_connection_free(struct redis_connection *self);

/* Connects once, ahead of redis_connection_start, with no callback but connected(), nor anything in
   the log when that fails. Does nothing unless it is stopped. */
void redis_connection_prepare(struct redis_connection *self);

/* Idempotent. True when it is ready already, because it was prepared: ready() does not follow. */
bool redis_connection_start(struct redis_connection *self);

/* Closes the connection and does not reconnect. Idempotent. */
void redis_connection_stop(struct redis_connection *self);

bool redis_connection_is_ready(const struct redis_connection *self);

/* Why it is not ready, for a person: "cannot connect to redis:6379: …", or that it is still trying.
   The code is one of trouble.h. */
void redis_connection_error(const struct redis_connection *self, struct error *error);

/* How often the connection was made again. */
uint64_t redis_connection_reconnections(const struct redis_connection *self);

/* True when it is stopped, or when at least one attempt has failed since the connection was
   lost. */
bool redis_connection_is_unreachable(const struct redis_connection *self);

/* Writes what the socket takes now and returns the number of bytes; 0 when it is not ready. When
   that is less than all, writable() follows, or disconnected(). */
size_t redis_connection_write(struct redis_connection *self, const struct iovec *pieces, int count);

/* The same for encoded commands that the socket takes at once, unless something is wrong with it:
   then the client reconnects, and disconnected() may come from inside. */
void redis_connection_send(struct redis_connection *self, const char *commands);

/* See connection_set_reply_timeout. */
void redis_connection_set_reply_timeout(struct redis_connection *self, int milliseconds_from_now);

/* With poll_replies: takes the replies that have arrived (reply(), disconnected() or failed() come
   from inside), or returns true when they are the known ones: see connection.h; ends it for this
   connection. */
bool redis_connection_take_replies(struct redis_connection *self, const char *known,
                                   size_t known_length);
void redis_connection_stop_polling(struct redis_connection *self);

/* Closes this connection and reconnects after a pause. The reason is logged once an outage, which
   lasts until redis_connection_mark_healthy. */
void redis_connection_reconnect(struct redis_connection *self, const char *why);

/* An error reply came. When it may be different on another connection, makes that one and returns
   true: at once when the keys have moved to another node of a cluster, otherwise like
   redis_connection_reconnect. False when only a person can help; then nothing was done. */
bool redis_connection_recover(struct redis_connection *self, const char *text);

/* The text of an error reply, for people and for the log: see error_reply_explain. */
struct error_reply_text redis_connection_explain(const struct redis_connection *self,
                                                 const char *text);

/* A reply was useful: ends an outage, which is logged if its beginning was, and resets the
   pauses. */
void redis_connection_mark_healthy(struct redis_connection *self);

/* Inside reply(): see `is_truncated` of struct connection. */
bool redis_connection_reply_is_truncated(const struct redis_connection *self);

#endif
