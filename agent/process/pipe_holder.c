#include "agent/process/pipe_holder.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/process/process_table.h"

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
    if (process_table_read_file(pid, "comm", comm, sizeof comm) > 0)
      comm[strcspn(comm, "\n")] = '\0';
    (void)snprintf(search->name, search->size, "pid %d (%s)", (int)pid, comm);
  }
}

size_t pipe_holder_find(int fd, char *name, size_t size) {
  struct holder_search search = {.name = name, .size = size};
  name[0] = '\0';
  struct stat pipe;
  if (fstat(fd, &pipe) != 0)
    return 0;
  (void)snprintf(search.link, sizeof search.link, "pipe:[%llu]", (unsigned long long)pipe.st_ino);
  (void)process_table_each(visit_holder, &search);
  return search.found;
}
