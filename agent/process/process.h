#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/process_table.h"
#include "agent/process/supervisors.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/list.h"

/*
 * One command, or work, from its start until it is over. The execution owns it. It deals in bytes
 * and an outcome, and knows no lines. The hard part is the end, which has three parts in any order:
 * the command, its two pipes, and its tree.
 *
 *   process = process_new(…)         the child exists and waits; nothing has happened yet
 *   process_go(process)              it executes; the deadline and the duration begin
 *     readable(stream)  -> process_read, once or more often
 *     process_pause(true), (false)   when the bytes cannot be accepted, and can again
 *     ended(outcome)    once: nothing more follows; process_free
 *
 *   PREPARED -- process_go --> RUNNING -- process_stop, deadline --> KILLING -- gone --> ENDING
 *      \____________________________ process_stop ____________________/
 *   RUNNING or ENDING -- command and both streams ended --> COUNTING -- the answer --> OVER
 *
 * A supervisor (supervisors.h) makes the child and knows its tree. If a prepared child is stopped
 * or freed, it leaves no trace: it executes nothing, enters no directory and writes nothing. The
 * outcome is PROCESS_STOPPED, with a duration of 0. Before process_go nothing is called back,
 * except `ended` after a process_stop.
 *
 * If processes are left when it is over, their supervisor is asked which, for at most
 * SUPERVISOR_ANSWER_MS. A stream ends at end-of-file. If a background process still has it open
 * `drain_ms` after the command ended, it ends after the bytes that were in it at that moment, and
 * is then one of the context's drains: its output is discarded until its last writer is gone.
 */

enum process_stream { PROCESS_STDOUT, PROCESS_STDERR };

enum process_end {
  PROCESS_EXITED,
  PROCESS_NOT_STARTED, /* the command could not be executed */
  PROCESS_TIMED_OUT,
  PROCESS_STOPPED
};

struct process_outcome {
  enum process_end end;
  int64_t duration_ms;       /* from process_go; 0 if it was stopped before */
  size_t unkillable;         /* processes that survived SIGKILL */
  int64_t survivors;         /* those, or background processes; -1: unknown */
  struct pipe_holder holder; /* a process that still has a stream open; its pid is 0 if none has */
  /* `alive` are those when the tree was ended, if the supervisors list them; the usage counts the
     survivors, too. */
  struct supervisor_report report;
};

struct process_handler {
  void (*readable)(void *owner, enum process_stream stream);
  /* The deadline is reached, and the tree is being ended. May be NULL. */
  void (*timed_out)(void *owner);
  /* The command is over and, if it had to be killed, so is its tree: only the bytes in its pipes
     are still to be read. Not called if `ended` follows at once. May be NULL. */
  void (*remains)(void *owner);
  /* The owner may free the process. It may move the report out of the outcome, leaving zeros;
     otherwise process_free releases it. */
  void (*ended)(void *owner, struct process_outcome *outcome);
};

/* What all processes of an agent share. Owns nothing. */
struct process_context {
  struct event_base *base;
  struct supervisors *supervisors;
  int stdin_fd;        /* reads as empty */
  int64_t grace_ms;    /* from SIGTERM to SIGKILL, at the deadline */
  int64_t drain_ms;    /* see above */
  struct list *drains; /* of all processes: see process_end_drains */
};

/* What it needs during process_new. */
struct process_spec {
  struct supervisor_message message;
  struct buffer body; /* of the message; the caller releases it */
  const char *input;  /* standard input of a command, as a file in memory; NULL: empty */
  size_t input_length;
  unsigned timeout_seconds;
};

struct process;

/* Makes the pipes and the child, which runs at once, a little sooner than by process_go; or, if
   `waits`, a command that sets itself up and waits. Never blocks on a file system: that a command
   does not exist, for example, is in the outcome. Returns NULL, with the reason, if no process
   could be made. The handler and the owner must outlive the process. */
struct process *process_new(const struct process_context *context, const struct process_spec *spec,
                            bool waits, const struct process_handler *handler, void *owner,
                            struct error *error);

/* Lets a prepared child execute. Does nothing if it was stopped before, or goes already. A child
   that could not be made, or died while it waited, is reported with `ended`. */
void process_go(struct process *self);

/* Frees the process after `ended`, or to give up: then the tree is killed, and nothing checks that
   it is gone. */
void process_free(struct process *self);

/* Reads up to `size` bytes of a stream. Returns their number, 0 if it has ended, -1 if there are
   none now. `ended` may follow the last bytes without a 0. */
ssize_t process_read(struct process *self, enum process_stream stream, char *out, size_t size);

/* While paused, `readable` is not called, and the command blocks when its pipes are full. Its
   deadline continues. May be called before process_go. */
void process_pause(struct process *self, bool paused);

/* Ends the tree as at a deadline: SIGTERM, `grace_ms`, SIGKILL; 0: SIGKILL at once. The grace is at
   most the context's. The outcome is PROCESS_STOPPED, unless the deadline was first. After the
   command has ended, this only cuts short the wait for its streams, and the outcome stays. */
void process_stop(struct process *self, int64_t grace_ms);

/* Closes the drains of all processes. */
void process_end_drains(const struct process_context *context);

/* Returns the resident bytes of its tree, as of supervisors_count; shared memory counts for each
   process. 0: unknown. Those of work are read from /proc. */
int64_t process_memory(const struct process *self);

/* Returns the number of live processes in its tree, as of supervisors_count; -1: unknown. */
int64_t process_count(const struct process *self);

/* Returns the pid of its child, which may be reaped already; 0 before it is made. */
pid_t process_pid(const struct process *self);
