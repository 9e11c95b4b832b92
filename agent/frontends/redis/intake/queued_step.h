#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/frontends/redis/delivery/outbox.h"
#include "base/error.h"
#include "wire/step.h"

/* The copy in memory of a step that is in the list `inflight` or `in`. Intake makes it when the
   step is taken or found, and frees it when the step is answered. The payload is kept, because
   Redis may lose the step. */
enum queued_step_place {
  QUEUED_STEP_LISTED,
  QUEUED_STEP_LOST /* in no list: Redis has lost it, and it is too large to be restored */
};

struct queued_step {
  struct payload payload; /* owned */
  struct step step;       /* moved to the engine when the step runs */
  char *step_id;          /* not NULL */
  char *reply_to;         /* see struct step */
  struct error error;     /* why the step is rejected */
  bool is_rejected;
  bool is_announced;  /* `started` was set to this step, or the write is queued */
  bool is_doubtful;   /* it may be missing in `inflight`; see may_be_missing in intake.c */
  uint64_t start_end; /* the position in the send queue at which the write of `started` ends */
  enum queued_step_place place;
  int64_t search_until_ms; /* a shutdown waits for the search of `in` until then; 0: no limit yet,
                              -1: the search is over */
};

/* Copies and parses the payload. */
struct queued_step *queued_step_new(const struct payload *payload);

/* Frees the step; does nothing if it is NULL. */
void queued_step_free(struct queued_step *self);

/* Returns true if this is the step's payload, as far as it is known. */
bool queued_step_matches(const struct queued_step *self, const struct payload *payload);

/* Returns true if the step is valid and will be executed: it is not a cancel or a shutdown. */
bool queued_step_is_work(const struct queued_step *self);
