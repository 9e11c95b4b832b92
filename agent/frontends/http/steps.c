#include "agent/frontends/http/steps.h"

#include <stdlib.h>
#include <string.h>

#include "agent/payload_limit.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/random.h"

#define STEP_OF(NODE) LIST_ELEMENT(NODE, struct http_step, node)

void steps_init(struct steps *self, size_t events_bytes_max, uint64_t events_max) {
  const size_t share = payload_limit();
  *self = (struct steps){.store = {.bytes_max = events_bytes_max, .count_max = events_max},
                         .finished_bytes_max =
                             share < STEPS_RESULT_BYTES_MAX ? share : STEPS_RESULT_BYTES_MAX,
                         .key = {random_u64(), random_u64()}};
}

static void free_step(struct http_step *step) {
  event_log_release(&step->events);
  step_release(&step->step);
  buffer_release(&step->result);
  free(step->title);
  free(step->id);
  free(step);
}

void steps_release(struct steps *self) {
  LIST_FOR_EACH (struct http_step, step, &self->waiting, node)
    free_step(step);
  LIST_FOR_EACH (struct http_step, step, &self->finished, node)
    free_step(step);
  if (self->running != NULL)
    free_step(self->running);
  free(self->remembered);
}

/* --- ids -------------------------------------------------------------------------------------- */

static struct http_step *find_in(const struct list *list, const char *id) {
  LIST_FOR_EACH (struct http_step, step, list, node)
    if (!step->is_deleted && strcmp(step->id, id) == 0)
      return step;
  return NULL;
}

struct http_step *steps_find(const struct steps *self, const char *id) {
  struct http_step *found = self->running;
  if (found == NULL || strcmp(found->id, id) != 0)
    found = find_in(&self->waiting, id);
  return found != NULL ? found : find_in(&self->finished, id);
}

static uint64_t hash_of(const struct steps *self, const char *id) {
  return siphash_bytes(self->key, id, strlen(id)).low;
}

bool steps_is_remembered(const struct steps *self, const char *id) {
  const uint64_t hash = hash_of(self, id);
  for (size_t i = 0; i < self->remembered_count; i++)
    if (self->remembered[i] == hash)
      return true;
  return false;
}

static void remember(struct steps *self, const char *id) {
  if (self->remembered_next == self->remembered_size &&
      self->remembered_size < STEPS_REMEMBERED_MAX) {
    self->remembered_size = self->remembered_size > 0 ? 2 * self->remembered_size : 64;
    self->remembered =
        memory_resize(self->remembered, self->remembered_size * sizeof *self->remembered);
  }
  if (self->remembered_next == STEPS_REMEMBERED_MAX)
    self->remembered_next = 0;
  self->remembered[self->remembered_next++] = hash_of(self, id);
  if (self->remembered_count < STEPS_REMEMBERED_MAX)
    self->remembered_count++;
}

bool steps_is_same_body(const struct steps *self, const struct http_step *step,
                        const struct buffer *body) {
  const struct siphash hash = siphash_bytes(self->key, body->bytes, body->length);
  return step->body_length == body->length && step->body_hash.low == hash.low &&
         step->body_hash.high == hash.high;
}

/* --- the life of a step ----------------------------------------------------------------------- */

bool steps_may_wait(const struct steps *self, size_t body_length) {
  return self->waiting_count < STEPS_WAITING_MAX &&
         payload_limit_has_capacity(self->waiting_bytes, body_length);
}

struct http_step *steps_add(struct steps *self, struct step *step, char *title,
                            const struct buffer *body, int64_t now_unix_ms) {
  struct http_step *added = memory_zeros(sizeof *added);
  added->id = memory_copy(step->step_id, strlen(step->step_id));
  added->steps = self;
  added->kind = step->kind;
  added->schema_version = step_answer_version(step);
  added->step = *step;
  *step = (struct step){0};
  added->title = title;
  added->body_length = body->length;
  added->body_hash = siphash_bytes(self->key, body->bytes, body->length);
  added->since_unix_ms = now_unix_ms;
  event_log_init(&added->events, &self->store);
  list_append(&self->waiting, &added->node);
  self->waiting_count++;
  self->waiting_bytes += added->body_length;
  remember(self, added->id);
  return added;
}

static bool has_space(const struct steps *self) {
  return self->finished_count < STEPS_RESULTS_MAX &&
         self->finished_bytes < self->finished_bytes_max;
}

static void drop(struct steps *self, struct http_step *step) {
  list_remove(&self->finished, &step->node);
  self->finished_count--;
  self->finished_bytes -= step->result.length;
  free_step(step);
}

