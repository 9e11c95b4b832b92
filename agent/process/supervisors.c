/*
 * A supervisor that is killed takes its command with it, and what that has started becomes this
 * process's own child, among those of nobody: all of them are killed, for what a step made must not
 * outlive it, and nothing else makes children here.
 */
#include "agent/process/supervisors.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/process/children.h"
#include "agent/process/pipe_drain.h"
#include "agent/process/process_tree.h"
#include "agent/process/supervisor_facts.h"
#include "agent/process/supervisor_message.h"
#include "agent/process/supervisor_query.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* From one walk over those of nobody to the next, while they are killed: at first, and when nothing
   has helped for a while. */
#define WALK_MS 5
#define WALK_MAX_MS 1000

/* How often it is looked at supervisors that are silent. */
#define SILENCE_MS 250

#define FUTEX_WAKE 1 /* of linux/futex.h, which musl does not bring */

struct supervisor {
  struct supervisor *next;
  struct supervisors *supervisors;
  struct supervisor_process process;
  struct event *readable;
  void (*notify)(void *owner); /* NULL: nobody has it */
  void *owner;
  enum supervisor_state state;
  int order;       /* enum supervisor_order; the page has a copy */
  bool is_waiting; /* for supervisor_start; the page has a copy */
  int64_t kill_ms; /* when it was ordered to kill; monotonic, 0: it was not */
  /* Since when it has not reported or, if it got a message, has not received that; 0: it has. */
  int64_t silent_since_ms;
  unsigned replaced; /* how often, since it got the message */
  bool is_work;
  bool leaves;
  bool is_asked;    /* by supervisors_count */
  bool is_complete; /* it has reported that nothing is left of its task */
  struct supervisor_query question;
  int own_status; /* of the supervisor itself, once it was reaped */
  size_t left;    /* of a supervisor that died */
  struct supervisor_facts facts;
  bool is_decided; /* the facts are the agent's own: the supervisor did nothing */
};

struct supervisors {
  struct supervisors_options options;
  bool has_died; /* one was reaped */
  unsigned idle_max;
  struct supervisor *all;
  struct pipe_drains drains;
  struct buffer body;          /* of the message that is being sent */
  struct process_tree nobodys; /* the children of this process that are no supervisors */
  struct event *silence;
  struct event *walk; /* over those of nobody, and while everything ends */
  bool ends_nobodys;  /* since a supervisor has died, until none of them is left */
  int64_t walk_ms;    /* see WALK_MS */
  int64_t give_up_ms; /* of those of supervisors that died; 0: nobody waits for their end */
  int64_t kill_at_ms; /* while everything ends */
  int64_t asked_ms;   /* by supervisors_count; 0: it has ended */
  void (*gone)(void *owner, size_t left);
  void *gone_owner;
};

static struct supervisor *find_supervisor(const struct supervisors *self, pid_t pid) {
  struct supervisor *supervisor = self->all;
  while (supervisor != NULL && supervisor->process.pid != pid)
    supervisor = supervisor->next;
  return supervisor;
}

static bool is_supervisor(void *context, pid_t pid) {
  return find_supervisor(context, pid) != NULL;
}

/* How long /proc may be read in one turn of the event loop. */
#define WALK_TURN_MS 10

/* To the children of this process that are no supervisors, and to what is below them. */
static size_t signal_nobodys(struct supervisors *self, int signal) {
  return process_tree_signal(&self->nobodys, signal);
}

static bool is_idle(const struct supervisor *self) {
  return self->state == SUPERVISOR_DONE && self->notify == NULL && self->process.socket >= 0;
}

static struct supervisor *find_idle(const struct supervisors *self) {
  struct supervisor *supervisor = self->all;
  while (supervisor != NULL && !is_idle(supervisor))
    supervisor = supervisor->next;
  return supervisor;
}

static bool has_processes(const struct supervisor *self) {
  return self->state != SUPERVISOR_DONE;
}

/* --- its end -------------------------------------------------------------------------------- */

static void dismiss(struct supervisor *self) {
  if (self->process.socket < 0)
    return;
  event_free(self->readable);
  supervisor_process_dismiss(&self->process);
}

