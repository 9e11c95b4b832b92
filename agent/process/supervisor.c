/*
 * Between two checks of the agent's order the work is bounded: 1,024 children reaped, one walk over
 * the tree, one command made. Processes that fork and exit leave zombies faster than they can be
 * killed. So while it kills, the supervisor reaps before it walks, and walks again without a pause
 * as long as something has ended.
 *
 * A command's child runs on this process's memory until it executes the command, so nothing is
 * copied. Unlike after vfork(2), this process goes on, because the child may wait long: at the
 * gate, or for a dead file system; and execve(2) does not wake it, which would cost 5 % of a step.
 * The child has its own stack, allocates nothing, and changes nothing here but `listener`, the
 * failure in the page, and errno, which the two share. So the child never reads errno, and code
 * that reads it here while a child waits must be correct for any value. The memory that the child
 * reads stays until the command has ended.
 *
 * A child whose filter has a listener shares the descriptors, too, until it has installed the
 * filter: so this process has the listener without a message. Until then it keeps the descriptors
 * of the task open. All others are close-on-exec.
 *
 * A command's status is stored before the command is reaped, so that it is known even if somebody
 * kills the supervisor.
 */
#include "agent/process/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/confinement/confine.h"
#include "agent/confinement/loopback.h"
#include "agent/process/children.h"
#include "agent/process/exec_command.h"
#include "agent/process/process_table.h"
#include "agent/process/process_tree.h"
#include "agent/process/supervisor_message.h"
#include "agent/process/supervisor_page.h"
#include "base/check.h"
#include "base/raw_call.h"

/* Descriptors: the directory in which it began, to which it returns after work; and the rule set of
   the agent's own policy, if it has one. */
#define SUPERVISOR_DIRECTORY 4
#define SUPERVISOR_RULES 5

/* The time to answer a query, and to list the processes before the first order. A fork bomb grows
   in that time, and leaves the supervisor little of the processor. */
#define CENSUS_MS 800
#define LIST_MS 100

/* How long it waits for a death before it walks again, while it kills: at first, and after nothing
   has helped for a while. */
#define KILL_WALK_MS 5
#define KILL_WALK_MAX_MS 1000

#define BLOCK_SIZE 512 /* of getrusage(2) */

/* The memory that a child may add to what it shares, and the error of the kernel's counters. */
#define FLOOR_MARGIN_KIB 256

/* Twice what exec_command needs. */
#define CHILD_STACK_SIZE ((size_t)64 * 1024)

#define FUTEX_WAIT 0 /* of linux/futex.h, which musl does not have */

/* How the kernel schedules a process. */
struct scheduling {
  uint32_t attributes[12]; /* struct sched_attr of linux/sched/types.h: policy, nice value, … */
  unsigned long processors[16];
  long io_priority;
};

struct supervision {
  const struct supervisor_options *options;
  struct supervisor_page *page;
  pid_t agent;
  pid_t command;   /* 0: none, or it was reaped */
  bool is_busy;    /* a message was received, and SUPERVISOR_EMPTY not sent */
  bool has_ended;  /* SUPERVISOR_ENDED was sent */
  bool agent_died; /* or has closed the socket */
  bool is_leaving;
  int obeyed;                   /* enum supervisor_order */
  int walk_ms;                  /* the next pause: see KILL_WALK_MS */
  long floor_kib;               /* see measure_floor */
  bool has_grown;               /* by work, since the floor was measured */
  bool has_forgotten;           /* the agent's secrets */
  ino_t pipes[2];               /* of the command's output; 0: it is no pipe */
  bool has_listener;            /* its processes ask this one for sockets: see loopback.h */
  bool lets_udp_through;        /* see struct filter_rules */
  atomic_int listener;          /* the child stores it; -1: not yet, or closed */
  bool is_confined;             /* the task has a record of how it is confined */
  struct scheduling scheduling; /* of this process at its start */
  struct supervisor_message message;
  char *body;               /* of the message; NULL: released */
  int descriptors[3];       /* of the message */
  bool holds_descriptors;   /* see release_descriptors */
  struct exec_command exec; /* what a command's child executes, */
  int nice;                 /* with this nice value */
  pid_t own_pid;
  _Alignas(struct confine_record) char body_space[SUPERVISOR_BODY_MAX];
  _Alignas(16) char child_stack[CHILD_STACK_SIZE];
};

