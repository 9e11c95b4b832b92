#ifndef AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_CORE_H
#define AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/frontends/redis/heartbeat/control_messages.h"
#include "agent/frontends/redis/intake/queued_step.h"
#include "agent/frontends/redis/intake/recent_steps.h"
#include "base/error.h"
#include "base/log.h"
#include "wire/step_report.h"

/*
 * Decides which step runs next, which commands are sent to Redis and what is written. intake.c,
 * which does the I/O, reports what Redis has replied and what was delivered, and calls
 * intake_core_advance. The core itself does no I/O: it calls intake_io.
 * tests/unit/test_intake_core.c runs it against a model of Redis.
 *
 * The hard part: two connections change the list `inflight`, agents that were superseded may still
 * add steps to it for some time, and Redis may come back with older data. A step that the agent
 * took for two steps would run twice. So the agent knows every step of the list: the running one
 * and at most one that was fetched ahead. It compares the length of the list with the number of
 * steps that it knows, and scans the list if the numbers differ.
 *
 *   state      next       when
 *   COMPARING  READY      the lengths are equal: the agent knows every step of the list
 *              SCANNING   the list has unknown steps, which go back to `in`; or, after a reconnect,
 *                         it may have other steps than the known ones
 *              WRITING    the list lacks known steps: Redis has lost them, and they are restored
 *              AWAITING   an earlier agent had started a step, and its processes must end first
 *   AWAITING   COMPARING  these processes have ended
 *   SCANNING   WRITING    the scan has passed the oldest step
 *              COMPARING  the list changes during the scan
 *   WRITING    COMPARING  everything that was written is delivered
 *   READY      COMPARING  a connection was lost, or another agent may have taken a step
 *   any        WRITING    Redis has lost data
 *   any        STOPPED    intake_core_stop; after a loss of data, only in place of READY
 *
 * Only in READY are steps taken from `in` and started.
 */
enum intake_state {
  INTAKE_COMPARING,
  INTAKE_AWAITING,
  INTAKE_SCANNING,
  INTAKE_WRITING,
  INTAKE_READY,
  INTAKE_STOPPED
};

/* The activity of the consumer's connection. */
enum intake_activity {
  INTAKE_IDLE,
  INTAKE_TAKING,   /* BLMOVE waits for a step */
  INTAKE_ARRIVING, /* BLMOVE has moved a step, according to the length of `inflight` */
  INTAKE_SEARCHING /* the next page of `in` is being read */
};

/* The query that is under way on the connection of the outbox. */
enum intake_query {
  INTAKE_QUERY_NONE,
  INTAKE_QUERY_STARTUP,  /* `started`, the last event, both lengths, and messages of `control` */
  INTAKE_QUERY_LENGTHS,  /* of `inflight` and `in` */
  INTAKE_QUERY_SCAN,     /* steps of `inflight` */
  INTAKE_QUERY_ABANDONED /* any of these; the answer will be ignored */
};

/* A stale BLMOVE is one that Redis still executes for a superseded agent, or for a connection that
   this agent has lost. It moves a step to `inflight`, and nobody reads the reply. Redis lets a
   BLMOVE wait for CONSUMER_BLOCK_SECONDS, and a superseded agent may send another one before it
   reads the new fencing token. After this time there is none. */
#define INTAKE_STALE_MS 15000

/* The most steps in one scan query, and the bytes that it should not exceed. */
#define INTAKE_PAGE_MAX 128
#define INTAKE_PAGE_BYTES ((size_t)1024 * 1024)

/* The most steps in one page of a search. */
#define INTAKE_SEARCH_MAX 8192

/* The state of the outbox and the clock. */
struct intake_context {
  int64_t now_ms;         /* monotonic */
  uint64_t delivered;     /* send_queue.delivered */
  uint64_t reconnections; /* of the outbox's connection */
  size_t capacity;        /* of the outbox */
  bool is_empty;          /* everything is delivered */
  bool has_lost_data;     /* nothing was delivered since Redis lost data */
};

/* The search of `in` for steps that were cancelled or have run. It reads page after page, from the
   oldest step on. */
struct intake_search {
  enum { INTAKE_SEARCH_OVER, INTAKE_SEARCH_UNDER_WAY, INTAKE_SEARCH_DENIED } phase;
  size_t skip;           /* the number of older steps, which were searched and stay in `in` */
  size_t length;         /* of `in` */
  size_t count, bytes;   /* of the steps in the page */
  uint64_t number;       /* the next control message at the beginning of this search */
  uint64_t done_number;  /* the same of the last search that has reached the end of `in` */
  bool with_redelivered; /* the search is also for redelivered steps */
};