static void free_supervisor(struct supervisor *self) {
  dismiss(self);
  supervisor_process_release(&self->process);
  supervisor_facts_release(&self->facts);
  free(self);
}

static void remove_supervisor(struct supervisor *self) {
  struct supervisor **link = &self->supervisors->all;
  while (*link != self)
    link = &(*link)->next;
  *link = self->next;
  free_supervisor(self);
}

/* It has nothing, and nobody has it. */
static void keep_or_dismiss(struct supervisor *self) {
  unsigned idle = 0;
  if (self->process.pid == 0) {
    remove_supervisor(self);
    return;
  }
  for (const struct supervisor *other = self->supervisors->all; other != NULL; other = other->next)
    idle += is_idle(other);
  if (self->leaves || idle > self->supervisors->idle_max)
    dismiss(self);
}

static void end_turn(struct supervisors *self);

static void tell(struct supervisor *self) {
  struct supervisors *supervisors = self->supervisors;
  if (self->notify != NULL)
    self->notify(self->owner);
  else if (self->state == SUPERVISOR_DONE)
    keep_or_dismiss(self);
  end_turn(supervisors);
}

/* Takes one message, which is a byte. Returns it, or -1 if there is none. There is no end-of-file,
   because the agent has the other end, too: supervisors_reap notices a dead supervisor. */
static int receive_notifications(struct supervisor *self) {
  unsigned char notify = 0;
  if (recv(self->process.socket, &notify, sizeof notify, MSG_DONTWAIT) <= 0)
    return -1;
  if (self->state != SUPERVISOR_RUNS || notify != 0)
    self->silent_since_ms = 0;
  if ((notify & SUPERVISOR_ENDED) != 0 && self->state == SUPERVISOR_RUNS)
    self->state = SUPERVISOR_HOLDS;
  if ((notify & SUPERVISOR_EMPTY) != 0 && self->state != SUPERVISOR_DIED) {
    self->state = SUPERVISOR_DONE;
    self->is_complete = true;
  }
  if ((notify & SUPERVISOR_LEAVES) != 0)
    self->leaves = true;
  if ((notify & SUPERVISOR_COUNTED) != 0)
    supervisor_query_take_answer(&self->question, self->process.page);
  return notify;
}

LOOP_CALLBACK(on_notification, struct supervisor *self) {
  int notify = receive_notifications(self);
  if (notify > 0 && (notify & (SUPERVISOR_ENDED | SUPERVISOR_EMPTY | SUPERVISOR_COUNTED)) != 0)
    tell(self);
}

/* --- making one ------------------------------------------------------------------------------ */

static void expect_report(struct supervisor *self) {
  struct event *timer = self->supervisors->silence;
  self->silent_since_ms = clock_monotonic_ms();
  if (!evtimer_pending(timer, NULL))
    loop_timer_start(timer, SILENCE_MS);
}

static void listen_to(struct supervisor *self, const struct supervisor_process *process) {
  self->process = *process;
  self->readable = loop_event_new(self->supervisors->options.base, process->socket,
                                  EV_READ | EV_PERSIST, on_notification, self);
}

/* Returns NULL with errno. */
static struct supervisor *make_supervisor(struct supervisors *self) {
  struct supervisor_process process;
  if (supervisor_process_make(&process, &self->options.supervisor) != 0)
    return NULL;
  struct supervisor *supervisor = memory_allocate(sizeof *supervisor);
  *supervisor =
      (struct supervisor){.next = self->all, .supervisors = self, .state = SUPERVISOR_DONE};
  listen_to(supervisor, &process);
  expect_report(supervisor);
  self->all = supervisor;
  return supervisor;
}

/* None that would keep much of the agent's memory, and exit after its first task. */
void supervisors_make_spare(struct supervisors *self) {
  const long pages = self->options.supervisor.agent_pages;
  if (find_idle(self) == NULL &&
      (pages < 0 || supervisor_own_pages() <= pages + SUPERVISOR_PAGES_MAX))
    (void)make_supervisor(self);
}

/* --- giving it something --------------------------------------------------------------------- */

