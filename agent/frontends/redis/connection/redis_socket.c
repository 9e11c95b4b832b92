/*
 * The owner may close the socket inside a callback, so after each callback nothing is touched
 * unless the socket is still open. SIGPIPE is blocked (startup.c).
 */
#include "agent/frontends/redis/connection/redis_socket.h"

#include <sys/socket.h>

#include "base/loop.h"

#define READ_SIZE ((size_t)64 * 1024)

void redis_socket_init(struct redis_socket *self, struct event_base *base,
                       size_t (*largest_string)(void), const struct redis_socket_handler *handler,
                       void *owner) {
  *self = (struct redis_socket){
      .base = base, .largest_string = largest_string, .handler = handler, .owner = owner};
}

static void restart_timeout(struct redis_socket *self) {
  self->without_reply = 0;
  if (self->reply_timeout_ms == 0)
    (void)evtimer_del(self->timer);
  else
    loop_timer_start(self->timer, self->reply_timeout_ms);
}

void redis_socket_set_reply_timeout(struct redis_socket *self, int milliseconds_from_now) {
  if (milliseconds_from_now == self->reply_timeout_ms)
    return;
  self->reply_timeout_ms = milliseconds_from_now;
  restart_timeout(self);
}

struct connection_error redis_socket_timeout(const struct redis_socket *self) {
  if (self->transport == NULL || self->state != SOCKET_HANDSHAKING)
    return (struct connection_error){"no answer in time", CONNECTION_ERROR_NO_ANSWER};
  return (struct connection_error){
      "no answer in time to the TLS handshake: if this port does not speak TLS, use "
      "redis://, or ssl=false",
      CONNECTION_ERROR_SPEAKS_NO_TLS};
}

static void parse(struct redis_socket *self, const char *at, size_t length) {
  const char *end = at + length;
  const struct reply *reply;
  bool progress = (self->without_reply += length) >= REDIS_SOCKET_PROGRESS_BYTES;
  self->is_parsing = true;
  while (self->transport != NULL && (reply = reply_parser_next(&self->parser, &at, end)) != NULL) {
    progress = true;
    self->handler->reply(self->owner, reply);
  }
  if (self->transport != NULL && self->parser.error[0] != '\0')
    self->handler->lost(self->owner,
                        (struct connection_error){self->parser.error, CONNECTION_ERROR_NOT_REDIS});
  else if (self->transport != NULL && progress)
    restart_timeout(self);
  self->is_parsing = false;
  if (self->transport == NULL)
    reply_parser_release(&self->parser);
}

static void report_loss(struct redis_socket *self) {
  const char *error = self->transport->error;
  bool has_failed = error != NULL && error[0] != '\0';
  self->handler->lost(self->owner,
                      (struct connection_error){has_failed ? error : "closed by the server",
                                                self->transport->code});
}

static void await_capacity(struct redis_socket *self) {
  if (self->wants_capacity || self->transport->wants_to_write)
    (void)event_add(self->writable, NULL);
}

/* TLS may hold bytes of which the socket does not tell, so it is read until it waits; it does so
   after a bounded number of bytes, whatever the server sends. */
static void read_replies(struct redis_socket *self) {
  char bytes[READ_SIZE];
  bool is_plain = self->transport->type->is_plain;
  ssize_t length;
  do {
    length = self->transport->type->read(self->transport, bytes, sizeof bytes);
    if (length > 0)
      parse(self, bytes, (size_t)length);
    else if (length != TRANSPORT_WAITS)
      report_loss(self);
  } while (length > 0 && !is_plain && self->transport != NULL);
  if (!is_plain && self->transport != NULL)
    await_capacity(self);
}

static void continue_handshake(struct redis_socket *self) {
  int result = self->transport->type->handshake(self->transport);
  if (result == TRANSPORT_FAILED) {
    report_loss(self);
    return;
  }
  bool is_done = result == 0;
  self->state = is_done ? SOCKET_OPEN : SOCKET_HANDSHAKING;
  if (is_done ? self->wants_capacity : self->transport->wants_to_write)
    (void)event_add(self->writable, NULL);
  if (is_done)
    read_replies(self); /* some may have arrived with the end of the handshake */
}

LOOP_CALLBACK(on_readable, struct redis_socket *self) {
  if (self->state == SOCKET_HANDSHAKING)
    continue_handshake(self);
  else
    read_replies(self);
}

LOOP_CALLBACK(on_timer, struct redis_socket *self) {
  self->handler->lost(self->owner, redis_socket_timeout(self));
}

LOOP_CALLBACK(on_writable, struct redis_socket *self) {
  if (self->state == SOCKET_HANDSHAKING) {
    continue_handshake(self);
    return;
  }
  restart_timeout(self);
  bool wanted_capacity = self->wants_capacity;
  (void)redis_socket_write(self, NULL, 0); /* the bytes that the transport holds */
  if (wanted_capacity && self->handler->writable != NULL)
    self->handler->writable(self->owner);
  if (self->transport != NULL && !self->transport->type->is_plain)
    read_replies(self); /* TLS may have waited for the socket before it could read */
}

void redis_socket_open(struct redis_socket *self, struct transport *transport) {
  int fd = transport->fd;
  self->transport = transport;
  self->state = transport->type->is_plain ? SOCKET_OPEN : SOCKET_HANDSHAKING;
  self->wants_capacity = false;
  self->reply_timeout_ms = 0;
  self->timer = loop_timer_new(self->base, on_timer, self);
  self->readable = loop_event_new(self->base, fd, EV_READ | EV_PERSIST, on_readable, self);
  self->writable = loop_event_new_idle(self->base, fd, EV_WRITE, on_writable, self);
  reply_parser_init(&self->parser, self->largest_string);
  if (self->state == SOCKET_HANDSHAKING)
    (void)event_add(self->writable, NULL);
}

void redis_socket_close(struct redis_socket *self) {
  if (self->transport == NULL)
    return;
  event_free(self->readable);
  event_free(self->writable);
  event_free(self->timer);
  if (!self->is_parsing) /* else the callback may still use the reply */
    reply_parser_release(&self->parser);
  self->transport->type->free(self->transport);
  self->transport = NULL;
}

size_t redis_socket_write(struct redis_socket *self, const struct iovec *pieces, int count) {
  size_t wanted = 0;
  for (int i = 0; i < count; i++)
    wanted += pieces[i].iov_len;
  ssize_t written = 0;
  if (self->state == SOCKET_OPEN)
    written = self->transport->type->write(self->transport, pieces, count);
  if (written < 0) { /* the loss is reported after the replies that have arrived before */
    (void)shutdown(self->transport->fd, SHUT_RDWR);
    return 0;
  }
  self->wants_capacity = (size_t)written < wanted;
  if (self->state == SOCKET_OPEN)
    await_capacity(self);
  return (size_t)written;
}
