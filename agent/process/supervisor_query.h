#ifndef AGENT_PROCESS_SUPERVISOR_QUERY_H
#define AGENT_PROCESS_SUPERVISOR_QUERY_H

#include <stdbool.h>

#include "agent/process/supervisor_message.h"

/*
 * The agent's side of a question to a supervisor: how many processes of its step live, how much
 * memory they have, and who holds the output. All zeros: nothing was asked.
 */
struct supervisor_query {
  unsigned asked; /* the last one: see SUPERVISOR_ASKS_HOLDER */
  unsigned answered;
  struct supervisor_census answer; /* the agent's own copy */
};

/* Asks. The caller wakes the supervisor. The answer is also the one to an earlier question that is
   still open. */
void supervisor_query_ask(struct supervisor_query *self, struct supervisor_page *page, bool holder);

/* Copies and checks what the supervisor has answered, when it says so (SUPERVISOR_COUNTED).
   Impossible values are replaced by an answer that knows nothing. */
void supervisor_query_take_answer(struct supervisor_query *self,
                                  const struct supervisor_page *page);

/* Whether a question has no answer yet. */
bool supervisor_query_is_open(const struct supervisor_query *self);

/* The answer to the last question; NULL: there is none yet. */
const struct supervisor_census *supervisor_query_answer(const struct supervisor_query *self);

#endif
