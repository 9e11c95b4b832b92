#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/frontends/redis/connection/reply_parser.h"
#include "agent/frontends/redis/connection/url.h"
#include "base/error.h"

/*
 * A connection to Redis: commands are sent at once, and replies arrive in the same order. The hard
 * part is a connection that breaks. It reconnects by itself, but whether Redis executed a command
 * that it did not answer is unknown, so only pipeline_call repeats a command.
 *
 *   redis = pipeline_new(base, &url, "sandbox-run")
 *   pipeline_call(redis, WORDS("LLEN", key), reply_to_number, &number, &error)
 *   pipeline_free(redis)
 */
struct pipeline;

/* A reply is truncated if its largest string has more bytes, or the rest of it more than 1 MiB. */
#define PIPELINE_STRING_MAX ((size_t)80 * 1024 * 1024)

/* The longest pause before or within a reply: then the connection is given up. An XREAD blocks for
   1 s. */
#define PIPELINE_SILENT_MS 10000

/* The words of a command, which end with NULL. */
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Called from the loop. The reply is NULL if the connection was lost before the reply arrived. */
typedef void reply_handler(void *owner, const struct reply *reply);

/* Connects in the background. The URL must outlive it. CLIENT LIST shows the name. */
struct pipeline *pipeline_new(struct event_base *base, const struct redis_url *url,
                              const char *name);

/* Discards what Redis has not answered. NULL is allowed. */
void pipeline_free(struct pipeline *self);

/* Sends a command now, or as soon as there is a connection. The handler is called once and may send
   the next command. */
void pipeline_send(struct pipeline *self, const char *const *words, reply_handler *handler,
                   void *owner);

/* Calls no more handlers with this owner. */
void pipeline_forget(struct pipeline *self, const void *owner);

/* Sends a command once, and runs the loop until the reply is there. The error is Redis' own if it
   refuses the command; otherwise it says why there is no connection. Gives up, and discards all
   commands, after the timeout, on a signal, or if Redis is away or refuses the login. */
enum pipeline_answer {
  PIPELINE_ANSWERED,
  PIPELINE_REFUSED,
  PIPELINE_LOST, /* the connection was lost before the reply arrived */
  PIPELINE_NO_ANSWER
};
enum pipeline_answer pipeline_ask(struct pipeline *self, const char *const *words,
                                  reply_handler *handler, void *owner, int64_t timeout_ms,
                                  struct error *error);

/* From now on the handler is called once per loss of the connection, when an attempt to connect has
   failed or there is no answer for 2 s. */
typedef void away_handler(void *owner, const struct error *why);
void pipeline_on_away(struct pipeline *self, away_handler *handler, void *owner);

/* Calls that handler if it is due. Calls to Redis do it, too. */
void pipeline_report_away(struct pipeline *self);

/* Whether to give up as soon as an attempt to connect has failed. */
void pipeline_fail_fast(struct pipeline *self, bool fails_fast);

/* Sends a command, repeats it whenever the connection is lost, and runs the loop until the reply is
   there. Returns 0, or -1 with the error if Redis is away for ACCESS_TIMEOUT_MS, refuses the
   login or answers with an error; then the handler is not called. */
int pipeline_call(struct pipeline *self, const char *const *words, reply_handler *handler,
                  void *owner, struct error *error);

/* Call GET, whose text the caller frees (NULL: the key does not exist), and LLEN. */
int pipeline_get(struct pipeline *self, const char *key, char **text, struct error *error);
int pipeline_length(struct pipeline *self, const char *key, int64_t *length, struct error *error);

/* From now on calls fail soon after `*signal` becomes nonzero. NULL ends that. */
void pipeline_stop_on(struct pipeline *self, const int *signal);
bool pipeline_is_stopped(const struct pipeline *self);

/* pipeline_call for one page of a long answer. It also fails if a signal has arrived since the
   previous page, and after `max` pages, as an untrusted Redis may send pages without end. */
struct pipeline_pages {
  struct pipeline *redis;
  size_t max, count;
};
int pipeline_next_page(struct pipeline_pages *self, const char *const *words,
                       reply_handler *handler, void *owner, struct error *error);

/* Returns the milliseconds since the connection was lost or first tried; 0 while it works. */
int64_t pipeline_away_ms(const struct pipeline *self);

/* Says why there is no connection. */
void pipeline_connection_error(const struct pipeline *self, struct error *error);

/* --- replies ---------------------------------------------------------------------------------- */

struct texts {
  char **texts;
  size_t count, capacity, bytes; /* bytes of all texts */
};

/* Handlers. The owner is an int64_t (-1: the reply is no integer), a char * that the caller frees
   (NULL: it is no string), a struct texts, an int64_t for the milliseconds since 1970 of TIME (-1:
   the reply is no time), or unused. */
void reply_to_number(void *number, const struct reply *reply);
void reply_to_text(void *text, const struct reply *reply);
void reply_to_texts(void *texts, const struct reply *reply);
void reply_to_time(void *unix_ms, const struct reply *reply);
void reply_to_nothing(void *nothing, const struct reply *reply);

/* Returns the string of a reply, or "" if it has none. */
const char *reply_text(const struct reply *reply);

/* Takes over an allocated text. */
void texts_add(struct texts *self, char *text);
void texts_release(struct texts *self);
