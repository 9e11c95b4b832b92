#ifndef CLIENT_REDIS_PIPELINE_H
#define CLIENT_REDIS_PIPELINE_H

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/frontends/redis/connection/url.h"
#include "base/error.h"

/*
 * A connection to Redis. Commands are sent at once, and replies arrive in the order of the
 * commands. The hard part is a connection that breaks: it reconnects by itself
 * (agent/frontends/redis/connection/redis_connection.h), but whether Redis executed a command that
 * it did not answer is unknown. Therefore a command is repeated only if the caller allows it.
 *
 *   redis = pipeline_new(base, &url, "sandbox-run")
 *   pipeline_call(redis, WORDS("LLEN", key), reply_to_number, &number, &error)
 *   pipeline_free(redis)
 *
 * The largest string of a reply may have PIPELINE_STRING_MAX bytes, and the rest of it 1 MiB. A
 * larger reply is truncated (pipeline_is_truncated).
 */
struct pipeline;

#define PIPELINE_STRING_MAX ((size_t)80 * 1024 * 1024)

/* A call fails if Redis is away for this time. */
#define PIPELINE_TIMEOUT_MS 15000

/* The words of a command, which end with NULL. */
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Called from the loop. The reply is NULL if the connection was lost before the reply arrived. */
typedef void reply_handler(void *owner, const redisReply *reply);

/* Connects in the background. The URL must outlive the pipeline. The name, which CLIENT LIST shows,
   is copied. */
struct pipeline *pipeline_new(struct event_base *base, const struct redis_url *url,
                              const char *name);

/* Flushes the pipeline first. NULL is allowed. */
void pipeline_free(struct pipeline *self);

/* Sends a command now, or as soon as there is a connection. The handler is called once and may send
   the next command. A command without a handler (NULL) is repeated until Redis answers it, so it
   must be harmless to execute twice. */
void pipeline_send(struct pipeline *self, const char *const *words, reply_handler *handler,
                   void *owner);

/* Runs one iteration of the event loop, for at most 200 ms. */
void pipeline_turn(struct pipeline *self);

/* Runs the loop until Redis has answered every command without a handler. Gives up and discards all
   commands after PIPELINE_TIMEOUT_MS, or on a signal (pipeline_stop_on). */
void pipeline_flush(struct pipeline *self);

/* Discards all commands. No handler is called. If a command was sent already, the connection is
   made again, so that its reply is not mistaken for another one. */
void pipeline_discard(struct pipeline *self);

/* Sends a command, repeats it whenever the connection is lost, and runs the loop until the reply is
   there. The command must be harmless to execute twice. Returns 0, or -1 with the error if Redis is
   away for PIPELINE_TIMEOUT_MS, refuses the login, or answers with an error; the handler is not
   called then. */
int pipeline_call(struct pipeline *self, const char *const *words, reply_handler *handler,
                  void *owner, struct error *error);

/* From now on calls fail soon after `*signal` becomes nonzero. NULL ends that. */
void pipeline_stop_on(struct pipeline *self, const int *signal);

/* Whether a signal ends a call that began at this monotonic time. */
bool pipeline_is_stopped(const struct pipeline *self, int64_t begin_ms);

/*
 * Reads a long answer page by page:
 *
 *   struct pipeline_pages pages = {.redis = redis, .max = PAGES_MAX};
 *   while (there is more)
 *     pipeline_next_page(&pages, words, handler, owner, &error)
 *
 * Each page is a pipeline_call. It also fails after a signal that arrived since the previous page,
 * and after `max` pages, because a Redis that is not trusted may send pages without end.
 */
struct pipeline_pages {
  struct pipeline *redis;
  size_t max, count;
};
int pipeline_next_page(struct pipeline_pages *self, const char *const *words,
                       reply_handler *handler, void *owner, struct error *error);

/* Inside a handler: whether only the beginning of the reply was kept. */
bool pipeline_is_truncated(const struct pipeline *self);

/* Returns 0 if Redis has answered on the current connection. Otherwise returns the milliseconds, at
   least 1, since the connection was lost or the pipeline was made. */
int64_t pipeline_away_ms(const struct pipeline *self);

/* Whether an attempt to connect has failed since the last connection. More attempts follow. */
bool pipeline_is_unreachable(const struct pipeline *self);

/* Whether Redis refused the login. No more attempts follow. */
bool pipeline_has_failed(const struct pipeline *self);

/* Says why there is no connection. */
void pipeline_connection_error(const struct pipeline *self, struct error *error);

/* --- replies ---------------------------------------------------------------------------------- */

struct texts {
  char **texts;
  size_t count, bytes; /* bytes of all texts */
};

/* Handlers for pipeline_call. The owner is an int64_t, which becomes -1 if the reply is no integer;
   a char *, which the caller frees and which becomes NULL if the reply is no string; a struct
   texts; or unused. */
void reply_to_number(void *number, const redisReply *reply);
void reply_to_text(void *text, const redisReply *reply);
void reply_to_texts(void *texts, const redisReply *reply);
void reply_to_nothing(void *nothing, const redisReply *reply);

/* Returns the string of a reply, or "" if it has none. */
const char *reply_text(const redisReply *reply);

/* Moves all texts of `more` to the end. */
void texts_append(struct texts *self, struct texts *more);
void texts_release(struct texts *self);

#endif
