#ifndef AGENT_PROCESS_SUPERVISOR_HANDLE_H
#define AGENT_PROCESS_SUPERVISOR_HANDLE_H

#include "agent/process/supervisors.h"
#include "base/list.h"

/*
 * The agent's record of one supervisor: its process, its task, and what it reported. supervisors.c,
 * which has all of them, shares this with supervisor_handle.c.
 *
 * A supervisor is a fork of the agent that executes no other program: a process that its user
 * cannot read stays unreadable across fork(2), but would be readable for a moment after execve(2).
 * fork(2) also does not wait for the child as vfork(2) does, which matters because a step may stop
 * it at its first instruction.
 */
struct supervisor {
  struct list_node node;
  struct supervisors *supervisors;
  const struct supervisor_options *options;
  pid_t pid;     /* 0: it was reaped */
  int socket;    /* -1: the supervisor was dismissed */
  int other_end; /* the supervisor's, to take back a message that it did not receive; or -1 */
  struct supervisor_page *page;
  struct event *readable;
  void (*notify)(void *owner); /* NULL: no process has acquired it */
  void *owner;
  enum supervisor_state state;
  int order;       /* enum supervisor_order; the page has a copy */
  bool is_waiting; /* for supervisor_start; the page has a copy */
  int64_t kill_ms; /* when it was ordered to kill; monotonic, 0: it was not */
  /* Since when the supervisor is expected to become ready or, with a task, to receive it; 0: it
     has. */
  int64_t silent_since_ms;
  unsigned replaced; /* how often, since it got the task */
  bool is_work;
  bool leaves;                     /* accepts no more tasks */
  bool is_complete;                /* it reported that no process of its task is left */
  unsigned asked, answered;        /* the last query, and the last that was answered */
  struct supervisor_census answer; /* a checked copy */
  int own_status;                  /* of the supervisor itself, after it was reaped */
  size_t left;                     /* of a supervisor that died */
};

/* Makes the socket, the page and the process. Returns 0, or -1 with errno. */
int supervisor_open(struct supervisor *self);

/* Makes the process, or another one in place of one that was reaped: it has the same socket, with
   the message in it, and the same page. Returns 0, or -1 with errno. */
int supervisor_fork(struct supervisor *self);

/* Prepares the page for a task, with the gate closed if that waits. */
void supervisor_reset_page(struct supervisor *self);

/* Whether it is stopped, or blocked in the kernel, or its state is unknown; not if it only waits
   for a processor. */
bool supervisor_is_held(const struct supervisor *self);

/* Whether it has a task that is not over. */
bool supervisor_has_processes(const struct supervisor *self);

/* Whether it is ready for a task. */
bool supervisor_is_idle(const struct supervisor *self);

/* Whether it was asked something and can still answer. */
bool supervisor_is_asked(const struct supervisor *self);

/* Reads one notification, updates the state, and returns it; -1 if there is none. There is no
   end-of-file, because the agent has the other end, too: supervisors_reap finds dead ones. */
int supervisor_receive_notification(struct supervisor *self);

/* Its task was taken back, so the step never ran. `reason`: why; NULL: it was ordered to end. */
void supervisor_set_never_run(struct supervisor *self, const char *reason);

/* Closes the socket, after which the supervisor exits when it has nothing to do. */
void supervisor_dismiss(struct supervisor *self);

#endif
