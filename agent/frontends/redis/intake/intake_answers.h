#ifndef AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_ANSWERS_H
#define AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_ANSWERS_H

#include "agent/frontends/redis/intake/intake_core.h"

/*
 * The part of the core that answers steps that never run: cancelled and redelivered ones, in memory
 * and in the list `in`. Only intake_core.c includes this file. The hard part is the search of `in`,
 * which may have a million steps: it reads pages, and each removal must find its step near an end
 * of the list.
 */

/* Returns whether a BLMOVE may be stale; see INTAKE_STALE_MS. */
bool intake_may_have_stale_moves(const struct intake_core *self);

/* --- writes --- */

void intake_add_change(struct outbox_record *record, enum outbox_change_kind kind,
                       enum outbox_list list, const struct payload *value);

/* Adds the removal of a step from `inflight`. */
void intake_add_removal(struct outbox_record *record, const struct queued_step *step);

/* Writes the record, and sets `written`. */
void intake_write(struct intake_core *self, const struct outbox_record *record);

/* Moves a step from `inflight` to a list. */
void intake_move(struct intake_core *self, const struct queued_step *step,
                 enum outbox_change_kind removal, enum outbox_change_kind push,
                 enum outbox_list to);

/* Answers a step that does not run. The record has the removals. */
void intake_answer_by_agent(struct intake_core *self, const struct queued_step *step,
                            const struct outbox_record *record, enum step_cause cause,
                            const char *reason, int64_t event_count);

void intake_free_fetched(struct intake_core *self);

/* --- steps that do not run --- */

/* Returns whether the step is a cancel from a client that does not know `control`. */
bool intake_is_cancel(const struct queued_step *step);

/* Discards a step of `inflight` if Redis has redelivered it. Otherwise returns false. */
bool intake_discard_redelivered(struct intake_core *self, const struct queued_step *step);

/* After a loss of data: answers the redelivered steps whose result is lost and whose removal is
   still to be delivered, because that removes the last trace of them. */
void intake_answer_discarded(struct intake_core *self);

/* Frees the discards whose removal is delivered. */
void intake_free_discards(struct intake_core *self, uint64_t delivered);

/* Handles a step of `inflight` that must not run: discards a redelivered one, and moves a cancel to
   `control`. Returns false if the step is another one. */
bool intake_filter_step(struct intake_core *self, const struct queued_step *step);

/* --- control messages --- */

/* Finishes the pending cancels with smaller numbers: neither list has their steps. */
void intake_finish_unmatched(struct intake_core *self, uint64_t before);

/* Returns whether there are pending cancels, and messages with at least this number. */
bool intake_has_new_cancels(const struct intake_core *self, uint64_t seen);

/* Applies cancels to the steps in memory, and removes the messages that are done. */
void intake_apply_messages(struct intake_core *self);

#endif
