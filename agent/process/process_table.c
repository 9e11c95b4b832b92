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
#include <time.h>
#include <unistd.h>

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

/* --- what a process is called ------------------------------------------------------------------ */

static void read_name(pid_t pid, char *out, size_t size) {
  (void)snprintf(out, size, "?");
  if (process_table_read_file(pid, "comm", out, size) > 0)
    out[strcspn(out, "\n")] = '\0';
}

/* Of "pid (name) state …"; the name may hold anything. */
const char *process_table_after_name(const char *stat) {
  const char *end = strrchr(stat, ')');
  return end != NULL && end[1] == ' ' ? end + 2 : "";
}

/* To read its arguments takes the lock of its memory, which a thread may hold that waits for a dead file
   system: such a thread is in state D. */
static bool may_hang(pid_t pid) {
  char path[64], name[320], stat[512];
  (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *tasks = opendir(path);
  bool hangs = tasks == NULL;
  for (const struct dirent *entry; !hangs && (entry = readdir(tasks)) != NULL;) {
    if (entry->d_name[0] == '.')
      continue;
    (void)snprintf(name, sizeof name, "task/%s/stat", entry->d_name);
    hangs = process_table_read_file(pid, name, stat, sizeof stat) > 0 &&
            *process_table_after_name(stat) == 'D';
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

/* --- who has a pipe --------------------------------------------------------------------------- */

struct holder_search {
  char link[64]; /* what a descriptor of that pipe links to in /proc */
  struct pipe_holder holder;
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
  struct pipe_holder *holder = &search->holder;
  if (holder->pid != 0 || pid == getpid() || !process_has_pipe(pid, search->link))
    return;
  holder->pid = pid;
  read_name(pid, holder->name, sizeof holder->name);
  process_table_command(pid, holder->command, sizeof holder->command);
}

struct pipe_holder process_table_pipe_holder(int fd) {
  struct holder_search search = {.holder = {.pid = 0}};
  struct stat pipe;
  if (fstat(fd, &pipe) == 0) {
    (void)snprintf(search.link, sizeof search.link, "pipe:[%llu]", (unsigned long long)pipe.st_ino);
    process_table_each(visit_holder, &search);
  }
  return search.holder;
}
