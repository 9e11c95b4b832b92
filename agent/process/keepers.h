#ifndef AGENT_PROCESS_KEEPERS_H
#define AGENT_PROCESS_KEEPERS_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/process/exec_command.h"
#include "agent/process/keeper_message.h"
#include "agent/process/keeper_process.h"
#include "base/error.h"

/*
 * The agent's keepers (keeper.h): makes them, ahead of time too, gives each to one process after the
 * other, and ends what is below them. A keeper whose command has left processes in the background stays
 * with those until they end, or the agent does.
 *
 *   keepers_new
 *     keepers_make_spare         from time to time, so that one waits
 *     keeper = keepers_give
 *       keeper_go                of a command that waits
 *       news(owner)              from the event loop: keeper_state and what belongs to it is new
 *       keeper_terminate, keeper_kill
 *     keeper_release             the process is over, or given up
 *     keepers_reap               at every SIGCHLD
 *     keepers_end                at the end of the program
 *   keepers_free                 kills what is left
 */
struct keepers;
struct keeper;

struct keepers_options {
  struct event_base *base; /* outlives the keepers */
  struct keeper_options keeper;
};

struct keepers *keepers_new(const struct keepers_options *options);
void keepers_free(struct keepers *self);

/* So many idle keepers stay at the most; 1 at first. */
void keepers_limit_idle(struct keepers *self, unsigned count);

/* Makes a keeper when none is idle. Where that fails the next command does it, and says why. */
void keepers_make_spare(struct keepers *self);

/* A command, or work that was packed; what is pointed to has to stay during the call only. */
struct keeper_task {
  struct exec_command exec;
  bool waits;       /* for keeper_go */
  bool lists_alive; /* see keeper_alive */
  const char *work; /* NULL: a command */
  size_t work_length;
  const int *descriptors;    /* its 0, 1 and 2 (0 of work is not used), which stay the caller's */
  void (*news)(void *owner); /* called when something is new */
  void *owner;
};

/* Returns NULL with the reason. */
struct keeper *keepers_give(struct keepers *self, const struct keeper_task *task,
                            struct error *error);

void keeper_go(struct keeper *self);

/* A keeper that is stopped, and has not received its task for so long, is killed and replaced, so
   often at most. Then the task fails as a command that cannot be executed. A task is received once
   at most. */
#define KEEPER_REPORT_MS 2000
#define KEEPER_REPLACED_MAX 3

enum keeper_state {
  KEEPER_RUNS,  /* the command does */
  KEEPER_HOLDS, /* the command has ended, and has left processes */
  KEEPER_DIED,  /* it was killed, with its command; what they have left is being ended */
  KEEPER_DONE   /* nothing is left */
};
enum keeper_state keeper_state(const struct keeper *self);

/* The command's, 0 before it has one; of work the keeper's. */
pid_t keeper_pid(const struct keeper *self);

/* After KEEPER_RUNS: how it ended, as of waitpid(2). Of a keeper that was killed, and took it
   along, its own end. This and keeper_usage read what the keeper has reported; keeper_failure and
   keeper_alive are of the same report. */
int keeper_status(struct keeper *self);
/* Also after KEEPER_RUNS. `*whole`: if exec_command has failed, its reason in full; else NULL. */
const struct exec_failure *keeper_failure(const struct keeper *self, const char **whole);

/* How many processes are left, as far as is known while they are being killed. */
size_t keeper_left(const struct keeper *self);

/* After KEEPER_RUNS: what those have used that have ended. Of a keeper that is dead nothing is known. */
const struct step_usage *keeper_usage(struct keeper *self);

/* Those that were there when it was ordered to end them (`lists_alive`), the largest first. */
const struct step_process *keeper_alive(const struct keeper *self, size_t *count);

/* Asks the keeper how many processes of it live, how much memory they have and, if it is asked for, who
   holds the command's output. The owner is notified when it has answered, and gives up after KEEPER_ANSWER_MS.
   Returns false if it cannot answer. */
bool keeper_ask(struct keeper *self, bool holder);
#define KEEPER_ANSWER_MS 1000

/* The answer to the last question, until the next one; NULL: there is none yet. */
const struct keeper_census *keeper_answer(const struct keeper *self);

/* Ends what is below the keeper: SIGTERM to all, or SIGKILL until nobody is left. News follow when that
   is so. A command that waits executes nothing then; work is killed by either. */
void keeper_terminate(struct keeper *self);
void keeper_kill(struct keeper *self);

/* No news follow. What is not over goes on, unless it was ordered to end. */
void keeper_release(struct keeper *self);

/* At every SIGCHLD. Reaps all children that have ended, strangers too: orphans become children of this
   program, which is a subreaper and in a container process 1. A keeper that was stopped goes on. True:
   there may be more, in another turn of the loop. `has_died`: a keeper was reaped. */
bool keepers_reap(struct keepers *self, bool *has_died);

/* Asks all keepers that have processes. Returns true when all have answered, or when KEEPERS_COUNT_MS have
   passed: then the answers count that are there, and the next call asks again. Otherwise returns false, and
   is to be called again. */
bool keepers_count(struct keepers *self);
#define KEEPERS_COUNT_MS 200

/* Of the keepers that stay with what was left in the background, and do not kill it, the one with the most
   memory, by its answer; NULL: none has any. */
struct keeper *keepers_largest_left(const struct keepers *self, int64_t *rss_bytes);

/* Whether any process lives that is of a step. */
bool keepers_have_processes(struct keepers *self);

/* The same as far as the keepers have told; reads nothing. */
bool keepers_are_busy(const struct keepers *self);

/* Whether a tree is being killed, for at most KEEPERS_GIVE_UP_MS. */
bool keepers_are_killing(const struct keepers *self);

/* Ends everything that is below this process: SIGTERM now, SIGKILL after the grace, giving up
   KEEPERS_GIVE_UP_MS later. `gone` is called once, from the event loop, with the number of processes that
   are left. To be called once. */
void keepers_end(struct keepers *self, int64_t grace_ms, void (*gone)(void *owner, size_t left),
                 void *owner);
#define KEEPERS_GIVE_UP_MS 2000

/* SIGKILL to all, at once. */
void keepers_kill(struct keepers *self);

/* Takes over a non-blocking pipe of a process that is over, which somebody in the background holds:
   its output is read and discarded until the last writer is gone. A closed pipe would break a server
   that a command started for later steps. */
void keepers_drain(struct keepers *self, int fd);

#endif
