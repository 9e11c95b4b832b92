/*
 * A pid that was listed may be another process's when it is signalled: its own parent may have reaped
 * it meanwhile. A child of the tree's root cannot be reaped by anybody else; of others a pidfd is taken
 * and the parent read again, which is the listed one or, when that has died, the root.
 */
#include "agent/process/process_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/memory.h"

bool process_table_is_known(void) {
  char text[16];
  ssize_t length = readlink("/proc/self", text, sizeof text - 1);
  text[length > 0 ? length : 0] = '\0';
  return strtol(text, NULL, 10) == getpid();
}

ssize_t process_table_read_file(pid_t pid, const char *name, char *out, size_t size) {
  char path[64];
  if (pid == 0)
    (void)snprintf(path, sizeof path, "/proc/self/%s", name);
  else
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

/* Field 4 of proc(5) stat. The name in field 2 may hold anything, parentheses too, so the last one is
   searched. One that is reaped while it is read has the parent 0. */
pid_t process_table_parent(pid_t pid) {
  char text[512];
  if (process_table_read_file(pid, "stat", text, sizeof text) <= 0)
    return -1;
  const char *name_end = strrchr(text, ')');
  if (name_end == NULL || name_end[1] != ' ' || name_end[2] == '\0')
    return -1;
  return (pid_t)strtol(name_end + 3, NULL, 10);
}

void process_table_each(void (*visit)(void *context, pid_t pid), void *context) {
  DIR *proc = process_table_is_known() ? opendir("/proc") : NULL;
  if (proc == NULL)
    return;
  for (const struct dirent *entry; (entry = readdir(proc)) != NULL;) {
    char *end;
    long pid = strtol(entry->d_name, &end, 10);
    if (*end == '\0' && pid > 0)
      visit(context, (pid_t)pid);
  }
  closedir(proc);
}

/* --- who has a pipe --------------------------------------------------------------------------- */

struct holder_search {
  char link[64]; /* what a descriptor of that pipe links to in /proc */
  char *name;    /* "" until one is found */
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
  if (search->name[0] != '\0' || pid == getpid() || !process_has_pipe(pid, search->link))
    return;
  char comm[32] = "?";
  if (process_table_read_file(pid, "comm", comm, sizeof comm) > 0)
    comm[strcspn(comm, "\n")] = '\0';
  (void)snprintf(search->name, search->size, "pid %d (%s)", (int)pid, comm);
}

void process_table_pipe_holder(int fd, char *name, size_t size) {
  struct holder_search search = {.name = name, .size = size};
  name[0] = '\0';
  struct stat pipe;
  if (fstat(fd, &pipe) != 0)
    return;
  (void)snprintf(search.link, sizeof search.link, "pipe:[%llu]", (unsigned long long)pipe.st_ino);
  process_table_each(visit_holder, &search);
}

/* --- a tree ----------------------------------------------------------------------------------- */

struct member {
  pid_t pid;
  pid_t parent;
};

struct walk {
  const struct process_tree *tree;
  struct member *members;
  size_t count;
};

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

static void signal_by_number(pid_t pid, int signal) {
  (void)kill(pid, signal);
  if (signal == SIGTERM)
    (void)kill(pid, SIGCONT);
}

static void signal_member(const struct walk *self, const struct member *member, int signal) {
  const pid_t root = self->tree->root;
  bool has_it = signal != SIGKILL && self->tree->command > 0 &&
                getpgid(member->pid) == self->tree->command; /* by its group */
  if (signal == 0 || has_it)
    return;
  if (member->parent == root) {
    signal_by_number(member->pid, signal);
    return;
  }
  int fd = (int)syscall(SYS_pidfd_open, member->pid, 0);
  if (fd < 0 && errno == ESRCH)
    return;
  pid_t parent = process_table_parent(member->pid);
  if (parent == member->parent || parent == root) {
    if (fd < 0 || syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) != 0)
      signal_by_number(member->pid, signal); /* kernel before 5.3 */
    else if (signal == SIGTERM)
      (void)syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
  }
  if (fd >= 0)
    close(fd);
}

size_t process_tree_signal(const struct process_tree *self, int signal) {
  struct walk walk = {.tree = self};
  if (signal != 0 && self->command > 0)
    signal_by_number(-self->command, signal);
  if (!process_table_is_known())
    return self->command > 0;
  add_children(&walk, self->root);
  for (size_t i = 0; i < walk.count; i++) {
    signal_member(&walk, &walk.members[i], signal);
    add_children(&walk, walk.members[i].pid);
  }
  free(walk.members);
  return walk.count;
}
