#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/engine/engine.h"
#include "agent/frontends/call_ids.h"
#include "agent/tools/answer.h"
#include "agent/tools/tool.h"
#include "base/list.h"

/*
 * The tool calls of a frontend. They form a queue in the order of their arrival; the first ones
 * run, as many at once as the engine wants. The hard part is that calls have deadlines of their
 * own, and that some must not overlap:
 *
 *   order      a call without a tool is only answered, once all calls before it are over
 *   files      calls that change files are executed one after the other, because two paths may name
 *              one file; each has its execution, which waits. A call that takes longer than
 *              CALLS_CHANGE_MS delays only calls with the same path
 *   capacity   a call begins while its host reads (has_capacity), and while the running calls hold
 *              less than payload_limit() bytes
 *   full       if the waiting calls hold more than payload_limit() bytes (calls_are_full), the
 *              frontend rejects calls, or takes no more lines
 *   cancel     ends all calls that have the scope and the id (call_ids.h)
 *   deadline   SIGTERM, SIGKILL, then the answer, even if the execution has not ended because its
 *              process hangs in the kernel
 *   progress   CALLS_PROGRESS_…
 *
 * A frontend embeds struct calls as its first member, and struct call as that of its calls.
 *
 *   WAITING --the engine wants it--> RUNNING --result--> over
 *      |                                `--deadline, over--> HANGING --result--> freed
 *      `--cancel, deadline, end of the program--> over
 */
enum call_state { CALL_WAITING, CALL_RUNNING, CALL_HANGING };

/* Why the call ends before its execution does. */
enum call_outcome { CALL_OPEN, CALL_CANCELLED, CALL_EXPIRED, CALL_DROPPED };

/* Times are monotonic; 0 for those that have not come. */
struct call {
  struct list_node node;       /* in `queue` or `hanging` */
  struct tool_call *tool;      /* NULL: the call is answered in its turn and not executed */
  struct json_member id;       /* owned; without a text the call cannot be cancelled by id */
  char *scope;                 /* of the id; owned; may be NULL */
  struct call_id entry;        /* while it can be cancelled */
  struct execution *execution; /* NULL before it has begun */
  size_t bytes;                /* the most memory that it holds */
  enum call_state state;
  enum call_outcome outcome;
  bool reports; /* progress */
  int64_t arrived_ms;
  int64_t begun_ms;         /* its execution */
  int64_t changes_from_ms;  /* when its change of a file was started */
  int64_t deadline_ms;      /* 0: none */
  int64_t reported_ms;      /* the last progress report */
  uint64_t reported_output; /* bytes of output at that time */
};

struct calls;

/* What the queue asks of its frontend. */
struct calls_type {
  /* Answers a call that is over; it is freed afterwards. `end` is the result of its execution or
     its deadline; NULL if it was not executed or was cancelled (see its outcome). */
  void (*answer)(struct calls *self, struct call *call, const struct execution_result *end);
  /* Reports the last line of output so far, or leaves that out if the host does not read; flush()
     of struct frontend_type follows. NULL: calls do not report progress. */
  void (*report)(struct calls *self, const struct call *call, const char *line, size_t length);
  /* Releases the frontend's own members of the call. May be NULL. */
  void (*release)(struct calls *self, struct call *call);
  /* Whether a call may begin now. When this becomes true, the frontend calls calls_serve. NULL:
     always. */
  bool (*has_capacity)(const struct calls *self);
  /* Calls may have been answered or begun from the event loop, so the frontend may have something
     to send, and may add calls. May be NULL. */
  void (*served)(struct calls *self);
  /* If calls are executed one after the other, their answers have their order, because only the
     deadline of the first one counts. */
  bool keeps_order;
};

struct calls {
  struct frontend frontend; /* first */
  const struct calls_type *type;
  struct tool_settings settings;
  struct list queue;    /* all calls that are not over */
  struct call *waiting; /* the first WAITING one; those after it wait, too */
  struct list hanging;
  struct call_ids ids;
  size_t waiting_bytes, running_bytes;
  unsigned wanted;  /* executions that the engine wants */
  unsigned running; /* RUNNING and HANGING calls */
  unsigned timed;   /* calls in the queue that have a deadline */
  uint64_t number;  /* of the last step */
  bool is_serving;
  struct event *deadline, *progress, *changes;
};

/* When a call reports progress, in milliseconds. Some clients restart their time limit at each
   report, so reports continue without new output. */
#define CALLS_PROGRESS_FIRST_MS 500
#define CALLS_PROGRESS_PACE_MS 250  /* between reports of new output */
#define CALLS_PROGRESS_BEAT_MS 5000 /* between reports without new output */

/* Longer than a change of a file takes, even if another program holds its lock (file_version.h),
   unless the file system is slow or dead. */
#define CALLS_CHANGE_MS 2500

/* The answer leaves this long before the deadline. */
#define CALLS_ANSWER_AHEAD_MS 30

/* The last two, in milliseconds, are the graces of executions and of their background processes at
   the end of the program. */
#define CALLS_GRACE_MS 2000
#define CALLS_TERMS(EXECUTIONS, LEAVE_MS, LEAVE_BACKGROUND_MS)                                     \
  {                                                                                                \
    .executions = (EXECUTIONS), .grace_ms = CALLS_GRACE_MS, .drain_ms = 100,                       \
    .leave_grace_ms = (LEAVE_MS), .leave_background_ms = (LEAVE_BACKGROUND_MS),                    \
    .output_bytes = 2 * ANSWER_STREAM_SIDE, .tail_bytes = ANSWER_STREAM_SIDE                       \
  }

void calls_init(struct calls *self, struct event_base *base, const struct calls_type *type);
void calls_release(struct calls *self);

/* Returns a new call, with zeros in all members that a frontend's struct of this size adds. `bytes`
   is the length of its request. The id is copied. */
struct call *calls_make(size_t size, struct json_member id, size_t bytes);

/* Makes the call's step. Returns false if the tool rejects the arguments; the text says why. */
bool calls_make_step(struct calls *self, struct call *call, const struct tool *tool,
                     cJSON *arguments, struct buffer *text);

/* Frees a call that is not in the queue. */
void calls_free(struct calls *self, struct call *call);

void calls_add(struct calls *self, struct call *call);
bool calls_are_full(const struct calls *self, size_t bytes);

/* Ends the calls with this id: waiting ones at once, running ones by SIGTERM. */
void calls_cancel(struct calls *self, const char *scope, struct json_member id);
/* The same with one call, which is in the queue. */
void calls_cancel_call(struct calls *self, struct call *call);

/* Begins and answers all calls whose turn has come. */
void calls_serve(struct calls *self);

bool calls_are_over(const struct calls *self);
size_t calls_waiting(const struct calls *self);
/* Returns the most memory that the calls hold. */
size_t calls_bytes(const struct calls *self);

/* These are functions of struct frontend_type. */
void calls_frontend_want(struct frontend *frontend, unsigned requests);
void calls_frontend_begin(struct frontend *frontend, struct execution *execution);
void calls_frontend_result(struct frontend *frontend, const struct execution *execution,
                           const struct execution_result *end);
