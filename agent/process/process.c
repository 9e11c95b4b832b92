/*
 * The end of a command has three parts that come in any order: the command is reaped, its two pipes
 * end, and, when it is being killed, its tree is gone. Each is a flag; every change of one calls
 * maybe_end(), the only place that decides.
 */
#include "agent/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/process/kill_sequence.h"
#include "agent/process/process_tree.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* How long a child that was killed on its way to the program may take to obey. */
#define APART_MS 100

struct stream {
  struct process *process;
  struct event *readable;
  int fd;       /* -1: ended */
  bool limited; /* only `left` more bytes are the step's */
  size_t left;
};

struct process {
  const struct process_handler *handler;
  void *owner;
  struct orphaned_pipes *orphaned_pipes;
  struct stream streams[2];
  struct event *deadline;
  struct event *drain;
  struct event *end; /* calls handler->ended from the loop, never from inside a call of the owner */
  struct kill_sequence kill;
  struct process_tree tree;
  struct spawn *spawn; /* of a command; NULL: of work */
  char *tag;
  struct process_outcome outcome;
  int64_t started_ms;
  bool reaped;
  bool killing;
  bool over;
};

static bool was_reaped(const struct process *self) {
  return self->outcome.status != -1;
}

static void maybe_end(struct process *self) {
  if (self->over || !self->reaped || self->killing || self->streams[PROCESS_STDOUT].fd >= 0 ||
      self->streams[PROCESS_STDERR].fd >= 0)
    return;
  self->over = true;
  if (self->outcome.end == PROCESS_EXITED && self->spawn != NULL && was_reaped(self) &&
      spawn_failed(self->spawn, &self->outcome.reason))
    self->outcome.end = PROCESS_NOT_STARTED;
  self->outcome.duration_ms = clock_monotonic_ms() - self->started_ms;
  (void)event_del(self->deadline);
  (void)event_del(self->drain);
  loop_timer_start_now(self->end);
}

static void stream_end(struct stream *stream, bool held) {
  event_free(stream->readable);
  stream->readable = NULL;
  if (held)
    orphaned_pipes_adopt(stream->process->orphaned_pipes, stream->fd);
  else
    close(stream->fd);
  stream->fd = -1;
  maybe_end(stream->process);
}

/* From now on only what is in the pipes already counts. */
static void limit_streams(struct process *self) {
  for (int i = 0; i < 2; i++) {
    struct stream *stream = &self->streams[i];
    if (stream->fd < 0 || stream->limited)
      continue;
    int waiting = 0;
    (void)ioctl(stream->fd, FIONREAD, &waiting);
    stream->limited = true;
    stream->left = (size_t)waiting;
    if (self->outcome.holder[0] == '\0')
      (void)process_tree_pipe_holder(stream->fd, self->outcome.holder, sizeof self->outcome.holder);
    if (waiting == 0)
      stream_end(stream, true);
  }
  if (!self->over && self->handler->remains != NULL)
    self->handler->remains(self->owner);
}

static void on_drain(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  limit_streams(context);
}

static void on_tree_gone(void *owner, size_t survivors) {
  struct process *self = owner;
  self->killing = false;
  self->outcome.survivors = survivors;
  if (survivors > 0)
    self->reaped = true; /* it may never be: stuck in the kernel */
  limit_streams(self);
  maybe_end(self);
}

static void end_tree(struct process *self, enum process_end reason, int64_t grace_ms) {
  if (self->over)
    return;
  if (self->reaped && !self->killing) {
    limit_streams(self);
    return;
  }
  if (!self->killing)
    self->outcome.end = reason;
  self->killing = true;
  kill_sequence_start(&self->kill, grace_ms);
}

static void on_deadline(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  end_tree(context, PROCESS_TIMED_OUT, PROCESS_GRACE_MS);
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct stream *stream = context;
  struct process *self = stream->process;
  self->handler->readable(self->owner, (enum process_stream)(stream - self->streams));
}

static void on_end(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct process *self = context;
  self->handler->ended(self->owner, &self->outcome);
}

static void stream_open(struct process *self, struct event_base *base, int i, int fd) {
  struct stream *stream = &self->streams[i];
  *stream = (struct stream){.process = self, .fd = fd};
  stream->readable = loop_event_new(base, fd, EV_READ | EV_PERSIST, on_readable, stream);
}

static struct process *process_new(const struct process_context *context,
                                   const struct process_spec *spec,
                                   const struct process_handler *handler, void *owner) {
  struct process *self = memory_allocate(sizeof *self);
  *self = (struct process){.tag = memory_copy(spec->tag, strlen(spec->tag))};
  self->handler = handler;
  self->owner = owner;
  self->orphaned_pipes = context->orphaned_pipes;
  self->outcome.status = -1;
  self->tree.tag = self->tag;
  self->deadline = loop_timer_new(context->base, on_deadline, self);
  self->drain = loop_timer_new(context->base, on_drain, self);
  self->end = loop_timer_new(context->base, on_end, self);
  kill_sequence_init(&self->kill, context->base, &self->tree, on_tree_gone, self);
  return self;
}

