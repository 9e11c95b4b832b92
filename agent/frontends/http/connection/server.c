#include "agent/frontends/http/connection/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/frontends/http/connection/routes.h"
#include "agent/frontends/http/connection/server_state.h"
#include "agent/payload_limit.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"

/* The connections that one turn accepts, and the pause after descriptors have run out. */
enum { ACCEPTS_PER_TURN = 16, RETRY_MS = 100 };

/* The owner is the server. */
static const struct http_route own_routes[] = {
    {.method = HTTP_GET, .pattern = "/health", .serve = server_serve_health},
    {.method = HTTP_HEAD, .pattern = "/health", .serve = server_serve_health},
    {.method = HTTP_GET, .pattern = "/metrics", .serve = server_serve_metrics},
    {.pattern = NULL}};

bool http_server_has_path(const char *path) {
  for (const struct http_route *route = own_routes; route->pattern != NULL; route++)
    if (strcmp(route->pattern, path) == 0)
      return true;
  return false;
}

static bool is_own_route(const struct http_route *route) {
  return route >= own_routes && route < own_routes + sizeof own_routes / sizeof *own_routes;
}

/* --- access ----------------------------------------------------------------------------------- */

static void describe_client(const struct http_exchange *exchange, char *out, size_t size) {
  union http_socket_address address = {0};
  socklen_t length = sizeof address;
  const bool is_known = getpeername(exchange->fd, &address.any, &length) == 0;
  const bool is_ipv6 = address.any.sa_family == AF_INET6;
  const void *number =
      is_ipv6 ? (const void *)&address.ipv6.sin6_addr : (const void *)&address.ipv4.sin_addr;
  if (!is_known || !exchange->is_tcp ||
      inet_ntop(is_ipv6 ? AF_INET6 : AF_INET, number, out, (socklen_t)size) == NULL)
    (void)snprintf(out, size, "%s", exchange->is_tcp ? "an unknown address" : "the socket file");
}

/* At most once in the pause, except at the end of the program. */
static void log_rejected_keys(struct http_server *self) {
  if (self->rejected_keys == 0)
    return;
  log_line(self->log, LOG_WARN, NULL, "requests without the right key: %u, the last one from %s",
           self->rejected_keys, self->last_rejected);
  self->rejected_keys = 0;
  loop_timer_start(self->rejected_pause, HTTP_REJECTED_LOG_MS);
}

LOOP_CALLBACK(on_rejected_pause_end, struct http_server *self) {
  log_rejected_keys(self);
}

static void reject_key(struct http_server *self, struct http_exchange *exchange) {
  self->rejected_keys++;
  describe_client(exchange, self->last_rejected, sizeof self->last_rejected);
  if (!event_pending(self->rejected_pause, EV_TIMEOUT, NULL))
    log_rejected_keys(self);
  exchange->closes = true;
  http_respond_error_with(exchange, 401, "unauthorized",
                          "this agent wants its key: Authorization: Bearer KEY",
                          "WWW-Authenticate: Bearer\r\n");
}

static bool is_health(const struct http_request *request) {
  return (request->method == HTTP_GET || request->method == HTTP_HEAD) &&
         strcmp(request->path, "/health") == 0;
}

/* The key must not be found in a supervisor, which begins as a copy of the agent. */
static enum http_access_result read_access(const struct http_server *self,
                                           struct http_exchange *exchange) {
  struct http_request *request = &exchange->reader.request;
  const struct http_access_fields fields = {
      .host = http_request_field(request, "Host"),
      .origin = http_request_field(request, "Origin"),
      .authorization = http_request_field(request, "Authorization"),
      .sandbox_key = http_request_field(request, "X-Sandbox-Key")};
  const enum http_access_result result =
      http_access_check(&self->options.http->access, exchange->is_tcp, &fields);
  http_request_erase_field(request, "Authorization");
  http_request_erase_field(request, "X-Sandbox-Key");
  return result;
}

/* Returns false if the request is answered. */
static bool check_access(struct http_server *self, struct http_exchange *exchange) {
  switch (read_access(self, exchange)) {
  case HTTP_ACCESS_ALLOWED:
    exchange->is_authorized = true;
    return true;
  case HTTP_ACCESS_ORIGIN:
    http_respond_error(exchange, 403, "origin", "web pages may not use this agent");
    return false;
  case HTTP_ACCESS_HOST:
    http_respond_error(exchange, 421, "host",
                       "use an IP address, localhost, or a name of --http-open as the host");
    return false;
  case HTTP_ACCESS_NO_KEY_SENT:
    if (is_health(&exchange->reader.request))
      return true;
    break;
  case HTTP_ACCESS_UNAUTHORIZED:
    break;
  }
  reject_key(self, exchange);
  return false;
}