static void wake(int signal) {
  (void)signal;
}

/* musl's sigaction() unblocks signals 33 and 34 again. The agent has ignored them since its start.
   */
static void block_signals(void) {
  static const uint64_t all = UINT64_MAX;
  const struct sigaction action = {.sa_handler = wake};
  (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, sizeof all);
  (void)sigaction(SIGCHLD, &action, NULL);
  (void)sigaction(SIGCONT, &action, NULL);
}

long supervisor_own_pages(void) {
  char text[64], *end;
  if (process_table_read_file(0, "statm", text, sizeof text) <= 0 || strtol(text, &end, 10) <= 0)
    return -1;
  return strtol(end, NULL, 10);
}

static bool is_large(const struct supervision *self) {
  const long agent_pages = self->options->agent_pages, pages = supervisor_own_pages();
  return agent_pages < 0 || pages < 0 || pages > agent_pages + SUPERVISOR_PAGES_MAX;
}

static long own_peak_kib(void) {
  static const char name[] = "VmHWM:";
  struct rusage usage = {0};
  char text[2048];
  const char *field =
      process_table_read_file(0, "status", text, sizeof text) > 0 ? strstr(text, name) : NULL;
  if (field != NULL)
    return strtol(field + sizeof name - 1, NULL, 10);
  (void)getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/* A child's peak resident size includes the time before it executed its command, and so this
   process's own peak. A peak that is not above that floor says nothing about the command. */
static void measure_floor(struct supervision *self) {
  self->floor_kib = own_peak_kib() + FLOOR_MARGIN_KIB;
  self->has_grown = false;
}

/* The default of fs.nr_open. */
#define DESCRIPTORS_MAX (1024 * 1024)

/* Before Linux 5.9, or behind an older seccomp filter, descriptors are closed one by one. */
static void close_above(int last) {
  if (syscall(SYS_close_range, last + 1, ~0U, 0) == 0)
    return;
  struct rlimit limit = {.rlim_max = DESCRIPTORS_MAX};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  int end = limit.rlim_max < DESCRIPTORS_MAX ? (int)limit.rlim_max : DESCRIPTORS_MAX;
  for (int fd = last + 1; fd < end; fd++)
    (void)close(fd);
}

/* Closes what is not this process's own. */
static void close_others(const struct supervision *self) {
  close_above(self->options->rules_fd > 0 ? SUPERVISOR_RULES : SUPERVISOR_DIRECTORY);
}

#define IOPRIO_WHO_PROCESS 1 /* of linux/ioprio.h */

static struct scheduling read_scheduling(void) {
  struct scheduling self;
  memset(&self, 0, sizeof self);
  (void)syscall(SYS_sched_getattr, 0, self.attributes, sizeof self.attributes, 0);
  (void)syscall(SYS_sched_getaffinity, 0, sizeof self.processors, self.processors);
  self.io_priority = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
  return self;
}

/* A process may change the scheduling of any process of its user, and no policy covers that. What a
   step with a policy has changed must not outlive it. Nor must a limit of descriptors that an
   earlier step has lowered so far that this one could not be confined. */
static bool was_changed(const struct supervision *self) {
  const struct scheduling now = read_scheduling();
  return self->page->failure.stage == EXEC_REFUSED ||
         memcmp(&now, &self->scheduling, sizeof now) != 0;
}

static void set_up(int rules_fd) {
  block_signals();
  if (rules_fd > 0 && rules_fd != SUPERVISOR_RULES)
    (void)dup3(rules_fd, SUPERVISOR_RULES, O_CLOEXEC);
  if (rules_fd > 0)
    close(SUPERVISOR_DIRECTORY);
  close_above(rules_fd > 0 ? SUPERVISOR_RULES : SUPERVISOR_SOCKET);
  (void)setsid();
  (void)prctl(PR_SET_DUMPABLE, 0); /* the agent may run with --dumpable */
  (void)prctl(PR_SET_NAME, SUPERVISOR_NAME);
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* some emulators have none */
  (void)prctl(PR_SET_PDEATHSIG, SIGCONT);
  int directory = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0 && directory != SUPERVISOR_DIRECTORY) {
    (void)dup3(directory, SUPERVISOR_DIRECTORY, O_CLOEXEC);
    close(directory);
  }
}

