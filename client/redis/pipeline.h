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
 *   server = server_new(base, &url, "sandbox:run")
 *   server_call(server, SERVER_WORDS("LLEN", key), server_take_number, &number, &error)
 *   server_free(server)
 *
 * A reply has up to SERVER_STRING_MAX bytes in its largest string, and 1 MiB beside it; of what has
 * more only a beginning comes (server_is_cut).
 */
struct server;

#define SERVER_STRING_MAX ((size_t)80 * 1024 * 1024)

/* The words of a command, texts that end with NUL; NULL after the last one. */
#define SERVER_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* `reply` NULL: the connection was lost before it came. Whether the command was executed is unknown
   then. */
typedef void server_take(void *owner, const redisReply *reply);

/* The url must outlive the server; the name, in CLIENT LIST, is copied. Connects in the
   background. */
struct server *server_new(struct event_base *base, const struct redis_url *url, const char *name);

/* Settles the server first. NULL is no server. */
void server_free(struct server *self);

/* Runs the loop until every command without a `take` is answered. After SERVER_PATIENCE_MS, or when
   a signal comes (server_heed), it gives up and forgets all commands. */
void server_settle(struct server *self);

/* Sends a command, now or when there is a connection; `take` is called once, from the loop, and may
   ask the next one. Where nobody takes the answer (NULL) it is asked until there is one: for what
   may be executed twice. */
void server_ask(struct server *self, const char *const *words, server_take *take, void *owner);

/* Runs one turn of the loop, of 200 ms at the most. */
void server_turn(struct server *self);

/* What was asked is not asked any more; where it was sent, the answer to it is not taken. */
void server_forget(struct server *self);

/* Runs the loop until the answer is there; asks again when the connection is lost. Returns 0; or -1
   with the error when Redis was away for SERVER_PATIENCE_MS, when it cannot be logged in to, or
   when it answers with an error, of which `take` hears nothing. For what may be executed twice. */
#define SERVER_PATIENCE_MS 15000
int server_call(struct server *self, const char *const *words, server_take *take, void *owner,
                struct error *error);

/* From here on a call ends, with an error, when this is not 0 and the answer does not come soon: a
   signal. NULL: nothing ends it. */
void server_heed(struct server *self, const int *signal);

/* Whether that holds for what was asked then (monotonic). */
bool server_is_stopped(const struct server *self, int64_t begin_ms);

/*
 * An answer that comes in pages, each of them a call:
 *
 *   struct server_pages pages = {.server = server, .most = PAGES_MAX};
 *   while (there is more)
 *     if (server_next_page(&pages, words, take, owner, &error) != 0)
 *       …
 *
 * Fails as a call does, also if a signal has come since the previous page (server_heed), or if
 * there are more than `most` pages: a hostile Redis may send them without end.
 */
struct server_pages {
  struct server *server;
  size_t most, asked;
};
int server_next_page(struct server_pages *self, const char *const *words, server_take *take,
                     void *owner, struct error *error);

/* Inside `take`: of the reply only a beginning has come. */
bool server_is_cut(const struct server *self);

/* Milliseconds since it was connected last, or was made, from 1 on; 0: it is connected, and Redis
   has answered on this connection. */
int64_t server_away_ms(const struct server *self);

/* An attempt to connect has failed since; others follow. */
bool server_is_unreachable(const struct server *self);

/* It cannot be logged in to, and does not try any more. */
bool server_has_failed(const struct server *self);

/* Why there is no connection. */
void server_connection_error(const struct server *self, struct error *error);

/* For server_call: a whole number, -1 where there is none; a text, to be freed, NULL where there is
   none; texts, with server_texts_release. */
void server_take_number(void *number, const redisReply *reply);
void server_take_text(void *text, const redisReply *reply);
void server_take_nothing(void *nothing, const redisReply *reply);

struct server_texts {
  char **texts;
  size_t count, bytes; /* of the texts in all */
};
void server_take_texts(void *texts, const redisReply *reply);

/* The text of a reply, or "" when the reply is none. */
const char *server_text(const redisReply *reply);

/* Moves the texts of `more` behind those of the other, and releases it. */
void server_texts_append(struct server_texts *self, struct server_texts *more);
void server_texts_release(struct server_texts *self);

#endif
