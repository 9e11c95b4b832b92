#include "agent/process/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

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

/* The text is "pid (name) state …". The name may contain parentheses, so the last one counts.
   Returns "" if there are no fields behind it. */
static const char *after_name(const char *text) {
  const char *end = strrchr(text, ')');
  return end != NULL && end[1] == ' ' ? end + 2 : "";
}

/* Reads the fields 3, 4, 14, 15, 20, 22 and 24. */
bool process_table_stat(pid_t pid, struct process_stat *stat) {
  char text[512];
  long threads;
  if (process_table_read_file(pid, "stat", text, sizeof text) <= 0 ||
      sscanf(after_name(text),
             "%c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %ld %*d %llu %*u "
             "%ld",
             &stat->state, &stat->parent, &stat->user_ticks, &stat->system_ticks, &threads,
             &stat->begin_ticks, &stat->pages) != 7) {
    *stat = (struct process_stat){.parent = -1};
    return false;
  }
  stat->lives = (stat->state != 'Z' && stat->state != 'X') || threads > 1;
  return true;
}

pid_t process_table_parent(pid_t pid) {
  struct process_stat stat;
  (void)process_table_stat(pid, &stat);
  return stat.parent;
}

/* How many processes are visited before the clock is read again. */
#define VISITED_AT_ONCE 128

bool process_table_each(struct process_scan *scan, void (*visit)(void *context, pid_t pid),
                        void *context) {
  DIR *proc = process_table_is_known() ? opendir("/proc") : NULL;
  const long begin = scan->position;
  scan->position = 0;
  if (proc == NULL)
    return true;
  if (begin != 0)
    seekdir(proc, begin);
  const struct dirent *entry;
  for (unsigned visited = 1; (entry = readdir(proc)) != NULL; visited++) {
    char *end;
    long pid = strtol(entry->d_name, &end, 10);
    if (*end == '\0' && pid > 0)
      visit(context, (pid_t)pid);
    if (visited % VISITED_AT_ONCE == 0 && scan->until_ms != 0 &&
        clock_monotonic_ms() >= scan->until_ms) {
      scan->position = telldir(proc);
      break;
    }
  }
  closedir(proc);
  return scan->position == 0;
}

/* The arguments of a process with more threads are not read. */
#define THREADS_MAX 256

/* Reading the arguments takes the lock of the memory, which a thread may hold while it waits for a
   dead file system. Such a thread is in state D. */
static bool may_hang(pid_t pid) {
  char path[64], name[320], stat[512];
  (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *tasks = opendir(path);
  bool hangs = tasks == NULL;
  const struct dirent *entry;
  for (int threads = 0; !hangs && (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.')
      continue;
    (void)snprintf(name, sizeof name, "task/%s/stat", entry->d_name);
    hangs = ++threads > THREADS_MAX ||
            (process_table_read_file(pid, name, stat, sizeof stat) > 0 && *after_name(stat) == 'D');
  }
  if (tasks != NULL)
    closedir(tasks);
  return hangs;
}

void process_table_command(pid_t pid, char *out, size_t size) {
  ssize_t length = may_hang(pid) ? -1 : process_table_read_file(pid, "cmdline", out, size);
  while (length > 0 && out[length - 1] == '\0')
    length--;
  if (length > 0) {
    for (ssize_t i = 0; i < length; i++)
      if (out[i] == '\0')
        out[i] = ' ';
    return;
  }
  char name[32];
  out[0] = '\0';
  if (process_table_read_file(pid, "comm", name, sizeof name) > 0)
    (void)snprintf(out, size, "[%.*s]", (int)strcspn(name, "\n"), name);
}

/* A process inherits its output, so it is among the first descriptors. */
#define DESCRIPTORS_MAX 1024

/* Reads the links without following them, because one may lead into a dead network mount. */
bool process_table_has_pipe(pid_t pid, const ino_t pipes[2]) {
  char path[64], links[2][64];
  for (int i = 0; i < 2; i++)
    (void)snprintf(links[i], sizeof links[i], "pipe:[%llu]", (unsigned long long)pipes[i]);
  (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
  DIR *fds = opendir(path);
  if (fds == NULL)
    return false;
  bool found = false;
  const struct dirent *entry;
  for (int i = 0; !found && i < DESCRIPTORS_MAX && (entry = readdir(fds)) != NULL; i++) {
    char target[64];
    ssize_t length = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    found = (pipes[0] != 0 && strcmp(target, links[0]) == 0) ||
            (pipes[1] != 0 && strcmp(target, links[1]) == 0);
  }
  closedir(fds);
  return found;
}

struct pipe_holder process_table_holder(pid_t pid) {
  struct pipe_holder holder = {.pid = pid, .name = "?"};
  if (process_table_read_file(pid, "comm", holder.name, sizeof holder.name) > 0)
    holder.name[strcspn(holder.name, "\n")] = '\0';
  process_table_command(pid, holder.command, sizeof holder.command);
  return holder;
}
