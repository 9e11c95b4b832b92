/*
 * A keeper that is killed takes its command with it, and what that has started becomes this process's own
 * child, among those of nobody: all of them are killed, for what a step made must not outlive it, and
 * nothing else makes children here.
 */
#include "agent/process/keepers.h"

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
#include "agent/process/keeper_facts.h"
#include "agent/process/keeper_message.h"
#include "agent/process/keeper_question.h"
#include "agent/process/pipe_drain.h"
#include "agent/process/process_tree.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* From one walk over those of nobody to the next, while they are killed: at first, and when nothing has
   helped for a while. */
#define WALK_MS 5
#define WALK_MAX_MS 1000

/* How often it is looked at keepers that are silent. */
#define SILENCE_MS 250

#define FUTEX_WAKE 1 /* of linux/futex.h, which musl does not bring */

struct keeper {
  struct keeper *next;
  struct keepers *keepers;
  struct keeper_process process;
  struct event *readable;
  void (*news)(void *owner); /* NULL: nobody has it */
  void *owner;
  enum keeper_state state;
  int order;       /* enum keeper_order; the page has a copy */
  bool is_waiting; /* for keeper_go; the page has a copy */
  int64_t kill_ms; /* when it was ordered to kill; monotonic, 0: it was not */
  /* Since when it has not reported or, if it got a message, has not received that; 0: it has. */
  int64_t silent_since_ms;
  unsigned replaced; /* how often, since it got the message */
  bool is_work;
  bool leaves;
  bool is_asked;    /* by keepers_count */
  bool is_complete; /* it has reported that nothing is left of its task */
  struct keeper_question question;
  int own_status; /* of the keeper itself, once it was reaped */
  size_t left;    /* of a keeper that died */
  struct keeper_facts facts;
  bool is_decided; /* the facts are the agent's own: the keeper did nothing */
};

struct keepers {
  struct keepers_options options;
  bool has_died; /* one was reaped */
  unsigned idle_max;
  struct keeper *all;
  struct pipe_drains drains;
  struct buffer body;          /* of the message that is being sent */
  struct process_tree nobodys; /* the children of this process that are no keepers */
  struct event *silence;
  struct event *walk; /* over those of nobody, and while everything ends */
  bool ends_nobodys;  /* since a keeper has died, until none of them is left */
  int64_t walk_ms;    /* see WALK_MS */
  int64_t give_up_ms; /* of those of keepers that died; 0: nobody waits for their end */
  int64_t kill_at_ms; /* while everything ends */
  int64_t asked_ms;   /* by keepers_count; 0: it has ended */
  void (*gone)(void *owner, size_t left);
  void *gone_owner;
};

static struct keeper *find_keeper(const struct keepers *self, pid_t pid) {
  struct keeper *keeper = self->all;
  while (keeper != NULL && keeper->process.pid != pid)
    keeper = keeper->next;
  return keeper;
}

static bool is_keeper(void *context, pid_t pid) {
  return find_keeper(context, pid) != NULL;
}

/* How long /proc may be read in one turn of the event loop. */
#define WALK_TURN_MS 10

/* To the children of this process that are no keepers, and to what is below them. */
static size_t signal_nobodys(struct keepers *self, int signal) {
  return process_tree_signal(&self->nobodys, signal);
}

static bool is_idle(const struct keeper *self) {
  return self->state == KEEPER_DONE && self->news == NULL && self->process.socket >= 0;
}

static struct keeper *find_idle(const struct keepers *self) {
  struct keeper *keeper = self->all;
  while (keeper != NULL && !is_idle(keeper))
    keeper = keeper->next;
  return keeper;
}

static bool has_processes(const struct keeper *self) {
  return self->state != KEEPER_DONE;
}

/* --- its end -------------------------------------------------------------------------------- */

static void dismiss(struct keeper *self) {
  if (self->process.socket < 0)
    return;
  event_free(self->readable);
  keeper_process_dismiss(&self->process);
}

