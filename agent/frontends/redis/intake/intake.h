#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/delivery/outbox.h"
#include "agent/frontends/redis/heartbeat/control_messages.h"
#include "agent/frontends/redis/intake/consumer.h"
#include "agent/frontends/redis/intake/queued_step.h"
#include "agent/frontends/redis/intake/recent_steps.h"
#include "agent/frontends/redis/keys.h"
#include "base/error.h"
#include "base/log.h"
#include "wire/step_report.h"

/*
 * Takes steps from `in`, one ahead of the running step, and passes them to the frontend in order.
 * It answers the steps that never run: those that were cancelled while they waited, the one that an
 * earlier agent had started, and those whose result Redis has lost. Callbacks record what Redis has
 * replied, and intake_advance decides what is read and written next.
 * tests/unit/test_intake_core.c runs it against a model of Redis.
 *
 * The hard part: two connections change the list `inflight`, agents that were superseded may still
 * add steps to it for some time, and Redis may come back with older data. A step that the agent
 * mistook for two steps would run twice. So the agent knows the oldest steps of the list: the
 * running one and at most one that was fetched ahead. A check compares these, and the key
 * `started`, with what Redis has, writes what differs, and is repeated until nothing differs.
 *
 *   state      next       when
 *   CHECKING   READY      a check has written nothing
 *              AWAITING   an earlier agent had started a step, and its processes must end first
 *              RETURNING  the list has many unknown steps
 *   AWAITING   CHECKING   these processes have ended
 *   RETURNING  CHECKING   the newest steps went back to `in`, or the list has changed
 *   READY      CHECKING   a connection was lost, another agent may have taken a step, or the next
 *                         step is already in `inflight`
 *   any        CHECKING   Redis has lost data
 *   any        STOPPED    intake_stop; after a loss of data, only in place of READY
 *
 * A check scans `inflight` from the oldest step to the newest. It answers the steps that must not
 * run, fetches the oldest unknown one, and restores known ones that are missing.
 *
 * Only in READY are steps taken from `in` and started. Redis is only asked when everything that
 * intake has written is delivered.
 */
enum intake_state {
  INTAKE_CHECKING,
  INTAKE_AWAITING,
  INTAKE_RETURNING,
  INTAKE_READY,
  INTAKE_STOPPED
};

/* The activity of the consumer's connection. */
enum intake_activity {
  INTAKE_IDLE,
  INTAKE_TAKING,   /* BLMOVE waits for a step */
  INTAKE_ARRIVING, /* BLMOVE may have moved a step, which must arrive before the next check */
  INTAKE_SEARCHING /* the next page of `in` is being read */
};

/* The callbacks of the frontend. */
struct intake_handler {
  /* Something was recorded, and intake_advance has something to do. */
  void (*changed)(void *owner);
  /* A step or a control message has arrived, even if it will be discarded: the job is not idle. */
  void (*arrived)(void *owner);
  /* Cancels the running step. */
  void (*cancel)(void *owner, const char *step_id);
  /* The reader of a step has read its events up to `seq`. */
  void (*read)(void *owner, const char *step_id, uint64_t seq);
  /* An earlier agent had started a step. Returns false if processes of earlier agents are still
     running; intake_interrupted_ended then follows. */
  bool (*interrupted)(void *owner);
  /* A result is about to be written. */
  void (*answered)(void *owner, const struct step_result *result);
  /* A permanent error: no more steps can be taken. */
  void (*failed)(void *owner, const struct error *error);
};

/* The step that an earlier agent had started. */
struct intake_interrupted {
  char *id;       /* owned; NULL: there is none */
  int64_t events; /* the number of its events in the stream; -1: unknown */
  int version;    /* the schema version of its answer; 1 if unknown */
};

/* The query that is under way on the connection of the outbox; the state determines its kind. */
struct intake_query {
  enum { INTAKE_QUERY_NONE, INTAKE_QUERY_SENT, INTAKE_QUERY_ABANDONED } phase;
  size_t next, end;    /* the numbers of the next reply, and after the last one */
  size_t messages;     /* how many control messages it asks for */
  size_t inflight, in; /* the lengths that were read */
};

/* The size of the next page of a list. */
struct intake_page {
  size_t count, bytes; /* of the steps in the page */
};

/* The scan of `inflight`, from the oldest step to the newest. */
struct intake_scan {
  size_t skip;               /* the number of older steps, which were scanned and stay */
  unsigned seen;             /* the known steps among them: SEEN_RUNNING, SEEN_FETCHED */
  struct queued_step *older; /* the first unknown one, unless it is newer than the fetched one */
  struct intake_page page;
  size_t removed; /* bytes of the steps that were removed */
};

