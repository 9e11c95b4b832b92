/*
 * The owner may close it inside a callback: after each one nothing is touched unless it is still
 * open. SIGPIPE is blocked (startup.c).
 */
#include "agent/frontends/redis/connection/redis_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop.h"

#define READ_SIZE ((size_t)64 * 1024)

/* The low-water mark while replies are polled: more bytes than the replies that gather
   meanwhile. */
#define POLLED_BYTES 1024

void redis_socket_init(struct redis_socket *self, struct event_base *base,
                       size_t (*largest_string)(void), const struct redis_socket_handler *handler,
                       void *owner) {
  *self = (struct redis_socket){
      .base = base, .largest_string = largest_string, .handler = handler, .owner = owner};
}

static void start_timer(struct redis_socket *self) {
  self->without_reply = 0;
  if (self->is_broken)
    return; /* it is about the loss */
  if (self->expect_ms == 0)
    (void)evtimer_del(self->timer);
  else
    loop_timer_start(self->timer, self->expect_ms);
}

void redis_socket_set_reply_timeout(struct redis_socket *self, int milliseconds_from_now) {
  if (milliseconds_from_now == self->expect_ms)
    return;
  self->expect_ms = milliseconds_from_now;
  start_timer(self);
}

struct connection_error redis_socket_timeout(const struct redis_socket *self) {
  if (self->transport == NULL || !self->is_shaking_hands)
    return (struct connection_error){"no answer in time", CONNECTION_ERROR_NO_ANSWER};
  return (struct connection_error){
      "no answer in time to the TLS handshake: if this port does not speak TLS, use "
      "redis://, or ssl=false",
      CONNECTION_ERROR_SPEAKS_NO_TLS};
}

static void parse(struct redis_socket *self, const char *bytes, size_t length) {
  bool progress = (self->without_reply += length) >= REDIS_SOCKET_PROGRESS_BYTES;
  reply_parser_feed(&self->parser, bytes, length);
  while (self->transport != NULL) {
    redisReply *reply;
    enum reply_parser_result result = reply_parser_next(&self->parser, &reply);
    if (result == REPLY_PARSER_MORE && progress)
      start_timer(self);
    if (result == REPLY_PARSER_MORE)
      return;
    progress = true;
    if (result == REPLY_PARSER_BROKEN) {
      char why[160]; /* a copy: the owner closes it, and releases the parser */
      (void)snprintf(why, sizeof why, "%s", reply_parser_error(&self->parser));
      self->handler->lost(self->owner, (struct connection_error){why, CONNECTION_ERROR_NOT_REDIS});
      return;
    }
    self->is_truncated = result == REPLY_PARSER_TRUNCATED;
    self->handler->reply(self->owner, reply);
    reply_parser_free(&self->parser, reply);
  }
}

static void lose(struct redis_socket *self, ssize_t result) {
  const struct connection_error why = {result == 0 ? "closed by the server"
                                                   : self->transport->error,
                                       result == 0 ? 0 : self->transport->code};
  self->handler->lost(self->owner, why);
}

static void await_capacity(struct redis_socket *self) {
  if (self->wants_capacity || self->transport->wants_to_write)
    (void)event_add(self->writable, NULL);
}

/* A transport that is not plain may hold bytes, of which the socket would not tell: it is read
   until it waits, which it does after a bounded number of them, whatever the server sends. */
bool redis_socket_take_replies(struct redis_socket *self, const char *known, size_t known_length) {
  char bytes[READ_SIZE];
  bool is_plain = self->transport->type->is_plain;
  ssize_t length;
  do {
    length = self->transport->type->read(self->transport, bytes, sizeof bytes);
    if (is_plain && length > 0 && (size_t)length == known_length &&
        memcmp(bytes, known, known_length) == 0)
      return true;
    if (length > 0)
      parse(self, bytes, (size_t)length);
    else if (length != TRANSPORT_WAITS || self->is_broken)
      lose(self, length == TRANSPORT_WAITS ? TRANSPORT_FAILED : length);
  } while (length > 0 && !is_plain && self->transport != NULL);
  if (!is_plain && self->transport != NULL)
    await_capacity(self);
  return false;
}

