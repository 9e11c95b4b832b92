#ifndef AGENT_FRONTENDS_MCP_FRONTEND_H
#define AGENT_FRONTENDS_MCP_FRONTEND_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/engine/frontend.h"
#include "agent/tools/tool.h"
#include "base/log.h"

/*
 * `agent --mcp`: a server of the Model Context Protocol on standard input and standard output, for
 * the tools of tool.h. One process serves every version at once (session.h). Calls run side by
 * side, `concurrency` at a time; more of them wait in order, while everything else is answered.
 *
 * The program ends with
 *
 *   0      standard input has ended, or nobody reads standard output any more
 *   128+N  it was stopped by signal N (130, 143)
 *   3      output was lost: standard output cannot be written, such as to a full disk, or was not read
 *          within MCP_FRONTEND_GONE_MS after the end of standard input
 */
/* The end of standard input: what was asked for has so long to end, and all is over after so long.
   Clients end by force after two seconds. */
#define MCP_FRONTEND_END_MS 1000
#define MCP_FRONTEND_GONE_MS 1800

/* Nothing is owned. */
struct mcp_frontend_options {
  const char *program_version;
  unsigned versions;          /* a set (session.h); 0: all of them */
  unsigned concurrency;       /* calls at once, 1 to ENGINE_EXECUTIONS_MAX */
  bool structured;            /* results of commands as structuredContent, too */
  struct tool_settings tools; /* `clamps_timeout` is ignored: a model is to know its limits */
};

/* It reads with the engine's first want(). Uses descriptors 0 and 1 without changing their
   flags. */
struct frontend *mcp_frontend_new(struct event_base *base, const struct log *log,
                                  const struct mcp_frontend_options *options);

#endif
