#ifndef AGENT_QUEUE_H
#define AGENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/redis/records.h"
#include "base/error.h"
#include "wire/step.h"

/*
 * The steps that were taken and wait, oldest first. Pure.
 */
#define QUEUE_MOST 64

/* The sum of payloads from which on no more are taken; the last one may be as large as it likes. */
#define QUEUE_BYTES ((size_t)32 * 1024 * 1024)

/* One step, parsed, with the payload it came as: by that it is removed from the list. */
struct queued {
  struct taken taken; /* its payload is owned */
  struct step step;
  bool refused;
  struct error error; /* why */
  bool seen;          /* by a recovery that is going on */
  bool gone;          /* it is not in the list any more */
};

struct queued *queued_new(const struct taken *taken);
void queued_free(struct queued *self);

struct queue {
  struct queued *items[QUEUE_MOST];
  size_t count;
  size_t bytes;
};

void queue_release(struct queue *self);

bool queue_is_full(const struct queue *self);

/* The oldest; NULL when there is none. The caller's from here on. */
struct queued *queue_pop(struct queue *self);

/* The oldest that is to be run and has this stepId, taken out; NULL when there is none. */
struct queued *queue_take_run(struct queue *self, const char *step_id);

/* Takes out and frees those of which `drop` says so, the oldest first. */
void queue_drop(struct queue *self, bool (*drop)(void *owner, const struct queued *queued),
                void *owner);

/* For a recovery, which sees the steps in their order: none was seen; this one is: false when it is
   not there, or was seen. */
void queue_forget_seen(struct queue *self);
bool queue_see(struct queue *self, const struct taken *taken);

/* The place behind the last one that was seen. */
size_t queue_behind_seen(const struct queue *self);

/* The queue takes it over, at this place, at most `count`. When it is full the newest one has to
   go: it is returned, else NULL. */
struct queued *queue_insert(struct queue *self, struct queued *queued, size_t place);

bool queued_is(const struct queued *self, const struct taken *taken);

#endif
