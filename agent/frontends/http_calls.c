#include "agent/frontends/http_calls.h"

#include "base/loop.h"

static struct http_calls *self_of(struct frontend *frontend) {
  return (struct http_calls *)frontend;
}

/* --- the server ------------------------------------------------------------------------------ */

static void serve(void *owner, struct http_exchange *exchange) {
  struct http_calls *self = owner;
  if (engine_leaving(&self->calls.frontend) != NULL)
    http_respond_error(exchange, 503, "ending", "the agent is ending and takes no more calls");
  else
    self->type->serve(self, exchange);
}

static void on_gone(void *owner, struct http_exchange *exchange) {
  struct http_calls *self = owner;
  void *user_data = http_exchange_user_data(exchange);
  if (user_data != NULL)
    self->type->gone(self, user_data);
}

static void on_closed(void *owner, struct http_exchange *exchange, bool is_sent) {
  struct http_calls *self = owner;
  void *user_data = http_exchange_user_data(exchange);
  (void)is_sent;
  if (user_data != NULL) {
    self->type->forget(user_data);
    if (self->state != HTTP_CALLS_CLOSED) /* then there is no engine anymore */
      self->type->gone(self, user_data);
  }
  event_active(self->turn, 0, 0);
}

/* A stream has nothing unsent: calls that wait for this may begin. */
static void on_writable(void *owner, struct http_exchange *exchange) {
  const struct http_calls *self = owner;
  (void)exchange;
  event_active(self->turn, 0, 0);
}

static void add_health(void *owner, struct buffer *json) {
  const struct http_calls *self = owner;
  engine_add_abilities(&self->calls.frontend, "landlock", "enforces", json);
  buffer_add_format(json, ",\"waiting\":%zu", calls_waiting(&self->calls));
}

static void add_metrics(void *owner, struct buffer *text) {
  const struct http_calls *self = owner;
  http_metric_begin(text, "sandbox_calls_running", "gauge", NULL, "Calls that run.");
  http_metric_add(text, "sandbox_calls_running", self->calls.running);
  http_metric_begin(text, "sandbox_calls_waiting", "gauge", NULL, "Calls that wait.");
  http_metric_add(text, "sandbox_calls_waiting", calls_waiting(&self->calls));
}

static size_t held_bytes(const void *owner) {
  return calls_bytes(&((const struct http_calls *)owner)->calls);
}

static const struct http_server_type server_type = {.writable = on_writable,
                                                    .gone = on_gone,
                                                    .closed = on_closed,
                                                    .health = add_health,
                                                    .metrics = add_metrics,
                                                    .held_bytes = held_bytes};

void http_calls_answered(struct http_exchange *exchange) {
  http_exchange_set_user_data(exchange, NULL);
}

bool http_calls_has_capacity(const struct calls *calls) {
  return http_server_unsent(((const struct http_calls *)calls)->server) < HTTP_ALL_UNSENT_MAX;
}

bool http_calls_may_report(const struct http_exchange *exchange) {
  return http_stream_capacity(exchange) >= HTTP_UNSENT_MAX - HTTP_CALLS_HOLD_PROGRESS_BYTES;
}

/* --- the end --------------------------------------------------------------------------------- */

static void close_now(struct http_calls *self) {
  self->state = HTTP_CALLS_CLOSED;
  engine_frontend_closed(&self->calls.frontend, 0);
}

LOOP_CALLBACK(on_turn, struct http_calls *self) {
  calls_serve(&self->calls);
  if (self->state == HTTP_CALLS_CLOSING && !http_server_is_busy(self->server))
    close_now(self);
}

LOOP_CALLBACK(on_limit, struct http_calls *self) {
  if (self->state == HTTP_CALLS_CLOSING)
    close_now(self);
}

void http_calls_close(struct frontend *frontend, enum frontend_close how) {
  struct http_calls *self = self_of(frontend);
  if (self->state == HTTP_CALLS_CLOSED)
    return;
  self->state = HTTP_CALLS_CLOSING;
  if (how == FRONTEND_CLOSE_IMMEDIATE) {
    close_now(self);
    return;
  }
  loop_timer_start(self->limit,
                   how == FRONTEND_CLOSE_GRACEFUL ? HTTP_CALLS_CLOSE_MS : HTTP_CALLS_FAST_MS);
  event_active(self->turn, 0, 0);
}

/* --- the frontend ---------------------------------------------------------------------------- */

void http_calls_want(struct frontend *frontend, unsigned requests) {
  if (requests == 0)
    http_server_set_ending(self_of(frontend)->server);
  calls_frontend_want(frontend, requests);
}

void http_calls_dump(const struct frontend *frontend) {
  const struct http_calls *self = (const struct http_calls *)frontend;
  log_line(self->log, LOG_WARN, NULL,
           "state: frontend %s: %u calls run, %zu wait, of %zu bytes; %zu connections",
           frontend->type->name, self->calls.running, calls_waiting(&self->calls),
           calls_bytes(&self->calls), http_server_connections(self->server));
}

void http_calls_init(struct http_calls *self, struct event_base *base, const struct log *log,
                     const struct http_calls_type *type, const struct calls_type *calls_type,
                     const struct http_options *options, const char *path) {
  const struct http_server_options server_options = {.http = options, .mode = type->mode};
  self->type = type;
  self->log = log;
  self->turn = loop_timer_new(base, on_turn, self);
  self->limit = loop_timer_new(base, on_limit, self);
  calls_init(&self->calls, base, calls_type);
  self->routes[0] = (struct http_route){.method = HTTP_POST,
                                        .pattern = options->path != NULL ? options->path : path,
                                        .takes_json = true,
                                        .serve = serve};
  self->server_type = server_type;
  self->server_type.routes = self->routes;
  self->server = http_server_new(base, log, &server_options, &self->server_type, self);
}

void http_calls_release(struct http_calls *self) {
  http_server_free(self->server);
  calls_release(&self->calls);
  event_free(self->turn);
  event_free(self->limit);
}
