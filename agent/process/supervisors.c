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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/process/children.h"
#include "agent/process/process_tree.h"
#include "agent/process/supervisor_handle.h"
#include "base/clock.h"
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

struct supervisors {
  struct event_base *base;
  struct supervisor_options options;
  bool has_died; /* a supervisor, in this call of supervisors_reap */
  unsigned idle_max;
  struct list all; /* of struct supervisor */
  struct list drains;
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

struct pipe_drain {
  struct list_node node;
  struct list *drains;
  struct event *readable;
  int fd;
};

#define FOR_EACH(SUPERVISOR, LIST) LIST_FOR_EACH (struct supervisor, SUPERVISOR, LIST, node)

static struct supervisor *find_supervisor(const struct supervisors *self, pid_t pid) {
  FOR_EACH(supervisor, &self->all)
  if (supervisor->pid == pid)
    return supervisor;
  return NULL;
}

static bool is_supervisor(void *context, pid_t pid) {
  return find_supervisor(context, pid) != NULL;
}

static struct supervisor *find_idle(const struct supervisors *self) {
  FOR_EACH(supervisor, &self->all)
  if (supervisor_is_idle(supervisor))
    return supervisor;
  return NULL;
}

/* --- a supervisor's end ----------------------------------------------------------------------- */

static void remove_supervisor(struct supervisor *self) {
  list_remove(&self->supervisors->all, &self->node);
  supervisor_dismiss(self);
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
  idle += supervisor_is_idle(other);
  if (self->leaves || idle > self->supervisors->idle_max)
    supervisor_dismiss(self);
}

void supervisor_release(struct supervisor *self) {
  self->notify = NULL;
  if (self->state == SUPERVISOR_DONE)
    keep_or_dismiss(self);
}

static void check_gone(struct supervisors *self);

static void notify(struct supervisor *self) {
  struct supervisors *supervisors = self->supervisors;
  if (self->notify != NULL)
    self->notify(self->owner);
  else if (self->state == SUPERVISOR_DONE)
    keep_or_dismiss(self);
  check_gone(supervisors);
}

LOOP_CALLBACK(on_notification, struct supervisor *self) {
  int notification = supervisor_receive_notification(self);
  if (notification > 0 &&
      (notification & (SUPERVISOR_ENDED | SUPERVISOR_EMPTY | SUPERVISOR_COUNTED)) != 0)
    notify(self);
}

/* --- making one and giving it a task ---------------------------------------------------------- */

static void expect_report(struct supervisor *self) {
  struct event *timer = self->supervisors->silence;
  self->silent_since_ms = clock_monotonic_ms();
  if (!evtimer_pending(timer, NULL))
    loop_timer_start(timer, SILENCE_MS);
}

/* Returns NULL with errno. */
static struct supervisor *make_supervisor(struct supervisors *self) {
  struct supervisor *supervisor = memory_allocate(sizeof *supervisor);
  *supervisor =
      (struct supervisor){.supervisors = self, .options = &self->options, .state = SUPERVISOR_DONE};
  if (supervisor_open(supervisor) != 0) {
    const int open_errno = errno;
    free(supervisor);
    errno = open_errno;
    return NULL;
  }
  supervisor->readable = loop_event_new(self->base, supervisor->socket, EV_READ | EV_PERSIST,
                                        on_notification, supervisor);
  expect_report(supervisor);
  list_append(&self->all, &supervisor->node);
  return supervisor;
}

/* Makes none while the agent is so large that the supervisor would exit after its first task. */
void supervisors_make_spare(struct supervisors *self) {
  const long pages = self->options.agent_pages;
  if (find_idle(self) == NULL &&
      (pages < 0 || supervisor_own_pages() <= pages + SUPERVISOR_PAGES_MAX))
    (void)make_supervisor(self);
}

/* Returns NULL with errno. */
static struct supervisor *assign(struct supervisors *self, const struct supervisor_task *task) {
  struct supervisor *supervisor = find_idle(self);
  if (supervisor == NULL)
    supervisor = make_supervisor(self);
  if (supervisor == NULL)
    return NULL;
  supervisor->is_waiting = task->waits;
  supervisor_reset_page(supervisor);
  if (supervisor_message_send(supervisor->socket, task->message, task->body, task->descriptors) !=
      0)
    return NULL;
  supervisor->state = SUPERVISOR_RUNS;
  supervisor->order = SUPERVISOR_ORDER_NONE;
  supervisor->kill_ms = 0;
  supervisor->asked = supervisor->answered = 0;
  supervisor->replaced = 0;
  supervisor->is_work = task->message->is_work;
  supervisor->left = 0;
  supervisor->is_complete = false;
  supervisor->notify = task->notify;
  supervisor->owner = task->owner;
  expect_report(supervisor);
  return supervisor;
}

struct supervisor *supervisors_acquire(struct supervisors *self, const struct supervisor_task *task,
                                       struct error *error) {
  struct supervisor *supervisor = assign(self, task);
  if (supervisor != NULL)
    return supervisor;
  const int assign_errno = errno;
  char what[128];
  (void)snprintf(what, sizeof what, "cannot start %.100s",
                 task->message->is_work ? "a process" : task->body->bytes);
  (void)error_set_reason(error, what, assign_errno);
  return NULL;
}

/* --- silent supervisors ----------------------------------------------------------------------- */

static void take_back_task(struct supervisor *self, const char *reason) {
  self->silent_since_ms = 0;
  if (!supervisor_message_take_back(self->other_end))
    return; /* it has received the message in the meantime */
  supervisor_set_never_run(self, reason);
  notify(self);
}

/* It was reaped without having received its task, which another process finds in the socket. */
static void replace(struct supervisor *self) {
  if (self->replaced == SUPERVISOR_REPLACED_MAX) {
    take_back_task(self, "its supervisor does not respond: another process of the same user may "
                         "stop or kill it");
    return;
  }
  self->replaced++;
  supervisor_reset_page(self);
  if (supervisor_fork(self) == 0)
    expect_report(self);
  else
    take_back_task(self, strerror(errno));
}

/* A process that is late and held is killed; on_supervisor_died replaces it. */
static void check_silent(struct supervisor *self, int64_t now_ms) {
  const bool has_task = self->state == SUPERVISOR_RUNS;
  const bool is_late =
      now_ms - self->silent_since_ms >= SUPERVISOR_REPORT_MS && supervisor_is_held(self);
  if (has_task && !supervisor_message_is_pending(self->other_end))
    self->silent_since_ms = 0;
  else if (has_task && self->order != SUPERVISOR_ORDER_NONE)
    take_back_task(self, NULL);
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

static void kill_orphans(struct supervisors *self, int64_t now_ms) {
  const size_t left = process_tree_signal(&self->orphans, SIGKILL);
  self->kills_orphans = left > 0;
  if (self->give_up_ms == 0 || (left > 0 && now_ms < self->give_up_ms))
    return;
  self->give_up_ms = 0;
  FOR_EACH(supervisor, &self->all) {
    if (supervisor->state != SUPERVISOR_DIED)
      continue;
    supervisor->left = left;
    supervisor->state = SUPERVISOR_DONE;
    notify(supervisor);
  }
}

static void walk_now(struct supervisors *self) {
  self->walk_ms = WALK_MS;
  loop_timer_start_now(self->walk);
}

static size_t count_left(struct supervisors *self) {
  size_t left = process_tree_signal(&self->orphans, 0);
  FOR_EACH(supervisor, &self->all)
  if (supervisor_has_processes(supervisor))
    left += supervisor_left(supervisor) > 0 ? supervisor_left(supervisor) : 1;
  return left;
}

/* While everything ends: calls `gone` if no process is left, or the time is over. */
static void check_gone(struct supervisors *self) {
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
  if (self->kills_orphans)
    kill_orphans(self, now_ms);
  if (self->gone != NULL && now_ms >= self->kill_at_ms)
    supervisors_kill(self);
  if (self->kills_orphans || (self->gone != NULL && now_ms >= self->kill_at_ms))
    loop_timer_start(self->walk, self->gone != NULL ? WALK_MS : self->walk_ms);
  else if (self->gone != NULL)
    loop_timer_start(self->walk, self->kill_at_ms - now_ms);
  if (!self->orphans.is_cut)
    self->walk_ms = self->walk_ms < WALK_MAX_MS / 2 ? 2 * self->walk_ms : WALK_MAX_MS;
  check_gone(self);
}

void supervisors_kill(struct supervisors *self) {
  FOR_EACH(supervisor, &self->all)
  supervisor_kill(supervisor);
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
  self->own_status = status;
  if (self->state == SUPERVISOR_RUNS && supervisor_message_is_pending(self->other_end)) {
    if (self->order != SUPERVISOR_ORDER_NONE)
      take_back_task(self, NULL);
    else
      replace(self);
    return;
  }
  const bool was_done = self->state == SUPERVISOR_DONE;
  self->silent_since_ms = 0;
  while (self->socket >= 0 && supervisor_receive_notification(self) >= 0)
    continue; /* it may have reported before it died */
  supervisor_dismiss(self);
  if (self->state == SUPERVISOR_DONE) {
    if (!was_done)
      notify(self);
    else if (self->notify == NULL)
      remove_supervisor(self);
    return;
  }
  self->state = self->is_work ? SUPERVISOR_DONE : SUPERVISOR_DIED;
  if (self->state == SUPERVISOR_DIED) {
    supervisors->kills_orphans = true;
    supervisors->give_up_ms = clock_monotonic_ms() + SUPERVISORS_GIVE_UP_MS;
    walk_now(supervisors);
  }
  notify(self);
}

static void on_child_ended(void *owner, const siginfo_t *info, const struct rusage *usage) {
  struct supervisors *self = owner;
  int status;
  (void)usage;
  if (waitpid(info->si_pid, &status, WNOHANG | __WALL) != info->si_pid)
    return;
  struct supervisor *supervisor = find_supervisor(self, info->si_pid);
  if (supervisor != NULL) {
    self->has_died = true;
    on_supervisor_died(supervisor, status);
  } else if (self->kills_orphans || self->gone != NULL) {
    walk_now(self);
  }
}

static void on_child_stopped(void *owner, pid_t pid) {
  if (find_supervisor(owner, pid) != NULL)
    (void)kill(pid, SIGCONT);
}

bool supervisors_reap(struct supervisors *self, bool *has_died) {
  static const struct children_handler handler = {.ended = on_child_ended,
                                                  .stopped = on_child_stopped};
  self->has_died = false;
  int handled = children_handle(&handler, self);
  *has_died = self->has_died;
  return handled == CHILDREN_AT_ONCE;
}

/* --- what the supervisors have ---------------------------------------------------------------- */

bool supervisors_count(struct supervisors *self) {
  const int64_t now_ms = clock_monotonic_ms();
  if (self->asked_ms == 0 || now_ms >= self->asked_ms + 2 * SUPERVISORS_COUNT_MS) {
    self->asked_ms = now_ms; /* answers that nobody has read for long are out of date */
    FOR_EACH(supervisor, &self->all)
    (void)supervisor_ask(supervisor, false);
  }
  FOR_EACH(supervisor, &self->all)
  if (supervisor_is_asked(supervisor) && now_ms < self->asked_ms + SUPERVISORS_COUNT_MS)
    return false;
  self->asked_ms = 0;
  return true;
}

struct supervisor *supervisors_largest_left(const struct supervisors *self, int64_t *rss_bytes) {
  struct supervisor *largest = NULL;
  *rss_bytes = 0;
  FOR_EACH(supervisor, &self->all) {
    bool is_left = supervisor_has_processes(supervisor) && supervisor->notify == NULL &&
                   supervisor->kill_ms == 0;
    const struct supervisor_census *census = is_left ? supervisor_answer(supervisor) : NULL;
    if (census == NULL || census->rss_bytes <= *rss_bytes)
      continue;
    *rss_bytes = census->rss_bytes;
    largest = supervisor;
  }
  return largest;
}

bool supervisors_are_busy(const struct supervisors *self) {
  FOR_EACH(supervisor, &self->all)
  if (supervisor_has_processes(supervisor))
    return true;
  return false;
}

bool supervisors_are_killing(const struct supervisors *self) {
  int64_t after_ms = clock_monotonic_ms() - SUPERVISORS_GIVE_UP_MS;
  FOR_EACH(supervisor, &self->all)
  if (supervisor_has_processes(supervisor) && supervisor->kill_ms > after_ms &&
      supervisor->kill_ms > 0)
    return true;
  return self->give_up_ms != 0;
}

bool supervisors_find_processes(struct supervisors *self) {
  return supervisors_are_busy(self) || process_tree_signal(&self->orphans, 0) > 0;
}

/* --- pipes that background processes have open ------------------------------------------------ */

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

void supervisors_drain(struct supervisors *self, int fd) {
  struct pipe_drain *drain = memory_allocate(sizeof *drain);
  *drain = (struct pipe_drain){.drains = &self->drains, .fd = fd};
  drain->readable = loop_event_new(self->base, fd, EV_READ | EV_PERSIST, discard, drain);
  list_append(&self->drains, &drain->node);
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
    bool has_nothing = !supervisor_has_processes(supervisor) ||
                       (supervisor->state == SUPERVISOR_RUNS &&
                        supervisor_message_take_back(supervisor->other_end));
    if (has_nothing && supervisor->pid > 0)
      reap_killed(supervisor->pid, until_ms);
    remove_supervisor(supervisor);
  }
  LIST_FOR_EACH (struct pipe_drain, drain, &self->drains, node)
    free_drain(drain);
  event_free(self->walk);
  event_free(self->silence);
  free(self);
}
