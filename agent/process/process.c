/*
 * The command's end, the ends of its two pipes and, while it is being killed, the end of its tree
 * come in any order. Each of them calls end_if_complete(), the only place that decides. If
 * processes are left then, it asks their supervisor how many, and which one has the output open.
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

#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/write_all.h"

/* process.h has the transitions. */
enum process_state { PREPARED, RUNNING, KILLING, ENDING, COUNTING, OVER };

struct output_stream {
  struct process *process;
  struct event *readable;
  int fd;       /* -1: it has ended */
  bool limited; /* only `left` more bytes count */
  size_t left;
};

struct process {
  const struct process_handler *handler;
  void *owner;
  const struct process_context *context;
  struct supervisor *supervisor;
  struct output_stream streams[2];
  struct event *timer; /* for what the state waits for: see on_timer */
  int64_t kill_at_ms;  /* KILLING: when SIGKILL is sent; 0: it was sent */
  unsigned timeout_seconds;
  enum process_state state;
  bool is_work;
  bool command_ended;
  bool is_held; /* a background process had a stream open: see limit_streams */
  bool paused;
  struct process_outcome outcome;
  int64_t started_ms;
};

/* Without an answer in time the figures are unknown. */
static void end_count(struct process *self) {
  struct process_outcome *outcome = &self->outcome;
  struct supervisor_report *report = &outcome->report;
  struct process_tree_census census;
  const bool is_known = supervisor_read_answer(self->supervisor, &census);
  self->state = OVER;
  supervisor_read_report(self->supervisor, report);
  outcome->survivors = (int64_t)outcome->unkillable;
  if (is_known && self->is_held)
    outcome->holder = census.holder;
  if (outcome->unkillable == 0 && supervisor_state(self->supervisor) == SUPERVISOR_HOLDS)
    outcome->survivors = is_known ? census.living : -1;
  if (report->usage.processes >= 0)
    report->usage.processes =
        outcome->survivors >= 0 ? report->usage.processes + outcome->survivors : -1;
  if (outcome->end == PROCESS_EXITED && report->stage != EXEC_DONE)
    outcome->end = PROCESS_NOT_STARTED;
  loop_timer_start_now(self->timer);
}

static void end_if_complete(struct process *self) {
  if ((self->state != RUNNING && self->state != ENDING) || !self->command_ended ||
      self->streams[PROCESS_STDOUT].fd >= 0 || self->streams[PROCESS_STDERR].fd >= 0)
    return;
  self->state = COUNTING;
  if (self->started_ms != 0)
    self->outcome.duration_ms = clock_monotonic_ms() - self->started_ms;
  if (supervisor_ask(self->supervisor, self->is_held))
    loop_timer_start(self->timer, SUPERVISOR_ANSWER_MS);
  else
    end_count(self);
}

/* --- pipes that background processes have open ------------------------------------------------ */

struct pipe_drain {
  struct list_node node;
  struct list *drains;
  struct event *readable;
  int fd;
};

static void free_drain(struct pipe_drain *self) {
  list_remove(self->drains, &self->node);
  event_free(self->readable);
  close(self->fd);
  free(self);
}

/* One read per turn of the loop: a process that prints without end must not delay the others. */
LOOP_CALLBACK(discard, struct pipe_drain *self) {
  char discarded[16384];
  ssize_t length = read(self->fd, discarded, sizeof discarded);
  if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR))
    free_drain(self);
}

/* Reads and discards output until the last writer is gone. A closed pipe would break a server that
   a command started for later steps. */
static void drain(const struct process_context *context, int fd) {
  struct pipe_drain *drain = memory_allocate(sizeof *drain);
  *drain = (struct pipe_drain){.drains = context->drains, .fd = fd};
  drain->readable = loop_event_new(context->base, fd, EV_READ | EV_PERSIST, discard, drain);
  list_append(context->drains, &drain->node);
}

void process_end_drains(const struct process_context *context) {
  LIST_FOR_EACH (struct pipe_drain, drain, context->drains, node)
    free_drain(drain);
}

/* --- the streams of the command --------------------------------------------------------------- */

static void end_stream(struct output_stream *stream, bool held) {
  event_free(stream->readable);
  stream->readable = NULL;
  if (held)
    drain(stream->process->context, stream->fd);
  else
    close(stream->fd);
  stream->fd = -1;
  end_if_complete(stream->process);
}

/* Each stream ends after the bytes that are in its pipe now. */
static void limit_streams(struct process *self) {
  for (int i = 0; i < 2; i++) {
    struct output_stream *stream = &self->streams[i];
    if (stream->fd < 0 || stream->limited)
      continue;
    int waiting = 0;
    (void)ioctl(stream->fd, FIONREAD, &waiting);
    stream->limited = true;
    stream->left = (size_t)waiting;
    self->is_held = true;
    if (waiting == 0)
      end_stream(stream, true);
  }
  bool open = self->streams[PROCESS_STDOUT].fd >= 0 || self->streams[PROCESS_STDERR].fd >= 0;
  if (open && self->handler->remains != NULL)
    self->handler->remains(self->owner);
}

