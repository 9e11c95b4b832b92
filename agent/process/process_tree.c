/*
 * The hard part: a pid that was listed may be another process's when it is signalled, because its
 * parent may have reaped it. Only this process can reap the children of the root. For the others
 * the walk opens a pidfd and reads the parent again, which must be the listed one or, if that has
 * died, the root.
 */
#include "agent/process/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

struct tree_member {
  pid_t pid;
  pid_t parent;
};

struct members {
  struct tree_member *all;
  size_t count, capacity;
};

struct tree_walk;
struct newest;

/* Called once per process, before its children are listed. Returns false if the process is dead or
   does not belong to the tree: then it does not count, and its children are not listed. */
typedef bool visit_member(void *context, const struct tree_walk *walk,
                          const struct tree_member *member);

struct tree_walk {
  const struct process_tree *tree;
  pid_t root; /* this process */
  visit_member *visit;
  void *context;
  bool kills; /* the visit sends SIGKILL */
  struct members found;
  struct newest *newest; /* the children of one thread; allocated once per walk */
  /* If the kernel has no lists of children (CONFIG_PROC_CHILDREN): all processes of /proc except
     the root's children. */
  struct members others;
  struct process_scan scan;
  bool is_cut;
  bool saw_dead; /* a child of the root, whose children may have been missed */
};

static void append(struct members *self, struct tree_member member) {
  if (self->count == self->capacity) {
    self->capacity = self->capacity > 0 ? 2 * self->capacity : 64;
    self->all = memory_resize(self->all, self->capacity * sizeof *self->all);
  }
  self->all[self->count++] = member;
}

static bool is_time_over(const struct tree_walk *self) {
  return self->scan.until_ms != 0 && clock_monotonic_ms() >= self->scan.until_ms;
}

static void add_member(struct tree_walk *self, pid_t pid, pid_t parent) {
  const struct process_tree *tree = self->tree;
  const struct tree_member member = {pid, parent};
  if (parent == self->root && tree->is_excepted != NULL && tree->is_excepted(tree->context, pid))
    return;
  if (self->found.count < PROCESS_TREE_MAX && self->visit(self->context, self, &member))
    append(&self->found, member);
}

/* --- with the kernel's lists of children -------------------------------------------------------
   */

/* The end of a list of children, as a ring. */
struct newest {
  size_t count; /* of the whole list */
  pid_t pids[PROCESS_TREE_MAX];
};

/* Each read may end within a number. */
static void read_children(struct newest *self, pid_t pid, const char *task) {
  char path[64], list[4096];
  (void)snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, task);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  self->count = 0;
  if (fd < 0)
    return;
  pid_t child = 0;
  for (ssize_t length; (length = read(fd, list, sizeof list)) > 0;)
    for (ssize_t i = 0; i < length; i++)
      if (list[i] >= '0' && list[i] <= '9') {
        child = 10 * child + (list[i] - '0');
      } else if (child > 0) {
        self->pids[self->count++ % PROCESS_TREE_MAX] = child;
        child = 0;
      }
  close(fd);
}

static void add_children_of_task(struct tree_walk *self, pid_t pid, const char *task) {
  struct newest *newest = self->newest;
  read_children(newest, pid, task);
  size_t end = newest->count > PROCESS_TREE_MAX ? newest->count - PROCESS_TREE_MAX : 0;
  for (size_t i = newest->count; i > end; i--)
    add_member(self, newest->pids[(i - 1) % PROCESS_TREE_MAX], pid);
}

/* Each thread has a list of its own. */
static void add_listed_children(struct tree_walk *self, pid_t pid) {
  char path[32], task[16];
  struct stat tasks;
  (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  (void)snprintf(task, sizeof task, "%d", (int)pid);
  add_children_of_task(self, pid, task);
  if (stat(path, &tasks) != 0 || tasks.st_nlink <= 3) /* ".", ".." and one thread */
    return;
  DIR *directory = opendir(path);
  if (directory == NULL)
    return;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL && !is_time_over(self);)
    if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != pid)
      add_children_of_task(self, pid, entry->d_name);
  closedir(directory);
}

/* --- without them ----------------------------------------------------------------------------- */

enum child_state { NO_CHILD, CHILD_LIVES, CHILD_DEAD };

/* Much cheaper than reading /proc. A child is dead when all of its threads have ended. */
static enum child_state state_of_child(pid_t pid) {
  siginfo_t info = {0};
  if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
    return NO_CHILD;
  return info.si_pid == 0 ? CHILD_LIVES : CHILD_DEAD;
}

static void kill_child(void *context, pid_t pid) {
  const struct process_tree *tree = ((const struct tree_walk *)context)->tree;
  if (state_of_child(pid) == CHILD_LIVES &&
      (tree->is_excepted == NULL || !tree->is_excepted(tree->context, pid)))
    (void)kill(pid, SIGKILL);
}

