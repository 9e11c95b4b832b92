/*
 * A pid that was listed may be another process's when it is signalled: its own parent may have reaped
 * it meanwhile. A child of the tree's root cannot be reaped by anybody else; of others a pidfd is taken
 * and the parent read again, which is the listed one or, when that has died, the root.
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
#include <time.h>
#include <unistd.h>

#include "agent/process/process_table.h"
#include "base/memory.h"

struct member {
  pid_t pid;
  pid_t parent;
};

struct walk {
  const struct process_tree *tree;
  struct member *members;
  size_t count;
};

/* Called for each before its children are listed. */
typedef void visit_member(void *context, const struct walk *walk, const struct member *member);

static void add_member(struct walk *self, pid_t pid, pid_t parent) {
  const struct process_tree *tree = self->tree;
  bool is_child = parent == tree->root;
  if (is_child && tree->is_excepted != NULL && tree->is_excepted(tree->context, pid))
    return;
  if (self->count == PROCESS_TREE_MAX)
    return;
  if ((self->count & (self->count - 1)) == 0) /* a power of two: full */
    self->members = memory_resize(self->members,
                                  (self->count == 0 ? 1 : 2 * self->count) * sizeof *self->members);
  self->members[self->count++] = (struct member){pid, parent};
}

/* One task's; the list is read in pieces that may end within a number. False: there is none. */
static bool add_children_of_task(struct walk *self, pid_t pid, const char *task) {
  char path[64], list[4096];
  (void)snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, task);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  pid_t child = 0;
  for (ssize_t length;
       self->count < PROCESS_TREE_MAX && (length = read(fd, list, sizeof list)) > 0;)
    for (ssize_t i = 0; i < length; i++)
      if (list[i] >= '0' && list[i] <= '9') {
        child = 10 * child + (list[i] - '0');
      } else if (child > 0) {
        add_member(self, child, pid);
        child = 0;
      }
  close(fd);
  return true;
}

struct by_parent {
  struct walk *walk;
  pid_t parent;
};

static void add_if_child(void *context, pid_t pid) {
  struct by_parent *search = context;
  if (process_table_parent(pid) == search->parent)
    add_member(search->walk, pid, search->parent);
}

/* Of each of its threads, which has its own. A kernel without CONFIG_PROC_CHILDREN has no lists. */
static void add_children(struct walk *self, pid_t pid) {
  char path[32], task[16];
  struct stat tasks;
  (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  (void)snprintf(task, sizeof task, "%d", (int)pid);
  bool has_list = add_children_of_task(self, pid, task);
  if (stat(path, &tasks) != 0)
    return;
  if (!has_list) {
    struct by_parent search = {self, pid};
    process_table_each(add_if_child, &search);
    return;
  }
  DIR *directory = tasks.st_nlink > 3 ? opendir(path) : NULL; /* ".", ".." and one thread */
  if (directory == NULL)
    return;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
    if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != pid)
      (void)add_children_of_task(self, pid, entry->d_name);
  closedir(directory);
}

static bool signal_by_number(pid_t pid, int signal) {
  bool is_there = kill(pid, signal) == 0;
  if (is_there && signal == SIGTERM)
    (void)kill(pid, SIGCONT);
  return is_there;
}

struct order {
  int signal;
  bool group_has_it; /* the command's */
};

static void signal_member(void *context, const struct walk *self, const struct member *member) {
  const struct order *order = context;
  const int signal = order->signal;
  const pid_t root = self->tree->root;
  bool has_it =
      signal != SIGKILL && order->group_has_it && getpgid(member->pid) == self->tree->command;
  if (signal == 0 || has_it)
    return;
  if (member->parent == root) {
    (void)signal_by_number(member->pid, signal);
    return;
  }
  int fd = (int)syscall(SYS_pidfd_open, member->pid, 0);
  if (fd < 0 && errno == ESRCH)
    return;
  pid_t parent = process_table_parent(member->pid);
  if (parent == member->parent || parent == root) {
    if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) != 0)
      (void)signal_by_number(member->pid, signal); /* kernel before 5.3 */
    else if (signal == SIGTERM)
      (void)syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
  }
  if (fd >= 0)
    close(fd);
}

static size_t walk_tree(const struct process_tree *tree, visit_member *visit, void *context) {
  struct walk walk = {.tree = tree};
  add_children(&walk, tree->root);
  for (size_t i = 0; i < walk.count; i++) {
    visit(context, &walk, &walk.members[i]);
    add_children(&walk, walk.members[i].pid);
  }
  free(walk.members);
  return walk.count;
}

