#ifndef AGENT_PROCESS_SUPERVISOR_PROCESS_H
#define AGENT_PROCESS_SUPERVISOR_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/process/supervisor.h"
#include "agent/process/supervisor_message.h"
#include "base/log.h"
#include "base/process_title.h"

/*
 * A supervisor's process, as the agent has it. It is a fork of the agent, which executes nothing: a
 * process that its user may not read stays so over fork(2), but would be readable for a moment
 * after execve(2). fork(2) also does not wait for the child, as vfork(2) does: somebody may stop
 * it at its first instruction.
 */
struct supervisor_process {
  pid_t pid;     /* 0: it was reaped */
  int socket;    /* -1: the supervisor was told to go */
  int other_end; /* the supervisor's, for a message that it does not receive; -1 as above */
  struct supervisor_page *page; /* shared with the supervisor, and with nobody else */
};

/* Everything that is pointed to must outlive the processes. */
struct supervisor_options {
  supervisor_work *work;       /* kinds_work of agent/kinds/kind.h, or its like */
  long agent_pages;            /* of supervisor_setup */
  void (*forget)(void *owner); /* overwrites the agent's secrets in a supervisor; NULL: none */
  void *owner;
  struct supervisor_commands commands; /* the agent has raised its own number of open files */
  int stdin_fd;                        /* reads as empty */
  int oom_score_fd; /* the agent's oom_score_adj; 0: supervisors have the agent's score */
  const char *job;  /* for the title; NULL: none */
  const struct process_title *title; /* of this process; NULL: supervisors keep it */
  const struct log *log;             /* NULL: no log */
};

/* Returns 0, or -1 with errno. */
int supervisor_process_make(struct supervisor_process *self,
                            const struct supervisor_options *options);

/* Prepares the page for a task; `waits`: for supervisor_start. */
void supervisor_process_reset(struct supervisor_process *self, bool waits);

/* Whether somebody stops it, or it waits in the kernel: a supervisor that only waits for a
   processor does not count. True if that is not known. */
bool supervisor_process_is_held(const struct supervisor_process *self);

/* The supervisor sees that nobody listens, and exits. */
void supervisor_process_dismiss(struct supervisor_process *self);

/* Frees the memory; the process goes on as long as it has something to do. */
void supervisor_process_release(struct supervisor_process *self);

#endif
