#include "agent/doors/redis/delivery/preflight.h"

#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/net/command.h"

void preflight_init(struct preflight *self, const struct keys *keys, bool trims) {
  /* A read checks the type of its key. A command inside MULTI is checked for permission when it is
     queued, and DISCARD drops it. */
  const char *const commands[PREFLIGHT_COUNT][COMMAND_LIST_WORDS] = {
      /* Checks that in a cluster all keys are in one slot. NOPERM is ignored here (`joint`), since
         it does not name the key; the commands below do. DISCARD ends this watch. */
      {"WATCH", keys->in, keys->events, keys->results, keys->inflight, keys->started,
       keys->committed, keys->heartbeat},
      {"LLEN", keys->in},
      {"XLEN", keys->events},
      {"LLEN", keys->results},
      {"LLEN", keys->inflight},
      {"GET", keys->started},
      {"MULTI"},
      {"XADD", keys->events, "*", "data", ""},
      {trims ? "XTRIM" : "XLEN", keys->events, trims ? "MAXLEN" : NULL, "0"},
      {"LPUSH", keys->results, ""},
      {"LREM", keys->inflight, "-1", ""},
      {"LTRIM", keys->inflight, "0", "-2"},
      {"RPUSH", keys->inflight, ""},
      {"LINDEX", keys->inflight, "-1"},
      {"XREVRANGE", keys->events, "+", "-", "COUNT", "1"},
      {"SET", keys->started, ""},
      {"DEL", keys->started},
      {"SET", keys->committed, ""},
      {"SET", keys->heartbeat, "", "EX", "1"},
      {"DEL", keys->heartbeat},
      {"EXPIRE", keys->in, "1"},
      {"EXPIRE", keys->results, "1"},
      {"PERSIST", keys->in},
      {"DISCARD"},
      /* The first probe, and the first transaction: pipeline.h. */
      {"WATCH", keys->committed},
      {"GET", keys->committed},
      {"MULTI"},
  };
  self->text = command_list_new(commands, PREFLIGHT_COUNT);
}

void preflight_release(struct preflight *self) {
  free(self->text);
  *self = (struct preflight){0};
}

struct handshake_probe preflight_probe(const struct preflight *self) {
  return (struct handshake_probe){.text = self->text,
                                  .length = strlen(self->text),
                                  .count = PREFLIGHT_COUNT,
                                  .multi_key = 1,
                                  .first = PREFLIGHT_FIRST,
                                  .value = PREFLIGHT_COUNT - 2};
}
