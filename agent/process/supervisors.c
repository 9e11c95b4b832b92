/*
 * If a supervisor is killed, its command dies with it, and the other processes of its tree become
 * this process's own children, beside the supervisors: orphans. All orphans are killed, because
 * what a step started must not outlive it, and nothing else makes children here.
 */
#include "agent/process/supervisors.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/process/children.h"
#include "agent/process/process_tree.h"
#include "agent/process/supervisor_fork.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/memory.h"

/* The pause between two walks over the orphans while they are killed: at first, and after nothing
   has helped for a while. */
#define WALK_MS 5
#define WALK_MAX_MS 1000

/* How long a walk may read /proc in one turn of the event loop. */
#define WALK_TURN_MS 10

/* How often supervisors that are silent are checked. */
#define SILENCE_MS 250

#define FUTEX_WAKE 1 /* of linux/futex.h, which musl does not have */

struct supervisors {
  struct event_base *base;
  struct supervisor_options options;
  unsigned idle_max;
  struct list all;             /* of struct supervisor */
  struct process_tree orphans; /* the children of this process that are no supervisors */
  struct event *silence;
  struct event *walk; /* over the orphans, and while everything ends */
  bool kills_orphans; /* from a supervisor's death until no orphan is left */
  int64_t walk_ms;    /* the next pause */
  int64_t give_up_ms; /* when to give up the orphans of dead supervisors; 0: there are none */
  int64_t kill_at_ms; /* while everything ends */
  int64_t asked_ms;   /* when supervisors_count asked; 0: it is over */
  void (*gone)(void *owner, size_t left);
  void *gone_owner;
};

/* The agent's record of one supervisor: its process, its task, and what it reported. */
struct supervisor {
  struct list_node node;
  struct supervisors *supervisors;
  pid_t pid;     /* 0: it was reaped */
  int socket;    /* -1: the supervisor was dismissed */
  int other_end; /* the supervisor's, to take back a message that it did not receive; or -1 */
  struct supervisor_page *page;
  struct event *readable;
  void (*notify)(void *owner); /* NULL: no process has acquired it */
  void *owner;
  enum supervisor_state state;
  int order;       /* enum supervisor_order; the page has a copy */
  bool is_waiting; /* for supervisor_start; the page has a copy */
  int64_t kill_ms; /* when it was ordered to kill; monotonic, 0: it was not */
  /* Since when the supervisor is expected to become ready or, with a task, to receive it; 0: it
     has. */
  int64_t silent_since_ms;
  unsigned replaced; /* how often, since it got the task */
  bool is_work;
  bool leaves;    /* accepts no more tasks */
  unsigned asked; /* the last query; the page has a copy */
};

#define FOR_EACH(SUPERVISOR, LIST) LIST_FOR_EACH (struct supervisor, SUPERVISOR, LIST, node)

/* Whether it has a task that is not over. */
static bool has_processes(const struct supervisor *self) {
  return self->state != SUPERVISOR_DONE;
}

/* Whether it is ready for a task. */
static bool is_idle(const struct supervisor *self) {
  return self->state == SUPERVISOR_DONE && self->notify == NULL && self->socket >= 0;
}

static struct supervisor *find_supervisor(const struct supervisors *self, pid_t pid) {
  FOR_EACH(supervisor, &self->all)
  if (supervisor->pid == pid)
    return supervisor;
  return NULL;
}

static bool is_supervisor(const void *context, pid_t pid) {
  return find_supervisor(context, pid) != NULL;
}

static struct supervisor *find_idle(const struct supervisors *self) {
  FOR_EACH(supervisor, &self->all)
  if (is_idle(supervisor))
    return supervisor;
  return NULL;
}

/* --- a supervisor's end ----------------------------------------------------------------------- */

/* Closes the socket, after which the supervisor exits when it has nothing to do. */
static void dismiss(struct supervisor *self) {
  if (self->socket < 0)
    return;
  event_free(self->readable);
  close(self->socket);
  close(self->other_end);
  self->socket = self->other_end = -1;
}

static void remove_supervisor(struct supervisor *self) {
  list_remove(&self->supervisors->all, &self->node);
  dismiss(self);
  (void)munmap(self->page, sizeof *self->page);
  free(self);
}

