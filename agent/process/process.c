/*
 * The end of a command has three parts that come in any order: the command is reaped, its two pipes
 * end, and, when it is being killed, its tree is gone. Every one of them calls maybe_end(), the
 * only place that decides.
 */
#include "agent/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/process/kill_sequence.h"
#include "agent/process/oom_score.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/write_all.h"

/* How long a child that was killed before it executed its command may take to die: it may be stuck
   behind a file system. One that waits needs nothing but a processor. */
#define DETACH_MS 100
#define PREPARED_DETACH_MS 2000

/* When a command that was told to execute is looked at to raise its out-of-memory score: mostly it
   has executed by then. One that has not is looked at again, after twice the time. */
#define APART_MS 5
#define APART_MAX_MS 1000

/* By then a child is seen that was being made when the first look was: it has the score of before. A
   fork of a large process takes milliseconds. */
#define FORKED_MS 100

enum process_state { PREPARED, RUNNING, KILLING, ENDING, OVER }; /* process.h has the transitions */

struct stream {
  struct process *process;
  struct event *readable;
  int fd;       /* -1: ended */
  bool limited; /* only `left` more bytes count */
  size_t left;
};

struct process {
  const struct process_handler *handler;
  void *owner;
  const struct process_context *context;
  struct stream streams[2];
  struct event *deadline;
  struct event *check; /* until it is reaped: is it apart? Then: who still holds its pipes? */
  int64_t apart_ms;    /* of a command, until the first is looked at again; else 0 */
  bool raised;         /* its score for the out-of-memory killer, once */
  struct event *end;   /* calls handler->ended from the loop, never from within an owner's call */
  struct kill_sequence kill;
  struct process_tree tree;
  struct spawn *spawn;
  int child_fds[3]; /* its 0, 1 and 2 while there is no child that has them; else -1 */
  int input_fd;     /* the writing end of its standard input; -1: it has none, or was given it */
  char *tag;
  unsigned timeout_seconds;
  enum process_state state;
  bool reaped; /* or nothing is to be reaped */
  bool paused;
  bool is_command; /* and no work, nor the standby for it */
  struct process_outcome outcome;
  int64_t started_ms;
};

static bool was_reaped(const struct process *self) {
  return self->outcome.status != -1;
}

static void maybe_end(struct process *self) {
  if ((self->state != RUNNING && self->state != ENDING) || !self->reaped ||
      self->streams[PROCESS_STDOUT].fd >= 0 || self->streams[PROCESS_STDERR].fd >= 0)
    return;
  self->state = OVER;
  if (self->outcome.end == PROCESS_EXITED)
    self->outcome.failure = spawn_failed(self->spawn, &self->outcome.reason);
  if (self->outcome.failure != SPAWN_DONE)
    self->outcome.end = PROCESS_NOT_STARTED;
  if (self->started_ms != 0)
    self->outcome.duration_ms = clock_monotonic_ms() - self->started_ms;
  (void)event_del(self->deadline);
  (void)event_del(self->check);
  loop_timer_start_now(self->end);
}

static void close_child_fds(struct process *self) {
  for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
    if (self->child_fds[i] >= 0)
      close(self->child_fds[i]);
    self->child_fds[i] = -1;
  }
}

/* There is a child: it has its descriptors, and its tree is told apart from those beside it. */
static void child_made(struct process *self) {
  close_child_fds(self);
  process_leaders_add(self->context->leaders, self->tree.leader, self->is_command);
}

static void stream_end(struct stream *stream, bool held) {
  event_free(stream->readable);
  stream->readable = NULL;
  if (held)
    orphaned_pipes_adopt(stream->process->context->orphaned_pipes, stream->fd);
  else
    close(stream->fd);
  stream->fd = -1;
  maybe_end(stream->process);
}

/* From now on only the bytes count that are in the pipes already. */
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
  bool open = self->streams[PROCESS_STDOUT].fd >= 0 || self->streams[PROCESS_STDERR].fd >= 0;
  if (open && self->handler->remains != NULL)
    self->handler->remains(self->owner);
}