/* Only the streams or the tree delay the end now. */
static void on_command_ended(struct process *self) {
  self->command_ended = true;
  if (self->state == RUNNING)
    loop_timer_start(self->timer, self->context->drain_ms);
  end_if_complete(self);
}

static void on_tree_gone(struct process *self, size_t survivors) {
  self->state = ENDING;
  self->outcome.unkillable = survivors;
  self->command_ended = true; /* or it is stuck in the kernel, and never will */
  (void)event_del(self->timer);
  limit_streams(self);
  end_if_complete(self);
}

static void start_kill(struct process *self, int64_t grace_ms) {
  int64_t kill_at_ms = clock_monotonic_ms() + grace_ms;
  bool is_first = self->state != KILLING;
  self->state = KILLING;
  if (!is_first && kill_at_ms >= self->kill_at_ms)
    return;
  self->kill_at_ms = kill_at_ms;
  if (grace_ms > 0 && is_first)
    supervisor_terminate(self->supervisor);
  loop_timer_start(self->timer, grace_ms);
}

/* The grace is over; or, after SIGKILL, the time to die. */
static void kill_or_give_up(struct process *self) {
  if (self->kill_at_ms == 0) {
    size_t left = supervisor_left(self->supervisor);
    on_tree_gone(self, left > 0 ? left : 1);
    return;
  }
  self->kill_at_ms = 0;
  supervisor_kill(self->supervisor);
  loop_timer_start(self->timer, SUPERVISORS_GIVE_UP_MS);
}

/* process_go calls this again for notifications that came before it. */
static void on_notification(void *owner) {
  struct process *self = owner;
  enum supervisor_state state = supervisor_state(self->supervisor);
  struct process_tree_census census;
  if (self->state == COUNTING &&
      (state >= SUPERVISOR_DIED || supervisor_read_answer(self->supervisor, &census))) {
    end_count(self);
    return;
  }
  if (state == SUPERVISOR_RUNS || self->state == PREPARED)
    return;
  if (state == SUPERVISOR_DIED && self->state == RUNNING && !self->command_ended)
    start_kill(self, 0); /* waits for the rest, which is being killed */
  if (!self->command_ended)
    on_command_ended(self);
  if (state == SUPERVISOR_DONE && self->state == KILLING)
    on_tree_gone(self, supervisor_left(self->supervisor));
}

/* The child has done nothing: it has no output and needs no grace. */
static void end_prepared(struct process *self) {
  self->outcome.end = PROCESS_STOPPED;
  for (int i = 0; i < 2; i++)
    end_stream(&self->streams[i], false);
  start_kill(self, 0);
  on_notification(self);
}

static void end_tree(struct process *self, enum process_end reason, int64_t grace_ms) {
  switch (self->state) {
  case PREPARED:
    end_prepared(self);
    break;
  case RUNNING:
    on_notification(self); /* the page may be ahead of the notifications */
    if (self->command_ended) {
      limit_streams(self);
      break;
    }
    self->outcome.end = reason;
    start_kill(self, grace_ms);
    break;
  case KILLING:
    start_kill(self, grace_ms);
    break;
  case ENDING:
  case COUNTING:
  case OVER:
    break;
  }
}

/* `ended` is called here, and so never inside a function that the owner calls. */
LOOP_CALLBACK(on_timer, struct process *self) {
  if (self->state == OVER)
    self->handler->ended(self->owner, &self->outcome);
  else if (self->state == COUNTING)
    end_count(self);
  else if (self->state == KILLING)
    kill_or_give_up(self);
  else if (self->command_ended)
    limit_streams(self);
  else {
    end_tree(self, PROCESS_TIMED_OUT, self->context->grace_ms);
    if (self->handler->timed_out != NULL)
      self->handler->timed_out(self->owner);
  }
}

LOOP_CALLBACK(on_readable, struct output_stream *stream) {
  struct process *self = stream->process;
  if (self->state == PREPARED) {
    (void)event_del(stream->readable); /* the child died; process_go adds the event again */
    return;
  }
  self->handler->readable(self->owner, (enum process_stream)(stream - self->streams));
}

static void open_stream(struct process *self, int i, int fd) {
  struct output_stream *stream = &self->streams[i];
  *stream = (struct output_stream){.process = self, .fd = fd};
  stream->readable =
      loop_event_new(self->context->base, fd, EV_READ | EV_PERSIST, on_readable, stream);
}

/* The ends of the pipes, by the child's descriptors; -1: none. */
struct pipes {
  int own[3], child[3];
};

static void close_ends(const int ends[3]) {
  for (int i = 0; i < 3; i++)
    if (ends[i] >= 0)
      close(ends[i]);
}

/* Makes a sealed file in memory, at its beginning. Unlike a pipe, it needs no writer that waits for
   a command that does not read it. */
