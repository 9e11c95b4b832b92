#ifndef AGENT_PROCESS_PROCESS_H
#define AGENT_PROCESS_PROCESS_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/process_table.h"
#include "agent/process/supervisors.h"
#include "base/error.h"

/*
 * One command, or work, from its start until it is over. Bytes and an outcome: it knows no lines.
 *
 *   process = process_new(…)         the child exists and waits; nothing has happened yet
 *   process_go(process)              it executes; the deadline and the duration begin
 *     readable(stream)  -> process_read, once or more often
 *     process_pause(true), (false)     when the bytes cannot be taken, and can again
 *     ended(outcome)    once: nothing more comes; process_free
 *
 *   PREPARED -- process_go --> RUNNING -- process_stop, deadline --> KILLING -- tree gone --> ENDING
 *      \____________________________ process_stop ____________________/
 *   RUNNING or ENDING -- command ended, both streams ended --> COUNTING -- supervisor's answer --> OVER
 *
 * A supervisor (supervisors.h) makes the child and knows its tree. A child that was prepared and is
 * stopped or freed instead leaves no trace: it executes nothing, enters no directory and has
 * written nothing. The outcome is PROCESS_STOPPED, with a duration of 0. Before process_go nothing
 * is called back, except `ended` after a process_stop.
 *
 * A process is over when the command and both streams have ended, in whichever order, and, if it
 * had to be killed, when its whole tree is gone. If processes of it are left, their supervisor is
 * asked who they are, for SUPERVISOR_ANSWER_MS at most. A stream ends at end-of-file; or, where a
 * background process still holds it `drain_ms` after the command has ended, after the bytes that
 * were in it at that moment. The pipe is then drained (supervisors_drain).
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
  int status;                /* of waitpid; -1 when the command's end is not known */
  int64_t duration_ms;       /* from process_go; 0 when it was stopped before */
  size_t unkillable;         /* processes that SIGKILL did not end */
  int64_t survivors;         /* those, or those in the background; -1: not known */
  struct pipe_holder holder; /* one that still holds a stream; its pid is 0 if none was found */
  struct step_usage usage;
  const struct step_process
      *alive; /* when it was ended, if the context lists them; until process_free */
  size_t alive_count;
  const struct exec_failure *failure; /* PROCESS_NOT_STARTED: why; stays until process_free */
  const char *whole_reason;           /* the same, in full: see supervisor_failure */
};

struct process_handler {
  void (*readable)(void *owner, enum process_stream stream);
  /* The command is over, and so is its tree if it had to be killed: only what its pipes hold now is
     still to be read. Not called where `ended` follows at once; may be NULL. */
  void (*remains)(void *owner);
  /* The owner may free the process. */
  void (*ended)(void *owner, const struct process_outcome *outcome);
};

/* What all processes of one agent share. Owns nothing. */
struct process_context {
  struct event_base *base;
  struct supervisors *supervisors;
  int stdin_fd;     /* reads as empty */
  int64_t grace_ms; /* from SIGTERM to SIGKILL, at the deadline */
  int64_t drain_ms; /* see above */
  bool lists_alive; /* of commands: see struct process_outcome */
};

/* Nothing in it has to stay after the call that gets it. */
struct process_spec {
  struct exec_command exec;
  const char *input; /* its standard input, a file in memory; NULL: empty */
  size_t input_length;
  /* Work instead of a command, which the fields above concern; NULL: a command. */
  const char *work;
  size_t work_length;
  unsigned timeout_seconds;
  void *memory; /* for who has made the spec: what it points to */
};

struct process;

/*
 * Makes the pipes and the child, which goes at once, a little faster than by process_go; or, where
 * it is a command, sets itself up and waits. Never waits for a file system: that there is no such
 * command, say, is in the outcome. Returns NULL, with the reason, when not even a process could be
 * made. `handler` and `owner` must outlive the process; it calls them from the event loop only.
 */
struct process *process_new(const struct process_context *context, const struct process_spec *spec,
                            bool waits, const struct process_handler *handler, void *owner,
                            struct error *error);

/* Lets a prepared child execute. Nothing happens when it was stopped before, or again. A child that
   could not be made, or died while it waited, is reported through `ended`. */
void process_go(struct process *self);

/* After `ended`, or to give up: then the tree is killed without checking that it is gone. */
void process_free(struct process *self);

/* Reads up to `size` bytes of a stream. Returns their number, 0 when it has ended, -1 when there is
   nothing now. The last bytes may be followed by `ended` without a 0. */
ssize_t process_read(struct process *self, enum process_stream stream, char *out, size_t size);

/* While paused nothing is readable and the command waits when its pipes are full. Its deadline
   keeps running. May be called before process_go, too. */
void process_pause(struct process *self, bool paused);

/* Ends the tree as at a deadline: SIGTERM, `grace_ms` milliseconds, SIGKILL; 0 kills at once. It is
   at most that of the context: the deadline does not shorten it. The outcome is PROCESS_STOPPED,
   unless it was already over its time. After the command has ended this only cuts short the wait
   for its streams, and the outcome is what it was. */
void process_stop(struct process *self, int64_t grace_ms);

/* The resident bytes of its tree when supervisors_count asked last; memory that processes share
   counts for each. */
int64_t process_memory(const struct process *self);

/* The pid of its child, which may be reaped already; 0 before one is made. */
pid_t process_pid(const struct process *self);

#endif
