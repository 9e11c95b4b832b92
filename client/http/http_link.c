#include "client/http/http_link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "agent/frontends/redis/connection/transport.h"
#include "base/clock.h"
#include "base/loop.h"

/* The most bytes of one read. */
#define READ_MAX ((size_t)64 * 1024)

/* The most bytes of a head without its path. */
#define HEAD_MAX ((size_t)1024)

void http_link_init(struct http_link *self, const struct http_peer *peer, int64_t silent_ms,
                    const struct http_link_handler *handler, void *owner) {
  *self =
      (struct http_link){.peer = peer, .handler = handler, .owner = owner, .silent_ms = silent_ms};
}

static void free_event(struct event **event) {
  if (*event != NULL)
    event_free(*event);
  *event = NULL;
}

/* The head has the key. */
static void erase_head(struct http_link *self) {
  if (self->head.capacity > 0)
    explicit_bzero(self->head.bytes, self->head.capacity);
  buffer_release(&self->head);
}

void http_link_close(struct http_link *self) {
  if (self->dialer != NULL)
    dialer_cancel(self->dialer);
  self->dialer = NULL;
  free_event(&self->readable);
  free_event(&self->writable);
  free_event(&self->timer);
  if (self->transport != NULL)
    self->transport->type->free(self->transport);
  self->transport = NULL;
  erase_head(self);
  buffer_release(&self->response.line);
  self->state = LINK_CLOSED;
}

/* `self->why` is set. */
static void fail(struct http_link *self) {
  http_link_close(self);
  if (self->lost_ms == 0)
    self->lost_ms = clock_monotonic_ms();
  self->handler->over(self->owner, &self->why);
}

static void lose(struct http_link *self, const char *why, int code) {
  (void)error_set(&self->why, "cannot reach %s: %s", self->peer->url.name, why);
  self->why.code = code;
  fail(self);
}

LOOP_CALLBACK(on_timer, struct http_link *self) {
  lose(self, "no answer in time", ETIMEDOUT);
}

/* A server that answers early does not read the rest: its answer says why. */
LOOP_CALLBACK(on_writable, struct http_link *self) {
  const size_t head = self->head.length;
  const bool is_head = self->sent < head;
  const struct iovec pieces[] = {{self->head.bytes + self->sent, is_head ? head - self->sent : 0},
                                 {(char *)self->body + (is_head ? 0 : self->sent - head),
                                  self->body_length - (is_head ? 0 : self->sent - head)}};
  const struct msghdr message = {.msg_iov = (struct iovec *)pieces + !is_head,
                                 .msg_iovlen = is_head ? 2 : 1};
  const ssize_t count = sendmsg(self->transport->fd, &message, MSG_NOSIGNAL);
  self->sent += count > 0 ? (size_t)count : 0;
  if (count > 0)
    loop_timer_start(self->timer, self->silent_ms);
  if (self->sent == head + self->body_length || (count < 0 && errno != EAGAIN && errno != EINTR))
    (void)event_del(self->writable);
}

static void finish(struct http_link *self, bool has_more) {
  (void)event_del(self->timer);
  const bool closes =
      has_more || self->response.closes || self->sent < self->head.length + self->body_length;
  self->state = LINK_OPEN;
  self->handler->over(self->owner, NULL);
  if (closes && self->state == LINK_OPEN)
    http_link_close(self);
}

/* Notes that the agent answers. A proxy answers although its agent is away: then returns false. */
static bool check_agent(struct http_link *self) {
  const struct http_response *response = &self->response;
  if (response->part == RESPONSE_HEAD || response->part == RESPONSE_BROKEN)
    return true; /* it is unknown yet, or another loss */
  if (response->instance[0] == '\0')
    return false;
  self->lost_ms = 0;
  self->why.text[0] = '\0';
  return true;
}

