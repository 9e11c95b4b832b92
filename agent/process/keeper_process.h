#ifndef AGENT_PROCESS_KEEPER_PROCESS_H
#define AGENT_PROCESS_KEEPER_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "agent/process/keeper.h"
#include "agent/process/keeper_message.h"
#include "base/log.h"
#include "base/process_title.h"

/*
 * A keeper's process, as the agent has it. It is a fork of the agent, which executes nothing: a
 * process that its user may not read stays so over fork(2), but would be readable for a moment
 * after execve(2). fork(2) also does not wait for the child, as vfork(2) does: somebody may stop
 * it at its first instruction.
 */
struct keeper_process {
  pid_t pid;                /* 0: it was reaped */
  int socket;               /* -1: the keeper was told to go */
  int other_end;            /* the keeper's, for a message that it does not receive; -1 as above */
  struct keeper_page *page; /* shared with the keeper, and with nobody else */
};

/* Everything that is pointed to must outlive the processes. */
struct keeper_options {
  keeper_work *work;           /* kinds_work of agent/kinds/kind.h, or its like */
  long agent_pages;            /* of keeper_setup */
  void (*forget)(void *owner); /* overwrites the agent's secrets in a keeper; NULL: none */
  void *owner;
  struct keeper_commands commands; /* the agent has raised its own number of open files */
  int stdin_fd;                    /* reads as empty */
  int oom_score_fd; /* the agent's oom_score_adj; 0: keepers have the agent's score */
  const char *job;  /* for the title; NULL: none */
  const struct process_title *title; /* of this process; NULL: keepers keep it */
  const struct log *log;             /* NULL: no log */
};

/* Returns 0, or -1 with errno. */
int keeper_process_make(struct keeper_process *self, const struct keeper_options *options);

/* Prepares the page for a task; `waits`: for keeper_go. */
void keeper_process_reset(struct keeper_process *self, bool waits);

/* Whether somebody stops it, or it waits in the kernel: a keeper that only waits for a processor
   does not count. True if that is not known. */
bool keeper_process_is_held(const struct keeper_process *self);

/* The keeper sees that nobody listens, and exits. */
void keeper_process_dismiss(struct keeper_process *self);

/* Frees the memory; the process goes on as long as it has something to do. */
void keeper_process_release(struct keeper_process *self);

#endif
