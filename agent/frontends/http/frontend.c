/* Connects the engine with the steps that clients put. Start reading at advance(). */
#include "agent/frontends/http/frontend.h"

#include <stdlib.h>
#include <string.h>

#include "agent/engine/engine.h"
#include "agent/engine/secrets.h"
#include "agent/exit_code.h"
#include "agent/frontends/http/connection/server.h"
#include "agent/frontends/http/figures.h"
#include "agent/frontends/http/reader.h"
#include "agent/frontends/http/steps.h"
#include "agent/frontends/step_counts.h"
#include "agent/kinds/kind.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/utf8.h"

/* OPEN --close()--> CLOSING --results read, or time over--> CLOSED */
enum closing { OPEN, CLOSING, CLOSED };

struct http_frontend {
  struct frontend frontend; /* first */
  struct event_base *base;
  const struct log *log;
  struct http_server *server;
  struct steps steps;
  struct step_counts counts;
  struct event *turn; /* active if something was recorded; calls advance() */
  unsigned wanted;    /* how many more requests the engine accepts */
  bool was_blocked;   /* the engine may have found no capacity since */
  bool has_shutdown;  /* a shutdown step was put */
  size_t stream_count;
  enum closing closing;
  struct event *read_limit; /* the end of the time for clients to read results */
};

static struct http_frontend *self_of(struct frontend *frontend) {
  return (struct http_frontend *)frontend;
}

/* Schedules advance(), because something was recorded. */
static void wake(struct http_frontend *self) {
  event_active(self->turn, 0, 0);
}

static bool is_ending(const struct http_frontend *self) {
  return self->has_shutdown || engine_is_ending(&self->frontend);
}

static void notify_readers(const struct http_step *step) {
  LIST_FOR_EACH (struct reader, reader, &step->readers, node)
    reader_notify(reader);
}

/* --- results ---------------------------------------------------------------------------------- */

static void write_result(const struct step_result *result, struct buffer *out) {
  const size_t length = step_result_length(result) + 1;
  *step_result_write(result, buffer_space(out, length)) = '\n';
  out->length += length;
}

static void finish(struct http_frontend *self, struct http_step *step,
                   const struct step_result *result) {
  struct buffer text = {0};
  write_result(result, &text);
  step_counts_add(&self->counts, result);
  steps_finish(&self->steps, step, &text, result->exit_code, clock_unix_ms());
  notify_readers(step);
  wake(self);
}

/* Answers a step that has not run. */
static void finish_cancelled(struct http_frontend *self, struct http_step *step,
                             const char *reason) {
  const struct step_result result =
      step_result_of_agent(step->schema_version, step->id, STEP_CAUSE_CANCELLED, reason);
  finish(self, step, &result);
}

/* --- from the queue to the engine ------------------------------------------------------------- */

static bool is_shutdown(const struct http_step *step) {
  return step->kind == &step_shutdown;
}

static struct http_step *oldest_waiting(const struct http_frontend *self) {
  return LIST_ELEMENT(self->steps.waiting.first, struct http_step, node);
}

/* A shutdown needs no space for a result. */
static bool may_start(struct http_frontend *self, const struct http_step *step) {
  return step != NULL && self->steps.running == NULL && engine_leaving(&self->frontend) == NULL &&
         (is_shutdown(step) || (self->wanted > 0 && steps_make_space(&self->steps)));
}

static void start_next(struct http_frontend *self) {
  struct http_step *step = oldest_waiting(self);
  if (!may_start(self, step))
    return;
  struct request request = {.step = steps_start(&self->steps, step, clock_unix_ms()),
                            .user_data = step};
  if (is_shutdown(step)) {
    step_release(&request.step);
    http_server_set_ending(self->server);
    engine_leave(&self->frontend, AGENT_EXIT_SHUTDOWN, "shutdown step");
    return;
  }
  self->wanted--;
  engine_submit(&self->frontend, &request);
}