/* --- routes ----------------------------------------------------------------------------------- */

static void keep_segment(struct http_exchange *exchange) {
  const char *segment;
  size_t length = 0;
  (void)http_pattern_matches(exchange->route->pattern, exchange->reader.request.path, &segment,
                             &length);
  if (segment != NULL)
    exchange->segment = memory_copy(segment, length);
}

static void reject_route(struct http_exchange *exchange, const struct buffer *allowed) {
  if (allowed->length == 0) {
    http_respond_error(exchange, 404, "not_found", "there is no such path");
    return;
  }
  char fields[64];
  (void)snprintf(fields, sizeof fields, "Allow: %.*s\r\n", (int)allowed->length, allowed->bytes);
  http_respond_error_with(exchange, 405, "method", "this path has other methods; see Allow",
                          fields);
}

static bool find_route(struct http_server *self, struct http_exchange *exchange) {
  const struct http_request *request = &exchange->reader.request;
  struct buffer allowed = {0};
  exchange->route = http_routes_find(own_routes, request, &allowed);
  if (exchange->route == NULL)
    exchange->route = http_routes_find(self->type->routes, request, &allowed);
  if (exchange->route == NULL)
    reject_route(exchange, &allowed);
  else
    keep_segment(exchange);
  buffer_release(&allowed);
  return exchange->route != NULL;
}

static bool check_instance(struct http_server *self, struct http_exchange *exchange) {
  const char *instance = http_request_field(&exchange->reader.request, "Sandbox-Instance");
  if (instance == NULL || strcmp(instance, self->instance) == 0)
    return true;
  http_respond_error(exchange, 412, "restarted",
                     "the agent was restarted: its steps and results are gone");
  return false;
}

static bool check_type(struct http_exchange *exchange) {
  if (!exchange->route->takes_json ||
      http_request_has_type(&exchange->reader.request, "application/json"))
    return true;
  http_respond_error(exchange, 415, "media_type", "send Content-Type: application/json");
  return false;
}

/* --- bodies ----------------------------------------------------------------------------------- */

/* The bytes of all bodies that are in memory. */
static size_t held_bytes(const struct http_server *self) {
  size_t held = self->type->held_bytes != NULL ? self->type->held_bytes(self->owner) : 0;
  LIST_FOR_EACH (struct http_exchange, exchange, &self->connections, node)
    held += exchange->reader.body.length;
  return held;
}

/* `length` is that of this body, announced or read. `held` is the memory that all bodies would use,
   this one included. A short body does not wait for memory, because it may be that of a cancel. */
static bool check_length(struct http_exchange *exchange, uint64_t length, uint64_t held) {
  if (length > payload_limit()) {
    struct error error;
    payload_limit_error(&error);
    exchange->closes = true;
    http_respond_error(exchange, 413, "too_large", error.text);
    return false;
  }
  if (length <= HTTP_BODY_SHORT_MAX)
    return true;
  if (!http_exchange_admit_long(exchange))
    return false;
  if (held <= payload_limit())
    return true;
  exchange->closes = true;
  http_respond_error_with(exchange, 503, "busy",
                          "the bodies of other requests use the memory; try again",
                          HTTP_RETRY_AFTER);
  return false;
}

/* Checks the bytes that were read, and the announced rest of the body or of the chunk. */
void server_check_body(struct http_server *self, struct http_exchange *exchange) {
  const struct request_reader *reader = &exchange->reader;
  const bool is_known = reader->request.framing == HTTP_BODY_LENGTH || reader->chunk == CHUNK_DATA;
  const uint64_t announced = is_known ? reader->left : 0;
  (void)check_length(exchange, reader->body.length + announced, held_bytes(self) + announced);
}

