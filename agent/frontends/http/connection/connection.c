#include "agent/frontends/http/connection/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/frontends/http/connection/server_state.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* How much one turn does: a turn of a connection that is always ready delays the others. */
enum { TURN_STEPS = 16 };

/* How often the agent looks whether a slow client has accepted something, in milliseconds. */
enum { SLOW_CLIENT_MS = 1000 };

/* The outcome of one step of connection_advance. */
enum progress { PROGRESS, WAITS, CLOSED };

/* A callback of connection_advance needs no wake-up, which would run in the same iteration of the
   loop again and again. */
void connection_wake(struct http_exchange *self) {
  if (!self->is_advancing)
    event_active(self->turn, 0, 0);
}

/* --- deadlines -------------------------------------------------------------------------------- */

static bool has_unsent(const struct http_exchange *self) {
  return self->written < self->output.length || self->body_written < self->body.length;
}

/* Returns how long the state may last after `since_ms`; 0: without a bound. */
static int64_t limit_of_state(const struct http_exchange *self) {
  switch (self->state) {
  case CONNECTION_READING_HEADER:
    return self->is_idle ? HTTP_IDLE_MS : HTTP_HEADER_MS;
  case CONNECTION_READING_BODY:
    return HTTP_BODY_MS;
  case CONNECTION_SERVING:
    if (!has_unsent(self))
      return 0;
    return self->is_open_stream ? HTTP_STREAM_MS : HTTP_WRITE_MS;
  case CONNECTION_LINGERING:
    return HTTP_LINGER_MS;
  }
  return 0;
}

/* Returns when the state has lasted too long; 0: never. */
static int64_t deadline_of_state(const struct http_exchange *self) {
  const int64_t limit_ms = limit_of_state(self);
  return limit_ms > 0 ? self->since_ms + limit_ms : 0;
}

/* The bytes that this kernel has and the client's has not (SIOCOUTQ of tcp(7), which musl does not
   name). */
static int queued_bytes(const struct http_exchange *self) {
  int queued = 0;
  return ioctl(self->fd, TIOCOUTQ, &queued) == 0 ? queued : 0;
}

static bool awaits_client(const struct http_exchange *self) {
  return self->state == CONNECTION_SERVING && has_unsent(self);
}

/* The kernel reports that it takes more bytes when a large part of its queue is free, and a slow
   client may need more time for that than it has. */
static void notice_slow_client(struct http_exchange *self) {
  const int queued = queued_bytes(self);
  if (queued < self->queued)
    self->since_ms = clock_monotonic_ms();
  self->queued = queued;
}

/* The timer is not moved for each byte: it fires too early, and is then started again. */
static void watch_deadline(struct http_exchange *self) {
  const int64_t deadline_ms = deadline_of_state(self), now_ms = clock_monotonic_ms();
  if (deadline_ms == 0)
    return;
  int64_t next_ms = deadline_ms;
  if (awaits_client(self) && next_ms > now_ms + SLOW_CLIENT_MS)
    next_ms = now_ms + SLOW_CLIENT_MS;
  if (self->timer_ms == 0 || self->timer_ms > next_ms) {
    self->timer_ms = next_ms;
    loop_timer_start(self->timer, next_ms > now_ms ? next_ms - now_ms : 0);
  }
}

static void pass_deadline(struct http_exchange *self) {
  const bool was_sent_to =
      self->state == CONNECTION_READING_BODY ||
      (self->state == CONNECTION_READING_HEADER && request_reader_has_begun(&self->reader));
  if (was_sent_to)
    http_respond_error(self, 408, "timeout", "the request did not arrive in time");
  else
    self->is_broken = true;
  connection_advance(self);
}