static void advance_closing(struct http_frontend *self) {
  const bool is_read = steps_unread(&self->steps) == 0 && !http_server_is_busy(self->server);
  if (self->closing != CLOSING || !is_read)
    return;
  self->closing = CLOSED;
  engine_frontend_closed(&self->frontend, 0);
}

/* When a step is dropped with its events, the store may still be full, and a reader may need its
   oldest event now. */
static void check_store(struct http_frontend *self) {
  if (event_store_is_blocked(&self->steps.store)) {
    self->was_blocked = true;
  } else if (self->was_blocked) {
    self->was_blocked = false;
    engine_capacity_freed(&self->frontend);
  }
}

/* Decides what happens next. It runs once in each loop iteration in which something was
   recorded. */
static void advance(struct http_frontend *self) {
  start_next(self);
  check_store(self);
  advance_closing(self);
}

LOOP_CALLBACK(on_turn, struct http_frontend *self) {
  advance(self);
}

/* --- answers that several routes give --------------------------------------------------------- */

static void reject(struct http_exchange *exchange, const char *message) {
  http_respond_error(exchange, 400, "invalid", message);
}

/* Reads `after`, or for server-sent events the id of the last one. Returns false if the request is
   answered. */
static bool read_after(struct http_exchange *exchange, enum reader_form form, uint64_t *after) {
  const struct http_request *request = http_exchange_request(exchange);
  const char *last = http_request_field(request, "Last-Event-ID");
  enum http_parameter parameter = http_request_parameter(request, "after", after);
  if (parameter == HTTP_PARAMETER_ABSENT) {
    *after = 0;
    if (form == READER_SSE && last != NULL)
      parameter = http_number_read(last, strlen(last), after);
  }
  if (parameter != HTTP_PARAMETER_INVALID)
    return true;
  reject(exchange, "after and Last-Event-ID are the number of an event");
  return false;
}

static void close_reader(struct http_frontend *self, struct reader *reader, bool is_sent) {
  struct http_step *step = reader->step;
  self->stream_count -= reader_is_stream(reader);
  reader_close(reader, is_sent);
  steps_reader_gone(&self->steps, step);
}

/* Returns whether another stream may be opened. The oldest one whose client may have left gives
   way. */
static bool make_stream_space(struct http_frontend *self) {
  if (self->stream_count < READER_STREAMS_MAX)
    return true;
  struct http_exchange *gone = http_server_oldest_gone(self->server, true);
  if (gone == NULL)
    return false;
  close_reader(self, http_exchange_user_data(gone), false);
  http_exchange_set_user_data(gone, NULL);
  http_exchange_abort(gone);
  return true;
}

/* Whether the stream of a step with this many events can be opened, from after `after` on. Returns
   false if the request is answered. */
static bool check_stream(struct http_frontend *self, struct http_exchange *exchange,
                         enum reader_form form, uint64_t last_seq, uint64_t *after) {
  if (!read_after(exchange, form, after))
    return false;
  if (*after > last_seq) {
    http_respond_error(exchange, 409, "ahead",
                       "the step has fewer events: the number is from another agent");
    return false;
  }
  if (!make_stream_space(self)) {
    http_respond_error_with(exchange, 429, "readers", "16 streams are open; try again",
                            HTTP_RETRY_AFTER);
    return false;
  }
  return http_exchange_admit_long(exchange);
}

static void open_stream(struct http_frontend *self, struct http_exchange *exchange,
                        struct http_step *step, enum reader_form form) {
  uint64_t after;
  if (!check_stream(self, exchange, form, step->events.last_seq, &after))
    return;
  self->stream_count++;
  reader_open_stream(self->base, step, exchange, form, after);
  self->was_blocked |= event_store_is_blocked(&self->steps.store);
}

/* Which stream the client prefers; READER_RESULT for none. */
static enum reader_form preferred_stream(const struct http_exchange *exchange) {
  const struct http_request *request = http_exchange_request(exchange);
  if (http_request_accepts(request, "text/event-stream"))
    return READER_SSE;
  return http_request_accepts(request, "application/x-ndjson") ? READER_NDJSON : READER_RESULT;
}

