#ifndef AGENT_PROCESS_SUPERVISOR_HANDLE_H
#define AGENT_PROCESS_SUPERVISOR_HANDLE_H

#include "agent/process/supervisors.h"
#include "base/list.h"

/* The agent's record of one supervisor: its process, its task, what it reported. Shared by
   supervisors.c, which has all of them, and supervisor_handle.c. */
struct supervisor {
  struct list_node node;
  struct supervisors *supervisors;
  const struct supervisors_options *options;
  struct supervisor_process process;
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
  bool leaves;      /* accepts no more tasks */
  bool is_asked;    /* by supervisors_count */
  bool is_complete; /* it reported that no process of its task is left */
  struct supervisor_query query;
  int own_status; /* of the supervisor itself, after it was reaped */
  size_t left;    /* of a supervisor that died */
  struct supervisor_report report;
  bool was_never_run; /* the task: the report is the agent's own */
};

/* Whether it has a task that is not over. */
bool supervisor_has_processes(const struct supervisor *self);

/* Whether it is ready for a task. */
bool supervisor_is_idle(const struct supervisor *self);

/* Reads one notification, updates the state, and returns it; -1 if there is none. There is no
   end-of-file, because the agent has the other end, too: supervisors_reap finds dead ones. */
int supervisor_receive_notification(struct supervisor *self);

/* Its task was taken back, so the step never ran. `reason`: why; NULL: it was ordered to end. */
void supervisor_set_never_run(struct supervisor *self, const char *reason);

/* Closes the socket. */
void supervisor_dismiss(struct supervisor *self);

#endif
