#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "agent/engine/frontend.h"
#include "agent/frontends/request_files/exec_request.h"
#include "base/log.h"

/*
 * `agent --ipc`: requests and results are files in a directory that the containers of a pod share,
 * as Sympozium's skill sidecars write them. For each `tools/exec-request-<id>.json`
 * (exec_request.h) the agent runs one command, several at once, and answers in
 * `tools/exec-result-<id>.json`. The requester deletes both files; a request that it deletes before
 * the answer is cancelled.
 *
 * If the directory has a file `done`, the program exits with 0; running commands have
 * REQUEST_FILES_DONE_MS to end by themselves before that. If `tools` is missing and cannot be made,
 * it exits with 3.
 */
#define REQUEST_FILES_DONE_MS 1000

struct request_files_options {
  const char *directory; /* "/ipc" */
  struct exec_request_rules rules;
  unsigned concurrency;  /* 1 to ENGINE_EXECUTIONS_MAX */
  const char *env_files; /* see env_files.h; or NULL */
  bool verbose;          /* log commands, which may contain secrets */
};

/* The options' texts must outlive the frontend. */
struct frontend *request_files_frontend_new(struct event_base *base, const struct log *log,
                                            const struct request_files_options *options);