/* If the kernel does not take these bytes at once, the client sends its body without them. */
static void send_continue(const struct http_exchange *exchange) {
  static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
  if (exchange->reader.request.expects_continue &&
      exchange->reader.request.framing != HTTP_BODY_NONE)
    (void)send(exchange->fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Whether the request shows that somebody uses the agent. Metrics are read whether or not anyone
   does; a probe of health shows it if it has the key. */
static bool is_activity(const struct http_server *self, const struct http_exchange *exchange) {
  const bool is_probe = exchange->route->serve == server_serve_metrics ||
                        (is_own_route(exchange->route) && self->options.http->access.key == NULL);
  return exchange->is_authorized && !is_probe;
}

void server_check_header(struct http_server *self, struct http_exchange *exchange) {
  const uint64_t length = exchange->reader.request.content_length;
  if (!check_access(self, exchange) || !find_route(self, exchange) ||
      !check_instance(self, exchange) || !check_type(exchange) ||
      !check_length(exchange, length, held_bytes(self) + length))
    return;
  if (is_activity(self, exchange) && self->type->touched != NULL)
    self->type->touched(self->owner);
  send_continue(exchange);
  request_reader_read_body(&exchange->reader);
}

/* --- serving ---------------------------------------------------------------------------------- */

void server_serve(struct http_server *self, struct http_exchange *exchange) {
  exchange->route->serve(is_own_route(exchange->route) ? self : self->owner, exchange);
}

/* Whether the request had no right key, origin or host, or was above a limit. */
static bool is_refused(const struct http_exchange *exchange) {
  static const char *const words[] = {"unauthorized", "origin", "host",    "too_large",
                                      "full",         "unread", "readers", "busy"};
  for (size_t i = 0; exchange->error != NULL && i < sizeof words / sizeof *words; i++)
    if (strcmp(exchange->error, words[i]) == 0)
      return true;
  return false;
}

void server_end_exchange(struct http_server *self, struct http_exchange *exchange, bool is_sent) {
  self->long_count -= exchange->is_long;
  self->counts.requests++;
  self->counts.refused += is_refused(exchange);
  log_line(self->log, LOG_DEBUG, NULL, "http %s %s: %d in %lld ms%s",
           exchange->route != NULL ? exchange->reader.request.method_name : "request",
           exchange->route != NULL ? exchange->route->pattern : "without a route", exchange->status,
           (long long)(clock_monotonic_ms() - exchange->begun_ms), is_sent ? "" : ", not sent");
  self->type->closed(self->owner, exchange, is_sent);
}

/* --- accepting connections -------------------------------------------------------------------- */

/* Returns the connection that has waited longest in this state, or NULL. */
static struct http_exchange *oldest(const struct http_server *self, enum connection_state state) {
  LIST_FOR_EACH (struct http_exchange, exchange, &self->connections, node)
    if (exchange->state == state)
      return exchange;
  return NULL;
}

/* A connection whose client does not read its response, and had no key for the request. Such
   clients could otherwise occupy all connections. */
static struct http_exchange *stuck_without_key(const struct http_server *self) {
  LIST_FOR_EACH (struct http_exchange, exchange, &self->connections, node)
    if (exchange->state == CONNECTION_SERVING && !exchange->is_authorized)
      return exchange;
  return NULL;
}

/* The connection that gives way to a new one; NULL: none. */
static struct http_exchange *least_needed(const struct http_server *self) {
  struct http_exchange *waiting = oldest(self, CONNECTION_READING_HEADER);
  return waiting != NULL ? waiting : stuck_without_key(self);
}

/* The kernel would otherwise hold megabytes for a client that does not read. It would also accept
   more only after a part of these megabytes, so that a client that reads slowly would seem to be
   stuck. */
static void set_up_socket(int fd) {
  const int on = 1, unsent = HTTP_SOCKET_UNSENT_MAX;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

static void add_connection(struct http_server *self, int fd, bool is_tcp) {
  struct http_exchange *waiting = NULL;
  if (is_tcp)
    set_up_socket(fd);
  if (self->lingering_count >= HTTP_CONNECTIONS_MAX)
    connection_free(oldest(self, CONNECTION_LINGERING));
  const bool is_full = self->connection_count >= HTTP_CONNECTIONS_MAX;
  if (is_full && (waiting = least_needed(self)) != NULL)
    connection_free(waiting);
  struct http_exchange *exchange = connection_new(self, self->base, fd, is_tcp);
  if (is_full && waiting == NULL)
    http_respond_error_with(exchange, 503, "busy", "too many connections are open; try again",
                            HTTP_RETRY_AFTER);
  connection_advance(exchange);
}

static void open_reserve(struct http_server *self) {
  self->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void set_accepting(struct http_server *self, bool accepts) {
  for (size_t i = 0; i < self->options.http->listener->count; i++)
    if (accepts)
      (void)event_add(self->acceptable[i], NULL);
    else
      (void)event_del(self->acceptable[i]);
}

/* There is no descriptor for the connection: it is refused with the one that was kept for this.
   Without any, the kernel would report the same connection again and again. */
static void refuse_connection(struct http_server *self, int listener) {
  if (self->reserve >= 0)
    (void)close(self->reserve);
  const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd >= 0)
    (void)close(fd);
  open_reserve(self);
  if (fd >= 0 && self->reserve >= 0)
    return;
  set_accepting(self, false);
  loop_timer_start(self->retry, RETRY_MS);
}

LOOP_CALLBACK(on_retry, struct http_server *self) {
  if (self->reserve < 0)
    open_reserve(self);
  set_accepting(self, true);
}

static void on_acceptable(evutil_socket_t listener, short what, void *owner) {
  struct http_server *self = owner;
  (void)what;
  const bool is_tcp = !http_address_is_file(&self->options.http->address);
  for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
    const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      add_connection(self, fd, is_tcp);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      refuse_connection(self, listener);
      return;
    } else if (errno != ECONNABORTED && errno != EINTR) {
      return;
    }
  }
}

/* --- the life of a server --------------------------------------------------------------------- */

static void log_started(const struct http_server *self) {
  const struct http_options *http = self->options.http;
  log_line(self->log, LOG_INFO, NULL, "started: pid %d, http %s, %s%s", (int)getpid(),
           http->address.text, http->key_source != NULL ? "key from " : "no key",
           http->key_source != NULL ? http->key_source : "");
}

struct http_server *http_server_new(struct event_base *base, const struct log *log,
                                    const struct http_server_options *options,
                                    const struct http_server_type *type, void *owner) {
  struct http_server *self = memory_zeros(sizeof *self);
  self->base = base;
  self->log = log;
  self->options = *options;
  self->type = type;
  self->owner = owner;
  self->started_ms = clock_monotonic_ms();
  (void)snprintf(self->instance, sizeof self->instance, "%016llx",
                 (unsigned long long)random_u64());
  self->retry = loop_timer_new(base, on_retry, self);
  self->rejected_pause = loop_timer_new(base, on_rejected_pause_end, self);
  for (size_t i = 0; i < options->http->listener->count; i++)
    self->acceptable[i] = loop_event_new_idle(base, options->http->listener->fds[i],
                                              EV_READ | EV_PERSIST, on_acceptable, self);
  open_reserve(self);
  set_accepting(self, true);
  log_started(self);
  return self;
}

void http_server_set_ending(struct http_server *self) {
  self->is_ending = true;
}

bool http_server_is_busy(const struct http_server *self) {
  LIST_FOR_EACH (const struct http_exchange, exchange, &self->connections, node)
    if (exchange->state == CONNECTION_SERVING && exchange->response != RESPONSE_NONE)
      return true;
  return false;
}

struct http_exchange *http_server_oldest_gone(const struct http_server *self, bool is_stream) {
  LIST_FOR_EACH (struct http_exchange, exchange, &self->connections, node)
    if (exchange->is_long && exchange->state == CONNECTION_SERVING &&
        exchange->response != RESPONSE_COMPLETE && (exchange->is_open_stream || !is_stream) &&
        connection_is_client_gone(exchange))
      return exchange;
  return NULL;
}

size_t http_server_unsent(const struct http_server *self) {
  size_t unsent = 0;
  LIST_FOR_EACH (const struct http_exchange, exchange, &self->connections, node)
    unsent += exchange->output.length + exchange->body.length;
  return unsent;
}

size_t http_server_connections(const struct http_server *self) {
  return self->connection_count;
}

void http_server_free(struct http_server *self) {
  LIST_FOR_EACH (struct http_exchange, exchange, &self->connections, node)
    connection_free(exchange);
  for (size_t i = 0; i < self->options.http->listener->count; i++)
    event_free(self->acceptable[i]);
  log_rejected_keys(self);
  event_free(self->rejected_pause);
  event_free(self->retry);
  if (self->reserve >= 0)
    (void)close(self->reserve);
  free(self);
}
