/*
 * Descriptors 0 and 1 may be shared with a shell or a terminal, so that they stay blocking: input
 * is read only when there is some, and output is written in pieces of PIPE_BUF bytes, which a pipe
 * that is writable takes at once (pipe(7)).
 */
#include "agent/doors/once/door.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/exit_code.h"
#include "agent/kinds/kinds.h"
#include "agent/payload_limit.h"
#include "base/buffer.h"
#include "base/loop.h"
#include "base/memory.h"

#define READ_SIZE ((size_t)64 * 1024)

#define EXIT_READER_GONE (AGENT_EXIT_SIGNAL + SIGPIPE)

/* Where the first JSON value of the input ends; of anything but an object or an array, at the end
   of its line. */
struct extent {
  size_t scanned;
  size_t depth;
  bool begun;
  bool scalar;
  bool in_string;
  bool escaped;
};

/* The state of the step: read from standard input, run, answered. */
enum state { READING, RUNNING, ANSWERED };

struct once_door {
  struct door door; /* first */
  struct event_base *base;
  const struct log *log;
  enum state state;
  struct event *readable; /* NULL: standard input cannot be polled (a regular file), or is read */
  struct event *read_on;  /* reads what cannot be polled, from the loop */
  struct event *writable;
  struct event *reader_gone; /* standard output is a pipe whose reader has left; or NULL */
  struct buffer input;
  struct extent extent;
  struct buffer output; /* from `written` on not yet written */
  size_t written;
  int broken;   /* the exit code when standard output takes nothing more; else 0 */
  bool closing; /* close() waits until everything is written */
};

static struct once_door *self_of(struct door *door) {
  return (struct once_door *)door;
}

static const struct once_door *const_self_of(const struct door *door) {
  return (const struct once_door *)door;
}

/* --- output ---------------------------------------------------------------------------------- */

static size_t unwritten(const struct once_door *self) {
  return self->output.length - self->written;
}

/* The step has no reader any more: it ends, like a command whose pipe is closed. */
static void lose_output(struct once_door *self, int exit_code, const char *reason) {
  if (self->broken != 0)
    return;
  self->broken = exit_code;
  buffer_release(&self->output);
  self->written = 0;
  (void)event_del(self->writable);
  if (self->reader_gone != NULL)
    (void)event_del(self->reader_gone);
  engine_leave(&self->door, exit_code, reason);
}

static void lose_reader(struct once_door *self) {
  lose_output(self, EXIT_READER_GONE, "a closed standard output");
}

static bool is_writable(void) {
  struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&out, 1, 0) == 1;
}

/* Writes what standard output takes now. */
static void write_output(struct once_door *self) {
  while (unwritten(self) > 0 && is_writable()) {
    size_t length = unwritten(self) < PIPE_BUF ? unwritten(self) : PIPE_BUF;
    ssize_t written = write(STDOUT_FILENO, self->output.bytes + self->written, length);
    if (written < 0 && errno != EINTR && errno != EAGAIN) {
      if (errno == EPIPE) {
        lose_reader(self);
      } else {
        log_line(self->log, LOG_ERROR, NULL, "cannot write to standard output: %s",
                 strerror(errno));
        lose_output(self, AGENT_EXIT_ERROR, "an error of standard output");
      }
      return;
    }
    self->written += written > 0 ? (size_t)written : 0;
  }
  if (unwritten(self) > 0) {
    (void)event_add(self->writable, NULL);
    return;
  }
  self->output.length = self->written = 0;
  if (self->output.capacity > ONCE_DOOR_HOLD_BYTES)
    buffer_release(&self->output);
}

static void close_when_written(struct once_door *self) {
  if (self->closing && (self->broken != 0 || unwritten(self) == 0)) {
    self->closing = false;
    engine_door_closed(&self->door, self->broken);
  }
}

static void on_writable(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct once_door *self = context;
  write_output(self);
  if (unwritten(self) < ONCE_DOOR_HOLD_BYTES / 2)
    engine_room(&self->door);
  close_when_written(self);
}