static void free_keeper(struct keeper *self) {
  dismiss(self);
  keeper_process_release(&self->process);
  keeper_facts_release(&self->facts);
  free(self);
}

static void remove_keeper(struct keeper *self) {
  struct keeper **link = &self->keepers->all;
  while (*link != self)
    link = &(*link)->next;
  *link = self->next;
  free_keeper(self);
}

/* It has nothing, and nobody has it. */
static void keep_or_dismiss(struct keeper *self) {
  unsigned idle = 0;
  if (self->process.pid == 0) {
    remove_keeper(self);
    return;
  }
  for (const struct keeper *other = self->keepers->all; other != NULL; other = other->next)
    idle += is_idle(other);
  if (self->leaves || idle > self->keepers->idle_max)
    dismiss(self);
}

static void end_turn(struct keepers *self);

static void tell(struct keeper *self) {
  struct keepers *keepers = self->keepers;
  if (self->news != NULL)
    self->news(self->owner);
  else if (self->state == KEEPER_DONE)
    keep_or_dismiss(self);
  end_turn(keepers);
}

/* Takes one message, which is a byte. Returns it, or -1 if there is none. There is no end-of-file, because the
   agent has the other end, too: keepers_reap notices a dead keeper. */
static int take_news(struct keeper *self) {
  unsigned char news = 0;
  if (recv(self->process.socket, &news, sizeof news, MSG_DONTWAIT) <= 0)
    return -1;
  if (self->state != KEEPER_RUNS || news != 0)
    self->silent_since_ms = 0;
  if ((news & KEEPER_ENDED) != 0 && self->state == KEEPER_RUNS)
    self->state = KEEPER_HOLDS;
  if ((news & KEEPER_EMPTY) != 0 && self->state != KEEPER_DIED) {
    self->state = KEEPER_DONE;
    self->is_complete = true;
  }
  if ((news & KEEPER_LEAVES) != 0)
    self->leaves = true;
  if ((news & KEEPER_COUNTED) != 0)
    keeper_question_take_answer(&self->question, self->process.page);
  return news;
}

LOOP_CALLBACK(on_news, struct keeper *self) {
  int news = take_news(self);
  if (news > 0 && (news & (KEEPER_ENDED | KEEPER_EMPTY | KEEPER_COUNTED)) != 0)
    tell(self);
}

/* --- making one ------------------------------------------------------------------------------ */

static void expect_report(struct keeper *self) {
  struct event *timer = self->keepers->silence;
  self->silent_since_ms = clock_monotonic_ms();
  if (!evtimer_pending(timer, NULL))
    loop_timer_start(timer, SILENCE_MS);
}

static void listen_to(struct keeper *self, const struct keeper_process *process) {
  self->process = *process;
  self->readable = loop_event_new(self->keepers->options.base, process->socket,
                                  EV_READ | EV_PERSIST, on_news, self);
}

/* Returns NULL with errno. */
static struct keeper *make_keeper(struct keepers *self) {
  struct keeper_process process;
  if (keeper_process_make(&process, &self->options.keeper) != 0)
    return NULL;
  struct keeper *keeper = memory_allocate(sizeof *keeper);
  *keeper = (struct keeper){.next = self->all, .keepers = self, .state = KEEPER_DONE};
  listen_to(keeper, &process);
  expect_report(keeper);
  self->all = keeper;
  return keeper;
}

/* None that would keep much of the agent's memory, and exit after its first task. */
void keepers_make_spare(struct keepers *self) {
  const long pages = self->options.keeper.agent_pages;
  if (find_idle(self) == NULL && (pages < 0 || keeper_own_pages() <= pages + KEEPER_PAGES_MAX))
    (void)make_keeper(self);
}

/* --- giving it something --------------------------------------------------------------------- */

static const struct step_usage unknown_usage = {-1, -1, -1, -1, -1, -1, -1, -1, -1};

