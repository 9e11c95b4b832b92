#ifndef AGENT_FRONTENDS_REDIS_INTAKE_LEDGER_H
#define AGENT_FRONTENDS_REDIS_INTAKE_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/delivery/outbox.h"
#include "base/error.h"
#include "wire/step.h"

/*
 * The book of the steps that were claimed and are known here, in the order in which they lie in
 * `inflight`, the oldest first. What lies behind them is known by Redis alone, and is only counted:
 *
 *   `inflight`, from its tail:   answered   begun   waiting …  |  behind …
 *                                                              edge
 * Orders, copies and cancelled steps may lie behind the edge, and are known.
 *
 * A step's life:
 *
 *   state      becomes   when
 *   CLAIMED    BEGUN     ledger_begin: it is to execute, as soon as Redis knows that it was started
 *   CLAIMED    ANSWERED  ledger_answer: it was refused, cancelled, is an order that was obeyed, or
 *                        Redis has handed it out once more
 *   BEGUN      ANSWERED  its result, or why it does not execute, and its removal are on their way
 *   ANSWERED   (freed)   ledger_delivered: it is not in `inflight` any more
 *
 * A pass compares the book with the list:
 *
 *   ledger_begin_pass
 *   ledger_position          where the next payload lies, whatever has left the list meanwhile
 *   ledger_meet              each payload, in order; what is not known:
 *     ledger_insert          becomes known, or
 *     ledger_pass            is left to Redis
 *
 * Does no I/O.
 */
enum step_state { STEP_CLAIMED, STEP_BEGUN, STEP_ANSWERED };

struct claimed_step {
  struct claimed claimed; /* its payload is owned; from ANSWERED on it lies in the send queue */
  struct step step;       /* empty from ANSWERED on */
  bool refused;
  struct error error; /* why it is refused */
  enum step_state state;
  char *step_id;
  bool announced;           /* Redis has that it was started, or gets it */
  bool listed;              /* it lies in `inflight`; else it is answered without being removed */
  bool returned;            /* it was put back into `inflight` */
  bool seen;                /* in this pass, or it lies in front of where that has begun */
  bool sought;              /* an order: this pass looks for its step from the edge on */
  struct piece_place place; /* from ANSWERED on */
  struct claimed_step *older, *newer;
};

/* Parses it, and copies the payload. It is not in a ledger yet. Of one that is not in the list only
   the id is known. */
struct claimed_step *claimed_step_new(const struct claimed *claimed);
void claimed_step_free(struct claimed_step *self);

/* A cancel, until its step is found; a step that waits in memory until it is its turn. */
bool claimed_step_is_order(const struct claimed_step *self);
bool claimed_step_waits(const struct claimed_step *self);

/* Is begun or waits, and was not met in the pass over all of the list that has ended. */
bool claimed_step_is_missing(const struct claimed_step *self);

struct ledger {
  struct claimed_step *oldest, *newest;
  struct claimed_step *begun; /* and not answered; NULL: none is */
  size_t waiting;             /* steps in memory that wait */
  size_t bytes;               /* that these hold, payload and step */
  size_t orders;              /* cancels whose step is looked for behind the edge */
  size_t order_bytes;         /* of their payloads */
  size_t sought;              /* those whose step this pass looks for */
  size_t behind;              /* steps that lie behind the edge and are not known */
  struct claimed_step *edge;  /* the last one before them; NULL: there is none */
  struct claimed_step *met;   /* by this pass, last; NULL: none was */
  size_t passed;              /* by this pass */
  bool whole;                 /* it has begun at the tail */
};

void ledger_release(struct ledger *self);

/* Adds a step that has just been moved to `inflight`. Where some lie behind the edge it lies behind
   them, and must not stay one that waits. */
void ledger_append(struct ledger *self, struct claimed_step *step);

/* The same for a step that is not to be known. Frees it. */
void ledger_append_behind(struct ledger *self, struct claimed_step *step);

/* The oldest that waits; the oldest that waits, runs a command, and has this
   id; the oldest order for this id that was not met in this pass. NULL: there is none. */
struct claimed_step *ledger_oldest_waiting(const struct ledger *self);
struct claimed_step *ledger_find(const struct ledger *self, const char *step_id);
struct claimed_step *ledger_find_order(const struct ledger *self, const char *step_id);

/* A shutdown waits. */
bool ledger_has_shutdown(const struct ledger *self);

/* Forgets the orders, which stay in the list: a pass over all of it finds them. */
void ledger_drop_orders(struct ledger *self);

void ledger_begin(struct ledger *self, struct claimed_step *step, bool announced);
void ledger_answer(struct ledger *self, struct claimed_step *step, struct piece_place place);

/* Frees what has left the send queue. To be called before what was delivered is compared. */
void ledger_delivered(struct ledger *self, uint64_t gone);

/* Takes a step out of the book and frees it; it stays in the list. */
void ledger_drop(struct ledger *self, struct claimed_step *step);

/* From the tail of the list on, or from the edge on. */
void ledger_begin_pass(struct ledger *self, bool from_edge);

/* From the tail, 1. */
size_t ledger_position(const struct ledger *self);

/* The step that has this payload and was not seen, the oldest; NULL: it is not known. */
struct claimed_step *ledger_meet(struct ledger *self, const struct claimed *claimed);

/* Whether the step that was met last, or lies in front of where the pass has begun, has this
   payload; whether steps that wait lie behind it. */
bool ledger_is_last(const struct ledger *self, const struct claimed *claimed);
bool ledger_is_inside(const struct ledger *self);

/* Puts a step behind what was met last. As the newest that waits it is at the edge. */
void ledger_insert(struct ledger *self, struct claimed_step *step);

/* The step that came last stays with Redis. Frees it. */
void ledger_pass(struct ledger *self, struct claimed_step *step);

/* A pass from the tail on has ended, at the end of the list (`complete`) or where it was stopped:
   what it has passed is what lies behind. */
void ledger_end_pass(struct ledger *self, bool complete);

/* Leaves the newest that waits to Redis, unless it was put back or met: the pass comes to it, or it
   is read again. Returns whether there was one. */
bool ledger_leave_newest(struct ledger *self);

#endif
