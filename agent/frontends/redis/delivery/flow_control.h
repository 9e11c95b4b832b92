#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/delivery/retention.h"

/*
 * Keeps the events of steps with `flowControl` in the stream until their reader has read them, and
 * decides when a command has to wait for its reader. The outbox owns it, and the frontend calls it.
 * It does no I/O; times are those of a clock that does not go back.
 *
 *   flow_control_begin   a step with flowControl begins; its next event has the seq 1
 *     flow_control_read       for each control message `read`
 *     flow_control_checked    the list `control` was read to its end
 *     flow_control_is_paused  true: the command waits
 *     flow_control_drain      the command is being ended
 *   flow_control_end     its result is queued
 *
 * A reader that sends nothing for FLOW_CONTROL_GONE_MS while the command waits is gone: until it
 * comes back, its events are not protected. The events of a step that has ended are protected for
 * as long after the last sign of its reader, or until later events fill the stream.
 */
#define FLOW_CONTROL_GONE_MS 10000

/* The most steps that have ended and whose readers are not done. With more, the two oldest are
   protected together. */
#define FLOW_CONTROL_STEPS 64

struct flow {
  char *step_id;      /* owned; NULL: of several steps, or of those of earlier agents */
  uint64_t first;     /* the number of events that were queued before its first one */
  uint64_t read;      /* before the first one that is not read */
  uint64_t end;       /* before the first one of later steps; of a step that has ended */
  uint64_t end_bytes; /* the bytes of all these events */
  int64_t sign_ms;    /* the last sign of the reader, or a later time from which it is awaited */
  bool is_awaited;    /* the command was found waiting, and `sign_ms` is not before that */
  bool is_gone;       /* the reader */
  enum { FLOW_RUNS, FLOW_IS_KILLED, FLOW_IS_OVER } command;
};

struct flow_control {
  const struct retention *retention;         /* set by the owner, and counts the events */
  struct flow flows[FLOW_CONTROL_STEPS + 1]; /* the oldest first */
  size_t count;
  bool runs;           /* the last one is that of a running step */
  uint64_t read_bytes; /* of the running step: the bytes of all events before `read` */
};

void flow_control_release(struct flow_control *self);

void flow_control_begin(struct flow_control *self, const char *step_id, int64_t now_ms);
void flow_control_end(struct flow_control *self, int64_t now_ms);

/* The running command is being killed: twice as many events may be unread. Or it is over: the rest
   of its output, which fits into its pipes, does not wait for the reader. */
void flow_control_drain(struct flow_control *self, bool is_over);

/* This agent has taken the job over, and has queued no events: protects all events of earlier
   agents. A message about a step that is not known may be about one of theirs. */
void flow_control_protect_earlier(struct flow_control *self, int64_t now_ms);

/* Notes that the reader has read the events up to `seq`. A lower number than before is only a sign
   of life. */
void flow_control_read(struct flow_control *self, const char *step_id, uint64_t seq,
                       int64_t now_ms);

/* The list `control` was read to its end, from `began_ms` on. `is_first`: it could not be read
   before, and readers have got no chance to give a sign. */
void flow_control_checked(struct flow_control *self, int64_t began_ms, bool is_first,
                          int64_t now_ms);

/* Events were queued. */
void flow_control_added(struct flow_control *self);

bool flow_control_is_paused(const struct flow_control *self);

/* Returns the number of the first protected event, or RETENTION_UNPROTECTED. */
uint64_t flow_control_protected_from(const struct flow_control *self);