static const struct step_usage unknown_usage = {-1, -1, -1, -1, -1, -1, -1, -1, -1};

/* Returns NULL with errno. */
static struct supervisor *give(struct supervisors *self, const struct supervisor_task *task,
                               const struct supervisor_message *message, const char *body) {
  struct supervisor *supervisor = find_idle(self);
  if (supervisor == NULL)
    supervisor = make_supervisor(self);
  if (supervisor == NULL)
    return NULL;
  supervisor_process_reset(&supervisor->process, task->waits);
  supervisor_facts_release(&supervisor->facts);
  if (supervisor_message_send(supervisor->process.socket, message, body, task->descriptors) != 0)
    return NULL;
  supervisor->state = SUPERVISOR_RUNS;
  supervisor->order = SUPERVISOR_ORDER_NONE;
  supervisor->is_waiting = task->waits;
  supervisor->kill_ms = 0;
  supervisor->question = (struct supervisor_query){0};
  supervisor->replaced = 0;
  supervisor->is_work = message->kind == SUPERVISOR_MESSAGE_WORK;
  supervisor->left = 0;
  supervisor->is_decided = false;
  supervisor->is_complete = false;
  supervisor->notify = task->notify;
  supervisor->owner = task->owner;
  expect_report(supervisor);
  return supervisor;
}

struct supervisor *supervisors_acquire(struct supervisors *self, const struct supervisor_task *task,
                                       struct error *error) {
  struct buffer *body = &self->body;
  struct supervisor_message message = {.kind = SUPERVISOR_MESSAGE_WORK,
                                       .length = task->work_length};
  body->length = 0;
  if (task->work == NULL)
    supervisor_message_pack(&message, body, &task->exec, task->lists_alive);
  struct supervisor *supervisor =
      give(self, task, &message, task->work != NULL ? task->work : body->bytes);
  const int give_errno = errno;
  if (body->capacity > SUPERVISOR_BODY_MAX)
    buffer_release(body);
  if (supervisor != NULL)
    return supervisor;
  char what[128];
  (void)snprintf(what, sizeof what, "cannot start %.100s",
                 task->work != NULL ? "a process" : task->exec.argv[0]);
  (void)error_set_reason(error, what, give_errno);
  return NULL;
}