size_t process_tree_signal(const struct process_tree *self, int signal) {
  struct order order = {.signal = signal};
  if (signal != 0 && self->command > 0) /* which leads no group yet right after its making */
    order.group_has_it = signal_by_number(-self->command, signal);
  if (process_table_is_known())
    return walk_tree(self, signal_member, &order);
  if (signal != 0 && self->command > 0 && !order.group_has_it)
    (void)signal_by_number(self->command, signal);
  return self->command > 0;
}

/* --- what lives of it -------------------------------------------------------------------------- */

struct list {
  struct step_process *processes;
  size_t max;
  struct process_tree_census census;
  int64_t now_ms, tick_ms, page_bytes;
};

/* The fields 3, 4, 14, 15, 22 and 24 of proc(5) stat. */
static bool read_stat(struct step_process *self, const struct list *list, pid_t pid) {
  char text[512];
  unsigned long user, system;
  unsigned long long begin;
  long pages;
  if (process_table_read_file(pid, "stat", text, sizeof text) <= 0 ||
      sscanf(process_table_after_name(text),
             "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %llu %*u "
             "%ld",
             &self->state, &self->parent, &user, &system, &begin, &pages) != 6)
    return false;
  self->pid = pid;
  self->cpu_ms = (int64_t)(user + system) * list->tick_ms;
  self->age_ms = list->now_ms - (int64_t)begin * list->tick_ms;
  self->rss_bytes = pages * list->page_bytes;
  return self->state != 'Z' && self->state != 'X';
}

/* The smallest of those that are listed makes room. */
static void list_member(void *context, const struct walk *walk, const struct member *member) {
  struct list *self = context;
  struct step_process process = {.pid = 0};
  (void)walk;
  if (!read_stat(&process, self, member->pid))
    return;
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
}

static const char *syscall_name(long number) {
  static const struct {
    long number;
    const char *name;
  } rows[] = {
      {SYS_read, "read"},
      {SYS_write, "write"},
      {SYS_readv, "readv"},
      {SYS_writev, "writev"},
      {SYS_pread64, "pread64"},
      {SYS_openat, "openat"},
      {SYS_close, "close"},
      {SYS_ppoll, "ppoll"},
      {SYS_pselect6, "pselect6"},
      {SYS_epoll_pwait, "epoll_pwait"},
      {SYS_futex, "futex"},
      {SYS_wait4, "wait4"},
      {SYS_waitid, "waitid"},
      {SYS_nanosleep, "nanosleep"},
      {SYS_clock_nanosleep, "clock_nanosleep"},
      {SYS_connect, "connect"},
      {SYS_accept, "accept"},
      {SYS_accept4, "accept4"},
      {SYS_recvfrom, "recvfrom"},
      {SYS_recvmsg, "recvmsg"},
      {SYS_sendto, "sendto"},
      {SYS_sendmsg, "sendmsg"},
      {SYS_flock, "flock"},
      {SYS_fcntl, "fcntl"},
      {SYS_fsync, "fsync"},
      {SYS_fdatasync, "fdatasync"},
      {SYS_rt_sigsuspend, "rt_sigsuspend"},
      {SYS_rt_sigtimedwait, "rt_sigtimedwait"},
#ifdef SYS_poll /* x86 has the older ones, too */
      {SYS_poll, "poll"},
      {SYS_select, "select"},
      {SYS_epoll_wait, "epoll_wait"},
      {SYS_pause, "pause"},
      {SYS_open, "open"},
#endif
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].number == number)
      return rows[i].name;
  return "";
}

/* In "wchan" a process that runs has 0; in "syscall" the word running. */
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

struct process_tree_census process_tree_list(const struct process_tree *self,
                                             struct step_process *list, size_t max) {
  struct timespec now = {0};
  (void)clock_gettime(CLOCK_BOOTTIME, &now);
  struct list state = {.processes = list,
                       .max = max,
                       .now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
                       .tick_ms = 1000 / sysconf(_SC_CLK_TCK),
                       .page_bytes = sysconf(_SC_PAGESIZE)};
  if (process_table_is_known())
    (void)walk_tree(self, list_member, &state);
  for (size_t i = 0; i < state.census.listed; i++) {
    process_table_command(list[i].pid, list[i].command, sizeof list[i].command);
    read_wait(&list[i]);
  }
  return state.census;
}