static void raise_oom_score(struct process *self) {
  if (self->tree.leader <= 0)
    return;
  if (spawn_is_detached(self->spawn, 0)) {
    oom_score_raise(self->tree.leader);
    if (!self->raised)
      loop_timer_start(self->check, FORKED_MS);
    self->raised = true;
    return;
  }
  self->apart_ms = self->apart_ms < APART_MAX_MS / 2 ? 2 * self->apart_ms : APART_MAX_MS;
  loop_timer_start(self->check, self->apart_ms);
}

static void on_check(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct process *self = context;
  if (self->reaped)
    limit_streams(self);
  else
    raise_oom_score(self);
}

static void on_tree_gone(void *owner, size_t survivors) {
  struct process *self = owner;
  self->state = ENDING;
  self->outcome.survivors = survivors;
  if (survivors > 0)
    self->reaped = true; /* it may never be: stuck in the kernel */
  limit_streams(self);
  maybe_end(self);
}

/* The child has done nothing: there is nothing to read, and it needs no grace. */
static void end_prepared(struct process *self) {
  self->outcome.end = PROCESS_STOPPED;
  for (int i = 0; i < 2; i++)
    stream_end(&self->streams[i], false);
  close_child_fds(self);
  if (spawn_pid(self->spawn) > 0) {
    self->state = KILLING;
    if (!self->reaped)
      (void)kill(self->tree.leader, SIGKILL);
    kill_sequence_start(&self->kill, 0); /* until it is dead */
  } else {
    self->state = ENDING;
    self->reaped = true;
    maybe_end(self);
  }
}

static void end_tree(struct process *self, enum process_end reason, int64_t grace_ms) {
  switch (self->state) {
  case PREPARED:
    end_prepared(self);
    break;
  case RUNNING:
    if (self->reaped) {
      limit_streams(self);
      break;
    }
    self->outcome.end = reason;
    self->state = KILLING;
    kill_sequence_start(&self->kill, grace_ms);
    break;
  case KILLING:
    kill_sequence_start(&self->kill, grace_ms);
    break;
  case ENDING:
  case OVER:
    break;
  }
}

static void on_deadline(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct process *self = context;
  end_tree(self, PROCESS_TIMED_OUT, self->context->grace_ms);
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct stream *stream = context;
  struct process *self = stream->process;
  if (self->state == PREPARED) {
    (void)event_del(stream->readable); /* a child that died; process_go adds it again */
    return;
  }
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
  *self = (struct process){.tag = memory_copy(spec->tag, strlen(spec->tag)), .input_fd = -1};
  self->handler = handler;
  self->owner = owner;
  self->context = context;
  self->timeout_seconds = spec->timeout_seconds;
  self->outcome.status = -1;
  self->tree.tag = self->tag;
  self->tree.leaders = context->leaders;
  self->deadline = loop_timer_new(context->base, on_deadline, self);
  self->check = loop_timer_new(context->base, on_check, self);
  self->is_command = spec->work == NULL && !spec->takes_input;
  self->apart_ms = self->is_command ? APART_MS : 0;
  self->end = loop_timer_new(context->base, on_end, self);
  kill_sequence_init(&self->kill, context->base, &self->tree, on_tree_gone, self);
  return self;
}

/* By the descriptors that they become in the child; each has a reading and a writing end, of which
   standard input may have the first alone. */
struct pipes {
  int ends[3][2]; /* -1: there is none */
};

static void close_pipes(const struct pipes *pipes) {
  for (int i = 0; i < 3; i++)
    for (int end = 0; end < 2; end++)
      if (pipes->ends[i][end] >= 0)
        close(pipes->ends[i][end]);
}

/* Makes a file in memory, at its beginning, that nobody can change: a command that does not read it
   is not waited for, and end-of-file comes by itself. */
