#ifndef AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_PARTS_H
#define AGENT_FRONTENDS_REDIS_INTAKE_INTAKE_PARTS_H

#include "agent/frontends/redis/intake/intake_core.h"

/* What the files of the core share: intake_core.c decides, intake_records.c writes,
   intake_control.c obeys control messages. Nobody else includes it. */

bool intake_is_late(const struct intake_core *self);

/* --- intake_records.c --- */

void intake_add_change(struct outbox_record *record, enum outbox_change_kind kind,
                       enum outbox_list list, const struct payload *value);
void intake_add_removal(struct outbox_record *record, const struct held_step *step);
uint64_t intake_write(struct intake_core *self, const struct outbox_record *record);

/* Moves a step of `inflight`. */
void intake_move(struct intake_core *self, const struct held_step *step,
                 enum outbox_change_kind removal, enum outbox_change_kind push,
                 enum outbox_list to);

/* An answer of the agent's own. The record has the removals. */
uint64_t intake_answer_by_agent(struct intake_core *self, const struct held_step *step,
                                struct outbox_record *record, enum step_cause cause,
                                const char *reason, int64_t event_count);
void intake_answer_cancelled(struct intake_core *self, const struct held_step *step,
                             struct outbox_record *record, struct control_message *message);
void intake_drop_fetched(struct intake_core *self);

/* The cancel of a client that knows no `control`. */
bool intake_is_cancel(const struct held_step *step);

/* True when Redis hands the step out a second time: it is removed, by the record, or answered as
   lost; of a step in `inflight`; the same, and true when it is a cancel, which goes to
   `control`. */
bool intake_discard_copy(struct intake_core *self, const struct held_step *step,
                         struct outbox_record *record);
bool intake_discard_taken_copy(struct intake_core *self, const struct held_step *step);
bool intake_deal_with(struct intake_core *self, const struct held_step *step);

/* Redis lost data: answers the steps whose answer is lost, and whose copies will be removed. */
void intake_answer_discarded(struct intake_core *self);
void intake_forget_discards(struct intake_core *self, uint64_t delivered);

/* --- intake_control.c --- */

/* The cancels before this number have no step. */
void intake_finish_unknown(struct intake_core *self, uint64_t before);

/* Cancels wait, and some of them have at least this number. */
bool intake_has_new_cancels(const struct intake_core *self, uint64_t seen);

/* Does what messages say of the steps in memory, and removes those that are done. */
void intake_obey(struct intake_core *self);

#endif