static void take_replies(struct redis_socket *self) {
  (void)redis_socket_take_replies(self, "", 0);
}

/* What the owner wanted to write meanwhile it may write when it is done. */
static void shake_hands(struct redis_socket *self) {
  int result = self->transport->type->handshake(self->transport);
  if (result == TRANSPORT_FAILED) {
    lose(self, result);
    return;
  }
  self->is_shaking_hands = result != 0;
  if (result != 0 ? self->transport->wants_to_write : self->wants_capacity)
    (void)event_add(self->writable, NULL);
  if (result == 0)
    take_replies(self); /* it may have come together with the end of the handshake */
}

LOOP_CALLBACK(on_readable, struct redis_socket *self) {
  if (self->is_shaking_hands)
    shake_hands(self);
  else
    take_replies(self);
}

LOOP_CALLBACK(on_timer, struct redis_socket *self) {
  if (!self->is_broken) {
    self->handler->lost(self->owner, redis_socket_timeout(self));
    return;
  }
  take_replies(self);
  if (self->transport != NULL)
    loop_timer_start_now(self->timer);
}

LOOP_CALLBACK(on_writable, struct redis_socket *self) {
  if (self->is_shaking_hands) {
    shake_hands(self);
    return;
  }
  start_timer(self);
  bool wanted_capacity = self->wants_capacity;
  (void)redis_socket_write(self, NULL, 0); /* what the transport holds */
  if (wanted_capacity && self->handler->writable != NULL)
    self->handler->writable(self->owner);
  if (self->transport != NULL && !self->transport->type->is_plain)
    take_replies(self); /* it may have waited for that */
}

void redis_socket_open(struct redis_socket *self, struct transport *transport) {
  int fd = transport->fd;
  self->transport = transport;
  self->is_shaking_hands = !transport->type->is_plain;
  self->wants_capacity = false;
  self->is_broken = false;
  self->expect_ms = 0;
  self->timer = loop_timer_new(self->base, on_timer, self);
  self->readable = loop_event_new(self->base, fd, EV_READ | EV_PERSIST, on_readable, self);
  self->writable = loop_event_new_idle(self->base, fd, EV_WRITE, on_writable, self);
  reply_parser_init(&self->parser, self->largest_string);
  if (self->is_shaking_hands)
    (void)event_add(self->writable, NULL);
}

void redis_socket_close(struct redis_socket *self) {
  if (self->transport == NULL)
    return;
  event_free(self->readable);
  event_free(self->writable);
  event_free(self->timer);
  reply_parser_release(&self->parser);
  self->transport->type->free(self->transport);
  self->transport = NULL;
}

size_t redis_socket_write(struct redis_socket *self, const struct iovec *pieces, int count) {
  size_t wanted = 0;
  for (int i = 0; i < count; i++)
    wanted += pieces[i].iov_len;
  ssize_t written = 0;
  if (!self->is_shaking_hands && !self->is_broken)
    written = self->transport->type->write(self->transport, pieces, count);
  if (written < 0 || self->is_broken) {
    self->is_broken = true;
    loop_timer_start_now(self->timer); /* reading reports the loss */
    return 0;
  }
  self->wants_capacity = (size_t)written < wanted;
  if (!self->is_shaking_hands)
    await_capacity(self);
  return (size_t)written;
}

/* Below the low-water mark poll(2) does not report the socket as readable, but it reports its
   end. */
void redis_socket_poll_replies(struct redis_socket *self, bool poll_replies) {
  int bytes = poll_replies ? POLLED_BYTES : 1;
  if (self->transport->type->is_plain)
    (void)setsockopt(self->transport->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}
