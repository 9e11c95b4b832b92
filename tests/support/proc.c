#include "tests/support/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/wait.h"

char *proc_read(pid_t pid, const char *name, size_t *length) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return NULL;
  size_t size = 0;
  size_t capacity = 4096;
  char *text = malloc(capacity);
  ssize_t n = 0;
  while (text != NULL && (n = read(fd, text + size, capacity - size - 1)) > 0) {
    size += (size_t)n;
    if (capacity - size < 2048) {
      capacity *= 2;
      char *grown = realloc(text, capacity);
      if (grown == NULL)
        free(text);
      text = grown;
    }
  }
  close(fd);
  if (text == NULL || n < 0) {
    free(text);
    return NULL;
  }
  text[size] = '\0';
  if (length != NULL)
    *length = size;
  return text;
}

long proc_status_kib(pid_t pid, const char *field) {
  char *status = proc_read(pid, "status", NULL);
  if (status == NULL)
    return -1;
  char label[64];
  snprintf(label, sizeof label, "\n%s:", field);
  const char *found = strstr(status, label);
  long kib = found == NULL ? -1 : strtol(found + strlen(label), NULL, 10);
  free(status);
  return kib;
}

int proc_fd_count(pid_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *directory = opendir(path);
  if (directory == NULL)
    return -1;
  int count = 0;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
    count += isdigit((unsigned char)entry->d_name[0]) != 0;
  closedir(directory);
  return count;
}

/* Reads the parent and the state from the fields after the name, which may contain anything. */
static pid_t parent_of(pid_t pid, char *state) {
  char *stat = proc_read(pid, "stat", NULL);
  int parent = -1;
  const char *behind = stat == NULL ? NULL : strrchr(stat, ')');
  if (behind == NULL || sscanf(behind + 1, " %c %d", state, &parent) != 2)
    parent = -1;
  free(stat);
  return parent;
}

/* Calls `visit` for each process until it returns false. */
static void each_process(bool (*visit)(pid_t pid, void *context), void *context) {
  DIR *directory = opendir("/proc");
  if (directory == NULL)
    return;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (pid > 0 && !visit(pid, context))
      break;
  }
  closedir(directory);
}

struct children {
  pid_t parent;
  int count;
  int zombies;
};

static bool count_child(pid_t pid, void *context) {
  struct children *children = context;
  char state = '?';
  if (parent_of(pid, &state) == children->parent) {
    children->count++;
    children->zombies += state == 'Z';
  }
  return true;
}

int proc_child_count(pid_t parent, int *zombies) {
  struct children children = {.parent = parent};
  each_process(count_child, &children);
  if (zombies != NULL)
    *zombies = children.zombies;
  return children.count;
}

struct search {
  const char *command_line;
  pid_t found;
};

/* A parent may exit meanwhile; its children then have another one. */
char proc_state(pid_t pid) {
  char state = '\0';
  (void)parent_of(pid, &state);
  return state;
}

struct place {
  pid_t parent;
  int left; /* of the search */
  pid_t found;
};

static bool look_at_place(pid_t pid, void *context) {
  struct place *place = context;
  char state;
  if (parent_of(pid, &state) == place->parent && place->left-- == 0)
    place->found = pid;
  return place->found == 0;
}

pid_t proc_child_of(pid_t parent, int place) {
  struct place sought = {.parent = parent, .left = place};
  each_process(look_at_place, &sought);
  return sought.found;
}

static bool is_descendant(pid_t pid) {
  for (int attempt = 0; attempt < 10; attempt++) {
    char state = '?';
    pid_t above = pid;
    while (above > 1 && above != getpid())
      above = parent_of(above, &state);
    if (above >= 0)
      return above == getpid();
  }
  return false;
}

static bool compare_command_line(pid_t pid, void *context) {
  struct search *search = context;
  size_t length;
  char *arguments = proc_read(pid, "cmdline", &length);
  if (arguments == NULL)
    return true;
  for (size_t i = 0; i + 1 < length; i++) {
    if (arguments[i] == '\0')
      arguments[i] = ' ';
  }
  if (strcmp(arguments, search->command_line) == 0 && is_descendant(pid))
    search->found = pid;
  free(arguments);
  return search->found == 0;
}

pid_t proc_find(const char *command_line) {
  struct search search = {.command_line = command_line};
  each_process(compare_command_line, &search);
  return search.found;
}

static bool is_there(void *command_line) {
  return proc_find(command_line) != 0;
}

static bool is_gone(void *command_line) {
  return proc_find(command_line) == 0;
}

pid_t proc_wait_for(const char *command_line, int bound_ms) {
  char *context = strdup(command_line);
  wait_until(is_there, context, bound_ms);
  free(context);
  return proc_find(command_line);
}

bool proc_wait_gone(const char *command_line, int bound_ms) {
  char *context = strdup(command_line);
  bool gone = wait_until(is_gone, context, bound_ms);
  free(context);
  return gone;
}

static bool pid_is_gone(void *context) {
  const pid_t *pid = context;
  char state = '?';
  return parent_of(*pid, &state) < 0 || state == 'Z';
}

bool proc_wait_pid_gone(pid_t pid, int bound_ms) {
  return wait_until(pid_is_gone, &pid, bound_ms);
}

static bool is_reaped(void *context) {
  return kill(*(const pid_t *)context, 0) != 0;
}

bool proc_wait_reaped(pid_t pid, int bound_ms) {
  return wait_until(is_reaped, &pid, bound_ms);
}

static bool kill_child(pid_t pid, void *context) {
  const pid_t *parent = context;
  char state = '?';
  if (parent_of(pid, &state) == *parent)
    proc_kill_tree(pid);
  return true;
}

void proc_kill_children(pid_t pid) {
  each_process(kill_child, &pid);
}

/* Stops it first, so that it does not notice the end of its children. */
void proc_kill_tree(pid_t pid) {
  kill(pid, SIGSTOP);
  proc_kill_children(pid);
  kill(pid, SIGKILL);
}

/* /proc/<pid>/syscall begins with the number, or is "running". */
bool proc_sleeps_in(pid_t pid, long system_call) {
  size_t length;
  char *call = proc_read(pid, "syscall", &length);
  char *end = call;
  bool sleeps = call != NULL && strtol(call, &end, 10) == system_call && end != call;
  free(call);
  return sleeps;
}