static void respond_now(struct http_frontend *self, struct http_exchange *exchange,
                        struct http_step *step) {
  if (step->state == HTTP_STEP_FINISHED)
    reader_open_result(self->base, step, exchange);
  else
    reader_respond_state(step, exchange);
}

/* Returns false if the request is answered. */
static bool check_id(struct http_exchange *exchange) {
  const char *id = http_exchange_segment(exchange);
  const size_t length = strlen(id);
  if (length >= 1 && length <= STEP_ID_MAX && utf8_valid_prefix(id, length) == length)
    return true;
  reject(exchange, "the id of a step is UTF-8 of 1 to 1024 bytes");
  return false;
}

/* Returns the step of the path. If it is unknown, the request is answered. */
static struct http_step *find_step(struct http_frontend *self, struct http_exchange *exchange) {
  const char *id = http_exchange_segment(exchange);
  if (!check_id(exchange))
    return NULL;
  struct http_step *step = steps_find(&self->steps, id);
  if (step != NULL)
    return step;
  if (steps_is_remembered(&self->steps, id))
    http_respond_error(exchange, 410, "gone", "the result of this step is no longer held");
  else
    http_respond_error(exchange, 404, "not_found", "this agent does not know the step");
  return NULL;
}

/* --- PUT /steps/{id} -------------------------------------------------------------------------- */

/* Answers a step that the protocol rejects. Its id stays free. */
static void respond_rejected(struct http_frontend *self, struct http_exchange *exchange,
                             const struct step *step, struct error *error) {
  const char *id = http_exchange_segment(exchange);
  const struct buffer *body = http_exchange_body(exchange);
  struct buffer text = {0};
  engine_mask_rejected(&self->frontend, body->bytes, body->length, error);
  execution_result_log_refused(self->log, id, error, body->bytes, body->length);
  const struct step_result result =
      step_result_of_agent(step_answer_version(step), id, STEP_CAUSE_REFUSED, error->text);
  write_result(&result, &text);
  http_respond(exchange, 422, "application/json", NULL, &text);
}

/* Returns false if the request is answered. */
static bool check_step(struct http_frontend *self, struct http_exchange *exchange,
                       struct step *step) {
  const char *id = http_exchange_segment(exchange);
  const struct buffer *body = http_exchange_body(exchange);
  struct error error;
  int result = step_parse_as(step, kinds, id, body->bytes, body->length, &error);
  if (result == 0 && step->kind == &step_cancel) {
    reject(exchange, "a cancel is POST /steps/{id}/cancel");
    return false;
  }
  const bool has_id = result == 0 || strcmp(step->step_id, STEP_NIL_ID) != 0;
  if (has_id && strcmp(step->step_id, id) != 0) {
    reject(exchange, "the stepId of the body is not that of the path");
    return false;
  }
  if (result == 0 && step_is_work(step))
    result = secrets_check(step, &error);
  if (result != 0)
    respond_rejected(self, exchange, step, &error);
  return result == 0;
}

/* Returns false if the request is answered. */
static bool check_capacity(struct http_frontend *self, struct http_exchange *exchange,
                           const struct step *step) {
  if (is_ending(self)) {
    http_respond_error(exchange, 503, "ending", "the agent is ending and takes no more steps");
    return false;
  }
  if (!step_is_work(step))
    return true;
  if (!steps_may_wait(&self->steps, http_exchange_body(exchange)->length)) {
    http_respond_error_with(exchange, 429, "full", "too many steps wait; try again",
                            HTTP_RETRY_AFTER);
    return false;
  }
  if (!steps_make_space(&self->steps)) {
    http_respond_error_with(exchange, 429, "unread",
                            "too many results are unread: GET or DELETE those of GET /steps",
                            HTTP_RETRY_AFTER);
    return false;
  }
  /* A step whose stream is refused must not run: the client may put it under another id. */
  const enum reader_form form = preferred_stream(exchange);
  uint64_t after;
  return form == READER_RESULT || check_stream(self, exchange, form, 0, &after);
}

