#ifndef AGENT_PROCESS_SUPERVISORS_H
#define AGENT_PROCESS_SUPERVISORS_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/exec_command.h"
#include "agent/process/supervisor_message.h"
#include "agent/process/supervisor_process.h"
#include "base/error.h"

/*
 * The agent's supervisors (supervisor.h): makes them, ahead of time too, gives each to one process
 * after the other, and ends what is below them. A supervisor whose command has left processes in
 * the background stays with those until they end, or the agent does.
 *
 *   supervisors_new
 *     supervisors_make_spare         from time to time, so that one waits
 *     supervisor = supervisors_acquire
 *       supervisor_start                of a command that waits
 *       news(owner)              from the event loop: supervisor_state and what belongs to it is new
 *       supervisor_terminate, supervisor_kill
 *     supervisor_release             the process is over, or given up
 *     supervisors_reap               at every SIGCHLD
 *     supervisors_end                at the end of the program
 *   supervisors_free                 kills what is left
 */
struct supervisors;
struct supervisor;

struct supervisors_options {
  struct event_base *base; /* outlives the supervisors */
  struct supervisor_options supervisor;
};

struct supervisors *supervisors_new(const struct supervisors_options *options);
void supervisors_free(struct supervisors *self);

/* So many idle supervisors stay at the most; 1 at first. */
void supervisors_limit_idle(struct supervisors *self, unsigned count);

/* Makes a supervisor when none is idle. Where that fails the next command does it, and says why. */
void supervisors_make_spare(struct supervisors *self);

/* A command, or work that was packed; what is pointed to has to stay during the call only. */
struct supervisor_task {
  struct exec_command exec;
  bool waits;       /* for supervisor_start */
  bool lists_alive; /* see supervisor_alive */
  const char *work; /* NULL: a command */
  size_t work_length;
  const int *descriptors;      /* its 0, 1 and 2 (0 of work is not used), which stay the caller's */
  void (*notify)(void *owner); /* called when something is new */
  void *owner;
};

/* Returns NULL with the reason. */
struct supervisor *supervisors_acquire(struct supervisors *self, const struct supervisor_task *task,
                                       struct error *error);

void supervisor_start(struct supervisor *self);

/* A supervisor that is stopped, and has not received its task for so long, is killed and replaced,
   so often at most. Then the task fails as a command that cannot be executed. A task is received
   once at most. */
#define SUPERVISOR_REPORT_MS 2000
#define SUPERVISOR_REPLACED_MAX 3

enum supervisor_state {
  SUPERVISOR_RUNS,  /* the command does */
  SUPERVISOR_HOLDS, /* the command has ended, and has left processes */
  SUPERVISOR_DIED,  /* it was killed, with its command; what they have left is being ended */
  SUPERVISOR_DONE   /* nothing is left */
};
enum supervisor_state supervisor_state(const struct supervisor *self);

/* The command's, 0 before it has one; of work the supervisor's. */
pid_t supervisor_pid(const struct supervisor *self);

/* After SUPERVISOR_RUNS: how it ended, as of waitpid(2). Of a supervisor that was killed, and took
   it along, its own end. This and supervisor_usage read what the supervisor has reported;
   supervisor_failure and supervisor_alive are of the same report. */
int supervisor_status(struct supervisor *self);
/* Also after SUPERVISOR_RUNS. `*whole`: if exec_command has failed, its reason in full; else
   NULL. */
const struct exec_failure *supervisor_failure(const struct supervisor *self, const char **whole);

/* How many processes are left, as far as is known while they are being killed. */
size_t supervisor_left(const struct supervisor *self);

/* After SUPERVISOR_RUNS: what those have used that have ended. Of a supervisor that is dead nothing
   is known. */
const struct step_usage *supervisor_usage(struct supervisor *self);

/* Those that were there when it was ordered to end them (`lists_alive`), the largest first. */
const struct step_process *supervisor_alive(const struct supervisor *self, size_t *count);

/* Asks the supervisor how many processes of it live, how much memory they have and, if it is asked
   for, who holds the command's output. The owner is notified when it has answered, and gives up
   after SUPERVISOR_ANSWER_MS. Returns false if it cannot answer. */
bool supervisor_ask(struct supervisor *self, bool holder);
#define SUPERVISOR_ANSWER_MS 1000

/* The answer to the last question, until the next one; NULL: there is none yet. */
const struct supervisor_census *supervisor_answer(const struct supervisor *self);

/* Ends what is below the supervisor: SIGTERM to all, or SIGKILL until nobody is left. News follow
   when that is so. A command that waits executes nothing then; work is killed by either. */
void supervisor_terminate(struct supervisor *self);
void supervisor_kill(struct supervisor *self);

/* No news follow. What is not over goes on, unless it was ordered to end. */
void supervisor_release(struct supervisor *self);

/* At every SIGCHLD. Reaps all children that have ended, strangers too: orphans become children of
   this program, which is a subreaper and in a container process 1. A supervisor that was stopped
   goes on. True: there may be more, in another turn of the loop. `has_died`: a supervisor was
   reaped. */
bool supervisors_reap(struct supervisors *self, bool *has_died);

/* Asks all supervisors that have processes. Returns true when all have answered, or when
   SUPERVISORS_COUNT_MS have passed: then the answers count that are there, and the next call asks
   again. Otherwise returns false, and is to be called again. */
bool supervisors_count(struct supervisors *self);
#define SUPERVISORS_COUNT_MS 200

/* Of the supervisors that stay with what was left in the background, and do not kill it, the one
   with the most memory, by its answer; NULL: none has any. */
struct supervisor *supervisors_largest_left(const struct supervisors *self, int64_t *rss_bytes);

/* Whether any process lives that is of a step. */
bool supervisors_have_processes(struct supervisors *self);

/* The same as far as the supervisors have told; reads nothing. */
bool supervisors_are_busy(const struct supervisors *self);

/* Whether a tree is being killed, for at most SUPERVISORS_GIVE_UP_MS. */
bool supervisors_are_killing(const struct supervisors *self);

/* Ends everything that is below this process: SIGTERM now, SIGKILL after the grace, giving up
   SUPERVISORS_GIVE_UP_MS later. `gone` is called once, from the event loop, with the number of
   processes that are left. To be called once. */
void supervisors_end(struct supervisors *self, int64_t grace_ms,
                     void (*gone)(void *owner, size_t left), void *owner);
#define SUPERVISORS_GIVE_UP_MS 2000

/* SIGKILL to all, at once. */
void supervisors_kill(struct supervisors *self);

/* Takes over a non-blocking pipe of a process that is over, which somebody in the background holds:
   its output is read and discarded until the last writer is gone. A closed pipe would break a
   server that a command started for later steps. */
void supervisors_drain(struct supervisors *self, int fd);

#endif
