/*
 * A scan is a snapshot: processes come and go while it is taken. Two things keep that harmless. A
 * signal goes to a pidfd whose start time was compared with the snapshot's, so that a reused pid is
 * never hit. And the callers repeat the scan until it finds nobody (kill_sequence.c); a command
 * that forks faster than it is scanned is caught by its process group, which the kernel signals as
 * one.
 */
#include "agent/process/process_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"

enum membership { UNKNOWN, MEMBER, STRANGER };

struct member {
  pid_t pid;
  pid_t parent;
  pid_t group;
  uint64_t started;
  bool zombie;
  enum membership membership;
};

struct snapshot {
  struct member *members; /* by pid, ascending */
  size_t count;
  size_t capacity;
};

uint64_t process_tree_now(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_BOOTTIME, &now);
  uint64_t hertz = (uint64_t)sysconf(_SC_CLK_TCK);
  return (uint64_t)now.tv_sec * hertz + (uint64_t)now.tv_nsec * hertz / 1000000000;
}

/* Reads /proc/<pid>/<name> up to size - 1 bytes; returns the length, or -1. */
static ssize_t read_proc(pid_t pid, const char *name, char *out, size_t size) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  ssize_t length = read(fd, out, size - 1);
  close(fd);
  if (length >= 0)
    out[length] = '\0';
  return length;
}

/* Fields 3 (state), 4 (ppid), 5 (pgrp) and 22 (starttime) of proc(5) stat. The name in field 2 may
   hold anything, parentheses too, so the last one is searched. */
static bool read_stat(pid_t pid, struct member *member) {
  char text[1024];
  if (read_proc(pid, "stat", text, sizeof text) <= 0)
    return false;
  const char *rest = strrchr(text, ')');
  char state;
  int parent;
  int group;
  unsigned long long started;
  if (rest == NULL || sscanf(rest + 1,
                             " %c %d %d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                             "%*d %*d %llu",
                             &state, &parent, &group, &started) != 4)
    return false;
  *member = (struct member){.pid = pid,
                            .parent = parent,
                            .group = group,
                            .started = started,
                            .zombie = state == 'Z' || state == 'X'};
  return true;
}

bool process_tree_is_known(void) {
  char text[16];
  ssize_t length = readlink("/proc/self", text, sizeof text - 1);
  text[length > 0 ? length : 0] = '\0';
  return strtol(text, NULL, 10) == getpid();
}

/* Reads the tag in a process's environment: 1 with its value, 0 when it has none or may not be
 * read. */
static int read_tag(pid_t pid, char *value, size_t size) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return 0;
  char *entry = NULL;
  size_t capacity = 0;
  int found = 0;
  while (found == 0 && getdelim(&entry, &capacity, '\0', file) > 0)
    if (strncmp(entry, PROCESS_TREE_TAG "=", sizeof PROCESS_TREE_TAG) == 0) {
      (void)snprintf(value, size, "%s", entry + sizeof PROCESS_TREE_TAG);
      found = 1;
    }
  free(entry);
  (void)fclose(file);
  return found;
}

static int compare_pid(const void *left, const void *right) {
  pid_t a = ((const struct member *)left)->pid;
  pid_t b = ((const struct member *)right)->pid;
  return (a > b) - (a < b);
}

static struct member *snapshot_find(const struct snapshot *self, pid_t pid) {
  struct member key = {.pid = pid};
  return self->count == 0 ? NULL
                          : bsearch(&key, self->members, self->count, sizeof key, compare_pid);
}

/* Calls back for each process in /proc; false when that is not known. */
static bool for_each_process(void (*visit)(void *context, pid_t pid), void *context) {
  DIR *proc = process_tree_is_known() ? opendir("/proc") : NULL;
  if (proc == NULL)
    return false;
  for (const struct dirent *entry; (entry = readdir(proc)) != NULL;) {
    char *end;
    long pid = strtol(entry->d_name, &end, 10);
    if (*end != '\0' || pid <= 0)
      continue;
    visit(context, (pid_t)pid);
  }
  closedir(proc);
  return true;
}

static void snapshot_add(void *context, pid_t pid) {
  struct snapshot *self = context;
  if (self->count == self->capacity) {
    self->capacity = self->capacity == 0 ? 256 : self->capacity * 2;
    self->members = memory_resize(self->members, self->capacity * sizeof *self->members);
  }
  if (read_stat(pid, &self->members[self->count]))
    self->count++;
}

/* Tags are "<agent>-<step>". Another agent, run inside a step, replaces the tag by its own, from
   which nothing follows here. */
static bool is_of_same_agent(const char *tag, const char *other) {
  const char *dash = strrchr(tag, '-');
  return dash == NULL || strncmp(tag, other, (size_t)(dash - tag) + 1) == 0;
}

/* The membership that follows from a process itself, without its ancestors. */
static enum membership own_membership(const struct process_tree *tree,
                                      const struct member *member) {
  if (tree->tag == NULL)
    return UNKNOWN;
  if (member->pid == tree->leader)
    return MEMBER;
  char value[128];
  if (!read_tag(member->pid, value, sizeof value))
    return UNKNOWN;
  if (strcmp(value, tree->tag) == 0)
    return MEMBER;
  return is_of_same_agent(tree->tag, value) ? STRANGER : UNKNOWN;
}