/* It has no task and no owner. */
static void keep_or_dismiss(struct supervisor *self) {
  unsigned idle = 0;
  if (self->pid == 0) {
    remove_supervisor(self);
    return;
  }
  FOR_EACH(other, &self->supervisors->all)
  idle += is_idle(other);
  if (self->leaves || idle > self->supervisors->idle_max)
    dismiss(self);
}

void supervisor_release(struct supervisor *self) {
  self->notify = NULL;
  if (self->state == SUPERVISOR_DONE)
    keep_or_dismiss(self);
}

static void walk_now(struct supervisors *self) {
  self->walk_ms = WALK_MS;
  loop_timer_start_now(self->walk);
}

static void notify(struct supervisor *self) {
  if (self->supervisors->gone != NULL)
    walk_now(self->supervisors);
  if (self->notify != NULL)
    self->notify(self->owner);
  else if (self->state == SUPERVISOR_DONE)
    keep_or_dismiss(self);
}

/* --- its notifications ------------------------------------------------------------------------ */

/* Reads one notification, updates the state, and returns it; -1 if there is none. There is no
   end-of-file, because the agent has the other end, too: supervisors_reap finds dead ones. */
static int receive_notification(struct supervisor *self) {
  unsigned char notification = 0;
  if (recv(self->socket, &notification, sizeof notification, MSG_DONTWAIT) <= 0)
    return -1;
  if (self->state != SUPERVISOR_RUNS || notification != 0)
    self->silent_since_ms = 0;
  if ((notification & SUPERVISOR_ENDED) != 0 && self->state == SUPERVISOR_RUNS)
    self->state = SUPERVISOR_HOLDS;
  if ((notification & SUPERVISOR_EMPTY) != 0)
    self->state = SUPERVISOR_DONE;
  if ((notification & SUPERVISOR_LEAVES) != 0)
    self->leaves = true;
  return notification;
}

LOOP_CALLBACK(on_notification, struct supervisor *self) {
  if (receive_notification(self) > 0)
    notify(self);
}

/* --- making one and giving it a task ---------------------------------------------------------- */

static void expect_report(struct supervisor *self) {
  struct event *timer = self->supervisors->silence;
  self->silent_since_ms = clock_monotonic_ms();
  if (!evtimer_pending(timer, NULL))
    loop_timer_start(timer, SILENCE_MS);
}

/* Makes the process, or another one in place of one that was reaped: it has the same socket, with
   the message in it, and the same page, which other supervisors do not inherit. Returns 0, or -1
   with errno. */
static int start_process(struct supervisor *self) {
  (void)madvise(self->page, sizeof *self->page, MADV_DOFORK);
  pid_t pid = supervisor_fork(&self->supervisors->options, self->page, self->other_end);
  (void)madvise(self->page, sizeof *self->page, MADV_DONTFORK);
  if (pid < 0)
    return -1;
  self->pid = pid;
  expect_report(self);
  return 0;
}

/* Returns NULL with errno. */
static struct supervisor *make_supervisor(struct supervisors *self) {
  int ends[2];
  struct supervisor_page *page =
      mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return NULL;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    (void)munmap(page, sizeof *page);
    return NULL;
  }
  struct supervisor *supervisor = memory_allocate(sizeof *supervisor);
  *supervisor = (struct supervisor){.supervisors = self,
                                    .socket = ends[0],
                                    .other_end = ends[1],
                                    .page = page,
                                    .state = SUPERVISOR_DONE};
  supervisor->readable = loop_event_new(self->base, supervisor->socket, EV_READ | EV_PERSIST,
                                        on_notification, supervisor);
  list_append(&self->all, &supervisor->node);
  if (start_process(supervisor) == 0)
    return supervisor;
  const int fork_errno = errno;
  remove_supervisor(supervisor);
  errno = fork_errno;
  return NULL;
}

/* Makes none while the agent is so large that the supervisor would exit after its first task. */
void supervisors_make_spare(struct supervisors *self) {
  const long pages = self->options.agent_pages;
  if (find_idle(self) == NULL &&
      (pages < 0 || supervisor_own_pages() <= pages + SUPERVISOR_PAGES_MAX))
    (void)make_supervisor(self);
}