/* How the core sends and writes; implemented by intake.c. */
struct intake_io {
  /* Takes one step from `in`. intake_core_step_taken, _take_timed_out or _reconnected follows. */
  void (*take)(void *owner);
  /* Reads the `count` steps of `in` after the `skip` oldest ones. intake_core_begin_search_page,
     one _search_step per step and _end_search_page follow; or _search_denied or _reconnected. */
  void (*search)(void *owner, size_t skip, size_t count);
  /* Sends a query. `count` values are read, beginning at this position; the oldest value of a list
     has position 1. INTAKE_QUERY_SCAN reads `inflight` and continues to older steps,
     INTAKE_QUERY_STARTUP reads `control` and continues to newer messages. */
  void (*query)(void *owner, enum intake_query query, size_t position, size_t count);
  /* Returns the position in the send queue at which the record ends. */
  uint64_t (*write)(void *owner, const struct outbox_record *record);
};

/* The callbacks of the frontend. */
struct intake_handler {
  /* Something was recorded, and intake_advance has something to do. */
  void (*changed)(void *owner);
  /* A step or a control message has arrived, even if it will be discarded: the job is not idle. */
  void (*arrived)(void *owner);
  /* Cancels the running step. */
  void (*cancel)(void *owner, const char *step_id);
  /* At startup, an earlier agent had started a step. Returns false if processes of earlier agents
     are still running; intake_core_interrupted_ended then follows. */
  bool (*interrupted)(void *owner);
  /* A result is about to be written. */
  void (*answered)(void *owner, const struct step_result *result);
  /* A permanent error: no more steps can be taken. */
  void (*failed)(void *owner, const struct error *error);
};

/* The scan of `inflight`, from the newest step to the oldest. */
struct intake_scan {
  size_t position;                 /* of the next step; the oldest one has position 1 */
  size_t count, bytes;             /* of the steps in the page */
  unsigned seen;                   /* the known steps that were seen: SEEN_RUNNING, SEEN_FETCHED */
  size_t kept;                     /* the number of unknown steps that stay in `inflight` */
  struct queued_step *oldest_kept; /* the oldest of them; NULL: there is none */
};

/* The step that an earlier agent had started. */
struct intake_interrupted {
  char *id;       /* owned; NULL: there is none */
  int64_t events; /* the number of its events in the stream; -1: unknown */
  int version;    /* the schema version of its answer; 1 if unknown */
};

/* A redelivered step whose removal is not delivered yet. */
struct intake_discard {
  struct intake_discard *next;
  uint64_t end; /* the position in the send queue at which the removal ends */
  int version;  /* the schema version of the step's answer */
  char step_id[];
};

struct intake_core {
  const struct log *log;
  const struct intake_io *io;
  void *io_owner;
  const struct intake_handler *handler;
  void *owner;
  struct intake_context context;
  enum intake_state state;
  enum intake_activity activity;
  enum intake_query query;   /* under way */
  enum intake_query compare; /* the query that compares: STARTUP until it was answered once */
  struct queued_step *running, *fetched; /* NULL: there is none */
  const struct queued_step *confirmed;   /* the fetched step when the lengths were last equal */
  size_t backlog; /* newer steps that stay in `inflight`, because they cannot go back to `in` */
  struct intake_interrupted interrupted;
  struct intake_discard *discards;
  struct recent_steps recent;
  struct control_messages control;
  /* The state of the agent when the last query was sent. */
  struct {
    enum intake_activity activity;
    int64_t ms;
    uint64_t number; /* of the next control message */
    uint64_t written;
  } asked;
  struct intake_scan scan;
  struct intake_search search;
  uint64_t search_end; /* the position in the send queue at which the search's last write ends */
  const struct queued_step *searched_step; /* the fetched step when the end of `in` was reached */
  int64_t search_deadline_ms; /* a shutdown waits for the search until then; 0: it does not wait */
  uint64_t written;           /* the position in the send queue at which the last write ends */
  int64_t stale_until_ms;     /* a BLMOVE may be stale until then; 0: there is none */
  size_t timeouts;            /* BLMOVEs that found `in` empty since the last loss of data */
  unsigned mismatches;        /* successive comparisons with different lengths */
  unsigned restores;          /* those of them that found too few steps */
  enum { EARLIER_AGENTS_MAY_RUN, EARLIER_AGENTS_ENDED } earlier_agents;
  enum { INTAKE_OPEN, INTAKE_STOPPING } phase;
  bool is_unverified; /* Redis has lost data, and the lengths were not equal since */
  bool needs_scan;    /* the known steps were not seen in `inflight` since a reconnect */
};

