#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "agent/engine/frontend.h"
#include "agent/tools/tool.h"
#include "base/log.h"

/*
 * `agent --mcp`: a server of the Model Context Protocol on standard input and standard output, for
 * the tools of tool.h. One process serves every version at once (session.h). `concurrency` calls
 * run at the same time; others wait in order. All other messages are answered at once.
 *
 * The program exits with
 *
 *   0      standard input has ended, or the reader of standard output is gone
 *   128+N  it was stopped by signal N (130, 143)
 *   3      output was lost: standard output cannot be written, for example to a full disk, or was
 *          not read within MCP_FRONTEND_GONE_MS after the end of standard input
 */
/* After the end of standard input, calls have MCP_FRONTEND_END_MS to end, and the program ends
   within MCP_FRONTEND_GONE_MS. Clients kill it after two seconds. */
#define MCP_FRONTEND_END_MS 1000
#define MCP_FRONTEND_GONE_MS 1800

/* Nothing is owned. */
struct mcp_frontend_options {
  const char *program_version;
  unsigned versions;    /* a set (session.h); 0: all */
  unsigned concurrency; /* calls at once, 1 to ENGINE_EXECUTIONS_MAX */
  bool structured;      /* results of commands also have structuredContent */
  struct tool_settings
      tools; /* `clamps_timeout` is ignored; models learn their limits from errors */
};

/* The frontend reads standard input only after the engine has called its want(). */
struct frontend *mcp_frontend_new(struct event_base *base, const struct log *log,
                                  const struct mcp_frontend_options *options);
