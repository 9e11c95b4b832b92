#include "agent/process/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool process_table_is_known(void) {
  char text[16];
  ssize_t length = readlink("/proc/self", text, sizeof text - 1);
  text[length > 0 ? length : 0] = '\0';
  return strtol(text, NULL, 10) == getpid();
}

ssize_t process_table_read_file(pid_t pid, const char *name, char *out, size_t size) {
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

bool process_table_each(void (*visit)(void *context, pid_t pid), void *context) {
  DIR *proc = process_table_is_known() ? opendir("/proc") : NULL;
  if (proc == NULL)
    return false;
  for (const struct dirent *entry; (entry = readdir(proc)) != NULL;) {
    char *end;
    long pid = strtol(entry->d_name, &end, 10);
    if (*end == '\0' && pid > 0)
      visit(context, (pid_t)pid);
  }
  closedir(proc);
  return true;
}