static int make_input(const char *input, size_t length, struct error *error) {
  int fd = memfd_create("stdin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return error_set(error, "standard input: %s", strerror(errno));
  if (write_all(fd, input, length) != 0 || lseek(fd, 0, SEEK_SET) != 0) {
    (void)error_set(error, "standard input: %s", strerror(errno));
    close(fd);
    return -1;
  }
  (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  return fd;
}

/* This process's ends of output do not block. */
static int make_pipes(struct pipes *pipes, const struct process_spec *spec, struct error *error) {
  *pipes = (struct pipes){{{-1, -1}, {-1, -1}, {-1, -1}}};
  if (spec->input != NULL) {
    pipes->ends[STDIN_FILENO][0] = make_input(spec->input, spec->input_length, error);
    if (pipes->ends[STDIN_FILENO][0] < 0)
      return -1;
  }
  for (int i = spec->takes_input ? STDIN_FILENO : STDOUT_FILENO; i <= STDERR_FILENO; i++) {
    if (pipe2(pipes->ends[i], O_CLOEXEC) != 0) {
      (void)error_set(error, "cannot make a pipe: %s", strerror(errno));
      close_pipes(pipes);
      return -1;
    }
    if (i != STDIN_FILENO)
      (void)fcntl(pipes->ends[i][0], F_SETFL, O_NONBLOCK);
  }
  return 0;
}

/* Makes the child with its ends of the pipes; one that takes input executes at once. */
static struct spawn *make_child(const struct process_context *context,
                                const struct process_spec *spec, bool waits,
                                const struct pipes *pipes, struct error *error) {
  struct spawn_defaults defaults = context->spawn;
  if (pipes->ends[STDIN_FILENO][0] >= 0)
    defaults.stdin_fd = pipes->ends[STDIN_FILENO][0];
  const struct spawn_request request = {.argv = spec->argv,
                                        .envp = spec->envp,
                                        .memory = spec->memory,
                                        .directory = spec->directory,
                                        .directory_may_be_missing = spec->directory_may_be_missing,
                                        .work = spec->work,
                                        .work_context = spec->work_context,
                                        .stdout_fd = pipes->ends[STDOUT_FILENO][1],
                                        .stderr_fd = pipes->ends[STDERR_FILENO][1],
                                        .waits = waits};
  struct spawn *spawn = spawn_new(&defaults, &request, error);
  if (spawn == NULL || !spec->takes_input)
    return spawn;
  if (spawn_pid(spawn) == 0) {
    (void)error_set(error, "no child can wait here");
    spawn_free(spawn);
    return NULL;
  }
  spawn_go(spawn);
  return spawn;
}

/* Makes the pipes and the child. It frees the spec's memory when it fails, by spawn_new or here. */
static struct process *make(const struct process_context *context, const struct process_spec *spec,
                            bool waits, const struct process_handler *handler, void *owner,
                            struct error *error) {
  struct pipes pipes;
  if (make_pipes(&pipes, spec, error) != 0) {
    free(spec->memory);
    return NULL;
  }
  uint64_t since_ticks = process_tree_now();
  struct spawn *spawn = make_child(context, spec, waits, &pipes, error);
  if (spawn == NULL) {
    close_pipes(&pipes);
    return NULL;
  }
  struct process *self = process_new(context, spec, handler, owner);
  self->spawn = spawn;
  self->tree.leader = spawn_pid(spawn);
  self->tree.since_ticks = since_ticks;
  self->input_fd = pipes.ends[STDIN_FILENO][1];
  self->child_fds[STDIN_FILENO] = pipes.ends[STDIN_FILENO][0];
  self->child_fds[STDOUT_FILENO] = pipes.ends[STDOUT_FILENO][1];
  self->child_fds[STDERR_FILENO] = pipes.ends[STDERR_FILENO][1];
  if (self->tree.leader > 0)
    child_made(self);
  stream_open(self, context->base, PROCESS_STDOUT, pipes.ends[STDOUT_FILENO][0]);
  stream_open(self, context->base, PROCESS_STDERR, pipes.ends[STDERR_FILENO][0]);
  return self;
}

static void begin(struct process *self, int64_t started_ms) {
  self->state = RUNNING;
  self->started_ms = started_ms;
  loop_timer_start(self->deadline, (int64_t)self->timeout_seconds * 1000);
  if (self->apart_ms > 0)
    loop_timer_start(self->check, self->apart_ms);
}

struct process *process_prepare(const struct process_context *context,
                                const struct process_spec *spec,
                                const struct process_handler *handler, void *owner,
                                struct error *error) {
  return make(context, spec, true, handler, owner, error);
}

struct process *process_start(const struct process_context *context,
                              const struct process_spec *spec,
                              const struct process_handler *handler, void *owner,
                              struct error *error) {
  int64_t started_ms = clock_monotonic_ms();
  struct process *self = make(context, spec, false, handler, owner, error);
  if (self != NULL)
    begin(self, started_ms);
  return self;
}

static void close_input(struct process *self) {
  if (self->input_fd >= 0)
    close(self->input_fd);
  self->input_fd = -1;
}

bool process_give(struct process *self, const void *input, size_t length, unsigned timeout_seconds,
                  const struct process_handler *handler, void *owner) {
  CHECK(self->state == PREPARED && self->input_fd >= 0 && length <= PROCESS_INPUT_MAX);
  ssize_t written = self->reaped ? -1 : write(self->input_fd, input, length);
  close_input(self);
  if (written != (ssize_t)length)
    return false;
  self->handler = handler;
  self->owner = owner;
  self->timeout_seconds = timeout_seconds;
  begin(self, clock_monotonic_ms());
  process_resume(self);
  return true;
}

/* From now on only its streams, or its tree, delay its end. */
static void leader_ended(struct process *self) {
  self->reaped = true;
  (void)event_del(self->deadline);
  if (self->state == RUNNING)
    loop_timer_start(self->check, self->context->drain_ms);
  maybe_end(self);
}

void process_go(struct process *self) {
  if (self->state != PREPARED)
    return;
  begin(self, clock_monotonic_ms());
  bool made = self->tree.leader > 0;
  if (!self->reaped)
    spawn_go(self->spawn);
  self->tree.leader = spawn_pid(self->spawn);
  if (!made)
    child_made(self);
  if (!self->paused)
    process_resume(self);
  if (self->reaped || self->tree.leader < 0)
    leader_ended(self);
}

/* A child that is stuck in the kernel before it executed its command keeps its memory, on purpose:
   it writes there when it comes free, to die. */
static void free_spawn(struct process *self) {
  int wait_ms = self->state == OVER ? 0 : self->state == PREPARED ? PREPARED_DETACH_MS : DETACH_MS;
  if (was_reaped(self) || spawn_pid(self->spawn) <= 0 || spawn_is_detached(self->spawn, wait_ms))
    spawn_free(self->spawn);
}

/* A child that waits is its whole tree, perhaps not yet with a process group of its own. */
static void kill_tree(struct process *self) {
  if (self->state == PREPARED && self->tree.leader > 0 && !self->reaped)
    (void)kill(self->tree.leader, SIGKILL);
  else if (self->state != PREPARED && self->state != OVER && self->tree.leader > 0)
    (void)process_tree_signal(&self->tree, SIGKILL);
}

void process_free(struct process *self) {
  kill_tree(self);
  process_leaders_remove(self->context->leaders, self->tree.leader);
  close_input(self);
  close_child_fds(self);
  for (int i = 0; i < 2; i++)
    if (self->streams[i].fd >= 0) {
      event_free(self->streams[i].readable);
      close(self->streams[i].fd);
    }
  free_spawn(self);
  kill_sequence_release(&self->kill);
  event_free(self->deadline);
  event_free(self->check);
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
  self->paused = true;
  for (int i = 0; i < 2; i++)
    if (self->streams[i].fd >= 0)
      (void)event_del(self->streams[i].readable);
}

void process_resume(struct process *self) {
  self->paused = false;
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

void process_child_ended(struct process *self, pid_t pid) {
  kill_sequence_child_ended(&self->kill, pid);
}

bool process_reaped(struct process *self, pid_t pid, int status) {
  if (pid != self->tree.leader || was_reaped(self)) {
    kill_sequence_orphan_reaped(&self->kill);
    return false;
  }
  self->outcome.status = status;
  if (self->state == PREPARED)
    self->reaped = true; /* process_go reports it */
  else
    leader_ended(self);
  return true;
}
