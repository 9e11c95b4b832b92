#pragma once

#include <stdbool.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/keys.h"
#include "base/log.h"

/*
 * The commands that end each handshake of the delivery. They check that each key has the expected
 * type and that Redis permits each command of the agent, and they change nothing. So a wrong key or
 * a missing permission fails at startup, with an error that names command and key, and not with the
 * first result. The last three commands are the first ownership check and MULTI.
 *
 * Redis may reject the commands for replyTo and flow control. The agent then does without them.
 */
#define PREFLIGHT_COMMANDS 30
#define PREFLIGHT_FIRST 8 /* the commands up to the first MULTI, which is the last of them */
#define PREFLIGHT_VALUE (PREFLIGHT_COMMANDS - 2) /* GET committed */

struct preflight {
  const struct log *log;
  const struct keys *keys;
  char *commands;             /* encoded; the owner frees them */
  bool must_trim;             /* the agent cannot do without XTRIM */
  struct command_name warned; /* of a refused replyTo: the last one */
  unsigned refused;           /* values of enum delivery_feature, as of the last handshake */
  unsigned refused_now;       /* in the handshake that is under way */
};

void preflight_init(struct preflight *self, const struct log *log, const struct keys *keys,
                    bool must_trim);

/* Redis has permanently rejected the command with this index: by this error reply, which is
   explained by `why`. Returns true if the agent can do without it. */
bool preflight_reject(struct preflight *self, int index, const char *text, const char *why);

/* Logs that Redis refuses a command that moves a result: as a warning, unless the warning before
   was about the same command and list. */
void preflight_warn(struct preflight *self, const struct command_name *name, const char *why);

/* Keeps which commands Redis has refused. To be called when the handshake has succeeded. */
void preflight_end(struct preflight *self);
