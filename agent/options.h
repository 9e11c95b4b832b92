#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "agent/confinement/confinement.h"
#include "agent/frontends/http/connection/options.h"
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

/* What the program does. Up to OPTIONS_HTTP it serves a frontend. */
enum options_action {
  OPTIONS_RUN, /* serves Redis */
  OPTIONS_ONCE,
  OPTIONS_IPC,
  OPTIONS_STDIO,
  OPTIONS_MCP,
  OPTIONS_HTTP, /* serves steps over HTTP */
  OPTIONS_INJECT,
  OPTIONS_HELP,
  OPTIONS_VERSION
};

/* The options of each frontend are in the struct that the frontend reads; main adds the rest. Owns
   its texts. */
struct options {
  enum options_action action;
  bool is_over_http;         /* OPTIONS_HTTP; or OPTIONS_STDIO or OPTIONS_MCP with --http */
  const char *inject_target; /* NULL unless the action is OPTIONS_INJECT */
  struct redis_url url;
  struct tls_options tls;
  /* Its job id is also that of OPTIONS_ONCE and over HTTP, where there may be none. Its limits of
     events are also those of OPTIONS_HTTP. */
  struct redis_frontend_options redis;
  struct http_options http; /* the key also in other modes, because output is masked in all */
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
  struct confinement_options confinement;
};

/* Prints the text of --help. */
void options_print_help(FILE *out);

/*
 * Reads the command line and the environment. If no flag chooses the action, the base name of
 * argv[0] may, for hosts that cannot pass flags: see names[] in options.c. If that does not either,
 * the variable SANDBOX_HTTP chooses OPTIONS_HTTP. Each setting also has a
 * variable: SANDBOX_ and the flag in capitals, unless the table in options.c names another one or
 * an alias. A flag overrides its variable, a variable overrides its alias, and an empty variable
 * counts as not set. The texts are copied. getopt_long may reorder argv.
 *
 * Never prints and never exits. Returns 0, and the caller calls options_release; or -1 with the
 * reason, which contains no password. Then nothing is owned. The error's code is 0 for wrong usage,
 * and an errno if the file of the HTTP key cannot be read.
 */
int options_parse(struct options *self, int argc, char **argv, struct error *error);
void options_release(struct options *self);

/* Removes the variables of all settings from the environment, so that commands do not inherit them.
   To be called after options_parse, and before a process is made. */
void options_forget_variables(void);