LOOP_CALLBACK(on_timer, struct http_exchange *self) {
  self->timer_ms = 0;
  if (awaits_client(self))
    notice_slow_client(self);
  const int64_t deadline_ms = deadline_of_state(self);
  if (deadline_ms > 0 && clock_monotonic_ms() >= deadline_ms)
    pass_deadline(self);
  else
    watch_deadline(self);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Not more than belongs to the body if its length is known, and not more than a header can still
   have if it is not: that is what may have to be kept for the next request. */
static size_t read_size(const struct http_exchange *self) {
  const struct request_reader *reader = &self->reader;
  if (self->state == CONNECTION_READING_HEADER)
    return HTTP_HEADER_MAX - reader->length;
  if (reader->request.framing != HTTP_BODY_LENGTH)
    return HTTP_HEADER_MAX;
  return reader->left < HTTP_INPUT_SIZE ? (size_t)reader->left : HTTP_INPUT_SIZE;
}

/* Returns PROGRESS with the bytes in the server's input. */
static enum progress receive(struct http_exchange *self, size_t size, size_t *length) {
  if (!self->may_read)
    return WAITS;
  const ssize_t got = recv(self->fd, self->server->input, size, 0);
  if (got > 0) {
    *length = (size_t)got;
    self->server->counts.received_bytes += (size_t)got;
    return PROGRESS;
  }
  if (got < 0 && errno == EINTR)
    return receive(self, size, length);
  if (got == 0 || errno != EAGAIN)
    return CLOSED;
  self->may_read = false;
  return WAITS;
}

/* Acts on the state of the request after more bytes were read. The server may answer it. */
static void check_request(struct http_exchange *self) {
  const struct http_rejection *rejection = &self->reader.rejection;
  if (self->reader.state == REQUEST_HEADER_READ)
    server_check_header(self->server, self);
  else if (self->reader.state == REQUEST_REJECTED)
    http_respond_error(self, rejection->status, rejection->word, rejection->message);
  else if (self->state == CONNECTION_READING_BODY)
    server_check_body(self->server, self);
  if (self->state == CONNECTION_SERVING)
    return;
  if (self->reader.state == REQUEST_READING_BODY && self->state != CONNECTION_READING_BODY) {
    self->state = CONNECTION_READING_BODY;
    self->since_ms = clock_monotonic_ms();
  } else if (self->reader.state == REQUEST_DONE) {
    self->state = CONNECTION_SERVING;
    server_serve(self->server, self);
  }
}

/* Begins to wait: the connections are in the order in which they did, so that the server finds the
   one that has waited longest. */
static void begin_waiting(struct http_exchange *self) {
  self->since_ms = clock_monotonic_ms();
  list_remove(&self->server->connections, &self->node);
  list_append(&self->server->connections, &self->node);
}

/* Returns how many bytes belong to the current request. */
static size_t feed(struct http_exchange *self, const char *bytes, size_t length) {
  if (!request_reader_has_begun(&self->reader)) {
    self->begun_ms = clock_monotonic_ms();
    if (self->is_idle)
      begin_waiting(self);
    self->is_idle = false;
  }
  if (self->state == CONNECTION_READING_BODY)
    self->since_ms = clock_monotonic_ms();
  const size_t used = request_reader_feed(&self->reader, bytes, length);
  check_request(self);
  return used;
}

/* Frees bytes that may have the key of a request. */
static void release_pending(struct buffer *pending) {
  if (pending->length > 0)
    explicit_bzero(pending->bytes, pending->length);
  buffer_release(pending);
}

static void feed_pending(struct http_exchange *self) {
  struct buffer pending = self->pending;
  self->pending = (struct buffer){0};
  const size_t used = feed(self, pending.bytes, pending.length);
  buffer_add(&self->pending, pending.bytes + used, pending.length - used);
  release_pending(&pending);
}

static enum progress read_request(struct http_exchange *self) {
  if (self->pending.length > 0) {
    feed_pending(self);
    return PROGRESS;
  }
  size_t length = 0;
  const enum progress progress = receive(self, read_size(self), &length);
  if (progress != PROGRESS)
    return progress;
  const bool is_header = self->state == CONNECTION_READING_HEADER;
  const size_t used = feed(self, self->server->input, length);
  buffer_add(&self->pending, self->server->input + used, length - used);
  if (is_header || used < length)
    explicit_bzero(self->server->input, length); /* it may have the key */
  return PROGRESS;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void remove_written(struct http_exchange *self, size_t length) {
  const size_t of_output = self->output.length - self->written;
  self->written += length < of_output ? length : of_output;
  self->body_written += length > of_output ? length - of_output : 0;
  if (self->written == self->output.length)
    self->written = self->output.length = 0;
}

static enum progress write_response(struct http_exchange *self) {
  struct iovec parts[2] = {
      {self->output.bytes + self->written, self->output.length - self->written},
      {self->body.bytes + self->body_written, self->body.length - self->body_written}};
  struct msghdr message = {.msg_iov = parts[0].iov_len > 0 ? parts : parts + 1,
                           .msg_iovlen = parts[0].iov_len > 0 && parts[1].iov_len > 0 ? 2 : 1};
  if (!self->may_write)
    return WAITS;
  const ssize_t written = sendmsg(self->fd, &message, MSG_NOSIGNAL);
  if (written >= 0) {
    self->since_ms = clock_monotonic_ms();
    self->server->counts.sent_bytes += (size_t)written;
    remove_written(self, (size_t)written);
    return PROGRESS;
  }
  if (errno == EINTR)
    return PROGRESS;
  if (errno != EAGAIN)
    return CLOSED;
  self->may_write = false;
  self->since_ms = clock_monotonic_ms();
  self->queued = queued_bytes(self);
  return WAITS;
}

static void begin_lingering(struct http_exchange *self) {
  (void)shutdown(self->fd, SHUT_WR);
  self->state = CONNECTION_LINGERING;
  begin_waiting(self);
  self->server->connection_count--;
  self->server->lingering_count++;
}

static void clear_exchange(struct http_exchange *self) {
  free(self->segment);
  buffer_release(&self->body);
  if (self->output.capacity > HTTP_INPUT_SIZE)
    buffer_release(&self->output);
  self->segment = NULL;
  self->route = NULL;
  self->user_data = NULL;
  self->response = RESPONSE_NONE;
  self->status = 0;
  self->error = NULL;
  self->body_written = 0;
  self->is_long = self->is_authorized = self->is_chunked = self->is_open_stream = false;
  self->is_reported_gone = false;
  request_reader_reset(&self->reader);
}

/* The whole response is in the kernel. */
static void end_exchange(struct http_exchange *self) {
  server_end_exchange(self->server, self, true);
  clear_exchange(self);
  if (self->closes) {
    begin_lingering(self);
    return;
  }
  self->state = CONNECTION_READING_HEADER;
  self->is_idle = true;
  begin_waiting(self);
}

static void report_gone(struct http_exchange *self) {
  const struct http_server *server = self->server;
  if (!self->is_client_gone || self->is_reported_gone || self->response == RESPONSE_COMPLETE)
    return;
  self->is_reported_gone = true;
  if (server->type->gone != NULL && self->user_data != NULL)
    server->type->gone(server->owner, self);
}

/* While a request is served, nothing is read, so that only this finds a connection that was reset,
   even before the request was read, or that was closed, with a socket file. A TCP connection that
   was closed looks like one whose client still reads. */
static bool is_lost(const struct http_exchange *self) {
  struct pollfd socket = {.fd = self->fd};
  return poll(&socket, 1, 0) == 1;
}

bool connection_is_client_gone(const struct http_exchange *self) {
  struct pollfd socket = {.fd = self->fd, .events = POLLRDHUP};
  return poll(&socket, 1, 0) == 1;
}

/* Lets the frontend fill a stream. */
static enum progress continue_stream(struct http_exchange *self) {
  const struct http_server *server = self->server;
  const size_t before = self->output.length;
  if (self->response == RESPONSE_STREAMING && server->type->writable != NULL)
    server->type->writable(server->owner, self);
  const bool is_changed = self->output.length != before || self->response == RESPONSE_COMPLETE;
  if (is_changed || self->is_broken)
    return PROGRESS;
  return is_lost(self) ? CLOSED : WAITS;
}

static enum progress serve(struct http_exchange *self) {
  report_gone(self);
  if (self->is_broken)
    return CLOSED;
  if (has_unsent(self))
    return write_response(self);
  if (self->response != RESPONSE_COMPLETE)
    return continue_stream(self);
  end_exchange(self);
  return PROGRESS;
}

/* --- the whole connection --------------------------------------------------------------------- */

static enum progress discard_input(struct http_exchange *self) {
  size_t length;
  return receive(self, HTTP_INPUT_SIZE, &length);
}

static enum progress advance_once(struct http_exchange *self) {
  if (self->is_broken)
    return CLOSED;
  switch (self->state) {
  case CONNECTION_READING_HEADER:
  case CONNECTION_READING_BODY:
    return read_request(self);
  case CONNECTION_SERVING:
    return serve(self);
  case CONNECTION_LINGERING:
    return discard_input(self);
  }
  return CLOSED;
}

/* Returns WAITS or CLOSED, or PROGRESS if the turn is over. */
static enum progress advance(struct http_exchange *self) {
  enum progress progress = PROGRESS;
  self->is_advancing = true;
  for (int i = 0; i < TURN_STEPS && progress == PROGRESS; i++)
    progress = advance_once(self);
  self->is_advancing = false;
  return progress;
}

/* A client that always sends more than is read must not outlast a deadline either. */
void connection_advance(struct http_exchange *self) {
  switch (advance(self)) {
  case PROGRESS:
    watch_deadline(self);
    loop_timer_start_now(self->turn);
    break;
  case WAITS:
    watch_deadline(self);
    break;
  case CLOSED:
    connection_free(self);
    break;
  }
}

LOOP_CALLBACK(on_turn, struct http_exchange *self) {
  connection_advance(self);
}

static void on_io(evutil_socket_t fd, short what, void *owner) {
  struct http_exchange *self = owner;
  (void)fd;
  self->may_read |= (what & (EV_READ | EV_CLOSED)) != 0;
  self->may_write |= (what & EV_WRITE) != 0;
  self->is_client_gone |= (what & EV_CLOSED) != 0;
  connection_advance(self);
}

struct http_exchange *connection_new(struct http_server *server, struct event_base *base, int fd,
                                     bool is_tcp) {
  struct http_exchange *self = memory_zeros(sizeof *self);
  self->server = server;
  self->fd = fd;
  self->is_tcp = is_tcp;
  self->may_read = self->may_write = true;
  self->since_ms = self->begun_ms = clock_monotonic_ms();
  self->io =
      loop_event_new(base, fd, EV_READ | EV_WRITE | EV_CLOSED | EV_ET | EV_PERSIST, on_io, self);
  self->turn = loop_timer_new(base, on_turn, self);
  self->timer = loop_timer_new(base, on_timer, self);
  server->connection_count++;
  list_append(&server->connections, &self->node);
  return self;
}

void connection_free(struct http_exchange *self) {
  struct http_server *server = self->server;
  if (self->state == CONNECTION_SERVING)
    server_end_exchange(server, self, false);
  if (self->state == CONNECTION_LINGERING)
    server->lingering_count--;
  else
    server->connection_count--;
  list_remove(&server->connections, &self->node);
  clear_exchange(self);
  buffer_release(&self->output);
  release_pending(&self->pending);
  event_free(self->io);
  event_free(self->turn);
  event_free(self->timer);
  (void)close(self->fd);
  free(self);
}
