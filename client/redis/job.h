#ifndef CLIENT_REDIS_JOB_H
#define CLIENT_REDIS_JOB_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "client/program.h"

/* One job, as Redis has it (wire/PROTOCOL.md, Keys). All of these return 0, or -1 with the
   error. */

/* What the heartbeat says. */
struct job_agent {
  bool is_alive;
  int64_t age_ms; /* of what it said last, by this machine's clock; may be below zero */
  int pid;
  bool has_step;
  char *version; /* NULL: an agent that does not say it */
  cJSON *beat;   /* the whole; NULL: not alive */
};

/* Makes program->keys of program->job; or of the only job that has a heartbeat. */
int job_choose(struct program *program, struct error *error);

/* The ids of all jobs that have a heartbeat, in their order. */
int job_list(struct program *program, struct texts *ids, struct error *error);

/* Whether the program's job has a heartbeat. */
int job_is_alive(struct program *program, bool *is_alive, struct error *error);

/* The same, where one that was just started gets its time: two seconds. */
int job_await_agent(struct program *program, bool *is_alive, struct error *error);

int job_read_agent(struct program *program, const char *heartbeat_key, struct job_agent *agent,
                   struct error *error);
void job_agent_release(struct job_agent *self);

/* Whether the heartbeat names this feature. */
bool job_agent_can(const struct job_agent *self, const char *feature);

/* A step that waits or runs, in the order in which they run: what runs is the first. */
struct job_step {
  char *id, *kind, *target; /* a kind that cannot be read is "?" */
  bool is_running;
  char *json;
  size_t short_length; /* bytes of the id that no other step's begins with, at least 4 */
};

struct job_steps {
  struct job_step *list;
  size_t count;
};

/* Those of `inflight` and `in`, which may change meanwhile: a step that moves is listed once. */
int job_read_steps(struct program *program, struct job_steps *steps, struct error *error);
void job_steps_release(struct job_steps *self);

/* Where a step was seen last, as places from the tail of a list, 1 being the oldest; 0: not there,
   or never looked for. It only comes nearer to the tail, so that what lies before it in a long list
   is not read again. */
struct job_place {
  size_t in, inflight;
};

/* Finds a step by its id, and how many are before it: `is_found` false where it is in neither
   list. */
int job_find_step(struct program *program, const char *id, struct job_place *place, size_t *before,
                  bool *is_found, struct error *error);

/* Pushes a step, once: where the connection is lost meanwhile it looks whether it is there. */
int job_push(struct program *program, const char *id, const char *json, struct error *error);

/* The result of this step, to be freed, and removes it from the list, of which it takes nothing
   else; NULL: there is none. */
int job_take_result(struct program *program, const char *id, char **result, struct error *error);

/* "7f3a": the first 4 digits of an id; of a listed step as many as are unique among the others. */
struct job_short_id {
  char text[40];
};
struct job_short_id job_shorten(const char *id);
struct job_short_id job_shorten_step(const struct job_step *step);

#endif
