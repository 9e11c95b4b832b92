#include "agent/process/supervisor_handle.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/process/process_tree.h"
#include "base/clock.h"

#define FUTEX_WAKE 1 /* of linux/futex.h, which musl does not have */

/* --- its oom_score_adj ------------------------------------------------------------------------ */

/* A child inherits the score. The file of a process that is not dumpable belongs to root, so an
   ordinary user's supervisor cannot write its own. The agent opened its own file while it was
   dumpable, and raises its own score to the highest while it forks. */
struct score {
  int fd;
  char own[16]; /* the agent's; "": it was not raised */
};

static void raise_score(struct score *self) {
  static const char highest[] = "1000";
  ssize_t length = self->fd > 0 ? pread(self->fd, self->own, sizeof self->own - 1, 0) : 0;
  self->own[length > 0 ? length : 0] = '\0';
  if (length > 0 && pwrite(self->fd, highest, sizeof highest - 1, 0) < 0)
    self->own[0] = '\0';
}

/* Preserves errno. startup.c has checked that this score can be written. */
static void restore_score(const struct score *self, const struct log *log) {
  int kept_errno = errno;
  size_t length = strlen(self->own);
  if (length > 0 && pwrite(self->fd, self->own, length, 0) < 0 &&
      pwrite(self->fd, self->own, length, 0) < 0 && log != NULL)
    log_line(log, LOG_ERROR, NULL,
             "cannot write oom_score_adj back to %d: %s; it stays 1000, so the kernel may kill the "
             "agent before its steps",
             (int)strtol(self->own, NULL, 10), strerror(errno));
  errno = kept_errno;
}

/* --- the child -------------------------------------------------------------------------------- */

/* The only variables that work reads, to find git's configuration. */
static const char *const inherited[] = {"HOME=", "XDG_CONFIG_HOME="};
enum { INHERITED = sizeof inherited / sizeof *inherited };

struct child_environment {
  char texts[INHERITED][PATH_MAX + sizeof "XDG_CONFIG_HOME="];
  char *entries[INHERITED + 1];
};

/* The title may overwrite the memory that `environ` points to. */
static void keep_variables(struct child_environment *self) {
  char **next = self->entries;
  for (size_t i = 0; i < INHERITED; i++)
    for (char *const *entry = environ; entry != NULL && *entry != NULL; entry++) {
      size_t size = strlen(*entry) + 1;
      if (strncmp(*entry, inherited[i], strlen(inherited[i])) != 0 || size > sizeof self->texts[i])
        continue;
      *next++ = memcpy(self->texts[i], *entry, size);
      break;
    }
  *next = NULL;
  environ = self->entries;
}

static void set_title(const struct supervisor_options *options, pid_t agent) {
  char text[64];
  if (options->title == NULL)
    return;
  (void)snprintf(text, sizeof text, SUPERVISOR_NAME " %s %d",
                 options->job != NULL ? options->job : "-", (int)agent);
  process_title_set(options->title, text);
}

/* The environment is on the stack, because the child has touched a page of it anyway. */
_Noreturn static void be_supervisor(const struct supervisor *self, pid_t agent) {
  struct child_environment environment;
  for (int i = 0; i < 3; i++)
    (void)dup2(self->options->stdin_fd, i);
  if (self->other_end != SUPERVISOR_SOCKET)
    (void)dup3(self->other_end, SUPERVISOR_SOCKET, O_CLOEXEC);
  keep_variables(&environment);
  set_title(self->options, agent);
  supervisor_main(self->options, agent, self->page);
}

/* --- the agent's side ------------------------------------------------------------------------- */

/* Other supervisors do not inherit the page. */
int supervisor_fork(struct supervisor *self) {
  const pid_t agent = getpid();
  struct score score = {.fd = self->options->oom_score_fd};
  (void)madvise(self->page, sizeof *self->page, MADV_DOFORK);
  raise_score(&score);
  pid_t pid = fork();
  if (pid == 0)
    be_supervisor(self, agent);
  restore_score(&score, self->options->log);
  (void)madvise(self->page, sizeof *self->page, MADV_DONTFORK);
  if (pid > 0)
    self->pid = pid;
  return pid > 0 ? 0 : -1;
}

