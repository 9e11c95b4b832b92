#ifndef AGENT_PROCESS_KEEPER_FACTS_H
#define AGENT_PROCESS_KEEPER_FACTS_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/process/keeper_message.h"

/*
 * The agent's own copy of what a keeper has written into the page, with every value checked. The
 * agent uses nothing of the page before that: a keeper searches files that nobody vouches for, so
 * if somebody takes it over the page may hold anything, and may change at any time.
 */
struct keeper_facts {
  bool has_ended; /* the status counts */
  int status;     /* as waitpid(2) has it */
  struct exec_failure failure;
  char *whole_reason; /* of a failure of exec_command, in full; NULL: there is none */
  struct step_usage usage;
  size_t alive_count;
  struct step_process *alive; /* NULL if there are none */
};

/* Copies the page once. How the command ended is taken once, the figures each time. Returns false if a value
   is impossible; then the figures, and an end that was not taken before, are not known. */
bool keeper_facts_read(struct keeper_facts *self, const struct keeper_page *page);

/* Frees the texts and the list. All is zeros afterwards, which is valid: nothing is known. */
void keeper_facts_release(struct keeper_facts *self);

#endif
