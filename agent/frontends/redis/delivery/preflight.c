#include "agent/frontends/redis/delivery/preflight.h"

#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/delivery/delivery.h"

/* The indexes of commands that may be rejected. */
#define KEYS 0
#define TRIM (PREFLIGHT_COMMANDS - 6)
#define MOVE (PREFLIGHT_COMMANDS - 5)

/* A new command or key of the agent is added here. Reads check the types of their keys. Redis
   checks the permission for a command inside MULTI when it queues the command, and DISCARD drops
   it. Commands that write are sent after the good reply to the MULTI before them, because they
   would be executed if Redis rejected that MULTI. */
static char *make_commands(const struct keys *keys) {
  char *reply = keys_reply(keys, "");
  const char *const commands[PREFLIGHT_COMMANDS][COMMAND_LIST_WORDS] = {
      /* Checks that all keys are in one slot of a cluster. NOPERM is ignored here, because it does
         not name the key; the commands below do. DISCARD ends this watch. */
      {"WATCH", keys->in, keys->events, keys->results, keys->inflight, keys->started,
       keys->committed, keys->heartbeat},
      {"LLEN", keys->in},
      {"XLEN", keys->events},
      {"LLEN", keys->results},
      {"LLEN", keys->inflight},
      {"LLEN", keys->control},
      {"GET", keys->started},
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
      {"SET", keys->heartbeat, "", "EX", "1"},
      {"DEL", keys->heartbeat},
      {"EXPIRE", keys->in, "1"},
      {"EXPIRE", keys->results, "1"},
      {"LREM", keys->control, "-1", ""},
      {"PERSIST", keys->in},
      {"XTRIM", keys->events, "MAXLEN", "0"},
      {"BLMOVE", keys->results, reply, "LEFT", "LEFT", "0"},
      {"DISCARD"},
      {"WATCH", keys->committed},
      {"GET", keys->committed},
      {"MULTI"},
  };
  char *list = command_list_new(commands, PREFLIGHT_COMMANDS);
  free(reply);
  return list;
}

void preflight_init(struct preflight *self, const struct log *log, const struct keys *keys,
                    bool must_trim) {
  *self = (struct preflight){
      .log = log, .keys = keys, .commands = make_commands(keys), .must_trim = must_trim};
}

void preflight_warn(struct preflight *self, const struct command_name *name, const char *why) {
  const bool is_known = strcmp(self->warned.text, name->text) == 0;
  log_line(self->log, is_known ? LOG_DEBUG : LOG_WARN, NULL,
           "results of steps with replyTo stay in %.100s: redis refuses %s: %.150s",
           self->keys->results, name->text, why);
  self->warned = *name;
}

/* Redis before 6.2 does not know BLMOVE, and XTRIM only without MINID. */
bool preflight_reject(struct preflight *self, int index, const char *text, const char *why) {
  const bool is_denied = strncmp(text, "NOPERM", 6) == 0;
  if (index == KEYS || (index == TRIM && self->must_trim))
    return index == KEYS && is_denied;
  if (index == MOVE) {
    self->refused_now |= is_denied ? DELIVERY_REPLY_TO : DELIVERY_REPLY_TO | DELIVERY_FLOW_CONTROL;
    preflight_warn(self, &(struct command_name){"BLMOVE"}, why);
  } else if (index == TRIM) {
    self->refused_now |= DELIVERY_FLOW_CONTROL;
  }
  return index == MOVE || index == TRIM;
}

void preflight_end(struct preflight *self) {
  self->refused = self->refused_now;
  self->refused_now = 0;
}
