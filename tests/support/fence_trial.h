#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include <cjson/cJSON.h>

#include "tests/support/agent_process.h"

/*
 * One step with `agent --once`, with a sandbox policy or without one, at a place. Each step begins
 * with the same files:
 *
 *   in/file  in/other  in/directory  in/link -> ../out  out/file  out/other  out/directory
 *   in/program  out/program, copies of fence_command
 *
 * in a directory in which every user may write. A Redis and servers of abstract sockets are in
 * reach. In texts, '@' is the path of the directory, '#' the port of the Redis, '$' a name that is
 * unique on the machine, '!' the path of fence_command, and quotes are as in quoted.h.
 *
 *   struct fence_outcome outcome;
 *   fence_trial_run(trial, &(struct fence_step){.command = "write @/out/file",
 *                                               .fence = "{'writePaths':['@/in']}"}, &outcome);
 *   assert_string_equal(outcome.answer, "EACCES");
 */
struct fence_trial {
  char path[32];
  struct redis_server *redis;
  int servers[2]; /* abstract sockets $ and $-dgram */
  cJSON *owned;   /* what outcomes refer to */
};

enum fence_place {
  FENCE_PLAIN, /* a user without privileges, who could gain some: no no_new_privs */
  FENCE_POD,   /* process 1 of a restricted container */
  FENCE_INIT,  /* the same below an init */
  FENCE_ROOT,  /* root with all capabilities, below an init */
  FENCE_PLACES
};

/* The user of FENCE_PLAIN is this plus the pid of the test: a step that may kill all processes of
   its user must not find those of another test, which runs at the same time. */
#define FENCE_USER 100000

struct fence_step {
  enum fence_place place;
  const struct container *container; /* instead of that of the place; or NULL */
  /* One of three. Words, of which the first is the name in fence_command, or "attack" before the
     name in attack_command; a script of a shell; a step without its stepId. */
  const char *command, *script, *json;
  const char *fence;                    /* or NULL */
  const char *agent_fence;              /* of --fence; or NULL */
  void (*prepare)(const void *context); /* in the process that becomes the agent; or NULL */
  const void *prepare_context;
};

/* Belongs to the trial. */
struct fence_outcome {
  /* "done", or the name of an error, of the attack. "killed": it killed the agent. Else what the
     result says. */
  char answer[512];
  int exit_code;       /* of the agent */
  const cJSON *events; /* an array; its last element is the result */
  const char *log;
};

int fence_trial_set_up(void **state);
int fence_trial_tear_down(void **state);
#define FENCE_TEST(NAME)                                                                           \
  TEST_WITH(struct fence_trial *trial, NAME, fence_trial_set_up, fence_trial_tear_down)

/* Before the first test and after the last one: compiles the commands, and gives the program a
   network of its own. */
int fence_trial_begin(void **state);
int fence_trial_end(void **state);
#define FENCE_GROUP() TEST_GROUP(fence_trial_begin, fence_trial_end)

/* In a container that somebody else has made (FENCE_HERE is set): its user, its network, and one
   place: FENCE_INIT. */
bool fence_trial_is_here(void);

const char *fence_place_name(enum fence_place place);

/* Replaces @, #, $ and !; valid as long as a text of quoted(). */
const char *fence_trial_text(const struct fence_trial *self, const char *text);

void fence_trial_run(struct fence_trial *self, const struct fence_step *step,
                     struct fence_outcome *out);

/* The same in two parts: a step that runs while the test does something else. */
struct agent_process *fence_trial_start(struct fence_trial *self, const struct fence_step *step);
void fence_trial_finish(struct fence_trial *self, struct agent_process *agent,
                        struct fence_outcome *out);

/* The member `fence` of the event `started`; NULL: there is none. */
const cJSON *fence_outcome_started(const struct fence_outcome *self);

/* Whether a member of it, such as "missing", is a list with this word. */
bool fence_outcome_lists(const struct fence_outcome *self, const char *member, const char *word);

/* Runs the step and fails the test unless the answer is this. */
void fence_trial_expect(struct fence_trial *self, const struct fence_step *step,
                        const char *answer);
