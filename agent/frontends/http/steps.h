#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/http/event_store.h"
#include "base/buffer.h"
#include "base/list.h"
#include "base/siphash.h"
#include "wire/step.h"

/*
 * The steps that the frontend knows: those that wait, the one that runs, those whose results are
 * held, and the ids of earlier ones. The hard part is that a PUT may be repeated at any time: the
 * same request must never start a second step, and an id is never run again while it is remembered.
 *
 *   steps_add --> WAITING --steps_start--> RUNNING --steps_finish--> FINISHED --> gone
 *                    `------------------steps_finish---------------^
 *
 * steps_delete and steps_make_space let a finished step go.
 */
#define STEPS_WAITING_MAX 64
#define STEPS_RESULTS_MAX 64
#define STEPS_RESULT_BYTES_MAX ((size_t)32 * 1024 * 1024)
#define STEPS_REMEMBERED_MAX 65536

enum http_step_state { HTTP_STEP_WAITING, HTTP_STEP_RUNNING, HTTP_STEP_FINISHED };

struct steps;

struct http_step {
  struct list_node node; /* in `waiting` or `finished` */
  const struct steps *steps;
  enum http_step_state state;
  char *id;
  struct step step; /* of a waiting one */
  const struct step_kind *kind;
  int schema_version; /* of its answers */
  char *title;        /* the text of its `started` event */
  size_t body_length;
  struct siphash body_hash;
  int64_t since_unix_ms; /* in this state */
  struct event_log events;
  struct list readers;  /* of the frontend */
  struct buffer result; /* of a finished one: a line of JSON */
  int exit_code;
  bool is_read;    /* the kernel has accepted the last byte of a response with the result */
  bool is_deleted; /* it is dropped when its last reader is gone */
};

struct steps {
  struct event_store store;
  struct list waiting;  /* in their order */
  struct list finished; /* the oldest first */
  struct http_step *running;
  size_t waiting_count, waiting_bytes; /* of their bodies */
  size_t finished_count, finished_bytes;
  size_t finished_bytes_max;
  struct siphash_key key;
  uint64_t *remembered; /* a ring of the hashes of ids */
  size_t remembered_count, remembered_next, remembered_size;
};

void steps_init(struct steps *self, size_t events_bytes_max, uint64_t events_max);
void steps_release(struct steps *self);

/* Returns the step with this id, or NULL. */
struct http_step *steps_find(const struct steps *self, const char *id);

/* Whether a step with this id was accepted earlier. */
bool steps_is_remembered(const struct steps *self, const char *id);

/* Whether the body is that of the step. */
bool steps_is_same_body(const struct steps *self, const struct http_step *step,
                        const struct buffer *body);

/* Adds a step to the end of the queue. Takes over the parsed step and the title. */
struct http_step *steps_add(struct steps *self, struct step *step, char *title,
                            const struct buffer *body, int64_t now_unix_ms);

/* Whether the queue has capacity for a body of this length. */
bool steps_may_wait(const struct steps *self, size_t body_length);

/* Drops results that were read, the oldest first, until there is space for another one. Returns
   false if there is none. */
bool steps_make_space(struct steps *self);

/* The step becomes the running one. Returns the parsed step, which the caller owns. */
struct step steps_start(struct steps *self, struct http_step *step, int64_t now_unix_ms);

/* The step is over. Takes over the result. */
void steps_finish(struct steps *self, struct http_step *step, struct buffer *result, int exit_code,
                  int64_t now_unix_ms);

/* Forgets everything about a finished step except its id, once it has no readers. */
void steps_delete(struct steps *self, struct http_step *step);

/* To be called when a reader of the step is gone. */
void steps_reader_gone(struct steps *self, struct http_step *step);

/* Returns how many finished steps nobody has read. */
size_t steps_unread(const struct steps *self);

/* Appends {"stepId":…,"state":…,"ahead":…,"lastSeq":…} and a newline. */
void steps_add_state(const struct http_step *step, struct buffer *json);

/* Appends {"steps":[…]} and a newline: the running step, those that wait, and those that are
   over. */
void steps_add_list(const struct steps *self, struct buffer *json);
