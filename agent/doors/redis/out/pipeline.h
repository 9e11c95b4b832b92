#ifndef AGENT_DOORS_REDIS_OUT_PIPELINE_H
#define AGENT_DOORS_REDIS_OUT_PIPELINE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "agent/doors/redis/client/client.h"
#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/out/exchange.h"
#include "agent/doors/redis/out/ownership.h"
#include "agent/doors/redis/out/query.h"
#include "agent/doors/redis/out/send_queue.h"

/*
 * What is under way on one connection: a request whose answers are due, and perhaps the window
 * behind it.
 *
 *   MULTI                   pipeline_open
 *   … what is held …
 *   SET committed <value>
 *   EXEC                    pipeline_execute
 *   WATCH committed
 *   GET committed
 *   … a question …
 *
 * The last three are a look, which is a request by itself, too (pipeline_probe). A window is
 * executed when nothing else is under way; it may be opened ahead of that, while the one before it
 * is. Redis has it in its queue by then and need not wait for us, and yet no window is executed
 * unless the one before it was.
 *
 *   pipeline_send           now, and whenever the link is writable
 *   pipeline_take           each answer
 *   pipeline_settle         it has been made use of
 *   pipeline_lose           the connection is gone, and what was under way with it
 */
struct pipeline {
  const char *key;      /* `committed` */
  char ttl[24];         /* its seconds; empty: it does not expire */
  char *look;           /* WATCH and GET */
  struct exchange now;  /* what is waited for */
  char *now_set;        /* its SET; NULL: it is a look alone */
  struct exchange next; /* the window behind it, without its EXEC; empty: there is none */
  char *next_set;
  bool is_busy; /* until the last answer is settled */
};

/* The keys must outlive the pipeline. */
void pipeline_init(struct pipeline *self, const struct keys *keys,
                   unsigned long long key_ttl_seconds);
void pipeline_release(struct pipeline *self);

/* Whether a window may be opened while another one is under way: none is open yet, and what the
   first one does to `committed` is not known. */
bool pipeline_has_room(const struct pipeline *self);

/* When nothing is under way, or there is room. `value` is what `committed` will hold; what is in
   the window must stay until it is answered or lost. */
void pipeline_open(struct pipeline *self, const struct batch *batch,
                   const char value[OWNERSHIP_TEXT_SIZE]);
bool pipeline_is_open(const struct pipeline *self);

/* The next request, when nothing is under way: the window, which must be open; or a look, when none
   is. The question, if there is one, goes with it; NULL: it does not. */
void pipeline_execute(struct pipeline *self, const struct query *query);
void pipeline_probe(struct pipeline *self, const struct query *query);

/* Sends what the link takes now. */
void pipeline_send(struct pipeline *self, struct client *client);

enum pipeline_answer {
  PIPELINE_STEP,      /* one on the way to the others; or one after something was refused */
  PIPELINE_COMMITTED, /* the value of `committed`; now.executed: the window was, before it */
  PIPELINE_ANSWER,    /* to the question */
  PIPELINE_REFUSED,   /* the last one; now.refusal: of the first that was an error */
  PIPELINE_UNASKED    /* nothing that is due, or too early: the connection is of no use */
};

/* Takes the next answer; *last says whether it ends the request. */
enum pipeline_answer pipeline_take(struct pipeline *self, const redisReply *reply, bool *last);

/* After the last answer nothing is under way any more, but for a window that is open. */
void pipeline_settle(struct pipeline *self);

void pipeline_lose(struct pipeline *self);

#endif
