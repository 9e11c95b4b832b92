#ifndef CLIENT_REDIS_PIPELINE_H
#define CLIENT_REDIS_PIPELINE_H

#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/frontends/redis/connection/url.h"
#include "base/error.h"

/*
 * One connection to Redis. Questions are sent at once, and answered in their order. It comes back
 * by itself, to wherever the server is by then
 * (agent/frontends/redis/connection/redis_connection.h).
 *
 *   server = pipeline_new(base, &url, "sandbox:run")
 *   pipeline_call(server, WORDS("LLEN", key), reply_to_number, &number, &error)
 *   pipeline_free(server)
 *
 * A reply has up to PIPELINE_STRING_MAX bytes in its largest string, and 1 MiB beside it; of what has
 * more only a beginning comes (pipeline_is_truncated).
 */
struct pipeline;

#define PIPELINE_STRING_MAX ((size_t)80 * 1024 * 1024)

/* The words of a command, texts that end with NUL; NULL after the last one. */
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* `reply` NULL: the connection was lost before it came. Whether the command was executed is unknown
   then. */
typedef void reply_handler(void *owner, const redisReply *reply);

/* The url must outlive the server; the name, in CLIENT LIST, is copied. Connects in the
   background. */
struct pipeline *pipeline_new(struct event_base *base, const struct redis_url *url,
                              const char *name);

/* Settles the server first. NULL is no server. */
void pipeline_free(struct pipeline *self);

/* Runs the loop until every command without a `take` is answered. After PIPELINE_TIMEOUT_MS, or when
   a signal comes (pipeline_stop_on), it gives up and forgets all commands. */
void pipeline_flush(struct pipeline *self);

/* Sends a command, now or when there is a connection; `take` is called once, from the loop, and may
   ask the next one. Where nobody takes the answer (NULL) it is asked until there is one: for what
   may be executed twice. */
void pipeline_send(struct pipeline *self, const char *const *words, reply_handler *take,
                   void *owner);

/* Runs one turn of the loop, of 200 ms at the most. */
void pipeline_turn(struct pipeline *self);

/* What was asked is not asked any more; where it was sent, the answer to it is not taken. */
void pipeline_discard(struct pipeline *self);

/* Runs the loop until the answer is there; asks again when the connection is lost. Returns 0; or -1
   with the error when Redis was away for PIPELINE_TIMEOUT_MS, when it cannot be logged in to, or
   when it answers with an error, of which `take` hears nothing. For what may be executed twice. */
#define PIPELINE_TIMEOUT_MS 15000
int pipeline_call(struct pipeline *self, const char *const *words, reply_handler *take, void *owner,
                  struct error *error);

/* From here on a call ends, with an error, when this is not 0 and the answer does not come soon: a
   signal. NULL: nothing ends it. */
void pipeline_stop_on(struct pipeline *self, const int *signal);

/* Whether that holds for what was asked then (monotonic). */
bool pipeline_is_stopped(const struct pipeline *self, int64_t begin_ms);

/*
 * An answer that comes in pages, each of them a call:
 *
 *   struct pipeline_pages pages = {.redis = server, .most = PAGES_MAX};
 *   while (there is more)
 *     if (pipeline_next_page(&pages, words, take, owner, &error) != 0)
 *       …
 *
 * Fails as a call does, also if a signal has come since the previous page (pipeline_stop_on), or if
 * there are more than `most` pages: a hostile Redis may send them without end.
 */
struct pipeline_pages {
  struct pipeline *redis;
  size_t most, asked;
};
int pipeline_next_page(struct pipeline_pages *self, const char *const *words, reply_handler *take,
                       void *owner, struct error *error);

/* Inside `take`: of the reply only a beginning has come. */
bool pipeline_is_truncated(const struct pipeline *self);

/* Milliseconds since it was connected last, or was made, from 1 on; 0: it is connected, and Redis
   has answered on this connection. */
int64_t pipeline_away_ms(const struct pipeline *self);

/* An attempt to connect has failed since; others follow. */
bool pipeline_is_unreachable(const struct pipeline *self);

/* It cannot be logged in to, and does not try any more. */
bool pipeline_has_failed(const struct pipeline *self);

/* Why there is no connection. */
void pipeline_connection_error(const struct pipeline *self, struct error *error);

/* For pipeline_call: a whole number, -1 where there is none; a text, to be freed, NULL where there is
   none; texts, with texts_release. */
void reply_to_number(void *number, const redisReply *reply);
void reply_to_text(void *text, const redisReply *reply);
void reply_to_nothing(void *nothing, const redisReply *reply);

struct texts {
  char **texts;
  size_t count, bytes; /* of the texts in all */
};
void reply_to_texts(void *texts, const redisReply *reply);

/* The text of a reply, or "" when the reply is none. */
const char *reply_text(const redisReply *reply);

/* Moves the texts of `more` behind those of the other, and releases it. */
void texts_append(struct texts *self, struct texts *more);
void texts_release(struct texts *self);

#endif
