#ifndef TESTS_SUPPORT_SIDECAR_H
#define TESTS_SUPPORT_SIDECAR_H

#include <stdbool.h>
#include <sys/types.h>

#include <cjson/cJSON.h>

#include "tests/support/agent_process.h"
#include "tests/support/tree.h"

/*
 * The agent under test as a skill sidecar, and the other side of its directory: what the runner in
 * the agent's container does. Whatever can not be done fails the test, with the log. Quotes are as
 * in quoted.h.
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
  bool mounted;                /* the directory is a file system of its own, `m` in the tree */
  char path[64];               /* of the directory */
  cJSON *result;               /* what was read last */
};

int sidecar_set_up(void **state);
int sidecar_tear_down(void **state);
#define SIDECAR_TEST(NAME)                                                                         \
  TEST_WITH(struct sidecar *sidecar, NAME, sidecar_set_up, sidecar_tear_down)

/* The directory becomes a tmpfs with these options. Before the start. */
void sidecar_mount(struct sidecar *self, const char *options);

/* Starts the agent as `tool-executor.sh` is started: without arguments, by its name. `setup` may
   add to that; NULL: nothing. Returns when it has said that it watches. */
void sidecar_start(struct sidecar *self, const struct agent_setup *setup);

/* The same, and does not wait for anything. */
struct agent_process *sidecar_spawn(struct sidecar *self, const struct agent_setup *setup);

/* SIGKILL for it alone; another one may be started. */
void sidecar_kill(struct sidecar *self);

/* The full path of a name in the directory, valid until 32 more were asked for. Names below. */
const char *sidecar_path(const struct sidecar *self, const char *name);
const char *sidecar_request_name(const char *id);
const char *sidecar_result_name(const char *id);
const char *sidecar_claim_name(const char *id);
bool sidecar_has(const struct sidecar *self, const char *name);

/* Writes the request as the runner does: in place, not at once whole. */
void sidecar_request(const struct sidecar *self, const char *id, const char *request);
void sidecar_write(const struct sidecar *self, const char *name, const char *bytes, size_t length);

/* Writes it under another name and renames it. */
void sidecar_request_whole(const struct sidecar *self, const char *id, const char *request);

/* Waits for the result, whole, and returns it; valid until the next one. The file remains. */
const cJSON *sidecar_result(struct sidecar *self, const char *id);

/* Waits for it, and compares; `errors` NULL: not asked for. It has not timed out. */
void sidecar_expect(struct sidecar *self, const char *id, int exit_code, const char *output,
                    const char *errors);

/* Deletes them as the runner does: the request first. */
void sidecar_delete(const struct sidecar *self, const char *id);

/* The runner's whole exchange: writes the request, looks for the result at once and each 150 ms
   until `bound_ms` are over, reads it, and deletes both. NULL: there was none in time. */
const cJSON *sidecar_dispatch(struct sidecar *self, const char *id, const char *request,
                              int bound_ms);

/* Waits until a name is there, or is not. */
void sidecar_wait_for(struct sidecar *self, const char *name);
void sidecar_wait_gone(struct sidecar *self, const char *name);

#endif
