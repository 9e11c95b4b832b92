#ifndef AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_CORE_H
#define AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/heartbeat/control_messages.h"
#include "agent/frontends/redis/intake/held_step.h"
#include "agent/frontends/redis/intake/recent_steps.h"
#include "base/log.h"
#include "wire/step_report.h"

/*
 * Decides how steps are taken: which step is given out next, what is asked of Redis, and what is
 * written. It does no I/O: it is told what Redis has answered and what was delivered, and calls
 * intake_actions. intake.h connects it with Redis; tests/unit/test_intake_core.c with a model.
 *
 * The hard part: two connections change the list `inflight`, agents that are superseded may add a
 * step for some time, and Redis may come back with older data. A step that was known twice would
 * run twice. So the agent knows the whole list: the running step, and at most one that was fetched
 * ahead. It compares the list's length with the number of these, and reads the list when they
 * differ.
 *
 *   state      event      becomes    what happens
 *   COMPARING  EQUAL      READY
 *              MORE       READING    the list has steps that are not known: they go back to `in`;
 *                                    or, after a reconnect, it may have others than the known ones
 *              FEWER      WRITING    Redis has lost that steps were taken: they are put back
 *              DEAD       AWAITING   at boot, a step had been started: its processes must end first
 *   AWAITING   DEAD_ENDED COMPARING
 *   READING    READ       WRITING
 *   WRITING    DELIVERED  COMPARING
 *   READY      DOUBT      COMPARING  a connection was lost, or another agent may have taken a step
 *   any        LOST_DATA  WRITING
 *   any        STOP       STOPPED    once `inflight` was compared after a loss of data
 *
 * Steps are given out in READY alone, and taken there.
 */
enum intake_state {
  INTAKE_COMPARING,
  INTAKE_AWAITING,
  INTAKE_READING,
  INTAKE_WRITING,
  INTAKE_READY,
  INTAKE_STOPPED,
  INTAKE_STATES
};

/* What the consumer's connection does. */
enum intake_activity {
  INTAKE_IDLE,
  INTAKE_TAKING,   /* BLMOVE waits */
  INTAKE_ARRIVING, /* the same, and it has moved a step, by the length of `inflight` */
  INTAKE_SEARCHING /* a page of `in` comes */
};

enum intake_question {
  INTAKE_ASKS_NOTHING,
  INTAKE_ASKS_BOOT,    /* `started`, its last event, the lengths, and a page of `control` */
  INTAKE_ASKS_LENGTHS, /* of `inflight` and `in` */
  INTAKE_ASKS_PAGE,    /* steps of `inflight` */
  INTAKE_ASKS_IN_VAIN  /* one of these, whose answer counts no longer */
};

/* How long another agent's BLMOVE may still take a step: Redis lets it wait for
   CONSUMER_BLOCK_SECONDS, and an agent that was superseded may send one more before it learns of
   it. The same holds for one of this agent's own, on a connection that was lost. */
#define INTAKE_LATE_MS 15000

/* In a page of `inflight` at most: steps, and bytes as far as can be foreseen. */
#define INTAKE_PAGE_MAX 128
#define INTAKE_PAGE_BYTES ((size_t)1024 * 1024)

/* Steps in a page of a search, at most. */
#define INTAKE_SEARCH_MAX 8192

/* What is true now, outside of the core. */
struct intake_world {
  int64_t now_ms;     /* monotonic */
  uint64_t delivered; /* bytes that have left the send queue */
  size_t capacity;    /* of the outbox */
  bool is_empty;      /* everything is delivered */
  bool has_lost_data; /* nothing was delivered since Redis lost data */
};

/* Where a search of `in` for cancelled steps is. */
struct intake_search {
  enum { INTAKE_SEARCH_OVER, INTAKE_SEARCH_GOES_ON, INTAKE_SEARCH_DENIED } phase;
  size_t skip;          /* steps that were looked at and stay in `in`, */
  size_t length;        /* of so many */
  size_t count, bytes;  /* of the steps in the page */
  uint64_t number;      /* of the next control message, when it began; */
  uint64_t done_number; /* when the last one that came to the end of `in` had begun */
  bool has_copies;      /* copies of steps that have run are sought, too */
};

struct intake_actions {
  /* One step of `in`: then intake_core_take_step, _nothing or _reconnected. */
  void (*take)(void *owner);
  /* Steps of `in` behind the `skip` oldest: then intake_core_see_step for each, and _see_end. */
  void (*search)(void *owner, size_t skip, size_t count);
  /* INTAKE_ASKS_PAGE: `count` steps of `inflight` from this position on, which counts from the
     oldest, 1, to older ones. */
  void (*ask)(void *owner, enum intake_question question, size_t position, size_t count);
  uint64_t (*write)(void *owner, const struct outbox_record *record);
  /* A step or a control message came, whatever becomes of it: the job is not idle. */
  void (*arrived)(void *owner);
  /* Ends the running step. */
  void (*cancel)(void *owner, const char *step_id);
  /* At boot: an earlier agent had started a step. False: it still runs, and
     intake_core_interrupted_ended follows. */
  bool (*interrupted)(void *owner);
  void (*answered)(void *owner, const struct step_result *result);
};

/* The step that an earlier agent had started. */
struct intake_interrupted {
  char *id;       /* owned; NULL: there is none */
  int64_t events; /* of it in the stream; -1: not known */
  int version;    /* of its answer; 1 when that is not known */
};