static void note_process(void *context, pid_t pid) {
  struct tree_walk *self = context;
  enum child_state state = state_of_child(pid);
  struct process_stat stat;
  if (state == CHILD_LIVES)
    add_member(self, pid, self->root);
  self->saw_dead |= state == CHILD_DEAD;
  if (state == NO_CHILD && process_table_stat(pid, &stat) && stat.lives)
    append(&self->others, (struct tree_member){pid, stat.parent});
}

/* New processes have higher numbers and come later in /proc. A reader that is faster than processes
   fork and exit finds all of them, so SIGKILL is sent before anything else is read. */
static void scan_processes(struct tree_walk *self) {
  if (self->kills && self->scan.until_ms == 0)
    (void)process_table_each(&self->scan, kill_child, self);
  self->is_cut = !process_table_each(&self->scan, note_process, self);
}

static void add_noted_children(struct tree_walk *self, pid_t parent) {
  for (size_t i = self->others.count; i > 0; i--)
    if (self->others.all[i - 1].parent == parent)
      add_member(self, self->others.all[i - 1].pid, parent);
}

/* --- the walk -------------------------------------------------------------------------------- */

/* Returns how many processes were found. */
static size_t walk_tree(struct tree_walk *self) {
  const struct process_tree *tree = self->tree;
  self->root = getpid();
  self->scan.position = tree->position;
  self->scan.until_ms = tree->turn_ms > 0 ? clock_monotonic_ms() + tree->turn_ms : 0;
  const bool has_lists = access("/proc/thread-self/children", R_OK) == 0;
  if (has_lists) {
    self->newest = memory_allocate(sizeof *self->newest);
    add_listed_children(self, self->root);
  } else {
    scan_processes(self);
  }
  for (size_t i = 0; i < self->found.count && !self->is_cut; i++) {
    if (has_lists)
      add_listed_children(self, self->found.all[i].pid);
    else
      add_noted_children(self, self->found.all[i].pid);
    self->is_cut = is_time_over(self);
  }
  free(self->newest);
  free(self->found.all);
  free(self->others.all);
  return self->found.count;
}

/* --- signals -------------------------------------------------------------------------------- */

static bool signal_by_number(pid_t pid, int signal) {
  bool is_there = kill(pid, signal) == 0;
  if (is_there && signal == SIGTERM)
    (void)kill(pid, SIGCONT);
  return is_there;
}

struct order {
  int signal;
  bool was_sent_to_group; /* of the command */
  bool saw_dead;          /* a child of the root */
};

static bool signal_descendant(const struct tree_walk *self, const struct tree_member *member,
                              int signal) {
  int fd = (int)syscall(SYS_pidfd_open, member->pid, 0);
  if (fd < 0 && errno == ESRCH)
    return false;
  struct process_stat stat;
  const bool lives = process_table_stat(member->pid, &stat) && stat.lives &&
                     (stat.parent == member->parent || stat.parent == self->root);
  if (lives && signal != 0) {
    if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) != 0)
      (void)signal_by_number(member->pid, signal); /* kernel before 5.3 */
    else if (signal == SIGTERM)
      (void)syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
  }
  if (fd >= 0)
    close(fd);
  return lives;
}

static bool signal_member(void *context, const struct tree_walk *self,
                          const struct tree_member *member) {
  struct order *order = context;
  bool has_it = order->signal != SIGKILL && order->was_sent_to_group &&
                getpgid(member->pid) == self->tree->command;
  int signal = has_it ? 0 : order->signal;
  if (member->parent != self->root)
    return signal_descendant(self, member, signal);
  if (signal != 0)
    (void)signal_by_number(member->pid, signal);
  const enum child_state state = state_of_child(member->pid);
  order->saw_dead |= state == CHILD_DEAD;
  return state == CHILD_LIVES;
}

size_t process_tree_signal(struct process_tree *self, int signal) {
  struct order order = {.signal = signal};
  if (signal != 0 && self->command > 0) /* fails while the command leads no group yet */
    order.was_sent_to_group = signal_by_number(-self->command, signal);
  if (!process_table_is_known()) {
    if (signal != 0 && self->command > 0 && !order.was_sent_to_group)
      (void)signal_by_number(self->command, signal);
    return self->command > 0;
  }
  struct tree_walk walk = {
      .tree = self, .visit = signal_member, .context = &order, .kills = signal == SIGKILL};
  const size_t found = self->found + walk_tree(&walk);
  const bool saw_dead = self->saw_dead || walk.saw_dead || order.saw_dead;
  self->is_cut = walk.is_cut;
  self->position = walk.scan.position;
  self->found = self->position != 0 ? found : 0;
  self->saw_dead = self->position != 0 && saw_dead;
  return found == 0 && (walk.is_cut || saw_dead) ? 1 : found;
}