static void on_reader_gone(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  lose_reader(context);
  close_when_written(context);
}

/* Room for so many bytes at the end; what is written already makes way. */
static char *output_space(struct once_door *self, size_t length) {
  if (self->written > 0) {
    memmove(self->output.bytes, self->output.bytes + self->written, unwritten(self));
    self->output.length -= self->written;
    self->written = 0;
  }
  return buffer_space(&self->output, length);
}

static size_t room(const struct door *door) {
  const struct once_door *self = const_self_of(door);
  size_t held = unwritten(self);
  if (held == 0 || self->broken != 0)
    return SIZE_MAX;
  return held < ONCE_DOOR_HOLD_BYTES ? ONCE_DOOR_HOLD_BYTES - held : 0;
}

static void put_event(struct once_door *self, const struct step_event *event) {
  if (self->broken != 0)
    return;
  size_t length = step_event_length(event);
  *step_event_write(event, output_space(self, length + 1)) = '\n';
  self->output.length += length + 1;
}

static void put_result(struct once_door *self, const struct step_result *result) {
  if (self->broken != 0)
    return;
  size_t length = step_result_length(result);
  *step_result_write(result, output_space(self, length + 1)) = '\n';
  self->output.length += length + 1;
}

static void event(struct door *door, const struct run *run, const struct step_event *event) {
  (void)run;
  put_event(self_of(door), event);
}

static void flush(struct door *door) {
  write_output(self_of(door));
}

/* --- the answer ------------------------------------------------------------------------------ */

static void leave(struct once_door *self, int exit_code) {
  self->state = ANSWERED;
  engine_leave(&self->door, exit_code, "the end of its step");
}

static void result(struct door *door, const struct run *run, const struct step_event *completed,
                   const struct step_result *result) {
  struct once_door *self = self_of(door);
  (void)run;
  put_event(self, completed);
  put_result(self, result);
  int code = result->exit_code >= 0 ? result->exit_code : ONCE_DOOR_EXIT_REFUSED;
  leave(self, result->timed_out ? ONCE_DOOR_EXIT_TIMED_OUT : code);
}

static void refuse(struct once_door *self, const char *step_id, const char *reason) {
  struct step_result result = {.step_id = step_id,
                               .exit_code = -1,
                               .error_message = reason,
                               .error_message_length = strlen(reason)};
  put_result(self, &result);
  write_output(self);
  leave(self, ONCE_DOOR_EXIT_REFUSED);
}

/* --- input ----------------------------------------------------------------------------------- */

