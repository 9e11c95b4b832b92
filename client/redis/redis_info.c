#include "client/redis/redis_info.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *redis_info_read(struct program *program) {
  char *info = NULL;
  struct error ignored;
  (void)pipeline_call(program->redis, WORDS("INFO"), reply_to_text, &info, &ignored);
  return info;
}

bool redis_info_field(const char *info, const char *name, char *out, size_t size) {
  const size_t length = strlen(name);
  for (const char *line = info; line != NULL && *line != '\0';) {
    const size_t end = strcspn(line, "\r\n");
    if (strncmp(line, name, length) == 0 && line[length] == ':') {
      (void)snprintf(out, size, "%.*s", (int)(end - length - 1), line + length + 1);
      return true;
    }
    line += end;
    line += strspn(line, "\r\n");
  }
  return false;
}

bool redis_info_version(const char *info, char *out, size_t size) {
  char version[32];
  if (!redis_info_field(info, "valkey_version", version, sizeof version))
    return redis_info_field(info, "redis_version", out, size);
  (void)snprintf(out, size, "valkey %s", version);
  return true;
}

void redis_info_warn_of_cluster(struct program *program) {
  char mode[16], *info = redis_info_read(program);
  if (redis_info_field(info, "redis_mode", mode, sizeof mode) && strcmp(mode, "cluster") == 0)
    terminal_say(
        &program->terminal, COLOR_YELLOW,
        "this is one node of a cluster: jobs on other nodes are not listed; name one with -j");
  free(info);
}
