#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/process/exec_command.h"
#include "agent/process/process_tree.h"
#include "wire/step_report.h"

/*
 * The page of memory that the agent shares with one supervisor. It holds what must not queue behind
 * a message (orders, the gate, queries), and what must survive the supervisor (how the command
 * ended). The supervisor sends a notification, a byte of the bits below, when it has written
 * something. The first one is 0 and says that the supervisor is ready.
 *
 * The agent trusts nothing in the page: work reads untrusted files inside a supervisor, so the page
 * of a compromised supervisor may hold anything and change at any time. The agent copies it, checks
 * each value, and uses only the copy.
 */
enum supervisor_notification {
  SUPERVISOR_ENDED = 1,  /* the page has how the command ended */
  SUPERVISOR_EMPTY = 2,  /* no process of the task is left */
  SUPERVISOR_LEAVES = 4, /* the supervisor accepts no more messages, and exits */
  SUPERVISOR_COUNTED = 8 /* the page has the answer to a query */
};

/* What the supervisor does with its processes. The agent only raises it, and then sends SIGCONT,
   which also wakes a supervisor that was stopped. */
enum supervisor_order { SUPERVISOR_ORDER_NONE, SUPERVISOR_ORDER_TERMINATE, SUPERVISOR_ORDER_KILL };

/* Where a command's child waits before it does anything that leaves a trace. The agent opens the
   gate and wakes the child with futex(2). */
enum supervisor_gate { SUPERVISOR_GATE_OPEN, SUPERVISOR_GATE_CLOSED };

#define SUPERVISOR_ALIVE_MAX 32

/* The answer to a query is a census. Only the supervisor reads /proc for it, because that takes
   long if there are many processes or descriptors. The lowest bit of a query asks for the holder of
   the command's output, too. The other bits are its number. */
#define SUPERVISOR_ASKS_HOLDER 1U

struct supervisor_page {
  atomic_int order;     /* enum supervisor_order */
  atomic_int gate;      /* enum supervisor_gate */
  atomic_int pid;       /* of the command; 0 before it has one */
  atomic_int ended;     /* `status` is valid */
  int status;           /* as of waitpid(2); of work its exit code */
  atomic_uint left;     /* live processes that the last walk over the tree found */
  atomic_uint asked;    /* the agent's last query, which SIGCONT follows */
  atomic_uint answered; /* the query that `census` answers */
  struct process_tree_census census;
  struct step_usage usage; /* of the processes that were reaped; valid when `ended` is */
  atomic_uint alive_count; /* of `alive`, which the first order fills in: see `lists_alive` */
  struct exec_failure failure;
  struct step_process alive[SUPERVISOR_ALIVE_MAX];
};

/* What comes first is reset and copied for each task. Behind it are the long parts, which are
   undefined unless the first says that they are there. */
#define SUPERVISOR_PAGE_SHORT offsetof(struct supervisor_page, failure.whole)

/* Prepares the page for a task, with the gate closed if that waits. */
void supervisor_page_reset(struct supervisor_page *self, bool waits);

/* The supervisor of a task is dead, or never had it. The figures are unknown then, and so is the
   end, unless the supervisor has reported that: it becomes this status. */
void supervisor_page_end(struct supervisor_page *self, int status);

/* Returns a checked copy of the answer. Impossible values become an answer of "unknown". */
struct process_tree_census supervisor_census_read(const struct supervisor_page *page);

/* The agent's checked copy of how the task ended. */
struct supervisor_report {
  int status; /* as of waitpid(2); SIGKILL if the end is unknown */
  enum exec_stage stage;
  struct error reason; /* of a failure */
  char *whole_reason;  /* of a failure of exec_command, uncut; NULL: none */
  struct step_usage usage;
  size_t alive_count;
  struct step_process *alive; /* NULL if there are none */
};

/* Copies the report. Before the end its figures are unknown. Returns false if a value is
   impossible: then nothing is known. The caller calls supervisor_report_release. */
bool supervisor_report_read(struct supervisor_report *self, const struct supervisor_page *page);

void supervisor_report_release(struct supervisor_report *self);

/* A usage that is not known. */
#define SUPERVISOR_UNKNOWN_USAGE                                                                   \
  { -1, -1, -1, -1, -1, -1, -1, -1, -1 }