static bool is_space(char byte) {
  return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

/* Takes one byte; true when it is the last of the value. */
static bool extent_take(struct extent *self, char byte) {
  if (self->in_string) {
    if (self->escaped)
      self->escaped = false;
    else if (byte == '\\')
      self->escaped = true;
    else if (byte == '"')
      self->in_string = false;
    return false;
  }
  if (!self->begun && is_space(byte))
    return false;
  if (!self->begun) {
    self->begun = true;
    self->scalar = byte != '{' && byte != '[';
  }
  if (self->scalar)
    return byte == '\n';
  if (byte == '"')
    self->in_string = true;
  else if (byte == '{' || byte == '[')
    self->depth++;
  else if ((byte == '}' || byte == ']') && --self->depth == 0)
    return true;
  return false;
}

/* True when the value is complete; `input` then ends with it. */
static bool find_end(struct once_door *self) {
  struct extent *extent = &self->extent;
  while (extent->scanned < self->input.length)
    if (extent_take(extent, self->input.bytes[extent->scanned++])) {
      self->input.length = extent->scanned;
      return true;
    }
  return false;
}

static void submit(struct once_door *self) {
  struct error error;
  struct request request = {0};
  const char *bytes = self->input.length > 0 ? self->input.bytes : "";
  self->state = RUNNING;
  if (self->input.length > payload_limit()) {
    payload_limit_error(&error);
    refuse(self, STEP_NIL_ID, error.text);
  } else if (step_parse(&request.step, kinds, bytes, self->input.length, &error) != 0) {
    refuse(self, request.step.step_id, error.text);
  } else if (!step_is_work(&request.step)) {
    (void)error_set(&error, "kind: %s has no meaning with --once", request.step.kind->name);
    refuse(self, request.step.step_id, error.text);
  } else {
    buffer_release(&self->input);
    engine_submit(&self->door, &request);
  }
  step_release(&request.step);
  buffer_release(&self->input);
}

static void stop_reading(struct once_door *self) {
  if (self->readable != NULL)
    (void)event_del(self->readable);
  (void)event_del(self->read_on);
}

/* One read, which does not wait: the descriptor is readable, or a regular file. */
static void read_input(struct once_door *self) {
  char *space = buffer_space(&self->input, READ_SIZE);
  ssize_t length = read(STDIN_FILENO, space, READ_SIZE);
  if (length < 0 && (errno == EINTR || errno == EAGAIN))
    return;
  self->input.length += length > 0 ? (size_t)length : 0;
  if (length <= 0 || find_end(self) || self->input.length > payload_limit()) {
    stop_reading(self);
    submit(self);
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
  struct once_door *self = context;
  read_input(self);
  if (self->state == READING)
    loop_timer_start_now(self->read_on);
}

/* epoll(7) refuses regular files. */
static void start_reading(struct once_door *self) {
  self->readable = event_new(self->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_readable, self);
  if (self->readable == NULL || event_add(self->readable, NULL) != 0)
    loop_timer_start_now(self->read_on);
}

static void want(struct door *door, unsigned requests) {
  struct once_door *self = self_of(door);
  if (requests == 0)
    stop_reading(self);
  else if (self->state == READING)
    start_reading(self);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void begin(struct door *door, struct run *run) {
  write_output(self_of(door));
  engine_start(run);
}

static void close_door(struct door *door, enum door_close how) {
  struct once_door *self = self_of(door);
  if (how == DOOR_CLOSE_NOW) {
    if (self->broken == 0 && unwritten(self) > 0) {
      log_line(self->log, LOG_ERROR, NULL, "%zu bytes of output were not read", unwritten(self));
      self->broken = EXIT_READER_GONE;
    }
    self->closing = false;
    engine_door_closed(door, self->broken);
    return;
  }
  self->closing = true;
  close_when_written(self);
}

static void dump(const struct door *door) {
  static const char *const states[] = {"reads a step", "runs its step", "has answered"};
  const struct once_door *self = const_self_of(door);
  log_line(self->log, LOG_WARN, NULL, "state: door once: %s, %zu bytes not written",
           states[self->state], unwritten(self));
}

static const struct door_type once_door_type = {.name = "once",
                                                .want = want,
                                                .begin = begin,
                                                .room = room,
                                                .event = event,
                                                .flush = flush,
                                                .result = result,
                                                .close = close_door,
                                                .dump = dump};

static bool is_pipe(int fd) {
  struct stat stat_buffer;
  return fstat(fd, &stat_buffer) == 0 && S_ISFIFO(stat_buffer.st_mode);
}

struct door *once_door_new(struct event_base *base, const struct log *log) {
  struct once_door *self = memory_allocate(sizeof *self);
  *self = (struct once_door){
      .door = {.type = &once_door_type, .terms = DOOR_TERMS_OF_PROTOCOL}, .base = base, .log = log};
  self->read_on = loop_timer_new(base, on_read_on, self);
  self->writable = loop_event_new_idle(base, STDOUT_FILENO, EV_WRITE, on_writable, self);
  /* The writing end of a pipe is never readable, but it has an error when the reader is gone. */
  if (is_pipe(STDOUT_FILENO))
    self->reader_gone = loop_event_new(base, STDOUT_FILENO, EV_READ, on_reader_gone, self);
  return &self->door;
}

void once_door_free(struct door *door) {
  struct once_door *self = self_of(door);
  if (self->readable != NULL)
    event_free(self->readable);
  if (self->reader_gone != NULL)
    event_free(self->reader_gone);
  event_free(self->read_on);
  event_free(self->writable);
  buffer_release(&self->input);
  buffer_release(&self->output);
  free(self);
}