/* What the last check has found. */
struct intake_checked {
  size_t inflight;      /* the length of the list */
  uint64_t next_number; /* of control messages */
  unsigned repeated;    /* how many successive checks before it have found the same */
};

/* The search of `in` for steps that were cancelled or have run. It reads page after page, from the
   oldest step on. */
struct intake_search {
  enum { INTAKE_SEARCH_OVER, INTAKE_SEARCH_UNDER_WAY, INTAKE_SEARCH_DENIED } phase;
  size_t skip;   /* the number of older steps, which were searched and stay in `in` */
  size_t length; /* of `in` */
  struct intake_page page;
  bool with_redelivered; /* the search is also for redelivered steps */
};

struct intake {
  /* The frontend reads these members. */
  enum intake_state state;
  struct consumer *consumer;
  struct control_messages control;
  /* The other members are private. */
  const struct log *log;
  const struct intake_handler *handler;
  void *owner;
  struct event_base *base;
  struct event *wakeup; /* for the limits in time */
  struct outbox *outbox;
  const struct keys *keys;
  enum { INTAKE_STARTING, INTAKE_OPEN, INTAKE_STOPPING } phase; /* STARTING: was never READY */
  enum intake_activity activity;
  struct queued_step *running, *fetched; /* NULL: there is none */
  size_t backlog;                        /* the number of newer steps in `inflight` */
  size_t backlog_max;                    /* with more, steps go back to `in` */
  struct intake_interrupted interrupted;
  enum { EARLIER_AGENTS_MAY_RUN, EARLIER_AGENTS_ENDED } earlier_agents;
  struct recent_steps recent;
  struct intake_query query;
  struct intake_scan scan;
  struct intake_checked checked;
  struct intake_page returned; /* the newest steps of `inflight` */
  struct intake_search search;
  uint64_t written;       /* the position in the send queue at which the last write ends */
  uint64_t search_end;    /* the same of the search's last write */
  uint64_t look_number;   /* control messages with a smaller number were known when the query or
                             the search that is under way began */
  uint64_t looked_number; /* steps of those with a smaller number were looked for in all lists */
  uint64_t reconnections; /* of the outbox */
  int64_t stale_until_ms; /* a BLMOVE may be stale until then; 0: there is none */
  int64_t check_ms;       /* the next check is not earlier */
  unsigned restores;      /* successive checks that have restored steps */
  size_t timeouts;        /* BLMOVEs that found `in` empty since the last loss of data */
  bool is_unverified;     /* Redis has lost data, and intake was not READY since */
};

extern const char intake_lost_message[];

/* All arguments must outlive intake. */
struct intake *intake_new(struct event_base *base, const struct log *log,
                          const struct redis_url *url, const struct keys *keys,
                          struct outbox *outbox, const struct intake_handler *handler, void *owner);
void intake_free(struct intake *self);

/* Decides and does what is due. */
void intake_advance(struct intake *self);

/* Returns the next step, which intake owns, or NULL if no step may begin now. The caller must start
   or finish the step at once. */
struct queued_step *intake_next_step(const struct intake *self);

/* The next step runs. With `announced`, its start is written to Redis. Without, a later agent runs
   an unanswered step again, unless intake_announce_start follows. */
void intake_start_step(struct intake *self, bool announced);
void intake_announce_start(struct intake *self);

/* Answers the running step, or if none runs the next step, and removes it from `inflight`. If
   `result` is NULL, the step is removed without an answer. */
void intake_finish_step(struct intake *self, const struct step_event *completed,
                        const struct step_result *result);

/* Takes a control message that the heartbeat has read. */
void intake_message(struct intake *self, const struct payload *payload);

/* Notes that the processes of earlier agents have ended. */
void intake_interrupted_ended(struct intake *self);

/* Redis has lost acknowledged data. Restores the running step and the one fetched ahead in
   `inflight`; if Redis redelivers them, they are discarded. Returns true if the running step has
   the id of a step that was started before. If its command does not execute yet, it must not, and
   the step is answered with intake_lost_message. To be called before the next intake_advance. */
bool intake_lose_data(struct intake *self);

/* Takes and starts no more steps. Waiting steps stay in their lists. The state becomes
   INTAKE_STOPPED: at once, or after a loss of data when it is certain that `inflight` has no step
   that a later agent would run again, for which it needs Redis. */
void intake_stop(struct intake *self);

/* Logs its state. */
void intake_dump(const struct intake *self);