bool steps_make_space(struct steps *self) {
  LIST_FOR_EACH (struct http_step, step, &self->finished, node) {
    if (has_space(self))
      return true;
    if (step->is_read && step->readers.first == NULL)
      drop(self, step);
  }
  return has_space(self);
}

void steps_delete(struct steps *self, struct http_step *step) {
  CHECK(step->state == HTTP_STEP_FINISHED);
  step->is_read = step->is_deleted = true;
  steps_reader_gone(self, step);
}

void steps_reader_gone(struct steps *self, struct http_step *step) {
  if (step->is_deleted && step->readers.first == NULL)
    drop(self, step);
}

static void remove_waiting(struct steps *self, struct http_step *step) {
  list_remove(&self->waiting, &step->node);
  self->waiting_count--;
  self->waiting_bytes -= step->body_length;
}

struct step steps_start(struct steps *self, struct http_step *step, int64_t now_unix_ms) {
  CHECK(self->running == NULL && step->state == HTTP_STEP_WAITING);
  struct step started = step->step;
  step->step = (struct step){0};
  remove_waiting(self, step);
  step->state = HTTP_STEP_RUNNING;
  step->since_unix_ms = now_unix_ms;
  self->running = step;
  return started;
}

void steps_finish(struct steps *self, struct http_step *step, struct buffer *result, int exit_code,
                  int64_t now_unix_ms) {
  CHECK(step->state != HTTP_STEP_FINISHED);
  if (step->state == HTTP_STEP_WAITING)
    remove_waiting(self, step);
  else
    self->running = NULL;
  step_release(&step->step);
  step->state = HTTP_STEP_FINISHED;
  step->since_unix_ms = now_unix_ms;
  step->exit_code = exit_code;
  step->result = *result;
  *result = (struct buffer){0};
  list_append(&self->finished, &step->node);
  self->finished_count++;
  self->finished_bytes += step->result.length;
}

/* --- figures ---------------------------------------------------------------------------------- */

size_t steps_unread(const struct steps *self) {
  size_t unread = 0;
  LIST_FOR_EACH (struct http_step, step, &self->finished, node)
    unread += !step->is_read;
  return unread;
}

static size_t count_ahead(const struct http_step *step) {
  size_t ahead = 0;
  if (step->state != HTTP_STEP_WAITING)
    return 0;
  LIST_FOR_EACH (struct http_step, other, &step->steps->waiting, node) {
    if (other == step)
      break;
    ahead++;
  }
  return ahead + (step->steps->running != NULL);
}

static const char *name_of_state(const struct http_step *step) {
  static const char *const names[] = {[HTTP_STEP_WAITING] = "waiting",
                                      [HTTP_STEP_RUNNING] = "running",
                                      [HTTP_STEP_FINISHED] = "finished"};
  return names[step->state];
}

static void begin_object(const struct http_step *step, struct buffer *json) {
  buffer_add_string(json, "{\"stepId\":");
  buffer_add_json(json, step->id, strlen(step->id));
  buffer_add_format(json, ",\"state\":\"%s\"", name_of_state(step));
}

void steps_add_state(const struct http_step *step, struct buffer *json) {
  begin_object(step, json);
  buffer_add_format(json, ",\"ahead\":%zu,\"lastSeq\":%llu}\n", count_ahead(step),
                    (unsigned long long)step->events.last_seq);
}

static void add_element(const struct http_step *step, struct buffer *json) {
  char since[STEP_EVENT_TIMESTAMP_SIZE];
  step_event_timestamp(since, step->since_unix_ms);
  if (json->bytes[json->length - 1] == '}')
    buffer_add_string(json, ",");
  begin_object(step, json);
  buffer_add_format(json, ",\"kind\":\"%s\",\"target\":", step->kind->name);
  buffer_add_json(json, step->title, strlen(step->title));
  buffer_add_format(json, ",\"since\":\"%s\",\"lastSeq\":%llu", since,
                    (unsigned long long)step->events.last_seq);
  if (step->state == HTTP_STEP_FINISHED)
    buffer_add_format(json, ",\"exitCode\":%d,\"read\":%s", step->exit_code,
                      step->is_read ? "true" : "false");
  buffer_add_string(json, "}");
}

void steps_add_list(const struct steps *self, struct buffer *json) {
  buffer_add_string(json, "{\"steps\":[");
  if (self->running != NULL)
    add_element(self->running, json);
  LIST_FOR_EACH (struct http_step, step, &self->waiting, node)
    add_element(step, json);
  LIST_FOR_EACH (struct http_step, step, &self->finished, node)
    if (!step->is_deleted)
      add_element(step, json);
  buffer_add_string(json, "]}\n");
}
