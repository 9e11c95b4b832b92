#ifndef AGENT_FRONTENDS_REQUEST_FILES_FRONTEND_H
#define AGENT_FRONTENDS_REQUEST_FILES_FRONTEND_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/engine/frontend.h"
#include "agent/frontends/request_files/exec_request.h"
#include "base/log.h"

/*
 * `agent --ipc`: requests and results are files in a directory that the containers of a pod share,
 * as Sympozium's skill sidecars have them. For each `tools/exec-request-<id>.json` (exec_request.h)
 * one command runs, several at once, and `tools/exec-result-<id>.json` is its answer. The
 * requester deletes both; what it deletes before the answer is cancelled.
 *
 * The program ends with 0 when there is a file `done` in the directory: what runs has
 * REQUEST_FILES_DONE_MS to end by itself, then it is stopped. It ends with 3 where `tools` is
 * missing and cannot be made.
 */
#define REQUEST_FILES_DONE_MS 1000

struct request_files_options {
  const char *directory; /* "/ipc" */
  struct exec_request_rules rules;
  unsigned concurrency;  /* 1 to ENGINE_EXECUTIONS_MAX */
  const char *env_files; /* env_files.h; or NULL */
  const char *shell;     /* "bash" or "sh"; NULL: there is none */
  bool verbose;          /* the log shows commands, which may hold secrets */
};

/* The options' texts must outlive the frontend. */
struct frontend *request_files_frontend_new(struct event_base *base, const struct log *log,
                                            const struct request_files_options *options);

#endif
