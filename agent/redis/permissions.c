#include "agent/redis/permissions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/command.h"
#include "wire/memory.h"

#define WORDS_MAX 7

void permissions_init(struct permissions *self, const struct keys *keys) {
  /* Reading tells the type. A command in a transaction is checked when it is queued, and what is
     discarded is not done. */
  const char *const commands[PERMISSIONS_COUNT][WORDS_MAX] = {
      /* In a cluster all keys have to be in one slot. DISCARD ends the watch, too. */
      {"WATCH", keys->in, keys->events, keys->results, keys->inflight, keys->started,
       keys->committed},
      {"LLEN", keys->in},
      {"XLEN", keys->events},
      {"LLEN", keys->results},
      {"LLEN", keys->inflight},
      {"GET", keys->started},
      {"GET", keys->committed},
      {"MULTI"},
      {"XADD", keys->events, "*", "data", ""},
      {"LPUSH", keys->results, ""},
      {"LREM", keys->inflight, "-1", ""},
      {"LTRIM", keys->inflight, "0", "-2"},
      {"RPUSH", keys->inflight, ""},
      {"LINDEX", keys->inflight, "-1"},
      {"XREVRANGE", keys->events, "+", "-", "COUNT", "1"},
      {"SET", keys->started, ""},
      {"DEL", keys->started},
      {"SET", keys->committed, ""},
      {"EXPIRE", keys->in, "1"},
      {"EXPIRE", keys->results, "1"},
      {"PERSIST", keys->in},
      {"DISCARD"},
  };
  *self = (struct permissions){.text = memory_copy("", 0)};
  for (size_t i = 0; i < PERMISSIONS_COUNT; i++) {
    size_t words = 1;
    while (words < WORDS_MAX && commands[i][words] != NULL)
      words++;
    char *command = command_new(commands[i], words);
    char *longer;
    const char *key = words > 1 ? commands[i][1] : "";
    if (asprintf(&longer, "%s%s", self->text, command) < 0 ||
        asprintf(&self->names[i], words > 1 ? "%s %s" : "%s", commands[i][0], key) < 0)
      memory_exhausted("a command");
    free(command);
    free(self->text);
    self->text = longer;
  }
}

void permissions_release(struct permissions *self) {
  free(self->text);
  for (size_t i = 0; i < PERMISSIONS_COUNT; i++)
    free(self->names[i]);
  *self = (struct permissions){0};
}

struct login_probe permissions_probe(const struct permissions *self) {
  return (struct login_probe){.text = self->text,
                              .length = strlen(self->text),
                              .names = (const char *const *)self->names,
                              .count = PERMISSIONS_COUNT};
}