struct supervisor *supervisors_acquire(struct supervisors *self, const struct supervisor_task *task,
                                       struct error *error) {
  struct supervisor *supervisor = find_idle(self);
  if (supervisor == NULL)
    supervisor = make_supervisor(self);
  if (supervisor != NULL)
    supervisor_page_reset(supervisor->page, task->waits);
  if (supervisor == NULL || supervisor_message_send(supervisor->socket, task->message, task->body,
                                                    task->descriptors) != 0) {
    const int reason = errno;
    char what[128];
    (void)snprintf(what, sizeof what, "cannot start %.100s",
                   task->message->is_work ? "a process" : task->body->bytes);
    (void)error_set_reason(error, what, reason);
    return NULL;
  }
  supervisor->state = SUPERVISOR_RUNS;
  supervisor->order = SUPERVISOR_ORDER_NONE;
  supervisor->is_waiting = task->waits;
  supervisor->is_work = task->message->is_work;
  supervisor->kill_ms = 0;
  supervisor->replaced = 0;
  supervisor->asked = 0;
  supervisor->notify = task->notify;
  supervisor->owner = task->owner;
  expect_report(supervisor);
  return supervisor;
}

void supervisor_start(struct supervisor *self) {
  self->is_waiting = false;
  atomic_store(&self->page->gate, SUPERVISOR_GATE_OPEN);
  (void)syscall(SYS_futex, &self->page->gate, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* --- what it reported ------------------------------------------------------------------------- */

/* The page may be ahead of the notifications. */
enum supervisor_state supervisor_state(const struct supervisor *self) {
  bool has_ended = atomic_load(&self->page->ended) != 0;
  return self->state == SUPERVISOR_RUNS && has_ended ? SUPERVISOR_HOLDS : self->state;
}

pid_t supervisor_pid(const struct supervisor *self) {
  int pid = atomic_load(&self->page->pid);
  return pid > 0 ? (pid_t)pid : 0;
}

/* After a report of impossible values the supervisor gets no other task. */
void supervisor_read_report(struct supervisor *self, struct supervisor_report *report) {
  const struct log *log = self->supervisors->options.log;
  if (supervisor_report_read(report, self->page))
    return;
  self->leaves = true;
  if (log != NULL)
    log_line(log, LOG_ERROR, NULL,
             "supervisor %d reported impossible values about its step: the step counts as killed",
             (int)self->pid);
}

size_t supervisor_left(const struct supervisor *self) {
  size_t left = atomic_load(&self->page->left);
  return left < PROCESS_TREE_MAX ? left : PROCESS_TREE_MAX;
}

static bool can_answer(const struct supervisor *self) {
  return self->pid != 0 && !self->is_work && has_processes(self);
}

static bool has_answered(const struct supervisor *self) {
  return atomic_load(&self->page->answered) == self->asked;
}

/* Each query differs from the one before in the bits above the lowest, and also asks what an open
   one asked. */
bool supervisor_ask(struct supervisor *self, bool holder) {
  if (!can_answer(self))
    return false;
  holder |= !has_answered(self) && (self->asked & SUPERVISOR_ASKS_HOLDER) != 0;
  self->asked = (self->asked | SUPERVISOR_ASKS_HOLDER) + 1 + (holder ? SUPERVISOR_ASKS_HOLDER : 0);
  atomic_store(&self->page->asked, self->asked);
  (void)kill(self->pid, SIGCONT);
  return true;
}

bool supervisor_read_answer(const struct supervisor *self, struct process_tree_census *answer) {
  if (self->asked == 0 || !has_answered(self))
    return false;
  *answer = supervisor_census_read(self->page);
  return true;
}

/* --- orders ----------------------------------------------------------------------------------- */

static void raise_order(struct supervisor *self, int order) {
  if (self->order < order)
    self->order = order;
  atomic_store(&self->page->order, self->order);
  if (self->pid > 0)
    (void)kill(self->pid, SIGCONT);
}

void supervisor_kill(struct supervisor *self) {
  if (!has_processes(self))
    return;
  if (self->kill_ms == 0)
    self->kill_ms = clock_monotonic_ms();
  raise_order(self, SUPERVISOR_ORDER_KILL);
  if (self->is_work && self->pid > 0)
    (void)kill(self->pid, SIGKILL);
}

void supervisor_terminate(struct supervisor *self) {
  if (self->is_work || self->is_waiting)
    supervisor_kill(self);
  else if (has_processes(self))
    raise_order(self, SUPERVISOR_ORDER_TERMINATE);
}

/* --- silent supervisors ----------------------------------------------------------------------- */

/* The task never runs. `reason`: why; NULL: it was ordered to end. */
static void withdraw_task(struct supervisor *self, const char *reason) {
  self->silent_since_ms = 0;
  if (!supervisor_message_withdraw(self->other_end))
    return; /* it has received the message in the meantime */
  if (reason != NULL) {
    self->page->failure.stage = EXEC_NO_PROCESS;
    (void)error_set(&self->page->failure.reason, "cannot start a process: %s", reason);
  }
  supervisor_page_end(self->page, SIGKILL);
  self->state = SUPERVISOR_DONE;
  dismiss(self);
  if (self->pid > 0)
    (void)kill(self->pid, SIGKILL);
  notify(self);
}

/* It was reaped without having received its task, which another process finds in the socket. */
static void replace(struct supervisor *self) {
  if (self->order != SUPERVISOR_ORDER_NONE) {
    withdraw_task(self, NULL);
  } else if (self->replaced++ == SUPERVISOR_REPLACED_MAX) {
    withdraw_task(self, "its supervisor does not respond: another process of the same user may "
                        "stop or kill it");
  } else {
    supervisor_page_reset(self->page, self->is_waiting);
    if (start_process(self) != 0)
      withdraw_task(self, strerror(errno));
  }
}

/* If a process is late and does not only wait for a processor, but is stopped, or blocked in the
   kernel, or its state is unknown, it is killed; on_supervisor_died replaces it. */
static void check_silent(struct supervisor *self, int64_t now_ms) {
  struct process_stat stat;
  const bool has_task = self->state == SUPERVISOR_RUNS;
  const bool is_late = now_ms - self->silent_since_ms >= SUPERVISOR_REPORT_MS &&
                       (!process_table_stat(self->pid, &stat) || strchr("TtD", stat.state) != NULL);
  if (has_task && !supervisor_message_is_pending(self->other_end))
    self->silent_since_ms = 0;
  else if (has_task && self->order != SUPERVISOR_ORDER_NONE)
    withdraw_task(self, NULL);
  else if (self->pid > 0)
    (void)kill(self->pid, is_late ? SIGKILL : SIGCONT);
}

/* A process of the same user may stop a supervisor again and again. */
LOOP_CALLBACK(on_silence, struct supervisors *self) {
  int64_t now_ms = clock_monotonic_ms();
  bool is_any_silent = false;
  FOR_EACH(supervisor, &self->all) {
    if (supervisor->silent_since_ms == 0)
      continue;
    is_any_silent = true;
    check_silent(supervisor, now_ms);
  }
  if (is_any_silent)
    loop_timer_start(self->silence, SILENCE_MS);
}

/* --- orphans, and the end of everything ------------------------------------------------------- */

static void kill_supervised(struct supervisors *self) {
  FOR_EACH(supervisor, &self->all)
  supervisor_kill(supervisor);
}

/* The orphans of dead supervisors are gone, or given up. */
static void end_orphaned_tasks(struct supervisors *self, size_t left) {
  self->give_up_ms = 0;
  FOR_EACH(supervisor, &self->all) {
    if (supervisor->state != SUPERVISOR_DIED)
      continue;
    atomic_store(&supervisor->page->left, (unsigned)left);
    supervisor->state = SUPERVISOR_DONE;
    notify(supervisor);
  }
}

/* Calls `gone` if no process is left and no orphan, or the time is over. */
static void check_gone(struct supervisors *self, size_t left, int64_t now_ms) {
  FOR_EACH(supervisor, &self->all)
  if (has_processes(supervisor))
    left += supervisor_left(supervisor) > 0 ? supervisor_left(supervisor) : 1;
  if (left > 0 && now_ms < self->kill_at_ms + SUPERVISORS_GIVE_UP_MS)
    return;
  void (*gone)(void *owner, size_t left) = self->gone;
  self->gone = NULL;
  (void)event_del(self->walk);
  gone(self->gone_owner, left);
}

LOOP_CALLBACK(on_walk, struct supervisors *self) {
  const int64_t now_ms = clock_monotonic_ms();
  const bool kills_all = self->gone != NULL && now_ms >= self->kill_at_ms;
  if (kills_all)
    kill_supervised(self);
  const size_t left =
      process_tree_signal(&self->orphans, kills_all || self->kills_orphans ? SIGKILL : 0);
  if (self->give_up_ms != 0 && (left == 0 || now_ms >= self->give_up_ms))
    end_orphaned_tasks(self, left);
  self->kills_orphans &= left > 0;
  if (kills_all || self->kills_orphans)
    loop_timer_start(self->walk, self->gone != NULL ? WALK_MS : self->walk_ms);
  else if (self->gone != NULL)
    loop_timer_start(self->walk, self->kill_at_ms - now_ms);
  if (!self->orphans.is_cut)
    self->walk_ms = self->walk_ms < WALK_MAX_MS / 2 ? 2 * self->walk_ms : WALK_MAX_MS;
  if (self->gone != NULL)
    check_gone(self, left, now_ms);
}

void supervisors_kill(struct supervisors *self) {
  kill_supervised(self);
  (void)process_tree_signal(&self->orphans, SIGKILL);
}

void supervisors_end(struct supervisors *self, int64_t grace_ms,
                     void (*gone)(void *owner, size_t left), void *owner) {
  self->gone = gone;
  self->gone_owner = owner;
  self->kill_at_ms = clock_monotonic_ms() + grace_ms;
  if (grace_ms > 0) {
    FOR_EACH(supervisor, &self->all)
    supervisor_terminate(supervisor);
    (void)process_tree_signal(&self->orphans, SIGTERM);
  }
  loop_timer_start_now(self->walk);
}

/* --- children --------------------------------------------------------------------------------- */

static void on_supervisor_died(struct supervisor *self, int status) {
  struct supervisors *supervisors = self->supervisors;
  self->pid = 0;
  if (self->state == SUPERVISOR_RUNS && supervisor_message_is_pending(self->other_end)) {
    replace(self);
    return;
  }
  const bool was_done = self->state == SUPERVISOR_DONE;
  self->silent_since_ms = 0;
  while (self->socket >= 0 && receive_notification(self) >= 0)
    continue; /* it may have reported before it died */
  dismiss(self);
  if (has_processes(self)) {
    supervisor_page_end(self->page, self->is_work ? status : SIGKILL);
    self->state = self->is_work ? SUPERVISOR_DONE : SUPERVISOR_DIED;
  }
  if (self->state == SUPERVISOR_DIED) {
    supervisors->kills_orphans = true;
    supervisors->give_up_ms = clock_monotonic_ms() + SUPERVISORS_GIVE_UP_MS;
    walk_now(supervisors);
  }
  if (!was_done || self->notify == NULL)
    notify(self);
}

static void on_child_ended(void *owner, pid_t pid, int status, const struct rusage *usage) {
  struct supervisors *self = owner;
  struct supervisor *supervisor = find_supervisor(self, pid);
  (void)usage;
  if (supervisor != NULL)
    on_supervisor_died(supervisor, status);
  else if (self->kills_orphans || self->gone != NULL)
    walk_now(self);
}

static void on_child_stopped(void *owner, pid_t pid) {
  if (find_supervisor(owner, pid) != NULL)
    (void)kill(pid, SIGCONT);
}

bool supervisors_reap(struct supervisors *self) {
  static const struct children_handler handler = {.ended = on_child_ended,
                                                  .stopped = on_child_stopped};
  return children_handle(&handler, self) == CHILDREN_AT_ONCE;
}

/* --- what the supervisors have ---------------------------------------------------------------- */

bool supervisors_count(struct supervisors *self) {
  const int64_t now_ms = clock_monotonic_ms();
  if (self->asked_ms == 0 || now_ms >= self->asked_ms + 2 * SUPERVISORS_COUNT_MS) {
    self->asked_ms = now_ms; /* answers that nobody has read for long are out of date */
    FOR_EACH(supervisor, &self->all)
    if (has_answered(supervisor)) /* a new query would outdate an answer that takes long */
      (void)supervisor_ask(supervisor, false);
  }
  FOR_EACH(supervisor, &self->all)
  if (can_answer(supervisor) && !has_answered(supervisor) &&
      now_ms < self->asked_ms + SUPERVISORS_COUNT_MS)
    return false;
  self->asked_ms = 0;
  return true;
}

struct supervisor *supervisors_largest_left(const struct supervisors *self, int64_t *rss_bytes) {
  struct supervisor *largest = NULL;
  *rss_bytes = 0;
  FOR_EACH(supervisor, &self->all) {
    bool is_left =
        has_processes(supervisor) && supervisor->notify == NULL && supervisor->kill_ms == 0;
    struct process_tree_census census;
    if (!is_left || !supervisor_read_answer(supervisor, &census) || census.rss_bytes <= *rss_bytes)
      continue;
    *rss_bytes = census.rss_bytes;
    largest = supervisor;
  }
  return largest;
}

bool supervisors_are_busy(const struct supervisors *self) {
  FOR_EACH(supervisor, &self->all)
  if (has_processes(supervisor))
    return true;
  return false;
}

bool supervisors_have_left(const struct supervisors *self) {
  FOR_EACH(supervisor, &self->all)
  if (has_processes(supervisor) && supervisor->notify == NULL)
    return true;
  return false;
}

bool supervisors_are_killing(const struct supervisors *self) {
  int64_t after_ms = clock_monotonic_ms() - SUPERVISORS_GIVE_UP_MS;
  FOR_EACH(supervisor, &self->all)
  if (has_processes(supervisor) && supervisor->kill_ms > after_ms && supervisor->kill_ms > 0)
    return true;
  return self->give_up_ms != 0;
}

bool supervisors_find_processes(struct supervisors *self) {
  return supervisors_are_busy(self) || process_tree_signal(&self->orphans, 0) > 0;
}

/* --- the supervisors themselves --------------------------------------------------------------- */

struct supervisors *supervisors_new(struct event_base *base,
                                    const struct supervisor_options *options) {
  struct supervisors *self = memory_allocate(sizeof *self);
  *self = (struct supervisors){.base = base, .options = *options, .idle_max = 1};
  self->orphans =
      (struct process_tree){.is_excepted = is_supervisor, .context = self, .turn_ms = WALK_TURN_MS};
  self->options.agent_pages = supervisor_own_pages();
  self->walk = loop_timer_new(base, on_walk, self);
  self->silence = loop_timer_new(base, on_silence, self);
  return self;
}

void supervisors_set_terms(struct supervisors *self, unsigned idle_max, bool lists_alive) {
  self->idle_max = idle_max;
  self->options.lists_alive = lists_alive;
}

/* How long all supervisors without a task may take to die. */
#define REAP_MS 200

/* A process that is stuck in the kernel, or is traced, is left to init. */
static void reap_killed(pid_t pid, int64_t until_ms) {
  static const struct timespec pause = {.tv_nsec = 200000};
  (void)kill(pid, SIGKILL);
  while (waitpid(pid, NULL, WNOHANG) == 0 && clock_monotonic_ms() < until_ms)
    (void)nanosleep(&pause, NULL);
}

/* A supervisor with a task ends its processes when it finds the socket closed. */
void supervisors_free(struct supervisors *self) {
  const int64_t until_ms = clock_monotonic_ms() + REAP_MS;
  FOR_EACH(supervisor, &self->all) {
    supervisor_kill(supervisor);
    bool has_nothing =
        !has_processes(supervisor) || (supervisor->state == SUPERVISOR_RUNS &&
                                       supervisor_message_withdraw(supervisor->other_end));
    if (has_nothing && supervisor->pid > 0)
      reap_killed(supervisor->pid, until_ms);
    remove_supervisor(supervisor);
  }
  event_free(self->walk);
  event_free(self->silence);
  free(self);
}
