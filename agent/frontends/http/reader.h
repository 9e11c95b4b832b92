#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/http/connection/exchange.h"
#include "agent/frontends/http/event_store.h"
#include "agent/frontends/http/steps.h"
#include "base/buffer.h"
#include "base/list.h"

/*
 * A response that depends on a step: the stream of its events and its result, its result alone, or
 * its state after a while. A step does not depend on its readers. The hard part is that a
 * connection may stop taking bytes anywhere, and the reader continues there later.
 *
 *   reader_open_…      answers the exchange, whose user data the reader becomes
 *   reader_write       the connection has capacity
 *   reader_notify      the step has new events, or is over
 *   reader_close       the exchange is over
 */
#define READER_STREAMS_MAX 16
#define READER_WAIT_MAX_SECONDS 60
#define READER_QUIET_MS 15000 /* proxies end silent responses after 60 s */

enum reader_form {
  READER_RESULT, /* the result alone */
  READER_WAITS,  /* nothing yet */
  READER_STATE,  /* the state, after a wait */
  READER_NDJSON,
  READER_SSE /* server-sent events */
};

struct reader {
  struct list_node node; /* in the step's readers */
  struct http_step *step;
  struct http_exchange *exchange;
  enum reader_form form;
  struct event_cursor cursor; /* of a stream */
  bool is_within_event;       /* of a stream: a part of it was written */
  bool has_begun_result;
  size_t result_written;
  struct event *timer; /* the end of a wait, or silence */
  int64_t written_ms;
};

/* Whether the form is a stream. */
bool reader_is_stream(const struct reader *self);

/* Sends the result of a step that is over. */
void reader_open_result(struct event_base *base, struct http_step *step,
                        struct http_exchange *exchange);

/* Sends the result when the step is over, or after some seconds its state. */
void reader_open_wait(struct event_base *base, struct http_step *step,
                      struct http_exchange *exchange, uint64_t seconds);

/* Sends the events after number `after`, which is at most the last one's, and the result. */
void reader_open_stream(struct event_base *base, struct http_step *step,
                        struct http_exchange *exchange, enum reader_form form, uint64_t after);

void reader_write(struct reader *self);
void reader_notify(struct reader *self);

/* `is_sent`: the client's kernel has got the whole response. Frees the reader. */
void reader_close(struct reader *self, bool is_sent);

/* Responds with the state of a step. */
void reader_respond_state(const struct http_step *step, struct http_exchange *exchange);
