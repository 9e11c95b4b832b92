#ifndef AGENT_OPTIONS_H
#define AGENT_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "agent/doors/redis/link/tls.h"
#include "agent/doors/redis/link/url.h"
#include "base/error.h"

/* What the program does: it serves a door, as far as OPTIONS_MCP, or something else. */
enum options_action {
  OPTIONS_RUN, /* the door of Redis */
  OPTIONS_ONCE,
  OPTIONS_IPC,
  OPTIONS_STDIO,
  OPTIONS_MCP,
  OPTIONS_INJECT,
  OPTIONS_HELP,
  OPTIONS_VERSION
};

struct options {
  enum options_action action;
  char *inject_target; /* NULL unless the action is OPTIONS_INJECT */
  struct redis_url redis;
  struct tls_options tls; /* its texts are owned */
  char *job_id;           /* NULL: none; only with OPTIONS_ONCE */
  char *run_id;           /* NULL: none, and no guard at the idle limit */
  char *run_set;          /* of OPTIONS_RUN: a key */
  /* Of the doors without steps; NULL: none was named. */
  char *ipc_directory; /* never NULL with OPTIONS_IPC */
  char *tool;          /* with OPTIONS_STDIO */
  bool tool_runner;    /* with OPTIONS_STDIO: one call, of `tool` */
  char *workdir;
  char *env_files; /* NAME=PATH, separated by colons */
  unsigned long long default_timeout;
  unsigned long long max_timeout;
  unsigned long long concurrency;
  unsigned long long deadline; /* 0: none was named */
  unsigned mcp_versions;       /* a set: see agent/doors/mcp/session.h; 0: none was named */
  bool structured, verbose;
  bool dumpable; /* other processes of the same user may attach to this one */
  unsigned long long idle_cycles;
  unsigned long long connect_timeout_seconds; /* 0: up to the idle limit */
  unsigned long long events_maxlen;           /* 0: the stream is not trimmed */
  unsigned long long events_keep_bytes;
  unsigned long long events_pace; /* 0: none */
  unsigned long long hold_bytes;
  unsigned long long line_bytes;
  unsigned long long key_ttl_seconds; /* 0: the job's keys stay */
};

/* What --help prints. */
void options_print_help(FILE *out);

/*
 * Command line and environment -> options. Where no flag says what the program does, the base name
 * of argv[0] may, for hosts that cannot pass any: see names[] in options.c. Each setting has a
 * variable, too: SANDBOX_ and the flag's name in capitals, unless the table in options.c names
 * another, or an alias. A flag wins over its variable, a variable over its alias, and an empty variable
 * counts as none. Copies what it keeps. argv may be reordered (getopt_long).
 *
 * Never prints and never exits: on wrong usage it returns -1, the text says what is wrong, without any
 * password, and nothing is owned. After 0 the caller ends with options_release.
 */
int options_parse(struct options *self, int argc, char **argv, struct error *error);
void options_release(struct options *self);

/* Removes the variables of all settings from the environment: they are this program's alone, and no
   command inherits one. To be called after they were read, and before a process is made. */
void options_forget_variables(void);

#endif
