#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "agent/engine/frontend.h"
#include "agent/tools/tool.h"
#include "base/log.h"

/*
 * `agent --stdio`: each request is a line of JSON on standard input, and each answer a line on
 * standard output, in the dialect of its request:
 *
 *   {"id":"r1","method":"execute","params":{"command":"echo hi"}}
 *   {"id":"r1","result":{"exitCode":0,"stdout":"hi\n","stderr":"","timedOut":false,…}}
 *
 *   {"jsonrpc":"2.0","id":2,"method":"execute","params":{"command":"echo hi"}}
 *   {"jsonrpc":"2.0","id":2,"result":{"output":"hi","success":true,"metadata":{…}}}
 *
 * Tools run one after the other, and their answers and those to invalid lines have the order of the
 * lines; info, ping, cancel and shutdown are answered at once. At the end of the input the
 * remaining requests are executed and answered, and the program exits with 0; after a shutdown it
 * exits without executing them.
 *
 * The program also exits with 0 when the reader of standard output is gone, with 3 if standard
 * output cannot be written or is not read for STDIO_FRONTEND_STALL_MS at the end, and with 128+N
 * after signal N.
 *
 * `tool-runner NAME` is one call. Its input is the JSON object of the tool's arguments, which ends
 * with its last bracket; the program waits for neither a newline nor the end of the input. The
 * answer is one line, {"output":…,"metadata":{…}}, and the program exits with
 *
 *   0     the tool succeeded
 *   1     the tool failed or rejected its arguments
 *   64    there is no such tool
 *   141   the reader of standard output is gone (128 + SIGPIPE)
 */

/* How long the program waits at its end for the next byte to be read, in milliseconds. */
#define STDIO_FRONTEND_STALL_MS 5000

/* The texts must outlive the frontend. */
struct stdio_frontend_options {
  bool is_runner;
  const char *tool;          /* the only one that is served; NULL: all. A runner's may be unknown */
  unsigned deadline_seconds; /* of every request; 0: see STDIO_DEADLINE_SECONDS (stdio_call.h) */
  unsigned concurrency;      /* calls at once over HTTP, 1 to ENGINE_EXECUTIONS_MAX */
  const char *version;       /* of the program */
  struct tool_settings tools; /* `clamps_timeout` is ignored; timeouts are clamped */
};

/* The tool must be known to tool_find, except that of a runner. */
struct frontend *stdio_frontend_new(struct event_base *base, const struct log *log,
                                    const struct stdio_frontend_options *options);
