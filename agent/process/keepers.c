/*
 * A keeper dies only when somebody kills it. Its command then dies with it, and what that has started
 * becomes this process's own child, among those of nobody: all of them are killed, for what a step made
 * must not outlive it, and nothing else makes children here.
 */
#include "agent/process/keepers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/children.h"
#include "agent/process/keeper_message.h"
#include "agent/process/keeper_question.h"
#include "agent/process/pipe_drain.h"
#include "agent/process/process_table.h"
#include "agent/process/process_tree.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* From one walk over those of nobody to the next, while they are killed: at first, and when nothing has
   helped for a while. */
#define WALK_MS 5
#define WALK_MAX_MS 1000

/* How long the first keeper may take to show that this program can be executed anew. */
#define FIRST_NEWS_MS 5000

#define FUTEX_WAKE 1 /* of linux/futex.h, which musl does not bring */

struct keeper {
  struct keeper *next;
  struct keepers *keepers;
  struct keeper_page *page;
  struct event *readable;
  void (*news)(void *owner); /* NULL: nobody has it */
  void *owner;
  int fd; /* -1: it was told to go, or is dead */
  pid_t pid;
  enum keeper_state state;
  int64_t kill_ms; /* when it was ordered to kill; monotonic, 0: it was not */
  bool is_work;
  bool leaves;
  bool is_asked; /* by keepers_count */
  struct keeper_question question;
  int own_status; /* of the keeper itself, once it was reaped */
};

struct keepers {
  struct keepers_options options;
  bool is_proven; /* a keeper made of the program has reported */
  bool has_died;  /* one was reaped */
  unsigned idle_max;
  struct keeper *all;
  struct pipe_drains drains;
  struct buffer body;          /* of the message that is being sent */
  struct process_tree nobodys; /* the children of this process that are no keepers */
  struct event *walk;          /* over those of nobody, and while everything ends */
  bool ends_nobodys;           /* since a keeper has died, until none of them is left */
  int64_t walk_ms;             /* see WALK_MS */
  int64_t give_up_ms;          /* of those of keepers that died; 0: nobody waits for their end */
  int64_t kill_at_ms;          /* while everything ends */
  int64_t asked_ms;            /* by keepers_count; 0: it has ended */
  void (*gone)(void *owner, size_t left);
  void *gone_owner;
};