static struct http_step *add_step(struct http_frontend *self, struct http_exchange *exchange,
                                  struct step *step) {
  static const char shutdown_title[] = "shutdown";
  char *title = step_is_work(step) ? engine_step_title(&self->frontend, step)
                                   : memory_copy(shutdown_title, sizeof shutdown_title - 1);
  self->has_shutdown |= step->kind == &step_shutdown;
  struct http_step *added =
      steps_add(&self->steps, step, title, http_exchange_body(exchange), clock_unix_ms());
  start_next(self);
  return added;
}

static struct http_step *accept_step(struct http_frontend *self, struct http_exchange *exchange) {
  struct step step = {0};
  struct http_step *added = NULL;
  if (check_step(self, exchange, &step) && check_capacity(self, exchange, &step))
    added = add_step(self, exchange, &step);
  step_release(&step);
  return added;
}

/* The step of a repeated PUT, or a new one. Returns NULL if the request is answered. */
static struct http_step *find_or_accept(struct http_frontend *self,
                                        struct http_exchange *exchange) {
  const char *id = http_exchange_segment(exchange);
  struct http_step *step = steps_find(&self->steps, id);
  if (step == NULL && steps_is_remembered(&self->steps, id))
    return find_step(self, exchange);
  if (step == NULL)
    return accept_step(self, exchange);
  if (steps_is_same_body(&self->steps, step, http_exchange_body(exchange)))
    return step;
  http_respond_error(exchange, 409, "conflict", "there is another step with this id");
  return NULL;
}

static void serve_put(void *owner, struct http_exchange *exchange) {
  struct http_frontend *self = owner;
  const enum reader_form form = preferred_stream(exchange);
  struct http_step *step = check_id(exchange) ? find_or_accept(self, exchange) : NULL;
  buffer_release(http_exchange_body(exchange));
  if (step == NULL)
    return;
  if (form == READER_RESULT || is_shutdown(step))
    respond_now(self, exchange, step);
  else
    open_stream(self, exchange, step, form);
}

/* --- the other routes ------------------------------------------------------------------------- */

static void serve_get(void *owner, struct http_exchange *exchange) {
  struct http_frontend *self = owner;
  struct http_step *step = find_step(self, exchange);
  uint64_t seconds = 0;
  if (step == NULL)
    return;
  if (http_request_parameter(http_exchange_request(exchange), "wait", &seconds) ==
      HTTP_PARAMETER_INVALID)
    reject(exchange, "wait is a number of seconds");
  else if (step->state == HTTP_STEP_FINISHED || seconds == 0 || is_shutdown(step))
    respond_now(self, exchange, step);
  else if (http_exchange_admit_long(exchange))
    reader_open_wait(self->base, step, exchange, seconds);
}

static void serve_events(void *owner, struct http_exchange *exchange) {
  struct http_frontend *self = owner;
  struct http_step *step = find_step(self, exchange);
  const enum reader_form form =
      preferred_stream(exchange) == READER_SSE ? READER_SSE : READER_NDJSON;
  if (step != NULL && is_shutdown(step))
    http_respond_error(exchange, 404, "not_found", "a shutdown has no events");
  else if (step != NULL)
    open_stream(self, exchange, step, form);
}

static const char shutdown_stays[] = "a shutdown cannot be cancelled";

static void serve_cancel(void *owner, struct http_exchange *exchange) {
  static const char reason[] = "cancelled: by a cancel step";
  struct http_frontend *self = owner;
  struct http_step *step = find_step(self, exchange);
  if (step == NULL)
    return;
  if (is_shutdown(step)) {
    http_respond_error(exchange, 409, "not_over", shutdown_stays);
    return;
  }
  if (step->state == HTTP_STEP_RUNNING)
    (void)engine_cancel(&self->frontend, step->id, reason);
  else if (step->state == HTTP_STEP_WAITING)
    finish_cancelled(self, step, reason);
  respond_now(self, exchange, step);
}

