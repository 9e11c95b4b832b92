#include "agent/process/supervisor_query.h"

#include <stddef.h>

#include "agent/process/process_tree.h"

/* Each question differs from the one before in the bits above the lowest. */
void supervisor_query_ask(struct supervisor_query *self, struct supervisor_page *page,
                          bool holder) {
  holder |= supervisor_query_is_open(self) && (self->asked & SUPERVISOR_ASKS_HOLDER) != 0;
  self->asked = (self->asked | SUPERVISOR_ASKS_HOLDER) + 1 + (holder ? SUPERVISOR_ASKS_HOLDER : 0);
  atomic_store(&page->asked, self->asked);
}

/* A step may have changed the page. */
void supervisor_query_take_answer(struct supervisor_query *self,
                                  const struct supervisor_page *page) {
  struct supervisor_census *answer = &self->answer;
  self->answered = atomic_load(&page->answered);
  *answer = page->census;
  answer->holder.name[sizeof answer->holder.name - 1] = '\0';
  answer->holder.command[sizeof answer->holder.command - 1] = '\0';
  if (answer->living < -1 || answer->living > PROCESS_TREE_MAX || answer->rss_bytes < 0 ||
      answer->holder.pid < 0)
    *answer = (struct supervisor_census){.living = -1};
}

bool supervisor_query_is_open(const struct supervisor_query *self) {
  return self->asked != self->answered;
}

const struct supervisor_census *supervisor_query_answer(const struct supervisor_query *self) {
  return self->asked != 0 && !supervisor_query_is_open(self) ? &self->answer : NULL;
}
