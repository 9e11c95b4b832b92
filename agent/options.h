#ifndef AGENT_OPTIONS_H
#define AGENT_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "agent/frontends/mcp/frontend.h"
#include "agent/frontends/redis/connection/tls.h"
#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/frontend.h"
#include "agent/frontends/request_files/frontend.h"
#include "agent/frontends/stdio/frontend.h"
#include "agent/tools/tool.h"
#include "base/error.h"
#include "base/log.h"

/* What the program does: it serves a frontend, as far as OPTIONS_MCP, or something else. */
enum options_action {
  OPTIONS_RUN, /* the frontend of Redis */
  OPTIONS_ONCE,
  OPTIONS_IPC,
  OPTIONS_STDIO,
  OPTIONS_MCP,
  OPTIONS_INJECT,
  OPTIONS_HELP,
  OPTIONS_VERSION
};

/* It owns its texts. What the command line says of each frontend is where the frontend takes it
   from; `main` adds the rest. */
struct options {
  enum options_action action;
  const char *inject_target; /* NULL unless the action is OPTIONS_INJECT */
  struct redis_url url;
  struct tls_options tls;
  struct redis_frontend_options redis; /* the job id is OPTIONS_ONCE's, too, which may have none */
  struct request_files_options files;
  struct stdio_frontend_options stdio;
  struct mcp_frontend_options mcp;
  struct tool_settings tools; /* of the frontends without steps; the directory as it was named */
  bool verbose;
  enum log_format log_format;
  const char *mask_env; /* see secrets.h; NULL: none */
  bool dumpable;        /* other processes of the same user may attach to this one */
  unsigned long long idle_cycles;
  unsigned long long connect_timeout_seconds; /* 0: up to the idle limit */
  unsigned long long line_bytes;
  unsigned long long memory_reserve;
  unsigned long long nice;
  unsigned long long drain_seconds;
};

/* What --help prints. */
void options_print_help(FILE *out);

/*
 * Command line and environment -> options. Where no flag says what the program does, the base name
 * of argv[0] may, for hosts that cannot pass any: see names[] in options.c. Each setting has a
 * variable, too: SANDBOX_ and the flag's name in capitals, unless the table in options.c names
 * another, or an alias. A flag wins over its variable, a variable over its alias, and an empty
 * variable counts as none. Copies what it keeps. argv may be reordered (getopt_long).
 *
 * Never prints and never exits: on wrong usage it returns -1, the text says what is wrong, without
 * any password, and nothing is owned. After 0 the caller ends with options_release.
 */
int options_parse(struct options *self, int argc, char **argv, struct error *error);
void options_release(struct options *self);

/* Removes the variables of all settings from the environment: they are this program's alone, and no
   command inherits one. To be called after they were read, and before a process is made. */
void options_forget_variables(void);

#endif
