#include "agent/frontends/request_files/env_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/utf8.h"

struct env_file {
  const char *name, *path;
  bool warned;
};

struct env_files {
  const struct log *log;
  char *text; /* holds the names and paths */
  size_t count;
  struct env_file files[];
};

static bool has_name(const struct env_files *self, const char *name) {
  for (size_t i = 0; i < self->count; i++)
    if (strcmp(self->files[i].name, name) == 0)
      return true;
  return false;
}

static void add_file(struct env_files *self, char *name) {
  char *path = strchr(name, '=');
  if (path != NULL)
    *path++ = '\0';
  if (path == NULL || name[0] == '\0' || path[0] == '\0' || has_name(self, name) ||
      utf8_valid_prefix(name, strlen(name)) != strlen(name))
    log_line(self->log, LOG_WARN, NULL,
             "SANDBOX_ENV_FILES: expected NAME=PATH, each name once, got something else: ignored");
  else
    self->files[self->count++] = (struct env_file){.name = name, .path = path};
}

struct env_files *env_files_new(const char *text, const struct log *log) {
  size_t most = 1;
  for (const char *at = text; at != NULL && *at != '\0'; at++)
    most += *at == ':';
  struct env_files *self = memory_allocate(sizeof *self + most * sizeof *self->files);
  *self = (struct env_files){.log = log};
  self->text = text != NULL ? memory_copy(text, strlen(text)) : NULL;
  for (char *rest = self->text, *file; (file = strsep(&rest, ":")) != NULL;)
    if (file[0] != '\0')
      add_file(self, file);
  return self;
}

void env_files_free(struct env_files *self) {
  free(self->text);
  free(self);
}

/* Reads a regular file, because another one may block. Returns NULL, or what is wrong. */
static const char *read_value(const char *path, struct buffer *value) {
  struct stat file;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return strerror(errno);
  ssize_t length = 0;
  bool regular = fstat(fd, &file) == 0 && S_ISREG(file.st_mode);
  while (regular && value->length <= ENV_FILES_VALUE_MAX &&
         (length = read(fd, buffer_space(value, 4096), 4096)) > 0)
    value->length += (size_t)length;
  const char *wrong = !regular ? "no regular file" : length < 0 ? strerror(errno) : NULL;
  close(fd);
  if (value->length > 0 && utf8_is_marked(value->bytes, value->length)) {
    value->length -= UTF8_MARK_LENGTH;
    memmove(value->bytes, value->bytes + UTF8_MARK_LENGTH, value->length);
  }
  while (value->length > 0 && value->bytes[value->length - 1] == '\n')
    value->length--;
  if (wrong == NULL && value->length >= ENV_FILES_VALUE_MAX)
    wrong = "too long";
  if (wrong == NULL && value->length > 0 &&
      (memchr(value->bytes, '\0', value->length) != NULL ||
       utf8_valid_prefix(value->bytes, value->length) != value->length))
    wrong = "no UTF-8 text";
  return wrong;
}

char **env_files_read(struct env_files *self) {
  char **variables = memory_allocate((self->count + 1) * sizeof *variables);
  size_t count = 0;
  for (size_t i = 0; i < self->count; i++) {
    struct env_file *file = &self->files[i];
    struct buffer value = {0};
    const char *wrong = read_value(file->path, &value);
    if (wrong != NULL && !file->warned)
      log_line(self->log, LOG_WARN, NULL, "commands have no %s: %s: %s", file->name, file->path,
               wrong);
    file->warned = wrong != NULL;
    if (wrong == NULL && asprintf(&variables[count++], "%s=%.*s", file->name, (int)value.length,
                                  value.length > 0 ? value.bytes : "") < 0)
      memory_exhausted("a variable");
    /* The value may be a secret. */
    if (value.capacity > 0)
      explicit_bzero(value.bytes, value.capacity);
    buffer_release(&value);
  }
  variables[count] = NULL;
  return variables;
}
