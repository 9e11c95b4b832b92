#pragma once

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

/* Reads the flags and their environment variables, for main.c. The table in options.c has a row for
   each flag, from which `--help` is printed, too. The hard part is that the texts may have
   passwords, which no error repeats and which no command inherits. */

/* What the program does. Up to OPTIONS_MCP it serves a frontend. */
enum options_action {
  OPTIONS_RUN, /* serves Redis */
  OPTIONS_ONCE,
  OPTIONS_IPC,
  OPTIONS_STDIO,
  OPTIONS_MCP,
  OPTIONS_INJECT,
  OPTIONS_HELP,
  OPTIONS_VERSION
};

/* The options of each frontend are in the struct that the frontend reads; main adds the rest. Owns
   its texts. */
struct options {
  enum options_action action;
  const char *inject_target; /* NULL unless the action is OPTIONS_INJECT */
  struct redis_url url;
  struct tls_options tls;
  struct redis_frontend_options redis; /* its job id is also OPTIONS_ONCE's, which may have none */
  struct request_files_options files;
  struct stdio_frontend_options stdio;
  struct mcp_frontend_options mcp;
  struct tool_settings tools; /* of the other frontends; the directory as it was given */
  bool verbose;
  enum log_format log_format;
  const char *mask_env; /* see secrets.h; NULL: none */
  bool dumpable;        /* other processes of the same user may read its memory */
  unsigned long long idle_cycles;
  unsigned long long idle_exit_code;
  unsigned long long connect_timeout_seconds; /* 0: until the idle limit */
  unsigned long long line_bytes;
  unsigned long long memory_reserve;
  unsigned long long nice;
  unsigned long long drain_seconds;
};

/* Prints the text of --help. */
void options_print_help(FILE *out);

/*
 * Reads the command line and the environment. If no flag chooses the action, the base name of
 * argv[0] may, for hosts that cannot pass flags: see names[] in options.c. Each setting also has a
 * variable: SANDBOX_ and the flag in capitals, unless the table in options.c names another one or
 * an alias. A flag overrides its variable, a variable overrides its alias, and an empty variable
 * counts as not set. The texts are copied. getopt_long may reorder argv.
 *
 * Never prints and never exits. Returns 0, and the caller calls options_release; or -1 on wrong
 * usage, with the reason, which contains no password. Then nothing is owned.
 */
int options_parse(struct options *self, int argc, char **argv, struct error *error);
void options_release(struct options *self);

/* Removes the variables of all settings from the environment, so that commands do not inherit them.
   To be called after options_parse, and before a process is made. */
void options_forget_variables(void);
