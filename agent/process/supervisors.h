#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/supervisor.h"
#include "agent/process/supervisor_message.h"
#include "agent/process/supervisor_page.h"
#include "base/error.h"

/*
 * The agent's supervisors (supervisor.h). This module makes them, ahead of time too, gives them
 * tasks one after the other, replaces those that do not respond, and reaps all children. A
 * supervisor whose command has left processes in the background stays with them until they end, or
 * the agent does. The engine owns the supervisors; each process (process.h) acquires one.
 *
 *   supervisors_new
 *     supervisors_make_spare         now and then, so that one is ready
 *     supervisor = supervisors_acquire
 *       supervisor_start             if the task waits
 *       notify(owner)                from the event loop: something below has changed
 *       supervisor_terminate, supervisor_kill
 *     supervisor_release             the process is over, or given up
 *     supervisors_reap               at every SIGCHLD
 *     supervisors_end                at the end of the program
 *   supervisors_free                 kills what is left
 */
struct supervisors;
struct supervisor;

/* The base must outlive the supervisors. */
struct supervisors *supervisors_new(struct event_base *base,
                                    const struct supervisor_options *options);
void supervisors_free(struct supervisors *self);

/* Sets how many idle supervisors are kept at most; 1 at first. `lists_alive`: see struct
   supervisor_options; false at first. To be called before there is a supervisor. */
void supervisors_set_terms(struct supervisors *self, unsigned idle_max, bool lists_alive);

/* Makes a supervisor if none is idle. If that fails, the next task tries again and reports why. */
void supervisors_make_spare(struct supervisors *self);

/* --- one supervisor --------------------------------------------------------------------------- */

/* The pointers need to be valid during the call only. */
struct supervisor_task {
  const struct supervisor_message *message;
  const struct buffer *body;
  bool waits;             /* for supervisor_start */
  const int *descriptors; /* its 0, 1 and 2, which stay the caller's; work does not use its 0 */
  void (*notify)(void *owner);
  void *owner;
};

/* Gives the task to a supervisor. Returns NULL with the reason. */
struct supervisor *supervisors_acquire(struct supervisors *self, const struct supervisor_task *task,
                                       struct error *error);

void supervisor_start(struct supervisor *self);

/* A supervisor that is stopped, or blocked in the kernel, and has not received its task after
   SUPERVISOR_REPORT_MS is killed and, once it is reaped, replaced, at most SUPERVISOR_REPLACED_MAX
   times. Then the task fails like a command that cannot be executed. Until a supervisor that cannot
   be killed is reaped, its task waits, and ends only when it is ordered to. A task is received at
   most once. */
#define SUPERVISOR_REPORT_MS 2000
#define SUPERVISOR_REPLACED_MAX 3

enum supervisor_state {
  SUPERVISOR_RUNS,  /* the command runs */
  SUPERVISOR_HOLDS, /* the command has ended, and has left processes */
  SUPERVISOR_DIED,  /* it was killed, with its command; the rest is being killed */
  SUPERVISOR_DONE   /* no process is left */
};
enum supervisor_state supervisor_state(const struct supervisor *self);

/* Returns the pid of the command, 0 before it has one; of work the supervisor's. */
pid_t supervisor_pid(const struct supervisor *self);

/* After SUPERVISOR_RUNS: reads the report as of now, which the caller releases. Its status is the
   supervisor's own if that was killed and took the command with it, and its usage is unknown if the
   supervisor is dead. */
void supervisor_read_report(struct supervisor *self, struct supervisor_report *report);

/* Returns how many processes are left, as the last walk of a supervisor that kills has found. */
size_t supervisor_left(const struct supervisor *self);

/* Asks for the census, with the holder if that is wanted. The owner is notified of the answer, and
   gives up after SUPERVISOR_ANSWER_MS. Returns false if the supervisor cannot answer. */
bool supervisor_ask(struct supervisor *self, bool holder);
#define SUPERVISOR_ANSWER_MS 1000

/* Reads the answer to the last query. Returns false if there is none yet. */
bool supervisor_read_answer(const struct supervisor *self, struct process_tree_census *answer);

/* Sends SIGTERM to all processes of the task, or SIGKILL until none is left; the owner is notified
   then. A command that waits executes nothing. Work is killed by either. */
void supervisor_terminate(struct supervisor *self);
void supervisor_kill(struct supervisor *self);

/* Ends the notifications. Processes that still run go on, unless they were ordered to end. */
void supervisor_release(struct supervisor *self);

/* --- all supervisors -------------------------------------------------------------------------- */

/* At every SIGCHLD: reaps all children that have ended, also those that this program did not start.
   It is a subreaper, and in a container process 1. Continues a supervisor that was stopped. Returns
   true if there may be more to reap in another turn of the loop. */
bool supervisors_reap(struct supervisors *self);

/* Asks all supervisors that have processes and have answered the last query. Returns true when all
   have answered, or SUPERVISORS_COUNT_MS after the first call; the next call asks again. Otherwise
   returns false, and is to be called again. */
bool supervisors_count(struct supervisors *self);
#define SUPERVISORS_COUNT_MS 200

/* Returns the supervisor of background processes that uses the most memory, by its last answer,
   and is not killing them; NULL: none uses any. */
struct supervisor *supervisors_largest_left(const struct supervisors *self, int64_t *rss_bytes);

/* Returns whether any process of a step lives; may read /proc. */
bool supervisors_find_processes(struct supervisors *self);

/* Returns the same, as far as the supervisors have reported. */
bool supervisors_are_busy(const struct supervisors *self);

/* Whether there are background processes, which an earlier step left. */
bool supervisors_have_left(const struct supervisors *self);

/* Whether a tree is being killed, for at most SUPERVISORS_GIVE_UP_MS. */
bool supervisors_are_killing(const struct supervisors *self);

/* Ends all processes of steps: SIGTERM, SIGKILL after the grace, giving up SUPERVISORS_GIVE_UP_MS
   later. Calls `gone` once, from the event loop, with the number of processes that are left. To be
   called once. */
void supervisors_end(struct supervisors *self, int64_t grace_ms,
                     void (*gone)(void *owner, size_t left), void *owner);
#define SUPERVISORS_GIVE_UP_MS 2000

/* Sends SIGKILL to all of them at once. */
void supervisors_kill(struct supervisors *self);