static int make_input(const char *input, size_t length, struct error *error) {
  int fd = memfd_create("stdin", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return error_set_reason(error, "standard input", errno);
  if (write_all(fd, input, length) != 0 || lseek(fd, 0, SEEK_SET) != 0) {
    (void)error_set(error, "standard input: %s", strerror(errno));
    close(fd);
    return -1;
  }
  (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  return fd;
}

/* The caller closes what was made, also after an error. */
static int make_pipes(struct pipes *pipes, const struct process_spec *spec, struct error *error) {
  *pipes = (struct pipes){{-1, -1, -1}, {-1, -1, -1}};
  if (spec->input != NULL &&
      (pipes->child[STDIN_FILENO] = make_input(spec->input, spec->input_length, error)) < 0)
    return -1;
  for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return error_set_reason(error, "cannot make a pipe", errno);
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK); /* not the child's end */
    pipes->own[i] = ends[0];
    pipes->child[i] = ends[1];
  }
  return 0;
}

/* Gives the task to a supervisor, with the child's ends of the pipes. */
static struct supervisor *acquire_supervisor(struct process *self, const struct process_spec *spec,
                                             bool waits, const struct pipes *pipes,
                                             struct error *error) {
  int input = pipes->child[STDIN_FILENO];
  const int descriptors[3] = {input >= 0 ? input : self->context->stdin_fd,
                              pipes->child[STDOUT_FILENO], pipes->child[STDERR_FILENO]};
  const struct supervisor_task task = {.message = &spec->message,
                                       .body = &spec->body,
                                       .waits = waits,
                                       .descriptors = descriptors,
                                       .notify = on_notification,
                                       .owner = self};
  return supervisors_acquire(self->context->supervisors, &task, error);
}

static void begin(struct process *self, int64_t started_ms) {
  self->state = RUNNING;
  self->started_ms = started_ms;
  loop_timer_start(self->timer, (int64_t)self->timeout_seconds * 1000);
}

struct process *process_new(const struct process_context *context, const struct process_spec *spec,
                            bool waits, const struct process_handler *handler, void *owner,
                            struct error *error) {
  int64_t started_ms = clock_monotonic_ms();
  struct pipes pipes;
  CHECK(!waits || !spec->message.is_work);
  struct process *self = memory_allocate(sizeof *self);
  *self = (struct process){.handler = handler,
                           .owner = owner,
                           .context = context,
                           .timeout_seconds = spec->timeout_seconds,
                           .is_work = spec->message.is_work};
  if (make_pipes(&pipes, spec, error) == 0)
    self->supervisor = acquire_supervisor(self, spec, waits, &pipes, error);
  close_ends(pipes.child);
  if (self->supervisor == NULL) {
    close_ends(pipes.own);
    free(self);
    return NULL;
  }
  self->timer = loop_timer_new(context->base, on_timer, self);
  open_stream(self, PROCESS_STDOUT, pipes.own[STDOUT_FILENO]);
  open_stream(self, PROCESS_STDERR, pipes.own[STDERR_FILENO]);
  if (!waits)
    begin(self, started_ms);
  return self;
}

void process_go(struct process *self) {
  if (self->state != PREPARED)
    return;
  begin(self, clock_monotonic_ms());
  supervisor_start(self->supervisor);
  if (!self->paused)
    process_pause(self, false);
  on_notification(self);
}

void process_free(struct process *self) {
  if (self->state != OVER)
    supervisor_kill(self->supervisor);
  supervisor_release(self->supervisor);
  supervisor_report_release(&self->outcome.report);
  for (int i = 0; i < 2; i++)
    if (self->streams[i].fd >= 0) {
      event_free(self->streams[i].readable);
      close(self->streams[i].fd);
    }
  event_free(self->timer);
  free(self);
}

ssize_t process_read(struct process *self, enum process_stream which, char *out, size_t size) {
  struct output_stream *stream = &self->streams[which];
  if (stream->fd < 0)
    return 0;
  if (stream->limited && stream->left < size)
    size = stream->left;
  ssize_t length = read(stream->fd, out, size);
  if (length < 0 && (errno == EAGAIN || errno == EINTR))
    return -1;
  if (length <= 0) {
    end_stream(stream, false);
    return 0;
  }
  if (stream->limited && (stream->left -= (size_t)length) == 0)
    end_stream(stream, true);
  return length;
}

void process_pause(struct process *self, bool paused) {
  self->paused = paused;
  for (int i = 0; i < 2; i++)
    if (self->streams[i].fd >= 0)
      (void)(paused ? event_del(self->streams[i].readable)
                    : event_add(self->streams[i].readable, NULL));
}

void process_stop(struct process *self, int64_t grace_ms) {
  end_tree(self, PROCESS_STOPPED, grace_ms);
}

int64_t process_memory(const struct process *self) {
  struct process_tree_census census;
  struct process_stat stat;
  if (self->is_work) /* its supervisor is busy with it and answers no queries */
    return process_table_is_known() && process_table_stat(process_pid(self), &stat)
               ? stat.pages * sysconf(_SC_PAGESIZE)
               : 0;
  return supervisor_read_answer(self->supervisor, &census) ? census.rss_bytes : 0;
}

int64_t process_count(const struct process *self) {
  struct process_tree_census census;
  if (self->is_work)
    return 1;
  return supervisor_read_answer(self->supervisor, &census) ? census.living : -1;
}

pid_t process_pid(const struct process *self) {
  return supervisor_pid(self->supervisor);
}