/* The copy of a step whose removal from a list is not delivered. */
struct intake_discard {
  struct intake_discard *next;
  uint64_t end; /* of the removal in the send queue */
  int version;  /* of the step's answer */
  char step_id[];
};

struct intake_core {
  const struct log *log;
  const struct intake_actions *actions;
  void *owner;
  struct intake_world world;
  enum intake_state state;
  enum intake_activity activity;
  enum intake_question question, compare; /* under way; the one that compares */
  struct held_step *running, *fetched;    /* NULL: there is none */
  const struct held_step *certain;        /* what was fetched when the lengths were equal last */
  size_t surplus; /* steps of `inflight` behind these that cannot be put back; not in memory */
  struct intake_interrupted interrupted;
  struct intake_discard *discards;
  struct recent_steps recent;
  struct control_messages control;
  struct {
    enum intake_activity activity; /* when the lengths were asked for */
    int64_t ms;
    uint64_t number; /* of the next control message, then */
    uint64_t written;
  } asked;
  struct {
    size_t position, count, bytes; /* of the next step, from the oldest; of the page */
    unsigned met;                  /* known steps */
    size_t left;                   /* steps that stay, */
    struct held_step *oldest;      /* and the oldest of them */
  } pass;
  struct intake_search search;
  uint64_t search_end;                     /* where what it has written ends in the send queue */
  const struct held_step *searched_before; /* what was fetched when the end of `in` was reached */
  int64_t search_until_ms; /* a shutdown waits for the search until then; 0: it has not begun */
  uint64_t written;        /* where what was written ends in the send queue */
  int64_t late_until_ms;   /* others may take steps until then; 0: nobody does */
  size_t empty_answers;    /* questions that found `in` empty since the last loss */
  unsigned differences;    /* comparisons that found one since one found none */
  unsigned losses;         /* comparisons that found steps missing since one found none */
  enum { DEAD_RUN, DEAD_ENDED } dead; /* the processes of the interrupted step */
  enum { INTAKE_OPEN, INTAKE_STOPPING } phase;
  bool is_unread;     /* Redis lost data, and `inflight` was not compared since */
  bool is_unverified; /* the steps in flight were not found in `inflight` since a reconnect */
};

extern const char intake_lost_result[];

void intake_core_init(struct intake_core *self, const struct log *log,
                      const struct intake_actions *actions, void *owner);
void intake_core_release(struct intake_core *self);

/* --- what Redis has answered: recorded ------------------------------------------------------- */

/* To INTAKE_ASKS_BOOT; `interrupted` becomes the core's. */
struct intake_boot {
  struct intake_interrupted interrupted;
  size_t inflight, in;
  bool had_owner;         /* another agent had the job before */
  bool has_more_messages; /* `control` was not read to its end */
};
void intake_core_boot(struct intake_core *self, const struct intake_boot *boot);
void intake_core_lengths(struct intake_core *self, size_t inflight, size_t in);
void intake_core_page_step(struct intake_core *self, const struct payload *payload);
void intake_core_page_end(struct intake_core *self, bool is_short);

void intake_core_take_step(struct intake_core *self, const struct payload *payload);
void intake_core_nothing(struct intake_core *self);
void intake_core_reconnected(struct intake_core *self);

/* A page of `in` begins, which has this length; its steps, from the oldest on; its end. */
enum intake_page {
  INTAKE_PAGE_WHOLE,
  INTAKE_PAGE_LAST, /* `in` ends with it */
  INTAKE_PAGE_CUT   /* it is too large to be read */
};
void intake_core_see_page(struct intake_core *self, size_t length);
void intake_core_see_step(struct intake_core *self, const struct payload *payload);
void intake_core_see_end(struct intake_core *self, enum intake_page page);
void intake_core_search_denied(struct intake_core *self);

void intake_core_message(struct intake_core *self, const struct payload *payload);
void intake_core_interrupted_ended(struct intake_core *self);

/* Redis lost data that it had acknowledged. The running step and the one fetched ahead are put
   back; copies of them that Redis hands out are removed. True when the running step has the id of
   one that was started before: if its command does not run yet it must not run, and is answered
   with intake_lost_result. Before the next intake_core_advance. `hold`: each step whose result is
   not delivered, by intake_core_hold. */
bool intake_core_lose_data(struct intake_core *self, const struct intake_world *world,
                           void (*hold)(void *owner));
void intake_core_hold(struct intake_core *self, const char *step_id);

/* --- decisions -------------------------------------------------------------------------------- */

/* Does what is due. */
void intake_core_advance(struct intake_core *self, const struct intake_world *world);

/* When intake_core_advance has something to do although nothing arrives; 0: never. */
int64_t intake_core_wakeup_ms(const struct intake_core *self);

/* The step that is next; the core owns it. NULL when none may be given out now. It must be begun,
   answered or removed at once. */
struct held_step *intake_core_give(const struct intake_core *self);

/* The step runs. With `announced` Redis gets that it was started; without, an agent after this one
   runs it again when it is not answered, unless intake_core_announce follows. */
void intake_core_begin(struct intake_core *self, bool announced);
void intake_core_announce(struct intake_core *self);

/* The running step, or the one that was given and does not run, is answered; without a `result` it
   is removed. */
void intake_core_answer(struct intake_core *self, const struct step_event *completed,
                        const struct step_result *result);

/* Takes no more, gives out no more. */
void intake_core_stop(struct intake_core *self);

#endif