/* Two pipes whose reading ends do not block. */
static int make_pipes(int out[2], int err[2], struct error *error) {
  if (pipe2(out, O_CLOEXEC) != 0) {
    (void)error_set(error, "cannot make a pipe: %s", strerror(errno));
    return -1;
  }
  if (pipe2(err, O_CLOEXEC) != 0) {
    (void)error_set(error, "cannot make a pipe: %s", strerror(errno));
    close(out[0]);
    close(out[1]);
    return -1;
  }
  (void)fcntl(out[0], F_SETFL, O_NONBLOCK);
  (void)fcntl(err[0], F_SETFL, O_NONBLOCK);
  return 0;
}

/* The pid, or -1; `*command` is set when it is one. */
static pid_t start_child(const struct spawn_defaults *defaults, const struct process_spec *spec,
                         int stdout_fd, int stderr_fd, struct spawn **command,
                         struct error *error) {
  struct spawn_request request = {.argv = spec->argv,
                                  .envp = spec->envp,
                                  .memory = spec->memory,
                                  .directory = spec->directory,
                                  .directory_may_be_missing = spec->directory_may_be_missing,
                                  .stdout_fd = stdout_fd,
                                  .stderr_fd = stderr_fd};
  *command = NULL;
  if (spec->work != NULL)
    return spawn_work(defaults, &request, spec->work, spec->work_context, error);
  *command = spawn_new(defaults, &request, error);
  return *command != NULL ? spawn_pid(*command) : -1;
}

struct process *process_start(const struct process_context *context,
                              const struct process_spec *spec,
                              const struct process_handler *handler, void *owner,
                              struct error *error) {
  int out[2];
  int err[2];
  if (make_pipes(out, err, error) != 0) {
    free(spec->memory);
    return NULL;
  }
  uint64_t since_ticks = process_tree_now();
  int64_t started_ms = clock_monotonic_ms();
  struct spawn *command;
  pid_t pid = start_child(&context->spawn, spec, out[1], err[1], &command, error);
  close(out[1]);
  close(err[1]);
  if (pid < 0) {
    close(out[0]);
    close(err[0]);
    return NULL;
  }
  struct process *self = process_new(context, spec, handler, owner);
  self->spawn = command;
  self->tree.leader = pid;
  self->tree.since_ticks = since_ticks;
  self->started_ms = started_ms;
  stream_open(self, context->base, PROCESS_STDOUT, out[0]);
  stream_open(self, context->base, PROCESS_STDERR, err[0]);
  loop_timer_start(self->deadline, (int64_t)spec->timeout_seconds * 1000);
  return self;
}

/* A child that is stuck in the kernel on its way to the program keeps its memory, on purpose: it
   writes there when it gets free, to die. */
static void free_spawn(struct process *self) {
  if (self->spawn != NULL &&
      (was_reaped(self) || spawn_is_apart(self->spawn, self->over ? 0 : APART_MS)))
    spawn_free(self->spawn);
}

void process_free(struct process *self) {
  if (!self->over)
    (void)process_tree_signal(&self->tree, SIGKILL);
  for (int i = 0; i < 2; i++)
    if (self->streams[i].fd >= 0) {
      event_free(self->streams[i].readable);
      close(self->streams[i].fd);
    }
  free_spawn(self);
  kill_sequence_release(&self->kill);
  event_free(self->deadline);
  event_free(self->drain);
  event_free(self->end);
  free(self->tag);
  free(self);
}

ssize_t process_read(struct process *self, enum process_stream which, char *out, size_t size) {
  struct stream *stream = &self->streams[which];
  if (stream->fd < 0)
    return 0;
  if (stream->limited && stream->left < size)
    size = stream->left;
  ssize_t length = read(stream->fd, out, size);
  if (length < 0 && (errno == EAGAIN || errno == EINTR))
    return -1;
  if (length <= 0) {
    stream_end(stream, false);
    return 0;
  }
  if (stream->limited && (stream->left -= (size_t)length) == 0)
    stream_end(stream, true);
  return length;
}

void process_pause(struct process *self) {
  for (int i = 0; i < 2; i++)
    if (self->streams[i].fd >= 0)
      (void)event_del(self->streams[i].readable);
}

void process_resume(struct process *self) {
  for (int i = 0; i < 2; i++)
    if (self->streams[i].fd >= 0)
      (void)event_add(self->streams[i].readable, NULL);
}

void process_stop(struct process *self, int64_t grace_ms) {
  end_tree(self, PROCESS_STOPPED, grace_ms);
}

pid_t process_pid(const struct process *self) {
  return self->tree.leader;
}

bool process_reaped(struct process *self, pid_t pid, int status) {
  if (pid != self->tree.leader || was_reaped(self)) {
    kill_sequence_orphan_reaped(&self->kill);
    return false;
  }
  self->outcome.status = status;
  self->reaped = true;
  (void)event_del(self->deadline);
  if (!self->killing) {
    loop_timer_start(self->drain, PROCESS_DRAIN_MS);
  }
  maybe_end(self);
  return true;
}