void supervisor_start(struct supervisor *self) {
  self->is_waiting = false;
  atomic_store(&self->process.page->gate, SUPERVISOR_GATE_OPEN);
  (void)syscall(SYS_futex, &self->process.page->gate, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* --- what is known of it ---------------------------------------------------------------------- */

/* The page may be ahead of the news. */
enum supervisor_state supervisor_state(const struct supervisor *self) {
  bool has_ended = atomic_load(&self->process.page->ended) != 0;
  return self->state == SUPERVISOR_RUNS && has_ended ? SUPERVISOR_HOLDS : self->state;
}

pid_t supervisor_pid(const struct supervisor *self) {
  int pid = atomic_load(&self->process.page->pid);
  return pid > 0 ? (pid_t)pid : 0;
}

/* After a report of impossible values nothing is known, and the supervisor serves no other step. */
static void read_facts(struct supervisor *self) {
  const struct log *log = self->supervisors->options.supervisor.log;
  if (self->is_decided || supervisor_facts_read(&self->facts, self->process.page))
    return;
  if (!self->leaves && log != NULL)
    log_line(log, LOG_ERROR, NULL,
             "supervisor %d reported impossible values about its step: the step counts as killed",
             (int)self->process.pid);
  self->leaves = true;
}

/* Of a command that ended as nobody knows: its supervisor was killed, and took it along. */
int supervisor_status(struct supervisor *self) {
  read_facts(self);
  if (self->facts.has_ended)
    return self->facts.status;
  return self->is_work && self->process.pid == 0 ? self->own_status : SIGKILL;
}

const struct exec_failure *supervisor_failure(const struct supervisor *self, const char **whole) {
  *whole = self->facts.whole_reason;
  return &self->facts.failure;
}

size_t supervisor_left(const struct supervisor *self) {
  size_t left = atomic_load(&self->process.page->left);
  if (self->process.pid == 0)
    return self->left;
  return left < PROCESS_TREE_MAX ? left : PROCESS_TREE_MAX;
}

const struct step_usage *supervisor_usage(struct supervisor *self) {
  read_facts(self);
  bool is_known =
      (self->process.pid != 0 || self->is_complete) && self->facts.has_ended && !self->is_decided;
  return is_known ? &self->facts.usage : &unknown_usage;
}

const struct step_process *supervisor_alive(const struct supervisor *self, size_t *count) {
  *count = self->facts.alive_count;
  return self->facts.alive;
}

bool supervisor_ask(struct supervisor *self, bool holder) {
  if (self->process.pid == 0 || self->is_work || !has_processes(self))
    return false;
  supervisor_query_ask(&self->question, self->process.page, holder);
  (void)kill(self->process.pid, SIGCONT);
  return true;
}

const struct supervisor_census *supervisor_answer(const struct supervisor *self) {
  return supervisor_query_answer(&self->question);
}

bool supervisors_count(struct supervisors *self) {
  const int64_t now_ms = clock_monotonic_ms();
  if (self->asked_ms == 0 || now_ms >= self->asked_ms + 2 * SUPERVISORS_COUNT_MS) {
    self->asked_ms = now_ms; /* answers that nobody has looked at for long are too old */
    for (struct supervisor *supervisor = self->all; supervisor != NULL;
         supervisor = supervisor->next)
      supervisor->is_asked = supervisor_ask(supervisor, false);
  }
  for (const struct supervisor *supervisor = self->all; supervisor != NULL;
       supervisor = supervisor->next)
    if (supervisor->is_asked && has_processes(supervisor) &&
        supervisor_query_is_open(&supervisor->question) &&
        now_ms < self->asked_ms + SUPERVISORS_COUNT_MS)
      return false;
  self->asked_ms = 0;
  return true;
}

struct supervisor *supervisors_largest_left(const struct supervisors *self, int64_t *rss_bytes) {
  struct supervisor *largest = NULL;
  *rss_bytes = 0;
  for (struct supervisor *supervisor = self->all; supervisor != NULL;
       supervisor = supervisor->next) {
    bool is_left =
        has_processes(supervisor) && supervisor->notify == NULL && supervisor->kill_ms == 0;
    const struct supervisor_census *census = is_left ? supervisor_answer(supervisor) : NULL;
    int64_t own = census != NULL ? census->rss_bytes : 0;
    if (own > *rss_bytes) {
      *rss_bytes = own;
      largest = supervisor;
    }
  }
  return largest;
}

/* --- orders ----------------------------------------------------------------------------------- */

static void raise_order(struct supervisor *self, int order) {
  if (self->order < order)
    self->order = order;
  atomic_store(&self->process.page->order, self->order);
  if (self->process.pid > 0)
    (void)kill(self->process.pid, SIGCONT);
}

void supervisor_kill(struct supervisor *self) {
  if (!has_processes(self))
    return;
  if (self->kill_ms == 0)
    self->kill_ms = clock_monotonic_ms();
  raise_order(self, SUPERVISOR_ORDER_KILL);
  if (self->is_work && self->process.pid > 0)
    (void)kill(self->process.pid, SIGKILL);
}

void supervisor_terminate(struct supervisor *self) {
  if (self->is_work || self->is_waiting)
    supervisor_kill(self);
  else if (has_processes(self))
    raise_order(self, SUPERVISOR_ORDER_TERMINATE);
}

void supervisor_release(struct supervisor *self) {
  self->notify = NULL;
  if (self->state == SUPERVISOR_DONE)
    keep_or_dismiss(self);
}

/* --- supervisors that are silent -------------------------------------------------------------- */

/* Its message was taken back: the step does not exist. Without a reason it was ordered to end. */
static void end_unstarted(struct supervisor *self, const char *reason) {
  supervisor_facts_release(&self->facts);
  self->facts.has_ended = true;
  self->facts.status = SIGKILL;
  if (reason != NULL) {
    self->facts.status = 127 << 8;
    self->facts.failure.stage = EXEC_NO_PROCESS;
    (void)error_set(&self->facts.failure.reason, "cannot start a process: %s", reason);
  }
  self->is_decided = true;
  self->state = SUPERVISOR_DONE;
  self->silent_since_ms = 0;
  dismiss(self);
  if (self->process.pid > 0)
    (void)kill(self->process.pid, SIGKILL);
  tell(self);
}

static void end_if_unstarted(struct supervisor *self, const char *reason) {
  if (supervisor_message_move(self->process.other_end, -1) != 0)
    end_unstarted(self, reason);
  else
    self->silent_since_ms = 0; /* it has received the message meanwhile */
}

/* Another process takes its place. The one that is killed has not received the message, and cannot
   any more once that was taken back. */
static void replace(struct supervisor *self) {
  struct supervisor_process fresh;
  if (self->replaced == SUPERVISOR_REPLACED_MAX) {
    end_if_unstarted(self,
                     "its supervisor does not respond: another process of the same user may stop "
                     "or kill it");
    return;
  }
  self->replaced++;
  expect_report(self);
  if (supervisor_process_make(&fresh, &self->supervisors->options.supervisor) != 0) {
    if (self->process.pid == 0)
      end_if_unstarted(self, strerror(errno));
    return; /* else the old one may respond yet */
  }
  supervisor_process_reset(&fresh, self->is_waiting);
  int moved = supervisor_message_move(self->process.other_end, fresh.socket);
  int move_errno = errno;
  if (moved == 0) {
    self->silent_since_ms = 0;
    supervisor_process_release(&fresh);
    (void)kill(fresh.pid, SIGKILL);
    return;
  }
  if (self->process.pid > 0)
    (void)kill(self->process.pid, SIGKILL); /* it is reaped as an orphan */
  dismiss(self);
  supervisor_process_release(&self->process);
  listen_to(self, &fresh);
  if (moved < 0)
    end_unstarted(self, strerror(move_errno));
}

/* Nothing is lost with one that has no message. */
static void look_at_silent(struct supervisor *self, int64_t now_ms) {
  const bool has_message = self->state == SUPERVISOR_RUNS;
  const bool is_late = now_ms - self->silent_since_ms >= SUPERVISOR_REPORT_MS &&
                       supervisor_process_is_held(&self->process);
  const bool waits = has_message && supervisor_message_waits(self->process.other_end);
  if (self->process.pid > 0)
    (void)kill(self->process.pid, is_late && !has_message ? SIGKILL : SIGCONT);
  if (!waits && (has_message || is_late))
    self->silent_since_ms = 0;
  else if (waits && self->order != SUPERVISOR_ORDER_NONE)
    end_if_unstarted(self, NULL);
  else if (waits && is_late)
    replace(self);
}

/* A process of the same user may stop a supervisor, again and again. */
LOOP_CALLBACK(on_silence, struct supervisors *self) {
  int64_t now_ms = clock_monotonic_ms();
  bool is_any_silent = false;
  for (struct supervisor *supervisor = self->all, *next; supervisor != NULL; supervisor = next) {
    next = supervisor->next;
    is_any_silent |= supervisor->silent_since_ms != 0;
    if (supervisor->silent_since_ms != 0)
      look_at_silent(supervisor, now_ms);
  }
  if (is_any_silent)
    loop_timer_start(self->silence, SILENCE_MS);
}

/* --- those of nobody, and the end of all ------------------------------------------------------ */

static void finish_dead(struct supervisors *self, size_t left) {
  self->give_up_ms = 0;
  for (struct supervisor *supervisor = self->all, *next; supervisor != NULL; supervisor = next) {
    next = supervisor->next;
    if (supervisor->state != SUPERVISOR_DIED)
      continue;
    supervisor->left = left;
    supervisor->state = SUPERVISOR_DONE;
    tell(supervisor);
  }
}

static void end_nobodys(struct supervisors *self, int64_t now_ms) {
  size_t left = signal_nobodys(self, SIGKILL);
  self->ends_nobodys = left > 0;
  if (self->give_up_ms != 0 && (left == 0 || now_ms >= self->give_up_ms))
    finish_dead(self, left);
}

static void walk_now(struct supervisors *self) {
  self->walk_ms = WALK_MS;
  loop_timer_start_now(self->walk);
}

static size_t count_left(struct supervisors *self) {
  size_t left = signal_nobodys(self, 0);
  for (const struct supervisor *supervisor = self->all; supervisor != NULL;
       supervisor = supervisor->next)
    if (has_processes(supervisor))
      left += supervisor_left(supervisor) > 0 ? supervisor_left(supervisor) : 1;
  return left;
}

/* While everything ends: is it over? */
static void end_turn(struct supervisors *self) {
  if (self->gone == NULL)
    return;
  int64_t now_ms = clock_monotonic_ms();
  size_t left = count_left(self);
  if (left > 0 && now_ms < self->kill_at_ms + SUPERVISORS_GIVE_UP_MS)
    return;
  void (*gone)(void *owner, size_t left) = self->gone;
  self->gone = NULL;
  (void)event_del(self->walk);
  gone(self->gone_owner, left);
}

LOOP_CALLBACK(on_walk, struct supervisors *self) {
  int64_t now_ms = clock_monotonic_ms();
  if (self->ends_nobodys)
    end_nobodys(self, now_ms);
  if (self->gone != NULL && now_ms >= self->kill_at_ms)
    supervisors_kill(self);
  if (self->ends_nobodys || (self->gone != NULL && now_ms >= self->kill_at_ms))
    loop_timer_start(self->walk, self->gone != NULL ? WALK_MS : self->walk_ms);
  else if (self->gone != NULL)
    loop_timer_start(self->walk, self->kill_at_ms - now_ms);
  if (!self->nobodys.is_cut)
    self->walk_ms = self->walk_ms < WALK_MAX_MS / 2 ? 2 * self->walk_ms : WALK_MAX_MS;
  end_turn(self);
}

void supervisors_kill(struct supervisors *self) {
  for (struct supervisor *supervisor = self->all; supervisor != NULL; supervisor = supervisor->next)
    supervisor_kill(supervisor);
  (void)signal_nobodys(self, SIGKILL);
}

void supervisors_end(struct supervisors *self, int64_t grace_ms,
                     void (*gone)(void *owner, size_t left), void *owner) {
  self->gone = gone;
  self->gone_owner = owner;
  self->kill_at_ms = clock_monotonic_ms() + grace_ms;
  for (struct supervisor *supervisor = self->all; grace_ms > 0 && supervisor != NULL;
       supervisor = supervisor->next)
    supervisor_terminate(supervisor);
  if (grace_ms > 0)
    (void)signal_nobodys(self, SIGTERM);
  loop_timer_start_now(self->walk);
}

/* --- children --------------------------------------------------------------------------------- */

static void supervisor_died(struct supervisor *self, int status) {
  struct supervisors *supervisors = self->supervisors;
  self->process.pid = 0;
  self->own_status = status;
  if (self->state == SUPERVISOR_RUNS && supervisor_message_waits(self->process.other_end)) {
    if (self->order != SUPERVISOR_ORDER_NONE)
      end_if_unstarted(self, NULL);
    else
      replace(self);
    return;
  }
  const bool was_done = self->state == SUPERVISOR_DONE;
  self->silent_since_ms = 0;
  while (self->process.socket >= 0 && receive_notifications(self) >= 0)
    continue; /* it may have reported before it died */
  dismiss(self);
  if (self->state == SUPERVISOR_DONE) {
    if (!was_done)
      tell(self);
    else if (self->notify == NULL)
      remove_supervisor(self);
    return;
  }
  self->state = self->is_work ? SUPERVISOR_DONE : SUPERVISOR_DIED;
  if (self->state == SUPERVISOR_DIED) {
    supervisors->ends_nobodys = true;
    supervisors->give_up_ms = clock_monotonic_ms() + SUPERVISORS_GIVE_UP_MS;
    walk_now(supervisors);
  }
  tell(self);
}

/* Children that are looked at in one turn of the loop. */
#define REAPED_AT_ONCE 1024

static void reap_one(void *owner, const siginfo_t *info, const struct rusage *usage) {
  struct supervisors *self = owner;
  int status;
  (void)usage;
  if (waitpid(info->si_pid, &status, WNOHANG | __WALL) != info->si_pid)
    return;
  struct supervisor *supervisor = find_supervisor(self, info->si_pid);
  if (supervisor != NULL) {
    self->has_died = true;
    supervisor_died(supervisor, status);
  } else if (self->ends_nobodys || self->gone != NULL) {
    walk_now(self);
  }
}

static void on_stopped(void *owner, pid_t pid) {
  if (find_supervisor(owner, pid) != NULL)
    (void)kill(pid, SIGCONT);
}

bool supervisors_reap(struct supervisors *self, bool *has_died) {
  static const struct children_handler handler = {.ended = reap_one, .stopped = on_stopped};
  struct child_stop space[REAPED_AT_ONCE];
  self->has_died = false;
  int looked_at = children_look(&handler, self, space, REAPED_AT_ONCE);
  *has_died = self->has_died;
  return looked_at == REAPED_AT_ONCE;
}

bool supervisors_are_busy(const struct supervisors *self) {
  for (const struct supervisor *supervisor = self->all; supervisor != NULL;
       supervisor = supervisor->next)
    if (has_processes(supervisor))
      return true;
  return false;
}

bool supervisors_are_killing(const struct supervisors *self) {
  int64_t after_ms = clock_monotonic_ms() - SUPERVISORS_GIVE_UP_MS;
  for (const struct supervisor *supervisor = self->all; supervisor != NULL;
       supervisor = supervisor->next)
    if (has_processes(supervisor) && supervisor->kill_ms > after_ms && supervisor->kill_ms > 0)
      return true;
  return self->give_up_ms != 0;
}

bool supervisors_have_processes(struct supervisors *self) {
  return supervisors_are_busy(self) || signal_nobodys(self, 0) > 0;
}

/* --- the supervisors themselves --------------------------------------------------------------- */

struct supervisors *supervisors_new(const struct supervisors_options *options) {
  struct supervisors *self = memory_allocate(sizeof *self);
  *self = (struct supervisors){.options = *options, .idle_max = 1};
  self->nobodys =
      (struct process_tree){.is_excepted = is_supervisor, .context = self, .turn_ms = WALK_TURN_MS};
  self->options.supervisor.agent_pages = supervisor_own_pages();
  self->walk = loop_timer_new(options->base, on_walk, self);
  self->silence = loop_timer_new(options->base, on_silence, self);
  return self;
}

void supervisors_drain(struct supervisors *self, int fd) {
  pipe_drains_add(&self->drains, self->options.base, fd);
}

void supervisors_limit_idle(struct supervisors *self, unsigned count) {
  self->idle_max = count;
}

/* How long all supervisors that have nothing may take to die. */
#define REAP_MS 200

/* One that is stuck in the kernel, or that somebody traces, is left to init. */
static void reap_killed(pid_t pid, int64_t until_ms) {
  static const struct timespec pause = {.tv_nsec = 200000};
  (void)kill(pid, SIGKILL);
  while (waitpid(pid, NULL, WNOHANG) == 0 && clock_monotonic_ms() < until_ms)
    (void)nanosleep(&pause, NULL);
}

/* One that has something ends it when it finds nobody listening. */
void supervisors_free(struct supervisors *self) {
  const int64_t until_ms = clock_monotonic_ms() + REAP_MS;
  for (struct supervisor *supervisor = self->all, *next; supervisor != NULL; supervisor = next) {
    next = supervisor->next;
    supervisor_kill(supervisor);
    bool has_nothing = !has_processes(supervisor) ||
                       (supervisor->state == SUPERVISOR_RUNS &&
                        supervisor_message_move(supervisor->process.other_end, -1) != 0);
    if (has_nothing && supervisor->process.pid > 0) {
      reap_killed(supervisor->process.pid, until_ms);
    }
    free_supervisor(supervisor);
  }
  pipe_drains_release(&self->drains);
  event_free(self->walk);
  event_free(self->silence);
  buffer_release(&self->body);
  free(self);
}
