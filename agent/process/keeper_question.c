#include "agent/process/keeper_question.h"

#include <stddef.h>

#include "agent/process/process_tree.h"

/* Each question differs from the one before in the bits above the lowest. */
void keeper_question_ask(struct keeper_question *self, struct keeper_page *page, bool holder) {
  holder |= keeper_question_is_open(self) && (self->asked & KEEPER_ASKS_HOLDER) != 0;
  self->asked = (self->asked | KEEPER_ASKS_HOLDER) + 1 + (holder ? KEEPER_ASKS_HOLDER : 0);
  atomic_store(&page->asked, self->asked);
}

/* A step may have changed the page. */
void keeper_question_take_answer(struct keeper_question *self, const struct keeper_page *page) {
  struct keeper_census *answer = &self->answer;
  self->answered = atomic_load(&page->answered);
  *answer = page->census;
  answer->holder.name[sizeof answer->holder.name - 1] = '\0';
  answer->holder.command[sizeof answer->holder.command - 1] = '\0';
  if (answer->living < -1 || answer->living > PROCESS_TREE_MAX || answer->rss_bytes < 0 ||
      answer->holder.pid < 0)
    *answer = (struct keeper_census){.living = -1};
}

bool keeper_question_is_open(const struct keeper_question *self) {
  return self->asked != self->answered;
}

const struct keeper_census *keeper_question_answer(const struct keeper_question *self) {
  return self->asked != 0 && !keeper_question_is_open(self) ? &self->answer : NULL;
}
