#ifndef AGENT_PROCESS_KEEPER_QUESTION_H
#define AGENT_PROCESS_KEEPER_QUESTION_H

#include <stdbool.h>

#include "agent/process/keeper_message.h"

/*
 * The agent's side of a question to a keeper: how many processes of its step live, how much memory they have,
 * and who holds the output. All zeros: nothing was asked.
 */
struct keeper_question {
  unsigned asked; /* the last one: see KEEPER_ASKS_HOLDER */
  unsigned answered;
  struct keeper_census answer; /* the agent's own copy */
};

/* Asks. The caller wakes the keeper. The answer is also the one to an earlier question that is still open. */
void keeper_question_ask(struct keeper_question *self, struct keeper_page *page, bool holder);

/* Copies and checks what the keeper has answered, when it says so (KEEPER_COUNTED). Impossible values are
   replaced by an answer that knows nothing. */
void keeper_question_take_answer(struct keeper_question *self, const struct keeper_page *page);

/* Whether a question has no answer yet. */
bool keeper_question_is_open(const struct keeper_question *self);

/* The answer to the last question; NULL: there is none yet. */
const struct keeper_census *keeper_question_answer(const struct keeper_question *self);

#endif