static void serve_delete(void *owner, struct http_exchange *exchange) {
  struct http_frontend *self = owner;
  struct http_step *step = find_step(self, exchange);
  if (step == NULL)
    return;
  if (step->state != HTTP_STEP_FINISHED) {
    http_respond_error(exchange, 409, "not_over",
                       is_shutdown(step) ? shutdown_stays
                                         : "the step waits or runs; cancel it first");
    return;
  }
  steps_delete(&self->steps, step);
  http_respond(exchange, 204, NULL, NULL, NULL);
  wake(self);
}

static void serve_list(void *owner, struct http_exchange *exchange) {
  struct http_frontend *self = owner;
  struct buffer json = {0};
  if (!http_exchange_admit_output(exchange))
    return;
  steps_add_list(&self->steps, &json);
  http_respond(exchange, 200, "application/json", NULL, &json);
}

static const struct http_route routes[] = {
    {.method = HTTP_GET, .pattern = "/steps", .serve = serve_list},
    {.method = HTTP_PUT, .pattern = "/steps/{}", .serve = serve_put},
    {.method = HTTP_GET, .pattern = "/steps/{}", .serve = serve_get},
    {.method = HTTP_DELETE, .pattern = "/steps/{}", .serve = serve_delete},
    {.method = HTTP_GET, .pattern = "/steps/{}/events", .serve = serve_events},
    {.method = HTTP_POST, .pattern = "/steps/{}/cancel", .serve = serve_cancel},
    {.pattern = NULL}};

/* --- calls of the server ---------------------------------------------------------------------- */

static void on_writable(void *owner, struct http_exchange *exchange) {
  struct http_frontend *self = owner;
  struct reader *reader = http_exchange_user_data(exchange);
  if (reader != NULL)
    reader_write(reader);
  if (self->was_blocked)
    wake(self);
}

static void on_closed(void *owner, struct http_exchange *exchange, bool is_sent) {
  struct http_frontend *self = owner;
  struct reader *reader = http_exchange_user_data(exchange);
  wake(self);
  if (reader != NULL)
    close_reader(self, reader, is_sent);
}

static void add_health(void *owner, struct buffer *json) {
  const struct http_frontend *self = owner;
  figures_add_health(&self->steps, json);
  engine_add_abilities(&self->frontend, "landlock", "enforces", json);
}

static void add_metrics(void *owner, struct buffer *text) {
  const struct http_frontend *self = owner;
  figures_add_metrics(&self->steps, &self->counts, text);
}

static size_t held_bytes(const void *owner) {
  const struct http_frontend *self = owner;
  return self->steps.waiting_bytes;
}

static void on_touched(void *owner) {
  struct http_frontend *self = owner;
  engine_touch(&self->frontend);
}

static const struct http_server_type server_type = {.routes = routes,
                                                    .writable = on_writable,
                                                    .closed = on_closed,
                                                    .health = add_health,
                                                    .metrics = add_metrics,
                                                    .held_bytes = held_bytes,
                                                    .touched = on_touched};

/* --- calls of the engine ---------------------------------------------------------------------- */

/* Answers the steps that will not run. A shutdown has no result. */
static void cancel_waiting(struct http_frontend *self) {
  struct error reason;
  (void)error_set(&reason, "cancelled: the agent was stopped by %s",
                  engine_leaving(&self->frontend));
  LIST_FOR_EACH (struct http_step, step, &self->steps.waiting, node)
    if (!is_shutdown(step))
      finish_cancelled(self, step, reason.text);
}

static void want(struct frontend *frontend, unsigned requests) {
  struct http_frontend *self = self_of(frontend);
  self->wanted += requests;
  if (requests == 0) {
    http_server_set_ending(self->server);
    cancel_waiting(self);
  }
  wake(self);
}

static void begin(struct frontend *frontend, struct execution *execution) {
  (void)frontend;
  engine_start(execution);
}

static size_t capacity(const struct frontend *frontend) {
  const struct http_frontend *self = (const struct http_frontend *)frontend;
  return event_store_is_blocked(&self->steps.store) ? 0 : SIZE_MAX;
}

static void event(struct frontend *frontend, const struct execution *execution,
                  const struct step_event *event) {
  struct http_frontend *self = self_of(frontend);
  struct http_step *step = execution_user_data(execution);
  event_log_append(&step->events, event);
  self->was_blocked |= event_store_is_blocked(&self->steps.store);
}

