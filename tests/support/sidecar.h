#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include <cjson/cJSON.h>

#include "tests/support/agent_process.h"
#include "tests/support/tree.h"

/*
 * The agent under test as a skill sidecar, and the runner on the other side of its directory. An
 * error fails the test and prints the log. Quotes are as in quoted.h.
 *
 *   SIDECAR_TEST(a_command_is_answered) {
 *     sidecar_start(sidecar, NULL);
 *     sidecar_request(sidecar, "17", "{'command':'echo hi'}");
 *     sidecar_expect(sidecar, "17", 0, "hi", "");
 *   }
 */
struct sidecar {
  struct tree *tree;           /* its path is the directory, unless `mounted` */
  struct agent_process *agent; /* NULL: not started */
  bool mounted;                /* the directory is a separate file system, `m` in the tree */
  char path[64];               /* the path of the directory */
  cJSON *result;               /* the last one that was read */
};

int sidecar_set_up(void **state);
int sidecar_tear_down(void **state);
#define SIDECAR_TEST(NAME)                                                                         \
  TEST_WITH(struct sidecar *sidecar, NAME, sidecar_set_up, sidecar_tear_down)

/* Makes the directory a tmpfs with these options. Before the start. */
void sidecar_mount(struct sidecar *self, const char *options);

/* Starts the agent like `tool-executor.sh`: by its name, without arguments. `setup` may add to
   that; NULL: nothing. Returns when it watches the directory. */
void sidecar_start(struct sidecar *self, const struct agent_setup *setup);

/* The same, but does not wait. */
struct agent_process *sidecar_spawn(struct sidecar *self, const struct agent_setup *setup);

/* Kills only the agent; another one may be started. */
void sidecar_kill(struct sidecar *self);

/* The path of a file in the directory, valid until 32 more were requested. The names of the files
   of a request. */
const char *sidecar_path(const struct sidecar *self, const char *name);
const char *sidecar_request_name(const char *id);
const char *sidecar_result_name(const char *id);
const char *sidecar_claim_name(const char *id);
bool sidecar_has(const struct sidecar *self, const char *name);

/* Writes the request as the runner does: in place, not atomically. */
void sidecar_request(const struct sidecar *self, const char *id, const char *request);
void sidecar_write(const struct sidecar *self, const char *name, const char *bytes, size_t length);

/* Writes the request under another name and renames it. */
void sidecar_request_whole(const struct sidecar *self, const char *id, const char *request);

/* Waits for the complete result and returns it; valid until the next one. The file stays. */
const cJSON *sidecar_result(struct sidecar *self, const char *id);

/* Waits for the result and compares it; `errors` NULL: any. It must not be a timeout. */
void sidecar_expect(struct sidecar *self, const char *id, int exit_code, const char *output,
                    const char *errors);

/* Deletes both files as the runner does: the request first. */
void sidecar_delete(const struct sidecar *self, const char *id);

/* The whole exchange of the runner: writes the request, looks for the result at once and then each
   150 ms until `bound_ms` have passed, reads it, and deletes both. Returns NULL if there was none
   in time. */
const cJSON *sidecar_dispatch(struct sidecar *self, const char *id, const char *request,
                              int bound_ms);

/* Waits until a file exists, or does not exist. */
void sidecar_wait_for(struct sidecar *self, const char *name);
void sidecar_wait_gone(struct sidecar *self, const char *name);

/* Waits until the agent knows this number of requests, by the state that it logs; and has read
   all of them. */
void sidecar_wait_known(struct sidecar *self, int requests);
void sidecar_wait_read(struct sidecar *self, int requests);