extern const char intake_lost_message[];

void intake_core_init(struct intake_core *self, const struct log *log, const struct intake_io *io,
                      void *io_owner, const struct intake_handler *handler, void *owner);
void intake_core_release(struct intake_core *self);

/* --- replies of Redis, which are recorded ----------------------------------------------------- */

/* The answer to INTAKE_QUERY_STARTUP. The core takes ownership of `interrupted`. */
struct intake_startup {
  struct intake_interrupted interrupted;
  size_t inflight, in;
  bool had_owner;         /* another agent owned the job before */
  bool has_more_messages; /* `control` was not read to its end */
};
void intake_core_startup(struct intake_core *self, const struct intake_startup *startup);

/* The answer to INTAKE_QUERY_LENGTHS. */
void intake_core_lengths(struct intake_core *self, size_t inflight, size_t in);

/* The answer to INTAKE_QUERY_SCAN: each step, from newer to older ones, and the end of the page.
   `is_short`: the list had fewer steps than expected. */
void intake_core_scan_step(struct intake_core *self, const struct payload *payload);
void intake_core_end_scan_page(struct intake_core *self, bool is_short);

/* BLMOVE has moved this step; BLMOVE has timed out; the connection was lost and is ready again. */
void intake_core_step_taken(struct intake_core *self, const struct payload *payload);
void intake_core_take_timed_out(struct intake_core *self);
void intake_core_reconnected(struct intake_core *self);

/* A page of `in`: its beginning, with the length of `in`; each step, from the oldest on; its
   end. */
enum intake_page {
  INTAKE_PAGE_WHOLE,
  INTAKE_PAGE_LAST,     /* `in` has no more steps */
  INTAKE_PAGE_TOO_LARGE /* the page exceeds the longest reply, and was not read */
};
void intake_core_begin_search_page(struct intake_core *self, size_t length);
void intake_core_search_step(struct intake_core *self, const struct payload *payload);
void intake_core_end_search_page(struct intake_core *self, enum intake_page page);

/* Redis does not permit LRANGE. */
void intake_core_search_denied(struct intake_core *self);

/* A control message was read. */
void intake_core_message(struct intake_core *self, const struct payload *payload);

/* The processes of earlier agents have ended. */
void intake_core_interrupted_ended(struct intake_core *self);

/* Redis has lost acknowledged data. Restores the running step and the one fetched ahead in
   `inflight`; if Redis redelivers them, they are discarded. Before that, the caller calls
   recent_steps_roll_back and then intake_core_mark_pending for each step whose result is not
   delivered yet. Returns true if the running step has the id of a step that was started before. If
   its command does not execute yet, it must not, and the step is answered with intake_lost_message.
   To be called before the next intake_core_advance. */
bool intake_core_lose_data(struct intake_core *self, const struct intake_context *context);
void intake_core_mark_pending(struct intake_core *self, const char *step_id);

/* --- decisions -------------------------------------------------------------------------------- */

/* Decides what is sent and written next. */
void intake_core_advance(struct intake_core *self, const struct intake_context *context);

/* Returns the time at which intake_core_advance must be called even if nothing arrives, or 0. */
int64_t intake_core_wakeup_ms(const struct intake_core *self);

/* Returns the next step, which the core owns, or NULL if no step may begin now. The caller must
   start or finish the step at once. */
struct queued_step *intake_core_next_step(const struct intake_core *self);

/* The next step runs. With `announced`, its start is written to Redis. Without, a later agent runs
   an unanswered step again, unless intake_core_announce_start follows. */
void intake_core_start_step(struct intake_core *self, bool announced);
void intake_core_announce_start(struct intake_core *self);

/* Answers the running step, or if none runs the next step, and removes it from `inflight`. If
   `result` is NULL, the step is removed without an answer. */
void intake_core_finish_step(struct intake_core *self, const struct step_event *completed,
                             const struct step_result *result);

/* Takes and starts no more steps. */
void intake_core_stop(struct intake_core *self);

#endif