/* Returns NULL with errno. */
static struct keeper *give(struct keepers *self, const struct keeper_task *task,
                           const struct keeper_message *message, const char *body) {
  struct keeper *keeper = find_idle(self);
  if (keeper == NULL)
    keeper = make_keeper(self);
  if (keeper == NULL)
    return NULL;
  keeper_process_reset(&keeper->process, task->waits);
  keeper_facts_release(&keeper->facts);
  if (keeper_message_send(keeper->process.socket, message, body, task->descriptors) != 0)
    return NULL;
  keeper->state = KEEPER_RUNS;
  keeper->order = KEEPER_ORDER_NONE;
  keeper->is_waiting = task->waits;
  keeper->kill_ms = 0;
  keeper->question = (struct keeper_question){0};
  keeper->replaced = 0;
  keeper->is_work = message->kind == KEEPER_MESSAGE_WORK;
  keeper->left = 0;
  keeper->is_decided = false;
  keeper->is_complete = false;
  keeper->news = task->news;
  keeper->owner = task->owner;
  expect_report(keeper);
  return keeper;
}

struct keeper *keepers_give(struct keepers *self, const struct keeper_task *task,
                            struct error *error) {
  struct buffer *body = &self->body;
  struct keeper_message message = {.kind = KEEPER_MESSAGE_WORK, .length = task->work_length};
  body->length = 0;
  if (task->work == NULL)
    keeper_message_pack(&message, body, &task->exec, task->lists_alive);
  struct keeper *keeper = give(self, task, &message, task->work != NULL ? task->work : body->bytes);
  const int give_errno = errno;
  if (body->capacity > KEEPER_BODY_MAX)
    buffer_release(body);
  if (keeper != NULL)
    return keeper;
  char what[128];
  (void)snprintf(what, sizeof what, "cannot start %.100s",
                 task->work != NULL ? "a process" : task->exec.argv[0]);
  (void)error_set_reason(error, what, give_errno);
  return NULL;
}

