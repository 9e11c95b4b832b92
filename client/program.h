#ifndef CLIENT_PROGRAM_H
#define CLIENT_PROGRAM_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/frontends/redis/connection/tls.h"
#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/keys.h"
#include "base/error.h"
#include "client/redis/pipeline.h"
#include "client/screen/terminal.h"

/* What all commands of `sandbox` share. */
struct program {
  struct redis_url url;
  struct tls_options tls;
  const char *job; /* NULL: the only one that is alive */
  char *found_job; /* which it is then */
  struct keys keys;
  bool has_keys;
  bool json;
  struct terminal terminal;
  struct event_base *base;
  struct pipeline *redis;
};

/* A command of `sandbox`: a row in main.c. */
struct command {
  const char *name;
  const char *usage; /* behind the name */
  const char *help;  /* one line; NULL: it is in no list, as no agent can serve it yet */
  /* `argv[0]` is the name. Returns the exit code. */
  int (*run)(struct program *program, int argc, char **argv);
  bool needs_job;
  /* Of a command that is given another one: its options with a value, by their letters. What comes
     behind them is no flag. NULL: flags may stand anywhere. */
  const char *before;
};

extern const struct command run_command, follow_command, ps_command, cancel_command, read_command,
    write_command, edit_command, ls_command, grep_command, tree_command, cp_command, top_command,
    jobs_command, shutdown_command, doctor_command;

/* "usage: sandbox NAME USAGE" on standard error; returns EXIT_USAGE. */
int program_usage(const struct command *command);

#endif
