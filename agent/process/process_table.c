#include "agent/process/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

enum { FIELD_PARENT = 4, FIELD_GROUP = 5, FIELD_SESSION = 6, FIELD_STARTED = 22 };

/* The fields of proc(5) stat by their numbers there, and 3, the state. The name in field 2 may hold
   anything, parentheses too, so the last one is searched. One that is reaped while it is read has
   no parent and no group any more (0 and -1). */
bool process_table_read_entry(pid_t pid, struct process_entry *entry) {
  char text[1024];
  if (process_table_read_file(pid, "stat", text, sizeof text) <= 0)
    return false;
  const char *name_end = strrchr(text, ')');
  if (name_end == NULL || name_end[1] != ' ' || name_end[2] == '\0')
    return false;
  long long fields[FIELD_STARTED + 1];
  const char *at = name_end + 3;
  for (int i = FIELD_PARENT; i <= FIELD_STARTED; i++) {
    char *end;
    fields[i] = strtoll(at, &end, 10);
    if (end == at)
      return false;
    at = end;
  }
  *entry = (struct process_entry){.pid = pid,
                                  .parent = (pid_t)fields[FIELD_PARENT],
                                  .group = (pid_t)fields[FIELD_GROUP],
                                  .session = (pid_t)fields[FIELD_SESSION],
                                  .started = (uint64_t)fields[FIELD_STARTED],
                                  .zombie = name_end[2] == 'Z' || name_end[2] == 'X'};
  return entry->group >= 0;
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

bool process_table_read_variable(pid_t pid, const char *name, char *value, size_t size) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return false;
  char *entry = NULL;
  size_t capacity = 0;
  size_t length = strlen(name);
  bool found = false;
  while (!found && getdelim(&entry, &capacity, '\0', file) > 0)
    if (strncmp(entry, name, length) == 0 && entry[length] == '=') {
      (void)snprintf(value, size, "%s", entry + length + 1);
      found = true;
    }
  free(entry);
  (void)fclose(file);
  return found;
}

static int compare_pid(const void *left, const void *right) {
  pid_t a = ((const struct process_entry *)left)->pid;
  pid_t b = ((const struct process_entry *)right)->pid;
  return (a > b) - (a < b);
}

static void add(void *context, pid_t pid) {
  struct process_table *self = context;
  if (self->count == self->capacity) {
    self->capacity = self->capacity == 0 ? 256 : self->capacity * 2;
    self->entries = memory_resize(self->entries, self->capacity * sizeof *self->entries);
  }
  if (process_table_read_entry(pid, &self->entries[self->count]))
    self->count++;
}

bool process_table_take(struct process_table *self) {
  *self = (struct process_table){0};
  if (!process_table_each(add, self))
    return false;
  if (self->count > 0)
    qsort(self->entries, self->count, sizeof *self->entries, compare_pid);
  return true;
}

void process_table_release(struct process_table *self) {
  free(self->entries);
}

const struct process_entry *process_table_find(const struct process_table *self, pid_t pid) {
  struct process_entry key = {.pid = pid};
  return self->count == 0 ? NULL
                          : bsearch(&key, self->entries, self->count, sizeof key, compare_pid);
}