/* --- live processes --------------------------------------------------------------------------- */

struct member_list {
  const ino_t *pipes;
  struct step_process *processes;
  size_t max;
  struct process_tree_census census;
  int64_t now_ms, tick_ms, page_bytes;
};

/* Half of the time is left for the count. */
static bool may_search(const struct tree_walk *walk) {
  return walk->scan.until_ms == 0 ||
         clock_monotonic_ms() < walk->scan.until_ms - walk->tree->turn_ms / 2;
}

/* Keeps the list sorted; if it is full, the smallest process is dropped. */
static bool list_member(void *context, const struct tree_walk *walk,
                        const struct tree_member *member) {
  struct member_list *self = context;
  struct process_stat stat;
  if (!process_table_stat(member->pid, &stat) || !stat.lives)
    return false;
  if (self->pipes != NULL && self->census.holder.pid == 0 && may_search(walk) &&
      process_table_has_pipe(member->pid, self->pipes))
    self->census.holder = process_table_holder(member->pid);
  const int64_t age_ms = self->now_ms - (int64_t)stat.begin_ticks * self->tick_ms;
  const struct step_process process = {
      .pid = member->pid,
      .parent = stat.parent,
      .state = stat.state,
      .cpu_ms = (int64_t)(stat.user_ticks + stat.system_ticks) * self->tick_ms,
      .age_ms = age_ms > 0 ? age_ms : 0, /* it may be younger than the walk */
      .rss_bytes = stat.pages * self->page_bytes};
  self->census.living++;
  self->census.rss_bytes += process.rss_bytes;
  size_t at = self->census.listed < self->max ? self->census.listed++ : self->max;
  while (at > 0 && self->processes[at - 1].rss_bytes < process.rss_bytes) {
    if (at < self->max)
      self->processes[at] = self->processes[at - 1];
    at--;
  }
  if (at < self->max)
    self->processes[at] = process;
  return true;
}

static const char *syscall_name(long number) {
#define ROW(NAME)                                                                                  \
  { SYS_##NAME, #NAME }
  static const struct {
    long number;
    const char *name;
  } rows[] = {
      ROW(read),     ROW(write),       ROW(readv),         ROW(writev),
      ROW(pread64),  ROW(openat),      ROW(close),         ROW(ppoll),
      ROW(pselect6), ROW(epoll_pwait), ROW(futex),         ROW(wait4),
      ROW(waitid),   ROW(nanosleep),   ROW(connect),       ROW(clock_nanosleep),
      ROW(accept),   ROW(accept4),     ROW(recvfrom),      ROW(recvmsg),
      ROW(sendto),   ROW(sendmsg),     ROW(flock),         ROW(fcntl),
      ROW(fsync),    ROW(fdatasync),   ROW(rt_sigsuspend), ROW(rt_sigtimedwait),
#ifdef SYS_poll /* x86 has the older ones, too */
      ROW(poll),     ROW(select),      ROW(epoll_wait),    ROW(pause),
      ROW(open),
#endif
  };
#undef ROW
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].number == number)
      return rows[i].name;
  return "";
}

/* If the process runs, "wchan" is 0 and "syscall" is the word running. */
static void read_wait(struct step_process *self) {
  char text[256], *end;
  if (process_table_read_file(self->pid, "wchan", text, sizeof text) > 0 && text[0] != '0')
    (void)snprintf(self->wait, sizeof self->wait, "%.*s", (int)sizeof self->wait - 1, text);
  if (process_table_read_file(self->pid, "syscall", text, sizeof text) <= 0)
    return;
  long number = strtol(text, &end, 10);
  if (end > text)
    (void)snprintf(self->syscall, sizeof self->syscall, "%s", syscall_name(number));
}

struct process_tree_census process_tree_list(const struct process_tree *self, const ino_t pipes[2],
                                             struct step_process *list, size_t max) {
  struct timespec now = {0};
  (void)clock_gettime(CLOCK_BOOTTIME, &now);
  struct member_list state = {.pipes = pipes,
                              .processes = list,
                              .max = max,
                              .now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
                              .tick_ms = 1000 / sysconf(_SC_CLK_TCK),
                              .page_bytes = sysconf(_SC_PAGESIZE)};
  struct tree_walk walk = {.tree = self, .visit = list_member, .context = &state};
  if (process_table_is_known())
    (void)walk_tree(&walk);
  if (walk.is_cut)
    state.census.living = -1;
  for (size_t i = 0; i < state.census.listed; i++) {
    process_table_command(list[i].pid, list[i].command, sizeof list[i].command);
    read_wait(&list[i]);
  }
  return state.census;
}