static struct keeper *find_keeper(const struct keepers *self, pid_t pid) {
  struct keeper *keeper = self->all;
  while (keeper != NULL && keeper->pid != pid)
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
  return self->state == KEEPER_DONE && self->news == NULL && self->fd >= 0;
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

/* It sees that nobody listens, and exits. */
static void dismiss(struct keeper *self) {
  if (self->fd < 0)
    return;
  event_free(self->readable);
  close(self->fd);
  self->fd = -1;
}

static void free_keeper(struct keeper *self) {
  dismiss(self);
  (void)munmap(self->page, sizeof *self->page);
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
  if (self->pid == 0) {
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

/* One message, a byte. At end-of-file it is dead: the rest is told by keepers_reap. */
LOOP_CALLBACK(on_news, struct keeper *self) {
  unsigned char news = 0;
  ssize_t length = recv(self->fd, &news, sizeof news, MSG_DONTWAIT);
  if (length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR))
    (void)event_del(self->readable);
  if (length <= 0)
    return;
  self->keepers->is_proven = true;
  if ((news & KEEPER_ENDED) != 0 && self->state == KEEPER_RUNS)
    self->state = KEEPER_HOLDS;
  if ((news & KEEPER_EMPTY) != 0 && self->state != KEEPER_DIED)
    self->state = KEEPER_DONE;
  if ((news & KEEPER_LEAVES) != 0)
    self->leaves = true;
  if ((news & KEEPER_COUNTED) != 0)
    keeper_question_take_answer(&self->question, self->page);
  if ((news & (KEEPER_ENDED | KEEPER_EMPTY | KEEPER_COUNTED)) != 0)
    tell(self);
}

/* --- making one ------------------------------------------------------------------------------ */

/* Leaves errno. */
static void close_end(int fd) {
  int kept_errno = errno;
  close(fd);
  errno = kept_errno;
}

/* Above the numbers that it gets in the keeper. */
static int move_up(int fd) {
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, KEEPER_PAGE + 1);
  close_end(fd);
  return moved;
}

static int make_page(struct keepers *self, struct keeper_page **page) {
  int fd = memfd_create("keeper", MFD_CLOEXEC);
  if (fd < 0 || (fd = move_up(fd)) < 0)
    return -1;
  *page = MAP_FAILED;
  if (ftruncate(fd, sizeof **page) == 0)
    *page = mmap(NULL, sizeof **page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (*page == MAP_FAILED) {
    close_end(fd);
    return -1;
  }
  (*page)->commands = self->options.commands;
  return fd;
}

/* The descriptors of the keeper's process, which become those that it begins with. */
static void place_descriptors(const struct keepers *self, int socket, int page) {
  for (int i = 0; i < 3; i++)
    (void)dup2(self->options.stdin_fd, i);
  (void)dup2(socket, KEEPER_SOCKET);
  (void)dup2(page, KEEPER_PAGE);
}

static void find_variables(const struct keepers *self, char *found[3]) {
  static const char *const inherited[] = {"HOME=", "XDG_CONFIG_HOME="};
  for (size_t i = 0; i < sizeof inherited / sizeof *inherited; i++)
    for (char *const *entry = self->options.environment; entry != NULL && *entry != NULL; entry++)
      if (strncmp(*entry, inherited[i], strlen(inherited[i])) == 0) {
        *found++ = *entry;
        break;
      }
  *found = NULL;
}

/* Not by posix_spawn(3), which changes the signal mask of its caller. Returns its pid, or -1 with errno;
   0: this program cannot be executed here. */
static pid_t execute(const struct keepers *self, int socket, int page) {
  static char name[] = "agent-keeper", argument[] = KEEPER_ARGUMENT, no_job[] = "-";
  char agent[16];
  char *job = self->options.job != NULL ? (char *)self->options.job : no_job;
  char *const argv[] = {name, argument, job, agent, NULL};
  char *envp[3];
  (void)snprintf(agent, sizeof agent, "%d", (int)getpid());
  find_variables(self, envp);
  volatile bool is_refused = false;
  pid_t pid = vfork();
  if (pid == 0) {
    place_descriptors(self, socket, page);
    (void)execve(self->options.program, argv, envp);
    is_refused = true;
    _exit(127);
  }
  if (pid < 0 || !is_refused)
    return pid;
  (void)waitpid(pid, NULL, 0);
  return 0;
}

static pid_t fork_off(const struct keepers *self, int socket, int page) {
  const pid_t agent = getpid();
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  place_descriptors(self, socket, page);
  keeper_close_above(KEEPER_PAGE);
  keeper_main(agent, self->options.work);
}

static pid_t make_process(struct keepers *self, int socket, int page) {
  pid_t pid = self->options.program != NULL ? execute(self, socket, page) : 0;
  if (pid != 0)
    return pid;
  self->options.program = NULL;
  return fork_off(self, socket, page);
}

static struct keeper *add_keeper(struct keepers *self, int fd, struct keeper_page *page,
                                 pid_t pid) {
  struct keeper *keeper = memory_allocate(sizeof *keeper);
  *keeper = (struct keeper){
      .next = self->all, .keepers = self, .page = page, .fd = fd, .pid = pid, .state = KEEPER_DONE};
  keeper->readable = loop_event_new(self->options.base, fd, EV_READ | EV_PERSIST, on_news, keeper);
  self->all = keeper;
  return keeper;
}

/* Returns NULL with errno. */
static struct keeper *make_keeper(struct keepers *self) {
  int ends[2];
  struct keeper_page *page;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return NULL;
  ends[1] = move_up(ends[1]);
  int page_fd = ends[1] >= 0 ? make_page(self, &page) : -1;
  pid_t pid = page_fd >= 0 ? make_process(self, ends[1], page_fd) : -1;
  close_end(page_fd);
  close_end(ends[1]);
  if (pid > 0)
    return add_keeper(self, ends[0], page, pid);
  if (page_fd >= 0)
    (void)munmap(page, sizeof *page);
  close_end(ends[0]);
  return NULL;
}

/* Only the first keeper that is executed has to show that this works at all; in an emulator it may be
   the emulator that is executed. */
static bool is_proven(struct keeper *self) {
  struct pollfd news = {.fd = self->fd, .events = POLLIN};
  unsigned char byte;
  if (self->keepers->options.program == NULL || self->keepers->is_proven)
    return true;
  self->keepers->is_proven = poll(&news, 1, FIRST_NEWS_MS) == 1 &&
                             recv(self->fd, &byte, sizeof byte, MSG_DONTWAIT | MSG_PEEK) == 1;
  return self->keepers->is_proven;
}

/* One that is idle, or a new one; NULL with errno. */
static struct keeper *take_keeper(struct keepers *self) {
  struct keeper *keeper = find_idle(self);
  if (keeper == NULL)
    keeper = make_keeper(self);
  if (keeper == NULL || is_proven(keeper))
    return keeper;
  dismiss(keeper);
  self->options.program = NULL;
  return make_keeper(self);
}

void keepers_make_spare(struct keepers *self) {
  if (find_idle(self) == NULL)
    (void)make_keeper(self);
}

/* --- giving it something --------------------------------------------------------------------- */

static const struct step_usage unknown_usage = {-1, -1, -1, -1, -1, -1, -1, -1, -1};

/* The list is long, and counts for nothing without its count. */
static void reset_page(struct keeper_page *page, bool waits) {
  const struct keeper_commands commands = page->commands;
  memset(page, 0, offsetof(struct keeper_page, alive));
  page->commands = commands;
  page->usage = (struct step_usage){.max_rss_bytes = -1, .read_bytes = -1, .written_bytes = -1};
  atomic_store(&page->gate, waits ? KEEPER_GATE_CLOSED : KEEPER_GATE_OPEN);
}

/* A keeper that was killed while it was idle has done nothing: the next one gets the message. */
static struct keeper *give(struct keepers *self, const struct keeper_task *task,
                           const struct keeper_message *message, const char *body) {
  for (;;) {
    struct keeper *keeper = take_keeper(self);
    if (keeper == NULL)
      return NULL;
    reset_page(keeper->page, task->waits);
    keeper->kill_ms = 0;
    keeper->question = (struct keeper_question){0};
    keeper->is_work = message->kind == KEEPER_MESSAGE_WORK;
    if (keeper_message_send(keeper->fd, message, body, task->descriptors) == 0) {
      keeper->state = KEEPER_RUNS;
      keeper->news = task->news;
      keeper->owner = task->owner;
      return keeper;
    }
    if (errno != ESRCH)
      return NULL;
    dismiss(keeper);
  }
}

static uint32_t add_texts(struct buffer *body, char *const *texts) {
  uint32_t count = 0;
  for (; texts[count] != NULL; count++)
    buffer_add(body, texts[count], strlen(texts[count]) + 1);
  return count;
}

static struct keeper *give_command(struct keepers *self, const struct keeper_task *task) {
  const struct exec_command *exec = &task->exec;
  char *const directory[] = {(char *)(uintptr_t)exec->directory, NULL};
  struct buffer *body = &self->body;
  struct keeper_message message = {.kind = KEEPER_MESSAGE_RUN,
                                   .lists_alive = task->lists_alive,
                                   .directory_may_be_missing = exec->directory_may_be_missing,
                                   .home_at = (uint32_t)exec->home_at};
  body->length = 0;
  message.arguments = add_texts(body, exec->argv);
  message.variables = add_texts(body, exec->envp);
  message.has_directory = add_texts(body, directory) > 0;
  message.length = body->length;
  message.room = KEEPER_TEXTS_ROOM(message.arguments + message.variables);
  struct keeper *keeper = give(self, task, &message, body->bytes);
  if (body->capacity > KEEPER_BODY_MAX)
    buffer_release(body); /* free(3) leaves errno */
  return keeper;
}

struct keeper *keepers_give(struct keepers *self, const struct keeper_task *task,
                            struct error *error) {
  const struct keeper_message message = {.kind = KEEPER_MESSAGE_WORK, .length = task->work_length};
  struct keeper *keeper =
      task->work != NULL ? give(self, task, &message, task->work) : give_command(self, task);
  if (keeper != NULL)
    return keeper;
  const int give_errno = errno;
  (void)error_set(error, "cannot start %.100s: %s",
                  task->work != NULL ? "a process" : task->exec.argv[0], strerror(give_errno));
  error->code = give_errno;
  return NULL;
}

void keeper_go(struct keeper *self) {
  atomic_store(&self->page->gate, KEEPER_GATE_OPEN);
  (void)syscall(SYS_futex, &self->page->gate, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* --- what is known of it ---------------------------------------------------------------------- */

/* The page may be ahead of the news. */
enum keeper_state keeper_state(const struct keeper *self) {
  bool has_ended = atomic_load(&self->page->ended) != 0;
  return self->state == KEEPER_RUNS && has_ended ? KEEPER_HOLDS : self->state;
}

pid_t keeper_pid(const struct keeper *self) {
  return (pid_t)atomic_load(&self->page->pid);
}

int keeper_status(const struct keeper *self) {
  if (atomic_load(&self->page->ended) != 0)
    return self->page->status;
  return self->is_work ? self->own_status : SIGKILL;
}

const struct exec_failure *keeper_failure(const struct keeper *self, const char **whole) {
  *whole = self->page->whole_reason;
  return &self->page->failure;
}

size_t keeper_left(const struct keeper *self) {
  return atomic_load(&self->page->left);
}

const struct step_usage *keeper_usage(const struct keeper *self) {
  bool is_known = self->pid != 0 && atomic_load(&self->page->ended) != 0;
  return is_known ? &self->page->usage : &unknown_usage;
}

const struct step_process *keeper_alive(const struct keeper *self, size_t *count) {
  *count = atomic_load(&self->page->alive_count);
  return self->page->alive;
}

bool keeper_ask(struct keeper *self, bool holder) {
  if (self->pid == 0 || self->is_work || !has_processes(self))
    return false;
  keeper_question_ask(&self->question, self->page, holder);
  (void)kill(self->pid, SIGCONT);
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
    bool is_left = keeper->news == NULL && keeper->kill_ms == 0;
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
  if (atomic_load(&self->page->order) < order)
    atomic_store(&self->page->order, order);
  if (self->pid > 0)
    (void)kill(self->pid, SIGCONT);
}

void keeper_kill(struct keeper *self) {
  if (!has_processes(self))
    return;
  if (self->kill_ms == 0)
    self->kill_ms = clock_monotonic_ms();
  raise_order(self, KEEPER_ORDER_KILL);
  if (self->is_work && self->pid > 0)
    (void)kill(self->pid, SIGKILL);
}

void keeper_terminate(struct keeper *self) {
  if (self->is_work || atomic_load(&self->page->gate) == KEEPER_GATE_CLOSED)
    keeper_kill(self);
  else if (has_processes(self))
    raise_order(self, KEEPER_ORDER_TERMINATE);
}

void keeper_release(struct keeper *self) {
  self->news = NULL;
  if (self->state == KEEPER_DONE)
    keep_or_dismiss(self);
}

/* --- those of nobody, and the end of all ------------------------------------------------------ */

static void finish_dead(struct keepers *self, size_t left) {
  self->give_up_ms = 0;
  for (struct keeper *keeper = self->all, *next; keeper != NULL; keeper = next) {
    next = keeper->next;
    if (keeper->state != KEEPER_DIED)
      continue;
    atomic_store(&keeper->page->left, (unsigned)left);
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
  self->pid = 0;
  self->own_status = status;
  dismiss(self);
  if (self->state == KEEPER_DONE) {
    if (self->news == NULL)
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

struct dead_agents {
  const char *job;
  size_t keepers;
};

static void count_if_left(void *context, pid_t pid) {
  struct dead_agents *self = context;
  char text[256];
  ssize_t length = process_table_read_file(pid, "cmdline", text, sizeof text);
  const char *argv[4] = {0};
  const char *at = text;
  for (int i = 0; i < 4 && at < text + length; i++, at += strlen(at) + 1)
    argv[i] = at;
  if (argv[3] == NULL || strcmp(argv[1], KEEPER_ARGUMENT) != 0 || strcmp(argv[2], self->job) != 0 ||
      process_table_parent(pid) == strtol(argv[3], NULL, 10))
    return;
  (void)kill(pid, SIGCONT);
  self->keepers++;
}

size_t keepers_of_dead_agents(const char *job) {
  struct dead_agents search = {.job = job};
  struct process_scan scan = {.until_ms = 0};
  (void)process_table_each(&scan, count_if_left, &search);
  return search.keepers;
}

/* --- the keepers themselves -------------------------------------------------------------------- */

struct keepers *keepers_new(const struct keepers_options *options) {
  struct keepers *self = memory_allocate(sizeof *self);
  *self = (struct keepers){.options = *options, .idle_max = 1};
  self->nobodys =
      (struct process_tree){.is_excepted = is_keeper, .context = self, .turn_ms = WALK_TURN_MS};
  self->walk = loop_timer_new(options->base, on_walk, self);
  return self;
}

void keepers_drain(struct keepers *self, int fd) {
  pipe_drains_add(&self->drains, self->options.base, fd);
}

void keepers_limit_idle(struct keepers *self, unsigned count) {
  self->idle_max = count;
}

/* One that has something ends it when it finds nobody listening. */
void keepers_free(struct keepers *self) {
  for (struct keeper *keeper = self->all, *next; keeper != NULL; keeper = next) {
    next = keeper->next;
    keeper_kill(keeper);
    if (!has_processes(keeper) && keeper->pid > 0) {
      (void)kill(keeper->pid, SIGKILL);
      (void)waitpid(keeper->pid, NULL, 0);
    }
    free_keeper(keeper);
  }
  pipe_drains_release(&self->drains);
  event_free(self->walk);
  buffer_release(&self->body);
  free(self);
}