static void send_notification(struct supervision *self, unsigned char notification) {
  if (self->is_leaving && notification != 0)
    notification |= SUPERVISOR_LEAVES;
  if (send(SUPERVISOR_SOCKET, &notification, sizeof notification, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    self->agent_died = true;
}

static void set_ended(struct supervision *self, int status) {
  self->page->status = status;
  atomic_store(&self->page->ended, 1);
}

static void release_message(struct supervision *self) {
  supervisor_message_release(&self->message, self->body);
  self->body = NULL;
}

static int64_t microseconds(struct timeval time) {
  return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

/* Adds the usage of a process that was reaped, which includes those that it reaped itself. A kernel
   that counts no resident size (gVisor) counts no blocks either: both are 0. */
static void add_usage(struct step_usage *self, const struct rusage *usage, long floor_kib) {
  self->user_us += microseconds(usage->ru_utime);
  self->system_us += microseconds(usage->ru_stime);
  self->major_faults += usage->ru_majflt;
  self->voluntary_switches += usage->ru_nvcsw;
  self->involuntary_switches += usage->ru_nivcsw;
  self->processes++;
  if (usage->ru_maxrss == 0)
    return;
  if (self->read_bytes < 0)
    self->read_bytes = self->written_bytes = 0;
  int64_t max_rss_bytes = (int64_t)usage->ru_maxrss * 1024;
  if (usage->ru_maxrss > floor_kib && max_rss_bytes > self->max_rss_bytes)
    self->max_rss_bytes = max_rss_bytes;
  self->read_bytes += usage->ru_inblock * BLOCK_SIZE;
  self->written_bytes += usage->ru_oublock * BLOCK_SIZE;
}

static void on_child_ended(void *owner, pid_t pid, int status, const struct rusage *usage) {
  struct supervision *self = owner;
  add_usage(&self->page->usage, usage, self->floor_kib);
  if (pid != self->command)
    return;
  set_ended(self, status);
  self->command = 0;
  release_message(self);
}

/* Returns whether the agent is dead. */
static bool check_agent(struct supervision *self) {
  self->agent_died |= getppid() != self->agent;
  return self->agent_died;
}

static int read_order(struct supervision *self) {
  return check_agent(self) ? SUPERVISOR_ORDER_KILL : atomic_load(&self->page->order);
}

static void signal_tree(struct supervision *self, int signal) {
  struct process_tree tree = {.command = self->command};
  atomic_store(&self->page->left, (unsigned)process_tree_signal(&tree, signal));
}

/* The agent waits for the answer, but only for SUPERVISOR_ANSWER_MS. */
static void answer_query(struct supervision *self) {
  const struct process_tree tree = {.turn_ms = CENSUS_MS};
  const unsigned asked = atomic_load(&self->page->asked);
  if (asked == atomic_load(&self->page->answered))
    return;
  self->page->census =
      process_tree_list(&tree, (asked & SUPERVISOR_ASKS_HOLDER) != 0 ? self->pipes : NULL, NULL, 0);
  atomic_store(&self->page->answered, asked);
  send_notification(self, SUPERVISOR_COUNTED);
}

/* A fork bomb must not grow while it is listed: it would leave the supervisor hardly any time of
   the processor. Processes that get time to end go on. */
static void list_alive(struct supervision *self, int order) {
  const struct process_tree tree = {.turn_ms = LIST_MS};
  if (order == SUPERVISOR_ORDER_KILL && self->command > 0)
    (void)kill(-self->command, SIGSTOP);
  atomic_store(
      &self->page->alive_count,
      (unsigned)process_tree_list(&tree, NULL, self->page->alive, SUPERVISOR_ALIVE_MAX).listed);
}

static void obey(struct supervision *self) {
  int order = read_order(self);
  if (order != SUPERVISOR_ORDER_NONE && self->obeyed == SUPERVISOR_ORDER_NONE &&
      self->options->lists_alive && !self->agent_died &&
      atomic_load(&self->page->gate) == SUPERVISOR_GATE_OPEN)
    list_alive(self, order);
  if (order == SUPERVISOR_ORDER_KILL)
    signal_tree(self, SIGKILL);
  else if (order == SUPERVISOR_ORDER_TERMINATE && self->obeyed < order)
    signal_tree(self, SIGTERM);
  if (order != self->obeyed)
    self->walk_ms = KILL_WALK_MS;
  self->obeyed = order;
  if (!self->agent_died)
    answer_query(self);
}

/* futex(2) may also return without a wake-up, such as after a stop and a continue. */
static void wait_at_gate(struct supervisor_page *page) {
  while (atomic_load(&page->gate) == SUPERVISOR_GATE_CLOSED)
    (void)syscall(SYS_futex, &page->gate, FUTEX_WAIT, SUPERVISOR_GATE_CLOSED, NULL, NULL, 0);
}

/* Installs the filter of the child's record, and wakes the supervisor if it has a listener. */
static bool install_filter(struct supervision *self) {
  int listener = -1;
  if (!exec_command_install_filter(self->exec.record, &listener, &self->page->failure))
    return false;
  if (listener < 0)
    return true;
  atomic_store(&self->listener, listener);
  (void)raw_call(SYS_kill, self->own_pid, SIGCONT, 0, 0, 0);
  return true;
}

/* AddressSanitizer does not know the child's stack. */
__attribute__((no_sanitize("address"))) static int run_child(void *context) {
  struct supervision *self = context;
  (void)setsid();
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != self->own_pid)
    _exit(127); /* the supervisor died before prctl */
  const bool is_ready = self->exec.record == NULL || install_filter(self);
  for (int i = 0; i < 3 && is_ready; i++)
    (void)dup2(self->descriptors[i], i);
  (void)setpriority(PRIO_PROCESS, 0, self->nice);
  (void)setrlimit(RLIMIT_NOFILE, &self->options->open_files);
  wait_at_gate(self->page);
  if (is_ready)
    exec_command(&self->exec, &self->page->failure);
  _exit(127);
}

/* If an emulator refuses a process that shares memory, the child gets a copy. */
static pid_t make_child(struct supervision *self) {
  void *stack = self->child_stack + sizeof self->child_stack;
  if (self->has_listener)
    return clone(run_child, stack, CLONE_VM | CLONE_FILES | SIGCHLD, self);
  pid_t pid = clone(run_child, stack, CLONE_VM | SIGCHLD, self);
  if (pid < 0 && errno == EINVAL)
    pid = clone(run_child, stack, SIGCHLD, self);
  return pid;
}

static void close_all(const int descriptors[3]) {
  for (int i = 0; i < 3; i++)
    close(descriptors[i]);
}

/* Closes the descriptors of the message as soon as the child has its own. */
static void release_descriptors(struct supervision *self) {
  const bool are_shared =
      self->has_listener && self->command > 0 && atomic_load(&self->listener) < 0;
  if (!self->holds_descriptors || are_shared)
    return;
  close_all(self->descriptors);
  self->holds_descriptors = false;
}

/* Returns how the task is confined; NULL: not at all. */
static struct confine_record *record_of(const struct supervision *self) {
  const size_t at = self->message.record_at;
  return at > 0 ? (struct confine_record *)(void *)(self->body + at) : NULL;
}

/* Builds argv and envp behind the texts. */
static void point_to_texts(struct supervision *self) {
  const struct supervisor_message *message = &self->message;
  const uintptr_t end = (uintptr_t)self->body + message->length;
  char **argv = (char **)((end + sizeof *argv - 1) / sizeof *argv * sizeof *argv);
  char **envp = argv + message->arguments + 1, *at = self->body;
  for (uint32_t i = 0; i < message->arguments; i++, at += strlen(at) + 1)
    argv[i] = at;
  argv[message->arguments] = NULL;
  for (uint32_t i = 0; i < message->variables; i++, at += strlen(at) + 1)
    envp[i] = at;
  envp[message->variables] = envp[message->variables + 1] = NULL;
  self->exec = (struct exec_command){
      .argv = argv,
      .envp = envp,
      .pwd = &envp[message->variables],
      .directory = at,
      .directory_may_be_missing = message->directory_may_be_missing,
      .home_at = message->home_at,
      .record = record_of(self),
      .base = SUPERVISOR_DIRECTORY,
      .agent_rules = SUPERVISOR_RULES,
  };
}

/* Reports that the command or the work was not begun. */
static void set_not_started(struct supervision *self, int error) {
  self->page->failure.reason.code = error;
  self->page->failure.stage = EXEC_NO_PROCESS;
  set_ended(self, 127 << 8);
  release_message(self);
}

/* Somebody has lowered the limit of this process; another one has the agent's. */
static void refuse_incomplete(struct supervision *self) {
  struct rlimit limit = {0};
  self->is_leaving = true;
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  (void)error_set(&self->page->failure.reason,
                  "cannot start a process: the open-file limit of its supervisor is %llu",
                  (unsigned long long)limit.rlim_cur);
  set_not_started(self, EMFILE);
}

static ino_t pipe_number(int fd) {
  struct stat pipe;
  return fstat(fd, &pipe) == 0 && S_ISFIFO(pipe.st_mode) ? pipe.st_ino : 0;
}

/* Nobody asks any more. A child that was killed has perhaps not stored its listener. */
static void forget_listener(struct supervision *self) {
  if (!self->has_listener)
    return;
  close_others(self);
  atomic_store(&self->listener, -1);
  self->has_listener = false;
}

static void start_command(struct supervision *self) {
  point_to_texts(self);
  if (self->has_grown || self->message.in_file)
    measure_floor(self);
  self->has_listener = self->exec.record != NULL && self->exec.record->has_listener;
  self->lets_udp_through = self->has_listener && self->exec.record->lets_udp_through;
  self->holds_descriptors = true;
  pid_t pid = make_child(self);
  if (pid < 0) {
    const int fork_errno = errno;
    (void)error_set(&self->page->failure.reason, "cannot start %.100s: %s", self->exec.argv[0],
                    strerror(fork_errno));
    set_not_started(self, fork_errno);
  }
  for (int i = 0; i < 2; i++)
    self->pipes[i] = pipe_number(self->descriptors[1 + i]);
  self->command = pid > 0 ? pid : 0;
  release_descriptors(self);
  atomic_store(&self->page->pid, self->command);
}

/* Adds the usage of the supervisor itself since then, except the resident size, which earlier work
   may have caused. */
static void add_own_usage(struct step_usage *self, const struct rusage *before) {
  struct rusage usage = {0};
  (void)getrusage(RUSAGE_SELF, &usage);
  timersub(&usage.ru_utime, &before->ru_utime, &usage.ru_utime);
  timersub(&usage.ru_stime, &before->ru_stime, &usage.ru_stime);
  usage.ru_majflt -= before->ru_majflt;
  usage.ru_nvcsw -= before->ru_nvcsw;
  usage.ru_nivcsw -= before->ru_nivcsw;
  usage.ru_inblock -= before->ru_inblock;
  usage.ru_oublock -= before->ru_oublock;
  add_usage(self, &usage, LONG_MAX);
}

static uint64_t smaller(uint64_t one, uint64_t other) {
  return one < other ? one : other;
}

/* Earlier work of this process has used processor time, too. Its hard limit stays. The signal of
   the limit shall end this process. */
static void confine_work(struct supervision *self, struct confine_record *record,
                         const struct rusage *before) {
  static const uint64_t signal = UINT64_C(1) << (SIGXCPU - 1);
  const uint64_t used = (uint64_t)(before->ru_utime.tv_sec + before->ru_stime.tv_sec) + 1;
  struct rlimit own = {RLIM_INFINITY, RLIM_INFINITY};
  (void)getrlimit(RLIMIT_CPU, &own);
  for (uint32_t i = 0; i < record->limit_count; i++)
    if (record->limits[i].resource == RLIMIT_CPU) {
      struct confine_limit *limit = &record->limits[i];
      limit->soft = smaller(limit->soft + used, own.rlim_max);
      limit->hard = smaller(limit->hard + used, own.rlim_max);
      (void)syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &signal, NULL, sizeof signal);
    }
  struct exec_failure *failure = &self->page->failure;
  int listener; /* there is none: work needs no network */
  const int directory = exec_command_open_directory(record, SUPERVISOR_DIRECTORY, failure);
  if (directory >= 0 && exec_command_install_filter(record, &listener, failure))
    (void)exec_command_restrict(record, directory, SUPERVISOR_RULES, failure);
}

/* The supervisor has a copy of the agent's memory. A command never sees it, but work reads
   untrusted files, so the agent's secrets are overwritten first. This copies the pages, which an
   idle supervisor shares with the agent. */
static void do_work(struct supervision *self) {
  struct rusage before = {0};
  (void)getrusage(RUSAGE_SELF, &before);
  (void)dup2(self->descriptors[1], STDOUT_FILENO);
  (void)dup2(self->descriptors[2], STDERR_FILENO);
  close_all(self->descriptors);
  atomic_store(&self->page->pid, getpid());
  if (!self->has_forgotten && self->options->forget != NULL)
    self->options->forget(self->options->owner);
  self->has_forgotten = true;
  struct confine_record *record = record_of(self);
  if (record != NULL)
    confine_work(self, record, &before);
  const bool is_refused = self->page->failure.stage == EXEC_REFUSED;
  int exit_code = is_refused ? 127 : self->options->work(self->body, self->message.task_length);
  add_own_usage(&self->page->usage, &before);
  (void)dup2(STDIN_FILENO, STDOUT_FILENO);
  (void)dup2(STDIN_FILENO, STDERR_FILENO);
  set_ended(self, (exit_code & 0xFF) << 8);
  release_message(self);
}

static void tidy_after_work(struct supervision *self) {
  self->is_leaving |= self->is_confined; /* it stays so */
  self->has_grown = true;
  close_others(self);
  (void)prctl(PR_SET_NAME, SUPERVISOR_NAME);
  self->is_leaving |= is_large(self) || fchdir(SUPERVISOR_DIRECTORY) != 0;
}

static void handle_message(struct supervision *self) {
  self->is_busy = true;
  self->has_ended = false;
  self->is_confined = self->message.record_at > 0;
  if (read_order(self) != SUPERVISOR_ORDER_NONE) {
    close_all(self->descriptors);
    set_ended(self, SIGKILL);
    release_message(self);
  } else if (self->descriptors[0] < 0) {
    refuse_incomplete(self);
  } else if (self->message.is_work) {
    do_work(self);
    tidy_after_work(self);
  } else {
    start_command(self);
  }
}

static void receive_message(struct supervision *self) {
  int received = supervisor_message_receive(SUPERVISOR_SOCKET, &self->message, self->body_space,
                                            &self->body, self->descriptors);
  if (received < 0)
    _exit(1); /* no memory: the agent sees its end */
  if (received > 0)
    handle_message(self);
  else
    self->agent_died = true;
}

/* Waits for a signal, the agent's end, a message if it is idle, or the time (-1: no limit). The
   socket of a dead agent is not polled, because it would always be ready. */
static void wait_for_event(struct supervision *self, int milliseconds) {
  static const uint64_t mask = ~(UINT64_C(1) << (SIGCHLD - 1) | UINT64_C(1) << (SIGCONT - 1));
  struct pollfd sockets[] = {
      {.fd = self->agent_died ? -1 : SUPERVISOR_SOCKET, .events = self->is_busy ? 0 : POLLIN},
      {.fd = atomic_load(&self->listener), .events = POLLIN}};
  struct timespec limit = {.tv_sec = milliseconds / 1000,
                           .tv_nsec = (long)(milliseconds % 1000) * 1000000};
  long ready = syscall(SYS_ppoll, sockets, sockets[1].fd >= 0 ? 2 : 1,
                       milliseconds < 0 ? NULL : &limit, &mask, sizeof mask);
  if (ready <= 0)
    return;
  if (sockets[1].revents != 0 && !loopback_answer(sockets[1].fd, self->lets_udp_through)) {
    close(sockets[1].fd);
    atomic_store(&self->listener, -1);
  }
  if ((sockets[0].revents & POLLIN) != 0)
    receive_message(self);
  else if (sockets[0].revents != 0)
    self->agent_died = true;
}

static void supervise_tree(struct supervision *self) {
  static const struct children_handler handler = {.ended = on_child_ended};
  int handled = children_handle(&handler, self);
  bool is_empty = handled < 0;
  CHECK(!is_empty || self->command == 0);
  release_descriptors(self);
  bool has_changed = !self->has_ended && (atomic_load(&self->page->ended) != 0 || is_empty);
  self->has_ended |= has_changed;
  if (is_empty) {
    forget_listener(self);
    self->is_leaving |= self->is_confined && was_changed(self);
    self->is_busy = false;
    self->obeyed = SUPERVISOR_ORDER_NONE;
    atomic_store(&self->page->left, 0);
    send_notification(self, SUPERVISOR_EMPTY | (has_changed ? SUPERVISOR_ENDED : 0));
    return;
  }
  if (has_changed)
    send_notification(self, SUPERVISOR_ENDED);
  obey(self);
  bool is_killing = self->obeyed == SUPERVISOR_ORDER_KILL;
  if (handled > 0)
    self->walk_ms = KILL_WALK_MS;
  if (handled == CHILDREN_AT_ONCE || (handled > 0 && is_killing))
    return;
  wait_for_event(self, is_killing ? self->walk_ms : -1);
  self->walk_ms = self->walk_ms < KILL_WALK_MAX_MS / 2 ? 2 * self->walk_ms : KILL_WALK_MAX_MS;
}

void supervisor_main(const struct supervisor_options *options, pid_t agent,
                     struct supervisor_page *page) {
  static struct supervision self;
  self.options = options;
  self.agent = agent;
  self.page = page;
  set_up(options->rules_fd);
  atomic_store(&self.listener, -1);
  self.own_pid = getpid();
  self.scheduling = read_scheduling();
  self.nice = getpriority(PRIO_PROCESS, 0) + options->nice;
  self.is_leaving = options->agent_pages > 0 && is_large(&self);
  measure_floor(&self);
  send_notification(&self, 0);
  while (self.is_busy || !(check_agent(&self) || (self.is_leaving && self.has_ended)))
    if (self.is_busy)
      supervise_tree(&self);
    else
      wait_for_event(&self, -1);
  _exit(0);
}