static void close_ends(struct supervisor *self) {
  close(self->socket);
  close(self->other_end);
  self->socket = self->other_end = -1;
}

int supervisor_open(struct supervisor *self) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return -1;
  self->socket = ends[0];
  self->other_end = ends[1];
  self->page =
      mmap(NULL, sizeof *self->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (self->page != MAP_FAILED && supervisor_fork(self) == 0)
    return 0;
  const int open_errno = errno;
  if (self->page != MAP_FAILED)
    (void)munmap(self->page, sizeof *self->page);
  close_ends(self);
  errno = open_errno;
  return -1;
}

/* The list is long, and invalid without its count. */
void supervisor_reset_page(struct supervisor *self) {
  struct supervisor_page *page = self->page;
  memset(page, 0, offsetof(struct supervisor_page, alive));
  page->usage = (struct step_usage){.max_rss_bytes = -1, .read_bytes = -1, .written_bytes = -1};
  atomic_store(&page->gate, self->is_waiting ? SUPERVISOR_GATE_CLOSED : SUPERVISOR_GATE_OPEN);
}

bool supervisor_is_held(const struct supervisor *self) {
  char stat[512];
  if (self->pid <= 0 || process_table_read_file(self->pid, "stat", stat, sizeof stat) <= 0)
    return true;
  const char state = *process_table_after_name(stat);
  return state == 'T' || state == 't' || state == 'D';
}

/* --- its state -------------------------------------------------------------------------------- */

bool supervisor_has_processes(const struct supervisor *self) {
  return self->state != SUPERVISOR_DONE;
}

bool supervisor_is_idle(const struct supervisor *self) {
  return self->state == SUPERVISOR_DONE && self->notify == NULL && self->socket >= 0;
}

void supervisor_dismiss(struct supervisor *self) {
  if (self->socket < 0)
    return;
  event_free(self->readable);
  close_ends(self);
}

/* Impossible values become an answer of "unknown". */
static void read_answer(struct supervisor *self) {
  struct supervisor_census *answer = &self->answer;
  self->answered = atomic_load(&self->page->answered);
  *answer = self->page->census;
  answer->holder.name[sizeof answer->holder.name - 1] = '\0';
  answer->holder.command[sizeof answer->holder.command - 1] = '\0';
  if (answer->living < -1 || answer->living > PROCESS_TREE_MAX || answer->rss_bytes < 0 ||
      answer->holder.pid < 0)
    *answer = (struct supervisor_census){.living = -1};
}

