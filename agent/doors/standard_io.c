/*
 * Descriptors 0 and 1 may be shared with a shell or a terminal, so that they stay blocking: input
 * is read only when there is some, and output is written in pieces of PIPE_BUF bytes, which a pipe
 * that is writable takes at once (pipe(7)).
 */
#include "agent/doors/standard_io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/memory.h"

/* What is read in one turn of the loop: some thousand short lines, whose answers keep signals and
   children waiting for some milliseconds. */
#define READ_SIZE ((size_t)16 * 1024)

/* A larger buffer of output is given back when all of it is written. */
#define KEPT_OUTPUT ((size_t)256 * 1024)

enum input_state { PAUSED, READING, ENDED };

struct standard_io {
  const struct standard_io_handler *handler;
  void *owner;
  enum input_state state;
  bool unpollable;        /* standard input: epoll(7) refuses regular files */
  struct event *readable; /* standard input */
  struct event *read_on;  /* reads what cannot be polled, from the loop */
  struct event *writable;
  struct event *made_room;   /* calls written() from the loop */
  struct event *reader_gone; /* of a pipe or a socket; NULL: standard output is neither */
  struct buffer output;      /* from `written` on not yet written */
  size_t written;
  bool broken;
  char input[READ_SIZE];
};

/* --- output ---------------------------------------------------------------------------------- */

size_t standard_io_unwritten(const struct standard_io *self) {
  return self->broken ? 0 : self->output.length - self->written;
}

static void drop_output(struct standard_io *self) {
  buffer_release(&self->output);
  self->written = 0;
}

static void become_broken(struct standard_io *self, int error) {
  self->broken = true;
  drop_output(self);
  (void)event_del(self->writable);
  (void)event_del(self->made_room);
  if (self->reader_gone != NULL)
    (void)event_del(self->reader_gone);
  self->handler->broken(self->owner, error);
}

static bool is_writable(void) {
  struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&out, 1, 0) == 1;
}

void standard_io_flush(struct standard_io *self) {
  size_t before = self->written;
  while (standard_io_unwritten(self) > 0 && is_writable()) {
    size_t left = standard_io_unwritten(self);
    ssize_t written =
        write(STDOUT_FILENO, self->output.bytes + self->written, left < PIPE_BUF ? left : PIPE_BUF);
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
      become_broken(self, errno);
      return;
    }
    self->written += written > 0 ? (size_t)written : 0;
  }
  if (self->written > before)
    loop_timer_start_now(self->made_room);
  if (standard_io_unwritten(self) > 0) {
    (void)event_add(self->writable, NULL);
    return;
  }
  self->output.length = self->written = 0;
  if (self->broken || self->output.capacity > KEPT_OUTPUT)
    drop_output(self);
}

static void on_writable(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  standard_io_flush(context);
}

static void on_made_room(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct standard_io *self = context;
  self->handler->written(self->owner);
}

/* A socket's peer may only have ended what it writes. */
static void on_reader_gone(evutil_socket_t fd, short what, void *context) {
  struct standard_io *self = context;
  struct pollfd out = {.fd = fd}; /* for POLLHUP, which nobody need ask for */
  if (what == EV_CLOSED && poll(&out, 1, 0) == 0)
    (void)event_del(self->reader_gone);
  else
    become_broken(self, EPIPE);
}

/* What is written makes way once it is half of the buffer: moving costs no more than writing. */
struct buffer *standard_io_output(struct standard_io *self) {
  if (self->broken)
    drop_output(self);
  if (self->written > 0 && self->written >= standard_io_unwritten(self)) {
    memmove(self->output.bytes, self->output.bytes + self->written, standard_io_unwritten(self));
    self->output.length -= self->written;
    self->written = 0;
  }
  return &self->output;
}

char *standard_io_space(struct standard_io *self, size_t length) {
  char *space = buffer_space(standard_io_output(self), length);
  self->output.length += length;
  return space;
}

/* --- input ----------------------------------------------------------------------------------- */

/* One read, which does not wait: the descriptor is readable, or a regular file. */
static void read_input(struct standard_io *self) {
  ssize_t length = read(STDIN_FILENO, self->input, sizeof self->input);
  if (length > 0) {
    self->handler->input(self->owner, self->input, (size_t)length);
  } else if (length == 0 || (errno != EINTR && errno != EAGAIN)) {
    standard_io_read(self, false);
    self->state = ENDED;
    self->handler->input_ended(self->owner);
  }
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  read_input(context);
}

static void on_read_on(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct standard_io *self = context;
  read_input(self);
  if (self->state == READING)
    loop_timer_start_now(self->read_on);
}

void standard_io_read(struct standard_io *self, bool on) {
  if (self->state != (on ? PAUSED : READING))
    return;
  self->state = on ? READING : PAUSED;
  if (!on) {
    (void)event_del(self->readable);
    (void)event_del(self->read_on);
    return;
  }
  self->unpollable = self->unpollable || event_add(self->readable, NULL) != 0;
  if (self->unpollable)
    loop_timer_start_now(self->read_on);
}

/* --- the whole ------------------------------------------------------------------------------- */

/* The writing end of a pipe is never readable, but it has an error when the reader is gone. Not a
   FIFO that was opened for both directions (exec 3<>fifo), which reads what it has written, and is
   its own reader. 0: nothing tells. */
static short what_tells_that_the_reader_is_gone(int fd) {
  struct stat stat_buffer;
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fstat(fd, &stat_buffer) != 0)
    return 0;
  if (S_ISSOCK(stat_buffer.st_mode))
    return EV_CLOSED;
  return S_ISFIFO(stat_buffer.st_mode) && (flags & O_ACCMODE) == O_WRONLY ? EV_READ : 0;
}

struct standard_io *standard_io_new(struct event_base *base,
                                    const struct standard_io_handler *handler, void *owner) {
  struct standard_io *self = memory_allocate(sizeof *self);
  self->handler = handler;
  self->owner = owner;
  self->state = PAUSED;
  self->unpollable = self->broken = false;
  self->output = (struct buffer){0};
  self->written = 0;
  self->readable = loop_event_new_idle(base, STDIN_FILENO, EV_READ | EV_PERSIST, on_readable, self);
  self->read_on = loop_timer_new(base, on_read_on, self);
  self->writable = loop_event_new_idle(base, STDOUT_FILENO, EV_WRITE, on_writable, self);
  self->made_room = loop_timer_new(base, on_made_room, self);
  short what = what_tells_that_the_reader_is_gone(STDOUT_FILENO);
  self->reader_gone =
      what != 0 ? loop_event_new(base, STDOUT_FILENO, what, on_reader_gone, self) : NULL;
  return self;
}

void standard_io_free(struct standard_io *self) {
  event_free(self->readable);
  event_free(self->read_on);
  event_free(self->writable);
  event_free(self->made_room);
  if (self->reader_gone != NULL)
    event_free(self->reader_gone);
  buffer_release(&self->output);
  free(self);
}
