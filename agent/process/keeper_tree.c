/*
 * A pid that was listed may be another process's when it is signalled: its own parent may have reaped
 * it meanwhile. A child of the root cannot be reaped by anybody else; of others a pidfd is taken and
 * the parent read again, which is the listed one or, when that has died, the root.
 */
#include "agent/process/keeper_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/process/process_table.h"
#include "base/memory.h"

struct member {
  pid_t pid;
  pid_t parent;
};

struct walk {
  const struct keeper_tree *tree;
  struct member *members;
  size_t count;
};

static void add_member(struct walk *self, pid_t pid, pid_t parent) {
  const struct keeper_tree *tree = self->tree;
  bool is_child = parent == tree->root;
  if (is_child && tree->is_excepted != NULL && tree->is_excepted(tree->context, pid))
    return;
  if (self->count == KEEPER_TREE_MAX)
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
  for (ssize_t length; self->count < KEEPER_TREE_MAX && (length = read(fd, list, sizeof list)) > 0;)
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
    (void)process_table_each(add_if_child, &search);
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

size_t keeper_tree_signal(const struct keeper_tree *self, int signal) {
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