static void flush(struct frontend *frontend) {
  const struct http_frontend *self = self_of(frontend);
  if (self->steps.running != NULL)
    notify_readers(self->steps.running);
}

static void result(struct frontend *frontend, const struct execution *execution,
                   const struct execution_result *end) {
  struct http_frontend *self = self_of(frontend);
  struct http_step *step = execution_user_data(execution);
  struct step_end answer;
  execution_step_end(execution, end, &answer);
  event_log_append(&step->events, &answer.completed);
  finish(self, step, &answer.result);
}

static void idle(struct frontend *frontend) {
  const struct http_frontend *self = self_of(frontend);
  if (self->stream_count > 0 || self->steps.waiting_count > 0)
    engine_wait_on(frontend, 0);
  else
    engine_leave(frontend, AGENT_EXIT_IDLE, "the idle limit");
}

static void close_now(struct http_frontend *self) {
  const size_t unread = steps_unread(&self->steps);
  if (unread > 0)
    log_line(self->log, LOG_WARN, NULL, "%zu results were not read", unread);
  self->closing = CLOSED;
  engine_frontend_closed(&self->frontend, 0);
}

LOOP_CALLBACK(on_read_limit, struct http_frontend *self) {
  if (self->closing != CLOSING)
    return;
  log_line(self->log, LOG_WARN, NULL, "clients have not read all responses in time");
  close_now(self);
}

static void close_frontend(struct frontend *frontend, enum frontend_close how) {
  struct http_frontend *self = self_of(frontend);
  if (self->closing == CLOSED)
    return;
  self->closing = CLOSING;
  if (how == FRONTEND_CLOSE_IMMEDIATE) {
    close_now(self);
    return;
  }
  loop_timer_start(self->read_limit,
                   how == FRONTEND_CLOSE_GRACEFUL ? HTTP_FRONTEND_READ_MS : HTTP_FRONTEND_FAST_MS);
  wake(self);
}

static void dump(const struct frontend *frontend) {
  const struct http_frontend *self = (const struct http_frontend *)frontend;
  const struct steps *steps = &self->steps;
  log_line(self->log, LOG_WARN, NULL,
           "state: frontend http: %zu connections, %zu streams, %zu steps wait, %zu results held, "
           "%zu unread, %llu events of %zu bytes held%s",
           http_server_connections(self->server), self->stream_count, steps->waiting_count,
           steps->finished_count, steps_unread(steps), (unsigned long long)steps->store.count,
           steps->store.bytes, self->was_blocked ? ", a reader is awaited" : "");
}

static void free_frontend(struct frontend *frontend) {
  struct http_frontend *self = self_of(frontend);
  http_server_free(self->server);
  steps_release(&self->steps);
  event_free(self->turn);
  event_free(self->read_limit);
  free(self);
}

static const struct frontend_type http_frontend_type = {.name = "http",
                                                        .want = want,
                                                        .begin = begin,
                                                        .capacity = capacity,
                                                        .event = event,
                                                        .flush = flush,
                                                        .result = result,
                                                        .idle = idle,
                                                        .close = close_frontend,
                                                        .dump = dump,
                                                        .free = free_frontend};

struct frontend *http_frontend_new(struct event_base *base, const struct log *log,
                                   const struct http_frontend_options *options) {
  const struct http_server_options server_options = {.http = options->http, .mode = "steps"};
  struct http_frontend *self = memory_zeros(sizeof *self);
  self->frontend =
      (struct frontend){.type = &http_frontend_type, .terms = FRONTEND_TERMS_OF_PROTOCOL};
  self->base = base;
  self->log = log;
  self->turn = loop_timer_new(base, on_turn, self);
  self->read_limit = loop_timer_new(base, on_read_limit, self);
  steps_init(&self->steps, (size_t)options->events_bytes_max, options->events_max);
  self->server = http_server_new(base, log, &server_options, &server_type, self);
  return &self->frontend;
}
