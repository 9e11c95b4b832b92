#ifndef AGENT_FRONTENDS_STDIO_FRONTEND_H
#define AGENT_FRONTENDS_STDIO_FRONTEND_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/engine/frontend.h"
#include "agent/tools/tool.h"
#include "base/log.h"

/*
 * `agent --stdio`: a line of JSON on standard input for each request, a line on standard output for
 * each answer. What a line looks like decides how its answer looks:
 *
 *   {"id":"r1","method":"execute","params":{"command":"echo hi"}}
 *   {"id":"r1","result":{"exitCode":0,"stdout":"hi\n","stderr":"","timedOut":false,…}}
 *
 *   {"jsonrpc":"2.0","id":2,"method":"execute","params":{"command":"echo hi"}}
 *   {"jsonrpc":"2.0","id":2,"result":{"output":"hi","success":true,"metadata":{…}}}
 *
 * Tools run one after the other, in the order of the lines, and so are they and what is wrong in
 * other lines answered; info, ping, cancel and shutdown overtake. At the end of the input what was
 * read is run and answered, then the program exits with 0; after a shutdown it does so at once.
 *
 * It exits with 0, too, when nobody reads standard output any more, with 3 when that cannot be
 * written or was not read for STDIO_FRONTEND_STALL_MS at the end, and with 128+N after signal N.
 *
 * `tool-runner NAME` is one call. The input is the JSON object of the tool's arguments, which ends
 * with its last bracket: neither a newline nor the end of the input is waited for. The answer is
 * one line, {"output":…,"metadata":{…}}, and the program exits with
 *
 *   0     the tool succeeded
 *   1     it did not, or its arguments were refused
 *   64    there is no such tool
 *   141   nobody reads standard output any more (128 + SIGPIPE)
 */

/* How long the end of the program waits for the next byte to be read, in milliseconds. */
#define STDIO_FRONTEND_STALL_MS 5000

/* Until when an answer leaves, in seconds after its request, where the options name no deadline: of
   JSON-RPC, and of a runner after its start. Hosts of both end a process that has not answered
   after 60 s. Other requests have none then. */
#define STDIO_FRONTEND_DEADLINE_SECONDS 55

/* The texts must outlive the frontend. */
struct stdio_frontend_options {
  bool is_runner;
  const char *tool; /* the only one that is served; NULL: all. A runner's need not be one */
  unsigned deadline_seconds;  /* of every request; 0: see STDIO_FRONTEND_DEADLINE_SECONDS */
  const char *version;        /* of the program */
  struct tool_settings tools; /* `clamps_timeout` is ignored: it does */
};

/* The tool must be one of tool_find. Uses descriptors 0 and 1 without changing their flags. */
struct frontend *stdio_frontend_new(struct event_base *base, const struct log *log,
                                    const struct stdio_frontend_options *options);

#endif