/* Follows the parents up to the first known answer, or to the agent's own child. The number of
   steps is bounded: a torn snapshot may hold a circle. */
static enum membership inherited_membership(const struct process_tree *tree,
                                            const struct snapshot *snapshot,
                                            const struct member *member, pid_t agent) {
  for (size_t steps = 0; member != NULL && steps < snapshot->count; steps++) {
    if (member->pid == agent)
      return STRANGER;
    if (member->membership != UNKNOWN)
      return member->membership;
    if (member->parent == agent)
      return tree->tag == NULL || member->started >= tree->since_ticks ? MEMBER : STRANGER;
    member = snapshot_find(snapshot, member->parent);
  }
  return STRANGER;
}

static void send_signal(const struct member *member, int signal) {
  int fd = (int)syscall(SYS_pidfd_open, member->pid, 0);
  if (fd < 0) {
    if (errno != ESRCH)
      (void)kill(member->pid, signal); /* kernel before 5.3 */
    return;
  }
  struct member now;
  if (read_stat(member->pid, &now) && now.started == member->started &&
      syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) != 0 && errno == ENOSYS)
    (void)kill(member->pid, signal);
  close(fd);
}

static size_t signal_members(const struct process_tree *tree, const struct snapshot *snapshot,
                             int signal) {
  pid_t agent = getpid();
  size_t living = 0;
  bool group = false;
  for (size_t i = 0; i < snapshot->count; i++) {
    struct member *member = &snapshot->members[i];
    if (member->zombie || inherited_membership(tree, snapshot, member, agent) != MEMBER)
      continue;
    living++;
    if (signal == 0)
      continue;
    if (tree->leader != 0 && member->group == tree->leader)
      group = true;
    else
      send_signal(member, signal);
  }
  if (group)
    (void)kill(-tree->leader, signal);
  return living;
}

size_t process_tree_signal(const struct process_tree *self, int signal) {
  CHECK((self->tag == NULL) == (self->leader == 0));
  struct snapshot snapshot = {0};
  size_t living = 0;
  if (for_each_process(snapshot_add, &snapshot)) {
    qsort(snapshot.members, snapshot.count, sizeof *snapshot.members, compare_pid);
    for (size_t i = 0; i < snapshot.count; i++)
      snapshot.members[i].membership = own_membership(self, &snapshot.members[i]);
    living = signal_members(self, &snapshot, signal);
  } else if (self->leader != 0) {
    living = kill(-self->leader, signal) == 0;
  } else if (getpid() == 1) {
    living = kill(-1, signal) == 0; /* all but this one */
  }
  free(snapshot.members);
  return living;
}

/* The last of this process's own children in the kernel's list, which is the newest. */
static pid_t newest_child(int children_fd, char *text, size_t size) {
  ssize_t length = pread(children_fd, text, size - 1, 0);
  while (length > 0 && text[length - 1] == ' ')
    length--;
  if (length <= 0)
    return 0;
  text[length] = '\0';
  const char *last = strrchr(text, ' ');
  return (pid_t)strtol(last != NULL ? last + 1 : text, NULL, 10);
}

void process_tree_chase(const struct process_tree *self, int milliseconds) {
  enum { LIST_SIZE = 256 * 1024 };
  if (!process_tree_is_known())
    return;
  int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  char *list = memory_allocate(LIST_SIZE);
  for (int64_t end = clock_monotonic_ms() + milliseconds; clock_monotonic_ms() < end;) {
    struct member child;
    pid_t pid = newest_child(fd, list, LIST_SIZE);
    if (pid <= 0 || !read_stat(pid, &child) || child.zombie || child.started < self->since_ticks)
      continue;
    if (self->tag == NULL || own_membership(self, &child) != STRANGER)
      (void)kill(pid, SIGKILL); /* not reaped yet, so that no other process has the pid */
  }
  free(list);
  close(fd);
}

struct holder_search {
  char link[64]; /* what a descriptor of that pipe links to in /proc */
  size_t found;
  char *name;
  size_t size;
};

/* Reads the links, without following them: another one may lead into a dead network mount. */
static bool process_has_pipe(pid_t pid, const char *link) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *fds = opendir(path);
  if (fds == NULL)
    return false;
  bool found = false;
  for (const struct dirent *entry; !found && (entry = readdir(fds)) != NULL;) {
    char target[64];
    ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    found = strcmp(target, link) == 0;
  }
  closedir(fds);
  return found;
}

static void visit_holder(void *context, pid_t pid) {
  struct holder_search *search = context;
  if (pid == getpid() || !process_has_pipe(pid, search->link))
    return;
  if (search->found++ == 0) {
    char comm[32] = "?";
    if (read_proc(pid, "comm", comm, sizeof comm) > 0)
      comm[strcspn(comm, "\n")] = '\0';
    (void)snprintf(search->name, search->size, "pid %d (%s)", (int)pid, comm);
  }
}

size_t process_tree_pipe_holder(int fd, char *name, size_t size) {
  struct holder_search search = {.name = name, .size = size};
  name[0] = '\0';
  struct stat pipe;
  if (fstat(fd, &pipe) != 0)
    return 0;
  (void)snprintf(search.link, sizeof search.link, "pipe:[%llu]", (unsigned long long)pipe.st_ino);
  (void)for_each_process(visit_holder, &search);
  return search.found;
}