int supervisor_receive_notification(struct supervisor *self) {
  unsigned char notification = 0;
  if (recv(self->socket, &notification, sizeof notification, MSG_DONTWAIT) <= 0)
    return -1;
  if (self->state != SUPERVISOR_RUNS || notification != 0)
    self->silent_since_ms = 0;
  if ((notification & SUPERVISOR_ENDED) != 0 && self->state == SUPERVISOR_RUNS)
    self->state = SUPERVISOR_HOLDS;
  if ((notification & SUPERVISOR_EMPTY) != 0 && self->state != SUPERVISOR_DIED) {
    self->state = SUPERVISOR_DONE;
    self->is_complete = true;
  }
  if ((notification & SUPERVISOR_LEAVES) != 0)
    self->leaves = true;
  if ((notification & SUPERVISOR_COUNTED) != 0)
    read_answer(self);
  return notification;
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

/* After a report of impossible values the end is unknown, and the supervisor gets no other task.
   The figures of a dead supervisor are incomplete. A command whose end is unknown was killed
   together with its supervisor. */
void supervisor_read_report(struct supervisor *self, struct supervisor_report *report) {
  const struct log *log = self->options->log;
  if (!supervisor_report_read(report, self->page)) {
    if (!self->leaves && log != NULL)
      log_line(log, LOG_ERROR, NULL,
               "supervisor %d reported impossible values about its step: the step counts as killed",
               (int)self->pid);
    self->leaves = true;
  }
  if (!report->has_ended || (self->pid == 0 && !self->is_complete))
    report->usage = (struct step_usage)SUPERVISOR_UNKNOWN_USAGE;
  if (!report->has_ended)
    report->status = self->is_work && self->pid == 0 ? self->own_status : SIGKILL;
}

size_t supervisor_left(const struct supervisor *self) {
  size_t left = atomic_load(&self->page->left);
  if (self->pid == 0)
    return self->left;
  return left < PROCESS_TREE_MAX ? left : PROCESS_TREE_MAX;
}

static bool can_answer(const struct supervisor *self) {
  return self->pid != 0 && !self->is_work && supervisor_has_processes(self);
}

bool supervisor_is_asked(const struct supervisor *self) {
  return can_answer(self) && self->asked != self->answered;
}

/* Each query differs from the one before in the bits above the lowest, and also asks what an open
   one asked. */
bool supervisor_ask(struct supervisor *self, bool holder) {
  if (!can_answer(self))
    return false;
  holder |= self->asked != self->answered && (self->asked & SUPERVISOR_ASKS_HOLDER) != 0;
  self->asked = (self->asked | SUPERVISOR_ASKS_HOLDER) + 1 + (holder ? SUPERVISOR_ASKS_HOLDER : 0);
  atomic_store(&self->page->asked, self->asked);
  (void)kill(self->pid, SIGCONT);
  return true;
}

const struct supervisor_census *supervisor_answer(const struct supervisor *self) {
  return self->asked != 0 && self->asked == self->answered ? &self->answer : NULL;
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
  if (!supervisor_has_processes(self))
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
  else if (supervisor_has_processes(self))
    raise_order(self, SUPERVISOR_ORDER_TERMINATE);
}

void supervisor_set_never_run(struct supervisor *self, const char *reason) {
  struct supervisor_page *page = self->page;
  page->usage = (struct step_usage)SUPERVISOR_UNKNOWN_USAGE;
  page->status = SIGKILL;
  if (reason != NULL) {
    page->status = 127 << 8;
    page->failure.stage = EXEC_NO_PROCESS;
    (void)error_set(&page->failure.reason, "cannot start a process: %s", reason);
  }
  atomic_store(&page->ended, 1);
  self->state = SUPERVISOR_DONE;
  self->silent_since_ms = 0;
  supervisor_dismiss(self);
  if (self->pid > 0)
    (void)kill(self->pid, SIGKILL);
}

/* --- supervisors of dead agents --------------------------------------------------------------- */

#define PROCESSES_MAX 16384
#define COUNT_MS 50

/* The name is read first, which never blocks. The command line is read only of processes with that
   name, if it cannot block either. The title is "agent-supervise JOB PID", with the agent's pid. A
   step may forge it, which delays the start a little. */
static bool is_orphaned(pid_t pid, const char *job) {
  static const char prefix[] = SUPERVISOR_NAME " ";
  char title[128];
  if (process_table_read_file(pid, "comm", title, sizeof title) <= 0 ||
      strcmp(title, SUPERVISOR_NAME "\n") != 0)
    return false;
  process_table_command(pid, title, sizeof title);
  const char *at = title + sizeof prefix - 1;
  if (strncmp(title, prefix, sizeof prefix - 1) != 0 || strncmp(at, job, strlen(job)) != 0 ||
      at[strlen(job)] != ' ')
    return false;
  const pid_t agent = (pid_t)strtol(at + strlen(job), NULL, 10);
  return agent > 0 && process_table_parent(pid) != agent;
}

struct orphaned_search {
  const char *job;
  size_t count, visited;
};

static void count_if_orphaned(void *context, pid_t pid) {
  struct orphaned_search *self = context;
  if (self->visited++ >= PROCESSES_MAX || !is_orphaned(pid, self->job))
    return;
  (void)kill(pid, SIGCONT);
  self->count++;
}

size_t supervisors_count_orphaned(const char *job) {
  struct orphaned_search search = {.job = job};
  struct process_scan scan = {.until_ms = clock_monotonic_ms() + COUNT_MS};
  (void)process_table_each(&scan, count_if_orphaned, &search);
  return search.count;
}
