/*
 * Descriptors 0 and 1 may be shared with a shell or a terminal, so they stay blocking. Input is
 * read only when poll(2) reports some, and output is written in pieces of PIPE_BUF bytes, which a
 * writable pipe takes at once (pipe(7)).
 */
#include "agent/frontends/stdio_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/payload_limit.h"
#include "base/loop.h"

/* The size of one read(2): some thousand short lines, whose answers delay signals and children by
   some milliseconds. */
#define READ_SIZE ((size_t)16 * 1024)

/* A larger output buffer is freed once it is written. */
#define KEPT_OUTPUT ((size_t)256 * 1024)

/* --- output ---------------------------------------------------------------------------------- */

size_t stdio_channel_unread(const struct stdio_channel *self) {
  return self->state == OUTPUT_BROKEN ? 0 : self->output.length - self->written;
}

bool stdio_channel_has_capacity(const struct stdio_channel *self) {
  return stdio_channel_unread(self) <= STDIO_CHANNEL_HOLD_BYTES;
}

static void drop_output(struct stdio_channel *self) {
  buffer_release(&self->output);
  self->written = 0;
}

static void close_when_read(struct stdio_channel *self) {
  if (self->state != OUTPUT_CLOSING || stdio_channel_unread(self) > 0)
    return;
  self->state = OUTPUT_CLOSED;
  engine_frontend_closed(self->frontend, self->exit_code);
}

/* `error` is an errno; EPIPE if the reader is gone. */
static void become_broken(struct stdio_channel *self, int error) {
  const char *reason = "a closed standard output";
  bool was_closing = self->state == OUTPUT_CLOSING;
  self->state = OUTPUT_BROKEN;
  self->exit_code = self->type->gone;
  drop_output(self);
  (void)event_del(self->writable);
  (void)event_del(self->turn);
  if (self->reader_gone != NULL)
    (void)event_del(self->reader_gone);
  if (error != EPIPE) {
    log_line(self->log, LOG_ERROR, NULL, "cannot write to standard output: %s", strerror(error));
    reason = "an error of standard output";
    self->exit_code = AGENT_EXIT_ERROR;
  }
  engine_leave(self->frontend, self->exit_code, reason);
  if (was_closing)
    engine_frontend_closed(self->frontend, self->exit_code);
}

static void start_stall_timer(struct stdio_channel *self) {
  if (self->stall_ms > 0)
    loop_timer_start(self->end, self->stall_ms);
}

static bool is_writable(void) {
  struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&out, 1, 0) == 1;
}

void stdio_channel_flush(struct stdio_channel *self) {
  size_t before = self->written;
  while (stdio_channel_unread(self) > 0 && is_writable()) {
    size_t left = stdio_channel_unread(self);
    ssize_t written =
        write(STDOUT_FILENO, self->output.bytes + self->written, left < PIPE_BUF ? left : PIPE_BUF);
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
      become_broken(self, errno);
      return;
    }
    self->written += written > 0 ? (size_t)written : 0;
  }
  if (self->written > before) {
    loop_timer_start_now(self->turn);
    start_stall_timer(self);
  }
  if (stdio_channel_unread(self) > 0) {
    (void)event_add(self->writable, NULL);
    return;
  }
  self->output.length = self->written = 0;
  if (self->state == OUTPUT_BROKEN || self->output.capacity > KEPT_OUTPUT)
    drop_output(self);
}

LOOP_CALLBACK(on_writable, struct stdio_channel *self) {
  stdio_channel_flush(self);
}

/* A peer of a socket may have shut down only its writing side. */
static void on_reader_gone(evutil_socket_t fd, short what, void *context) {
  struct stdio_channel *self = context;
  struct pollfd out = {.fd = fd}; /* POLLHUP is always reported */
  if (what == EV_CLOSED && poll(&out, 1, 0) == 0)
    (void)event_del(self->reader_gone);
  else
    become_broken(self, EPIPE);
}

/* Written bytes are removed once they are half of the buffer, so a byte is moved at most once on
   average. */
struct buffer *stdio_channel_out(struct stdio_channel *self) {
  if (self->state == OUTPUT_BROKEN)
    drop_output(self);
  if (self->written > 0 && self->written >= stdio_channel_unread(self)) {
    memmove(self->output.bytes, self->output.bytes + self->written, stdio_channel_unread(self));
    self->output.length -= self->written;
    self->written = 0;
  }
  return &self->output;
}

char *stdio_channel_space(struct stdio_channel *self, size_t length) {
  char *space = buffer_space(stdio_channel_out(self), length);
  self->output.length += length;
  return space;
}

/* --- input ----------------------------------------------------------------------------------- */

static bool may_take(const struct stdio_channel *self) {
  return self->input != INPUT_STOPPED && stdio_channel_has_capacity(self) &&
         (self->type->may_take == NULL || self->type->may_take(self->frontend));
}

bool stdio_channel_has_ended(const struct stdio_channel *self) {
  return self->input == INPUT_ENDED && self->taking == LINES_TAKEN;
}

static void start_reading(struct stdio_channel *self) {
  if (self->input != INPUT_PAUSED)
    return;
  self->input = INPUT_READING;
  self->is_unpollable = self->is_unpollable || event_add(self->readable, NULL) != 0;
  if (self->is_unpollable)
    loop_timer_start_now(self->turn);
}

static void pause_reading(struct stdio_channel *self) {
  if (self->input != INPUT_READING)
    return;
  self->input = INPUT_PAUSED;
  (void)event_del(self->readable);
}

