#ifndef AGENT_PROCESS_PROCESS_H
#define AGENT_PROCESS_PROCESS_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/orphaned_pipes.h"
#include "agent/process/spawn.h"
#include "base/error.h"

/*
 * One command from its start until it is over. Bytes and an outcome: it knows no lines.
 *
 *   process = process_start(…)
 *     readable(stream)  -> process_read, once or more often
 *     process_pause / process_resume   when the bytes cannot be taken
 *     process_reaped    from whoever waits for children
 *     ended(outcome)    once: nothing more comes; process_free
 *
 * It is over when the command was reaped and both streams have ended, in whichever order, and, if
 * it had to be killed, when its whole tree is gone. A stream ends at end-of-file, or, where a
 * background process still holds it PROCESS_DRAIN_MS after the command was reaped, behind the bytes
 * that were in it at that moment; the pipe then goes to the leftovers.
 */
#define PROCESS_DRAIN_MS 1500

/* From SIGTERM to SIGKILL when a step is over its time. */
#define PROCESS_GRACE_MS 10000

enum process_stream { PROCESS_STDOUT, PROCESS_STDERR };

enum process_end {
  PROCESS_EXITED,
  PROCESS_NOT_STARTED, /* the command could not be executed: `reason` says why */
  PROCESS_TIMED_OUT,
  PROCESS_STOPPED
};

struct process_outcome {
  enum process_end end;
  int status; /* of waitpid; -1 when the command could not be reaped */
  int64_t duration_ms;
  size_t survivors; /* processes that SIGKILL did not end */
  char holder[64];  /* who still holds a stream, like "pid 42 (sleep)"; else "" */
  struct error reason;
};

struct process_handler {
  void (*readable)(void *owner, enum process_stream stream);
  /* The command is over, and so is its tree if it had to be killed: nothing is left but what its
     pipes hold now. Not called where `ended` follows at once; may be NULL. */
  void (*remains)(void *owner);
  void (*ended)(void *owner, const struct process_outcome *outcome);
};

/* What all processes of one agent share. Nothing is owned. */
struct process_context {
  struct event_base *base;
  struct orphaned_pipes *orphaned_pipes;
  struct spawn_defaults spawn;
};

struct process_spec {
  char *const *argv;
  char *const *envp;     /* holds PROCESS_TREE_TAG=tag */
  void *memory;          /* freed when the two are used no more, also when there is no process */
  const char *directory; /* NULL: the agent's own */
  bool directory_may_be_missing; /* the agent's own then */
  /* Instead of a command, which these three are about: see spawn_work. */
  int (*work)(const void *context);
  const void *work_context;
  const char *tag;
  unsigned timeout_seconds;
};

struct process;

/* Never waits for a file system: that there is no such command, say, is in the outcome. Returns
   NULL, with the reason, when not even a process could be made. The spec is only read during the
   call, but a command's argv, envp and directory must stay until process_free. `handler` and
   `owner` must outlive the process; it calls them from the event loop only. */
struct process *process_start(const struct process_context *context,
                              const struct process_spec *spec,
                              const struct process_handler *handler, void *owner,
                              struct error *error);

/* Only after `ended`, or to give up: then the tree is killed without looking whether it is gone. */
void process_free(struct process *self);

/* Up to `size` bytes of a stream: their number, 0 when it has ended, -1 when there is nothing now.
   What was read last may also be followed by `ended` without a 0. */
ssize_t process_read(struct process *self, enum process_stream stream, char *out, size_t size);

/* While paused nothing is readable and the command waits when its pipes are full. Its deadline
   keeps running. */
void process_pause(struct process *self);
void process_resume(struct process *self);

/* Ends the tree as at a deadline, with a grace in milliseconds; 0 kills at once. The outcome is
   PROCESS_STOPPED, unless it was already over its time. When the command was already reaped only
   the wait for its streams is cut short, and the outcome is what it was. */
void process_stop(struct process *self, int64_t grace_ms);

/* The pid of its child, which may be reaped already. */
pid_t process_pid(const struct process *self);

/* A child was reaped. True when it was this process's command. */
bool process_reaped(struct process *self, pid_t pid, int status);

#endif
