#ifndef AGENT_PROCESS_SUPERVISOR_FACTS_H
#define AGENT_PROCESS_SUPERVISOR_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/process/supervisor_message.h"

/*
 * The agent's own copy of what a supervisor has written into the page, with every value checked.
 * The agent uses nothing of the page before that: a supervisor searches files that nobody vouches
 * for, so if somebody takes it over the page may hold anything, and may change at any time.
 */
struct supervisor_facts {
  bool has_ended; /* the status counts */
  int status;     /* as waitpid(2) has it */
  struct exec_failure failure;
  char *whole_reason; /* of a failure of exec_command, in full; NULL: there is none */
  struct step_usage usage;
  size_t alive_count;
  struct step_process *alive; /* NULL if there are none */
};

/* Copies the page once. How the command ended is taken once, the figures each time. Returns false
   if a value is impossible; then the figures, and an end that was not taken before, are not
   known. */
bool supervisor_facts_read(struct supervisor_facts *self, const struct supervisor_page *page);

/* Frees the texts and the list. All is zeros afterwards, which is valid: nothing is known. */
void supervisor_facts_release(struct supervisor_facts *self);

#endif
