/*
 * The owner may close it inside a callback: after each one nothing is touched unless it is still
 * open. SIGPIPE is blocked (startup.c). The socket is read in receive() and written in
 * connection_write() alone: there a transport other than plain TCP would go.
 */
#include "agent/doors/redis/net/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/loop.h"

#define READ_SIZE ((size_t)64 * 1024)

/* The low-water mark while replies are polled: more bytes than the replies that gather meanwhile.
 */
#define POLLED_BYTES 1024

void connection_init(struct connection *self, struct event_base *base, size_t largest_string,
                     const struct connection_handler *handler, void *owner) {
  *self = (struct connection){
      .base = base, .largest_string = largest_string, .handler = handler, .owner = owner, .fd = -1};
}

static void start_timer(struct connection *self) {
  self->without_reply = 0;
  if (self->expect_ms == 0)
    (void)evtimer_del(self->timer);
  else
    loop_timer_start(self->timer, self->expect_ms);
}

static void restart_timer(struct connection *self) {
  if (self->expect_ms > 0 && !self->is_deadline)
    start_timer(self);
}

void connection_set_reply_timeout(struct connection *self, int milliseconds_from_now) {
  if (milliseconds_from_now == self->expect_ms && !self->is_deadline)
    return;
  self->expect_ms = milliseconds_from_now;
  self->is_deadline = false;
  start_timer(self);
}

void connection_set_deadline(struct connection *self, int milliseconds_from_now) {
  self->expect_ms = milliseconds_from_now;
  self->is_deadline = true;
  start_timer(self);
}

/* The error text belongs to the parser, which the owner releases when it closes. */
static void report_broken(struct connection *self) {
  char why[160];
  (void)snprintf(why, sizeof why, "%s", reply_parser_error(&self->parser));
  self->handler->lost(self->owner, why);
}

static void parse(struct connection *self, const char *bytes, size_t length) {
  bool progress = (self->without_reply += length) >= CONNECTION_PROGRESS_BYTES;
  reply_parser_feed(&self->parser, bytes, length);
  while (self->fd >= 0) {
    redisReply *reply;
    enum reply_parser_result result = reply_parser_next(&self->parser, &reply);
    if (result == REPLY_PARSER_MORE && progress)
      restart_timer(self);
    if (result == REPLY_PARSER_MORE)
      return;
    progress = true;
    if (result == REPLY_PARSER_BROKEN) {
      report_broken(self);
      return;
    }
    self->too_large = result == REPLY_PARSER_TRUNCATED;
    self->handler->reply(self->owner, reply);
    reply_parser_free(reply);
  }
}

/* True when the bytes that have arrived are the known ones. */
static bool receive(struct connection *self, const char *known, size_t known_length) {
  char bytes[READ_SIZE];
  ssize_t length = recv(self->fd, bytes, sizeof bytes, 0);
  if (length > 0 && (size_t)length == known_length && memcmp(bytes, known, known_length) == 0)
    return true;
  if (length > 0)
    parse(self, bytes, (size_t)length);
  else if (length == 0)
    self->handler->lost(self->owner, "closed by the server");
  else if (errno != EAGAIN && errno != EINTR)
    self->handler->lost(self->owner, strerror(errno));
  return false;
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  (void)receive(context, "", 0);
}

static void on_timer(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct connection *self = context;
  self->handler->lost(self->owner, "no answer in time");
}

static void on_writable(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct connection *self = context;
  restart_timer(self);
  if (self->handler->writable != NULL)
    self->handler->writable(self->owner);
}

void connection_open(struct connection *self, int fd) {
  self->fd = fd;
  self->expect_ms = 0;
  self->is_deadline = false;
  self->timer = loop_timer_new(self->base, on_timer, self);
  self->readable = loop_event_new(self->base, fd, EV_READ | EV_PERSIST, on_readable, self);
  self->writable = loop_event_new_idle(self->base, fd, EV_WRITE, on_writable, self);
  reply_parser_init(&self->parser, self->largest_string);
}

void connection_close(struct connection *self) {
  if (self->fd < 0)
    return;
  event_free(self->readable);
  event_free(self->writable);
  event_free(self->timer);
  reply_parser_release(&self->parser);
  close(self->fd);
  self->fd = -1;
}

size_t connection_write(struct connection *self, const struct iovec *pieces, int count) {
  size_t wanted = 0;
  for (int i = 0; i < count; i++)
    wanted += pieces[i].iov_len;
  ssize_t written = writev(self->fd, pieces, count);
  if (written < 0 && errno != EAGAIN && errno != EINTR) {
    event_active(self->readable, EV_READ, 0); /* reading reports the loss */
    return 0;
  }
  size_t done = written > 0 ? (size_t)written : 0;
  if (done < wanted)
    (void)event_add(self->writable, NULL);
  return done;
}

void connection_discard_values(struct connection *self) {
  reply_parser_discard_values(&self->parser);
}

/* Below the low-water mark poll(2) does not report the socket as readable; but it reports its end.
 */
void connection_poll_replies(struct connection *self, bool poll_replies) {
  int bytes = poll_replies ? POLLED_BYTES : 1;
  (void)setsockopt(self->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);
}

bool connection_take_replies(struct connection *self, const char *known, size_t known_length) {
  return self->fd >= 0 && receive(self, known, known_length);
}

bool connection_reply_is_truncated(const struct connection *self) {
  return self->too_large;
}
