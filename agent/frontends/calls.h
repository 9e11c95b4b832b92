#ifndef AGENT_FRONTENDS_CALLS_H
#define AGENT_FRONTENDS_CALLS_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/engine.h"
#include "agent/frontends/call_ids.h"
#include "agent/frontends/stdio_channel.h"
#include "agent/tools/answer.h"
#include "agent/tools/tool.h"

/*
 * The calls of tools of a frontend that speaks (stdio channel.h): a queue in the order in which
 * they came, of which the first run, as many as the engine wants. The rules are the same for every
 * such frontend:
 *
 *   order      a call that is only answered (`tool` is NULL) is so when all before it are over
 *   files      calls that change files are executed one after the other in that order, because two
 *              paths may be names of one file; each has its run, which waits. One that takes longer
 *              than CALLS_CHANGE_MS holds up only those with the same path
 *   room       a call begins while answers are read (stdio_channel_has_capacity), and while those that run do
 *              not fill memory: large ones wait for each other
 *   full       when those that wait hold more than payload_limit() bytes (calls_are_full): the frontend
 *              refuses more, or takes no more lines
 *   cancel     of all that have the id (call_ids.h)
 *   deadline   of the first call that has one and is not over: SIGTERM, SIGKILL, and the answer
 *              without the end of its run, whose process then hangs in the kernel
 *   progress   CALLS_PROGRESS_…, while STDIO_CHANNEL_HOLD_PROGRESS_BYTES are not exceeded
 *
 * A frontend embeds struct calls as its first member, and struct call as that of its calls.
 *
 *   WAITING --the engine wants it--> RUNNING --result--> over
 *      |                                `--deadline, over--> HANGING --result--> freed
 *      `--cancel, deadline, no more runs--> over
 */
enum call_state { CALL_WAITING, CALL_RUNNING, CALL_HANGING };

/* Why it ends before its run does. */
enum call_outcome { CALL_OPEN, CALL_CANCELLED, CALL_EXPIRED, CALL_DROPPED };

struct call {
  struct call *next, *previous;
  struct tool_call *tool;      /* NULL: it is answered in its turn, and does not run */
  struct json_member id;       /* owned; none: it cannot be cancelled */
  struct call_id entry;        /* while it can be */
  struct execution *execution; /* NULL: it has not begun */
  size_t bytes;                /* that it holds, at the most */
  enum call_state state;
  enum call_outcome outcome;
  bool killed;             /* at its deadline */
  int64_t arrived_ms;      /* monotonic */
  int64_t begun_ms;        /* its run, the same */
  int64_t changes_from_ms; /* the same: when its change of a file was started; 0: it was not */
  int64_t deadline_ms;     /* the same; 0: there is none */
  bool reports;            /* progress: */
  bool has_reported;
  int64_t reported_ms;      /* when last; before that when it arrived */
  uint64_t reported_output; /* bytes of output, then */
};

struct calls;

struct calls_type {
  /* It is over, and freed afterwards. `end`: of its run, or of its deadline; NULL: it has not run,
     or was cancelled, as its fate says. */
  void (*over)(struct calls *self, struct call *call, const struct execution_result *end);
  /* Its last line of output so far. NULL: calls do not report. */
  void (*report)(struct calls *self, const struct call *call, const char *line, size_t length);
  void (*release)(struct calls *self, struct call *call); /* what the frontend has added; or NULL */
};

struct calls {
  struct frontend frontend; /* first */
  const struct calls_type *type;
  struct stdio_channel stdio_channel;
  struct tool_settings settings;
  struct call *first, *last, *waiting; /* WAITING begins at `waiting` */
  struct call *hanging;
  struct call_ids ids;
  size_t waiting_bytes, running_bytes;
  unsigned wanted;  /* runs that may begin */
  unsigned running; /* RUNNING and HANGING */
  uint64_t number;  /* of the last step */
  bool is_serving;
  struct event *deadline, *progress, *changes;
};

/* When a call reports progress, in milliseconds. Clients that begin their time limit anew at each
   report live by the beat. */
#define CALLS_PROGRESS_FIRST_MS 500
#define CALLS_PROGRESS_PACE_MS 250  /* between two, when there is new output */
#define CALLS_PROGRESS_BEAT_MS 5000 /* between two, when there is none */

/* Longer than a change takes, unless its file system is slow or dead. */
#define CALLS_CHANGE_MS 500

/* So much before a deadline the answer leaves. */
#define CALLS_ANSWER_AHEAD_MS 30

/* The terms of such a frontend; the last two in milliseconds, of the runs and of what they left,
   when the program ends. */
#define CALLS_GRACE_MS 2000
#define CALLS_TERMS(RUNS, LEAVE_MS, LEAVE_BACKGROUND_MS)                                           \
  {                                                                                                \
    .executions = (RUNS), .grace_ms = CALLS_GRACE_MS, .drain_ms = 100,                             \
    .leave_grace_ms = (LEAVE_MS), .leave_background_ms = (LEAVE_BACKGROUND_MS),                    \
    .output_bytes = 2 * ANSWER_STREAM_SIDE, .tail_bytes = ANSWER_STREAM_SIDE                       \
  }

void calls_init(struct calls *self, struct event_base *base, const struct log *log,
                const struct calls_type *type, const struct stdio_channel_type *stdio_channel);
void calls_release(struct calls *self);

/* A call, all zeros, of a frontend's own struct of this size; its id is copied. */
struct call *calls_make(size_t size, struct json_member id, size_t bytes);

/* Its step; false: the arguments were refused, and the text says so. */
bool calls_make_step(struct calls *self, struct call *call, const struct tool *tool,
                     cJSON *arguments, struct buffer *text);

/* The call is freed without having been added. */
void calls_forget(struct calls *self, struct call *call);

void calls_add(struct calls *self, struct call *call);
bool calls_are_full(const struct calls *self, size_t bytes);

/* They are over, or end. */
void calls_cancel(struct calls *self, struct json_member id);

/* Does all that can be done with the calls that are there: begins runs, answers. */
void calls_serve(struct calls *self);

/* Of struct frontend_type and struct stdio_channel_type. */
void calls_frontend_want(struct frontend *frontend, unsigned requests);
void calls_frontend_begin(struct frontend *frontend, struct execution *execution);
void calls_frontend_flush(struct frontend *frontend);
void calls_frontend_result(struct frontend *frontend, const struct execution *execution,
                           const struct execution_result *end);
void calls_frontend_close(struct frontend *frontend, enum frontend_close how);
void calls_frontend_dump(const struct frontend *frontend);
/* Does all that can be done, and takes what has come. When the input has ended and all is answered,
   the program ends. */
void calls_frontend_go_on(struct frontend *frontend);

#endif