static void parse(struct http_link *self, const char *bytes, size_t length) {
  struct http_response *response = &self->response;
  const char *body;
  size_t body_length;
  while (length > 0 && response->part < RESPONSE_WHOLE) {
    const size_t count = http_response_parse(response, bytes, length, &body, &body_length);
    if (!check_agent(self)) {
      (void)error_set(&self->why, "%s answers %d, but is no agent", self->peer->url.name,
                      response->status);
      fail(self);
      return;
    }
    if (body_length > 0)
      self->handler->body(self->owner, body, body_length);
    bytes += count;
    length -= count;
  }
  if (response->part == RESPONSE_BROKEN) {
    lose(self, "the answer is not HTTP", 0);
  } else if (response->part == RESPONSE_WHOLE) {
    finish(self, length > 0);
  } else if (self->handler->turn != NULL) {
    (void)event_del(self->readable);
    (void)event_del(self->timer);
    self->handler->turn(self->owner);
  }
}

/* A server may close an idle connection. */
LOOP_CALLBACK(on_readable, struct http_link *self) {
  char bytes[READ_MAX];
  const ssize_t count = recv(self->transport->fd, bytes, sizeof bytes, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (self->state == LINK_OPEN) {
    http_link_close(self);
  } else if (count < 0) {
    lose(self, strerror(errno), errno);
  } else if (count == 0 && self->response.part == RESPONSE_REST) {
    finish(self, false);
  } else if (count == 0) {
    lose(self, "the connection was closed", 0);
  } else {
    loop_timer_start(self->timer, self->silent_ms);
    parse(self, bytes, (size_t)count);
  }
}

static void begin(struct http_link *self) {
  self->state = LINK_BUSY;
  self->sent = 0;
  http_response_reset(&self->response);
  (void)event_add(self->writable, NULL);
  http_link_read(self);
}

static void on_dialed(void *owner, struct transport *transport, struct connection_error why) {
  struct http_link *self = owner;
  struct event_base *base = self->peer->base;
  self->dialer = NULL;
  if (transport == NULL) {
    lose(self, why.text, why.code);
    return;
  }
  self->transport = transport;
  self->readable =
      loop_event_new_idle(base, transport->fd, EV_READ | EV_PERSIST, on_readable, self);
  self->writable =
      loop_event_new_idle(base, transport->fd, EV_WRITE | EV_PERSIST, on_writable, self);
  self->timer = loop_timer_new(base, on_timer, self);
  begin(self);
}

/* A proxy may remove Authorization (the API server of Kubernetes does). */
static void write_head(struct http_link *self, const char *method, const char *path) {
  const struct http_peer *peer = self->peer;
  erase_head(self);
  (void)buffer_space(&self->head, strlen(path) + HEAD_MAX); /* it is not copied to other memory */
  buffer_add_format(&self->head, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path,
                    peer->url.address.port != 0 ? peer->url.name : "localhost");
  if (peer->key != NULL)
    buffer_add_format(&self->head, "X-Sandbox-Key: %s\r\n", peer->key);
  if (peer->instance[0] != '\0')
    buffer_add_format(&self->head, "Sandbox-Instance: %s\r\n", peer->instance);
  if (self->accept != NULL)
    buffer_add_format(&self->head, "Accept: %s\r\n", self->accept);
  if (self->body != NULL)
    buffer_add_format(&self->head, "Content-Length: %zu\r\n", self->body_length);
  buffer_add_string(&self->head, "\r\n");
}

void http_link_send(struct http_link *self, const char *method, const char *path, const char *body,
                    size_t body_length) {
  self->body = body;
  self->body_length = body_length;
  if (self->lost_ms == 0)
    self->lost_ms = clock_monotonic_ms();
  if (self->state != LINK_OPEN)
    http_link_close(self);
  write_head(self, method, path);
  if (self->state == LINK_OPEN) {
    begin(self);
    return;
  }
  self->state = LINK_DIALS;
  self->dialer = dialer_start(self->peer->base, &self->peer->url.address, NULL, on_dialed, self);
}

void http_link_read(struct http_link *self) {
  if (self->state != LINK_BUSY || event_pending(self->readable, EV_READ, NULL) != 0)
    return;
  (void)event_add(self->readable, NULL);
  loop_timer_start(self->timer, self->silent_ms);
}
