#pragma once

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/log.h"
#include "base/process_title.h"

/*
 * A supervisor is a child of the agent that runs one command at a time and keeps track of all
 * processes that come from it. It is a child subreaper: orphans are re-parented to it, so the
 * kernel itself tracks which processes belong to the command. This is the code of the child;
 * supervisors.h is the agent's side.
 *
 * It kills its processes when the agent orders that (supervisor_page.h), and at once when the agent
 * is dead. The kernel reports that with SIGCONT, which also wakes a supervisor that a step has
 * stopped. It is not dumpable from its first instruction, because the agent is not: no process of
 * the same user can open its memory or the page. The out-of-memory killer chooses it first.
 *
 * Work runs in the supervisor itself. It is a function of this program whose crash, hang or leak
 * affects only the step.
 */

/* Returns the exit code of the work. It writes to descriptors 1 and 2, may leave descriptors open
   and may change the directory. */
typedef int supervisor_work(char *packed, size_t length);

struct supervisor_page;

/* Its name in ps(1) and /proc. */
#define SUPERVISOR_NAME "agent-supervise"

/* The supervisor's socket (supervisor_message.h). */
#define SUPERVISOR_SOCKET 3

/* The supervisor inherits the options by fork(2). Everything that is pointed to must outlive the
   supervisors. */
struct supervisor_options {
  supervisor_work *work;       /* kinds_work of agent/kinds/kind.h */
  long agent_pages;            /* resident when the agent began; -1: unknown */
  void (*forget)(void *owner); /* overwrites the agent's secrets before the first work; or NULL */
  void *owner;
  struct rlimit open_files; /* of commands */
  int nice;                 /* of commands, above the agent's */
  bool lists_alive; /* lists a command's processes before the first order: struct process_outcome */
  int stdin_fd;     /* reads as empty */
  int rules_fd;     /* the rule set of the agent's own policy: see confinement.h; 0: none */
  int oom_score_fd; /* the agent's oom_score_adj; 0: supervisors have the agent's score */
  const char *job;  /* for the title; NULL: none */
  const struct process_title *title; /* of the agent; NULL: supervisors keep it */
  const struct log *log;             /* NULL: no log */
};

/* Returns the number of resident pages of this process; -1: unknown. */
long supervisor_own_pages(void);

/* A supervisor exits after a task if it is this many pages larger than the agent was when that
   began: because of its copy of the agent's memory, which the agent may have freed since, or
   because of work. */
#define SUPERVISOR_PAGES_MAX 4096

/* To be called in the child of a fork(2), after descriptors 0 to 2 and SUPERVISOR_SOCKET were set
   up. */
_Noreturn void supervisor_main(const struct supervisor_options *options, pid_t agent,
                               struct supervisor_page *page);
