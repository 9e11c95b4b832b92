#ifndef AGENT_DOORS_FILES_DOOR_H
#define AGENT_DOORS_FILES_DOOR_H

#include <event2/event.h>
#include <stdbool.h>

#include "agent/doors/files/exec_request.h"
#include "agent/engine/door.h"
#include "base/log.h"

/*
 * `agent --ipc`: requests and results are files in a directory that the containers of a pod share,
 * as Sympozium's skill sidecars have them. For each `tools/exec-request-<id>.json` (exec_request.h)
 * one command runs, several at once, and `tools/exec-result-<id>.json` is its answer. The
 * requester deletes both; what it deletes before the answer is cancelled.
 *
 * The program ends with 0 when there is a file `done` in the directory: what runs has
 * FILES_DOOR_DONE_MS to end by itself, then it is stopped. It ends with 3 where `tools` is missing
 * and cannot be made.
 */
#define FILES_DOOR_DONE_MS 1000

struct files_door_options {
  const char *directory; /* "/ipc" */
  struct exec_request_rules rules;
  unsigned concurrency;  /* 1 to ENGINE_RUNS_MAX */
  const char *env_files; /* env_files.h; or NULL */
  const char *shell;     /* "bash" or "sh"; NULL: there is none */
  bool verbose;          /* the log shows commands, which may hold secrets */
};

/* The options' texts must outlive the door. */
struct door *files_door_new(struct event_base *base, const struct log *log,
                            const struct files_door_options *options);
void files_door_free(struct door *door);

#endif