void keeper_go(struct keeper *self) {
  self->is_waiting = false;
  atomic_store(&self->process.page->gate, KEEPER_GATE_OPEN);
  (void)syscall(SYS_futex, &self->process.page->gate, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* --- what is known of it ---------------------------------------------------------------------- */

/* The page may be ahead of the news. */
enum keeper_state keeper_state(const struct keeper *self) {
  bool has_ended = atomic_load(&self->process.page->ended) != 0;
  return self->state == KEEPER_RUNS && has_ended ? KEEPER_HOLDS : self->state;
}

pid_t keeper_pid(const struct keeper *self) {
  int pid = atomic_load(&self->process.page->pid);
  return pid > 0 ? (pid_t)pid : 0;
}

/* After a report of impossible values nothing is known, and the keeper serves no other step. */
static void read_facts(struct keeper *self) {
  const struct log *log = self->keepers->options.keeper.log;
  if (self->is_decided || keeper_facts_read(&self->facts, self->process.page))
    return;
  if (!self->leaves && log != NULL)
    log_line(log, LOG_ERROR, NULL,
             "keeper %d reported impossible values about its step: the step counts as killed",
             (int)self->process.pid);
  self->leaves = true;
}

/* Of a command that ended as nobody knows: its keeper was killed, and took it along. */
int keeper_status(struct keeper *self) {
  read_facts(self);
  if (self->facts.has_ended)
    return self->facts.status;
  return self->is_work && self->process.pid == 0 ? self->own_status : SIGKILL;
}

const struct exec_failure *keeper_failure(const struct keeper *self, const char **whole) {
  *whole = self->facts.whole_reason;
  return &self->facts.failure;
}

size_t keeper_left(const struct keeper *self) {
  size_t left = atomic_load(&self->process.page->left);
  if (self->process.pid == 0)
    return self->left;
  return left < PROCESS_TREE_MAX ? left : PROCESS_TREE_MAX;
}

const struct step_usage *keeper_usage(struct keeper *self) {
  read_facts(self);
  bool is_known =
      (self->process.pid != 0 || self->is_complete) && self->facts.has_ended && !self->is_decided;
  return is_known ? &self->facts.usage : &unknown_usage;
}

const struct step_process *keeper_alive(const struct keeper *self, size_t *count) {
  *count = self->facts.alive_count;
  return self->facts.alive;
}

bool keeper_ask(struct keeper *self, bool holder) {
  if (self->process.pid == 0 || self->is_work || !has_processes(self))
    return false;
  keeper_question_ask(&self->question, self->process.page, holder);
  (void)kill(self->process.pid, SIGCONT);
  return true;
}

const struct keeper_census *keeper_answer(const struct keeper *self) {
  return keeper_question_answer(&self->question);
}

bool keepers_count(struct keepers *self) {
  const int64_t now_ms = clock_monotonic_ms();
  if (self->asked_ms == 0 || now_ms >= self->asked_ms + 2 * KEEPERS_COUNT_MS) {
    self->asked_ms = now_ms; /* answers that nobody has looked at for long are too old */
    for (struct keeper *keeper = self->all; keeper != NULL; keeper = keeper->next)
      keeper->is_asked = keeper_ask(keeper, false);
  }
  for (const struct keeper *keeper = self->all; keeper != NULL; keeper = keeper->next)
    if (keeper->is_asked && has_processes(keeper) && keeper_question_is_open(&keeper->question) &&
        now_ms < self->asked_ms + KEEPERS_COUNT_MS)
      return false;
  self->asked_ms = 0;
  return true;
}

struct keeper *keepers_largest_left(const struct keepers *self, int64_t *rss_bytes) {
  struct keeper *largest = NULL;
  *rss_bytes = 0;
  for (struct keeper *keeper = self->all; keeper != NULL; keeper = keeper->next) {
    bool is_left = has_processes(keeper) && keeper->news == NULL && keeper->kill_ms == 0;
    const struct keeper_census *census = is_left ? keeper_answer(keeper) : NULL;
    int64_t own = census != NULL ? census->rss_bytes : 0;
    if (own > *rss_bytes) {
      *rss_bytes = own;
      largest = keeper;
    }
  }
  return largest;
}

/* --- orders ----------------------------------------------------------------------------------- */

static void raise_order(struct keeper *self, int order) {
  if (self->order < order)
    self->order = order;
  atomic_store(&self->process.page->order, self->order);
  if (self->process.pid > 0)
    (void)kill(self->process.pid, SIGCONT);
}

void keeper_kill(struct keeper *self) {
  if (!has_processes(self))
    return;
  if (self->kill_ms == 0)
    self->kill_ms = clock_monotonic_ms();
  raise_order(self, KEEPER_ORDER_KILL);
  if (self->is_work && self->process.pid > 0)
    (void)kill(self->process.pid, SIGKILL);
}

void keeper_terminate(struct keeper *self) {
  if (self->is_work || self->is_waiting)
    keeper_kill(self);
  else if (has_processes(self))
    raise_order(self, KEEPER_ORDER_TERMINATE);
}

void keeper_release(struct keeper *self) {
  self->news = NULL;
  if (self->state == KEEPER_DONE)
    keep_or_dismiss(self);
}

/* --- keepers that are silent ------------------------------------------------------------------ */

/* Its message was taken back: the step does not exist. Without a reason it was ordered to end. */
static void end_unstarted(struct keeper *self, const char *reason) {
  keeper_facts_release(&self->facts);
  self->facts.has_ended = true;
  self->facts.status = SIGKILL;
  if (reason != NULL) {
    self->facts.status = 127 << 8;
    self->facts.failure.stage = EXEC_NO_PROCESS;
    (void)error_set(&self->facts.failure.reason, "cannot start a process: %s", reason);
  }
  self->is_decided = true;
  self->state = KEEPER_DONE;
  self->silent_since_ms = 0;
  dismiss(self);
  if (self->process.pid > 0)
    (void)kill(self->process.pid, SIGKILL);
  tell(self);
}

static void end_if_unstarted(struct keeper *self, const char *reason) {
  if (keeper_message_move(self->process.other_end, -1) != 0)
    end_unstarted(self, reason);
  else
    self->silent_since_ms = 0; /* it has received the message meanwhile */
}

/* Another process takes its place. The one that is killed has not received the message, and cannot
   any more once that was taken back. */
static void replace(struct keeper *self) {
  struct keeper_process fresh;
  if (self->replaced == KEEPER_REPLACED_MAX) {
    end_if_unstarted(self, "its keeper does not respond: another process of the same user may stop "
                           "or kill it");
    return;
  }
  self->replaced++;
  expect_report(self);
  if (keeper_process_make(&fresh, &self->keepers->options.keeper) != 0) {
    if (self->process.pid == 0)
      end_if_unstarted(self, strerror(errno));
    return; /* else the old one may respond yet */
  }
  keeper_process_reset(&fresh, self->is_waiting);
  int moved = keeper_message_move(self->process.other_end, fresh.socket);
  int move_errno = errno;
  if (moved == 0) {
    self->silent_since_ms = 0;
    keeper_process_release(&fresh);
    (void)kill(fresh.pid, SIGKILL);
    return;
  }
  if (self->process.pid > 0)
    (void)kill(self->process.pid, SIGKILL); /* it is reaped as an orphan */
  dismiss(self);
  keeper_process_release(&self->process);
  listen_to(self, &fresh);
  if (moved < 0)
    end_unstarted(self, strerror(move_errno));
}

/* Nothing is lost with one that has no message. */
static void look_at_silent(struct keeper *self, int64_t now_ms) {
  const bool has_message = self->state == KEEPER_RUNS;
  const bool is_late =
      now_ms - self->silent_since_ms >= KEEPER_REPORT_MS && keeper_process_is_held(&self->process);
  const bool waits = has_message && keeper_message_waits(self->process.other_end);
  if (self->process.pid > 0)
    (void)kill(self->process.pid, is_late && !has_message ? SIGKILL : SIGCONT);
  if (!waits && (has_message || is_late))
    self->silent_since_ms = 0;
  else if (waits && self->order != KEEPER_ORDER_NONE)
    end_if_unstarted(self, NULL);
  else if (waits && is_late)
    replace(self);
}

/* A process of the same user may stop a keeper, again and again. */
LOOP_CALLBACK(on_silence, struct keepers *self) {
  int64_t now_ms = clock_monotonic_ms();
  bool is_any_silent = false;
  for (struct keeper *keeper = self->all, *next; keeper != NULL; keeper = next) {
    next = keeper->next;
    is_any_silent |= keeper->silent_since_ms != 0;
    if (keeper->silent_since_ms != 0)
      look_at_silent(keeper, now_ms);
  }
  if (is_any_silent)
    loop_timer_start(self->silence, SILENCE_MS);
}

/* --- those of nobody, and the end of all ------------------------------------------------------ */

static void finish_dead(struct keepers *self, size_t left) {
  self->give_up_ms = 0;
  for (struct keeper *keeper = self->all, *next; keeper != NULL; keeper = next) {
    next = keeper->next;
    if (keeper->state != KEEPER_DIED)
      continue;
    keeper->left = left;
    keeper->state = KEEPER_DONE;
    tell(keeper);
  }
}

static void end_nobodys(struct keepers *self, int64_t now_ms) {
  size_t left = signal_nobodys(self, SIGKILL);
  self->ends_nobodys = left > 0;
  if (self->give_up_ms != 0 && (left == 0 || now_ms >= self->give_up_ms))
    finish_dead(self, left);
}

static void walk_now(struct keepers *self) {
  self->walk_ms = WALK_MS;
  loop_timer_start_now(self->walk);
}

static size_t count_left(struct keepers *self) {
  size_t left = signal_nobodys(self, 0);
  for (const struct keeper *keeper = self->all; keeper != NULL; keeper = keeper->next)
    if (has_processes(keeper))
      left += keeper_left(keeper) > 0 ? keeper_left(keeper) : 1;
  return left;
}

/* While everything ends: is it over? */
static void end_turn(struct keepers *self) {
  if (self->gone == NULL)
    return;
  int64_t now_ms = clock_monotonic_ms();
  size_t left = count_left(self);
  if (left > 0 && now_ms < self->kill_at_ms + KEEPERS_GIVE_UP_MS)
    return;
  void (*gone)(void *owner, size_t left) = self->gone;
  self->gone = NULL;
  (void)event_del(self->walk);
  gone(self->gone_owner, left);
}

LOOP_CALLBACK(on_walk, struct keepers *self) {
  int64_t now_ms = clock_monotonic_ms();
  if (self->ends_nobodys)
    end_nobodys(self, now_ms);
  if (self->gone != NULL && now_ms >= self->kill_at_ms)
    keepers_kill(self);
  if (self->ends_nobodys || (self->gone != NULL && now_ms >= self->kill_at_ms))
    loop_timer_start(self->walk, self->gone != NULL ? WALK_MS : self->walk_ms);
  else if (self->gone != NULL)
    loop_timer_start(self->walk, self->kill_at_ms - now_ms);
  if (!self->nobodys.is_cut)
    self->walk_ms = self->walk_ms < WALK_MAX_MS / 2 ? 2 * self->walk_ms : WALK_MAX_MS;
  end_turn(self);
}

void keepers_kill(struct keepers *self) {
  for (struct keeper *keeper = self->all; keeper != NULL; keeper = keeper->next)
    keeper_kill(keeper);
  (void)signal_nobodys(self, SIGKILL);
}

void keepers_end(struct keepers *self, int64_t grace_ms, void (*gone)(void *owner, size_t left),
                 void *owner) {
  self->gone = gone;
  self->gone_owner = owner;
  self->kill_at_ms = clock_monotonic_ms() + grace_ms;
  for (struct keeper *keeper = self->all; grace_ms > 0 && keeper != NULL; keeper = keeper->next)
    keeper_terminate(keeper);
  if (grace_ms > 0)
    (void)signal_nobodys(self, SIGTERM);
  loop_timer_start_now(self->walk);
}

/* --- children --------------------------------------------------------------------------------- */

static void keeper_died(struct keeper *self, int status) {
  struct keepers *keepers = self->keepers;
  self->process.pid = 0;
  self->own_status = status;
  if (self->state == KEEPER_RUNS && keeper_message_waits(self->process.other_end)) {
    if (self->order != KEEPER_ORDER_NONE)
      end_if_unstarted(self, NULL);
    else
      replace(self);
    return;
  }
  const bool was_done = self->state == KEEPER_DONE;
  self->silent_since_ms = 0;
  while (self->process.socket >= 0 && take_news(self) >= 0)
    continue; /* it may have reported before it died */
  dismiss(self);
  if (self->state == KEEPER_DONE) {
    if (!was_done)
      tell(self);
    else if (self->news == NULL)
      remove_keeper(self);
    return;
  }
  self->state = self->is_work ? KEEPER_DONE : KEEPER_DIED;
  if (self->state == KEEPER_DIED) {
    keepers->ends_nobodys = true;
    keepers->give_up_ms = clock_monotonic_ms() + KEEPERS_GIVE_UP_MS;
    walk_now(keepers);
  }
  tell(self);
}

/* Children that are looked at in one turn of the loop. */
#define REAPED_AT_ONCE 1024

static void reap_one(void *owner, const siginfo_t *info, const struct rusage *usage) {
  struct keepers *self = owner;
  int status;
  (void)usage;
  if (waitpid(info->si_pid, &status, WNOHANG | __WALL) != info->si_pid)
    return;
  struct keeper *keeper = find_keeper(self, info->si_pid);
  if (keeper != NULL) {
    self->has_died = true;
    keeper_died(keeper, status);
  } else if (self->ends_nobodys || self->gone != NULL) {
    walk_now(self);
  }
}

static void on_stopped(void *owner, pid_t pid) {
  if (find_keeper(owner, pid) != NULL)
    (void)kill(pid, SIGCONT);
}

bool keepers_reap(struct keepers *self, bool *has_died) {
  static const struct children_handler handler = {.ended = reap_one, .stopped = on_stopped};
  struct child_stop space[REAPED_AT_ONCE];
  self->has_died = false;
  int looked_at = children_look(&handler, self, space, REAPED_AT_ONCE);
  *has_died = self->has_died;
  return looked_at == REAPED_AT_ONCE;
}

bool keepers_are_busy(const struct keepers *self) {
  for (const struct keeper *keeper = self->all; keeper != NULL; keeper = keeper->next)
    if (has_processes(keeper))
      return true;
  return false;
}

bool keepers_are_killing(const struct keepers *self) {
  int64_t after_ms = clock_monotonic_ms() - KEEPERS_GIVE_UP_MS;
  for (const struct keeper *keeper = self->all; keeper != NULL; keeper = keeper->next)
    if (has_processes(keeper) && keeper->kill_ms > after_ms && keeper->kill_ms > 0)
      return true;
  return self->give_up_ms != 0;
}

bool keepers_have_processes(struct keepers *self) {
  return keepers_are_busy(self) || signal_nobodys(self, 0) > 0;
}

/* --- the keepers themselves -------------------------------------------------------------------- */

struct keepers *keepers_new(const struct keepers_options *options) {
  struct keepers *self = memory_allocate(sizeof *self);
  *self = (struct keepers){.options = *options, .idle_max = 1};
  self->nobodys =
      (struct process_tree){.is_excepted = is_keeper, .context = self, .turn_ms = WALK_TURN_MS};
  self->options.keeper.agent_pages = keeper_own_pages();
  self->walk = loop_timer_new(options->base, on_walk, self);
  self->silence = loop_timer_new(options->base, on_silence, self);
  return self;
}

void keepers_drain(struct keepers *self, int fd) {
  pipe_drains_add(&self->drains, self->options.base, fd);
}

void keepers_limit_idle(struct keepers *self, unsigned count) {
  self->idle_max = count;
}

/* How long all keepers that have nothing may take to die. */
#define REAP_MS 200

/* One that is stuck in the kernel, or that somebody traces, is left to init. */
static void reap_killed(pid_t pid, int64_t until_ms) {
  static const struct timespec pause = {.tv_nsec = 200000};
  (void)kill(pid, SIGKILL);
  while (waitpid(pid, NULL, WNOHANG) == 0 && clock_monotonic_ms() < until_ms)
    (void)nanosleep(&pause, NULL);
}

/* One that has something ends it when it finds nobody listening. */
void keepers_free(struct keepers *self) {
  const int64_t until_ms = clock_monotonic_ms() + REAP_MS;
  for (struct keeper *keeper = self->all, *next; keeper != NULL; keeper = next) {
    next = keeper->next;
    keeper_kill(keeper);
    bool has_nothing =
        !has_processes(keeper) ||
        (keeper->state == KEEPER_RUNS && keeper_message_move(keeper->process.other_end, -1) != 0);
    if (has_nothing && keeper->process.pid > 0) {
      reap_killed(keeper->process.pid, until_ms);
    }
    free_keeper(keeper);
  }
  pipe_drains_release(&self->drains);
  event_free(self->walk);
  event_free(self->silence);
  buffer_release(&self->body);
  free(self);
}
