#include "client/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/memory.h"
#include "client/program.h"
#include "client/screen/figure.h"

/* --- its agent -------------------------------------------------------------------------------- */

void job_agent_release(struct job_agent *self) {
  cJSON_Delete(self->heartbeat);
  *self = (struct job_agent){0};
}

bool job_agent_can(const struct job_agent *self, const char *feature) {
  const cJSON *list = cJSON_GetObjectItem(self->heartbeat, "Features");
  for (const cJSON *item = list != NULL ? list->child : NULL; item != NULL; item = item->next)
    if (cJSON_IsString(item) && strcmp(item->valuestring, feature) == 0)
      return true;
  return false;
}

double job_agent_figure(const struct job_agent *self, const char *name) {
  const cJSON *figure = cJSON_GetObjectItem(self->heartbeat, name);
  return cJSON_IsNumber(figure) ? figure->valuedouble : -1;
}

void job_agent_add_json(const struct job_agent *self, const char *const *names,
                        struct buffer *json) {
  for (; *names != NULL; names++) {
    char name[64];
    (void)snprintf(name, sizeof name, "%c%s", (*names)[0] | 0x20, *names + 1);
    figure_add_json(json, name, job_agent_figure(self, *names));
  }
}

const char *job_agent_version(const struct job_agent *self) {
  return self->version != NULL ? self->version : "0.1.0 or older";
}

int job_await_agent(struct program *program, struct job_agent *agent, struct error *error) {
  const int64_t end_ms = clock_monotonic_ms() + PROGRAM_START_MS;
  *agent = (struct job_agent){0};
  int result;
  do {
    job_agent_release(agent);
    result = program->access->read_agent(program, agent, error);
  } while (result == 0 && !agent->is_alive && program_wait_for_start(program, end_ms));
  return result;
}

/* --- its steps -------------------------------------------------------------------------------- */

static void release_step(struct job_step *self) {
  free(self->id);
  free(self->kind);
  free(self->target);
  *self = (struct job_step){0};
}

struct sorted_step {
  struct job_step *step;
};

static int compare_ids(const void *left, const void *right) {
  const struct job_step *a = ((const struct sorted_step *)left)->step;
  const struct job_step *b = ((const struct sorted_step *)right)->step;
  const int order = strcasecmp(a->id, b->id);
  return order != 0 ? order : (a > b) - (a < b);
}

static void lengthen_short_id(struct job_step *self, const struct job_step *other) {
  while (self->short_length < strlen(self->id) &&
         strncasecmp(self->id, other->id, self->short_length) == 0)
    self->short_length++;
}

/* Keeps the first step of each id. The id that has the most in common with another one is its
   neighbor in sorted order. */
void job_steps_deduplicate(struct job_steps *self) {
  struct sorted_step *sorted = memory_allocate((self->count + 1) * sizeof *sorted);
  struct job_step *last = NULL;
  for (size_t i = 0; i < self->count; i++)
    sorted[i].step = &self->list[i];
  qsort(sorted, self->count, sizeof *sorted, compare_ids);
  for (size_t i = 0; i < self->count; i++) {
    struct job_step *step = sorted[i].step;
    if (last != NULL && strcmp(step->id, "?") != 0 && strcasecmp(last->id, step->id) == 0) {
      release_step(step);
      continue;
    }
    if (last != NULL) {
      lengthen_short_id(last, step);
      lengthen_short_id(step, last);
    }
    last = step;
  }
  free(sorted);
  size_t kept = 0;
  for (size_t i = 0; i < self->count; i++)
    if (self->list[i].id != NULL)
      self->list[kept++] = self->list[i];
  self->count = kept;
}

void job_steps_release(struct job_steps *self) {
  for (size_t i = 0; i < self->count; i++)
    release_step(&self->list[i]);
  free(self->list);
  *self = (struct job_steps){0};
}

struct job_short_id job_shorten(const char *id) {
  struct job_short_id result;
  (void)snprintf(result.text, sizeof result.text, "%.4s", id);
  return result;
}

struct job_short_id job_shorten_step(const struct job_step *step) {
  struct job_short_id result;
  (void)snprintf(result.text, sizeof result.text, "%.*s", (int)step->short_length, step->id);
  return result;
}