void stdio_channel_go_on(struct stdio_channel *self) {
  struct input_line line;
  bool is_taken = false;
  if (self->taking == LINES_TAKING)
    return;
  self->taking = LINES_TAKING;
  while (!is_taken && may_take(self)) {
    is_taken = self->type->value != NULL || !line_reader_next(&self->lines, &line);
    if (!is_taken)
      self->type->line(self->frontend, &line);
  }
  self->taking = is_taken ? LINES_TAKEN : LINES_LEFT;
  if (is_taken)
    start_reading(self);
  else
    pause_reading(self);
  stdio_channel_flush(self);
}

void stdio_channel_stop(struct stdio_channel *self) {
  pause_reading(self);
  self->input = INPUT_STOPPED;
}

static void end_value(struct stdio_channel *self) {
  struct buffer value = self->value;
  self->value = (struct buffer){0};
  stdio_channel_stop(self);
  self->type->value(self->frontend, value.length > 0 ? value.bytes : "", value.length);
  buffer_release(&value);
}

static void add_input(struct stdio_channel *self, const char *bytes, size_t length) {
  if (self->type->value == NULL) {
    line_reader_add(&self->lines, bytes, length);
    self->type->go_on(self->frontend);
    return;
  }
  buffer_add(&self->value, bytes, length);
  bool is_whole =
      json_text_ends(&self->extent, self->value.bytes, self->value.length, &self->value.length);
  if (is_whole || self->value.length > payload_limit())
    end_value(self);
}

static void end_input(struct stdio_channel *self) {
  pause_reading(self);
  self->input = INPUT_ENDED;
  line_reader_end(&self->lines);
  if (self->type->value != NULL) {
    end_value(self);
    return;
  }
  if (self->type->ended != NULL)
    self->type->ended(self->frontend);
  self->type->go_on(self->frontend);
}

/* One read, which does not block: the descriptor is readable, or a regular file. */
static void read_input(struct stdio_channel *self) {
  char input[READ_SIZE];
  ssize_t length = read(STDIN_FILENO, input, sizeof input);
  if (length > 0)
    add_input(self, input, (size_t)length);
  else if (length == 0 || (errno != EINTR && errno != EAGAIN))
    end_input(self);
}

LOOP_CALLBACK(on_readable, struct stdio_channel *self) {
  read_input(self);
}

LOOP_CALLBACK(on_turn, struct stdio_channel *self) {
  self->type->go_on(self->frontend);
  if (self->is_unpollable && self->input == INPUT_READING) {
    loop_timer_start_now(self->turn);
    read_input(self);
  }
  close_when_read(self);
}

/* --- the end --------------------------------------------------------------------------------- */

static void close_now(struct stdio_channel *self) {
  size_t unread = stdio_channel_unread(self);
  if (unread > 0) {
    log_line(self->log, LOG_ERROR, NULL, "%zu bytes of output were not read", unread);
    self->exit_code = self->type->gone != 0 ? self->type->gone : AGENT_EXIT_ERROR;
  }
  self->state = OUTPUT_CLOSED;
  engine_frontend_closed(self->frontend, self->exit_code);
}

LOOP_CALLBACK(on_end, struct stdio_channel *self) {
  if (self->state == OUTPUT_CLOSING)
    close_now(self);
}

void stdio_channel_close(struct stdio_channel *self, enum frontend_close how, int64_t left_ms) {
  if (how == FRONTEND_CLOSE_IMMEDIATE || self->state == OUTPUT_BROKEN) {
    close_now(self);
    return;
  }
  self->state = OUTPUT_CLOSING;
  self->stall_ms = how == FRONTEND_CLOSE_GRACEFUL ? self->type->stall_ms : 0;
  start_stall_timer(self);
  if (how == FRONTEND_CLOSE_FAST)
    left_ms = self->type->fast_ms > 0 ? self->type->fast_ms : -1;
  if (left_ms >= 0)
    loop_timer_start(self->end, left_ms);
  stdio_channel_flush(self);
  close_when_read(self);
}

/* --- the channel ----------------------------------------------------------------------------- */

/* Returns the event of standard output that reports that its reader is gone; 0 if none does. The
   writing end of a pipe is never readable, but it has an error then. A FIFO that is open for both
   directions (exec 3<>fifo) reads what it writes, and is its own reader. */
static short event_of_gone_reader(int fd) {
  struct stat stat_buffer;
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fstat(fd, &stat_buffer) != 0)
    return 0;
  if (S_ISSOCK(stat_buffer.st_mode))
    return EV_CLOSED;
  return S_ISFIFO(stat_buffer.st_mode) && (flags & O_ACCMODE) == O_WRONLY ? EV_READ : 0;
}

void stdio_channel_init(struct stdio_channel *self, struct event_base *base, const struct log *log,
                        struct frontend *frontend, const struct stdio_channel_type *type) {
  *self = (struct stdio_channel){
      .type = type, .frontend = frontend, .log = log, .lines = {.limit = payload_limit()}};
  self->readable = loop_event_new_idle(base, STDIN_FILENO, EV_READ | EV_PERSIST, on_readable, self);
  self->writable = loop_event_new_idle(base, STDOUT_FILENO, EV_WRITE, on_writable, self);
  self->turn = loop_timer_new(base, on_turn, self);
  self->end = loop_timer_new(base, on_end, self);
  short what = event_of_gone_reader(STDOUT_FILENO);
  self->reader_gone =
      what != 0 ? loop_event_new(base, STDOUT_FILENO, what, on_reader_gone, self) : NULL;
}

void stdio_channel_release(struct stdio_channel *self) {
  enum { EVENTS = 5 };
  struct event *events[EVENTS] = {self->readable, self->writable, self->turn, self->reader_gone,
                                  self->end};
  for (size_t i = 0; i < EVENTS; i++)
    if (events[i] != NULL)
      event_free(events[i]);
  line_reader_release(&self->lines);
  buffer_release(&self->value);
  buffer_release(&self->output);
}
