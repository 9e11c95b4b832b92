#pragma once

#include "agent/frontends/redis/intake/intake.h"

/*
 * The part of intake that answers steps that never run: cancelled, redelivered and interrupted
 * ones, in memory and in the list `in`. Only intake.c includes this file. The hard part is the
 * search of `in`, which may have a million steps: it reads pages, and each removal must find its
 * step near an end of the list.
 */

/* --- writes --- */

void intake_add_change(struct outbox_record *record, enum outbox_change_kind kind,
                       enum outbox_list list, const struct payload *value);

/* Adds the removal of a step from `inflight`. */
void intake_add_removal(struct outbox_record *record, const struct queued_step *step);

/* Writes the record, and sets `written`. */
void intake_write(struct intake *self, const struct outbox_record *record);

/* Moves a step from `inflight` to a list. */
void intake_move(struct intake *self, const struct queued_step *step,
                 enum outbox_change_kind removal, enum outbox_change_kind push,
                 enum outbox_list to);

/* --- steps that do not run --- */

/* Returns whether the step is a cancel from a client that does not know `control`. */
bool intake_is_cancel(const struct queued_step *step);

/* After a loss of data: answers the steps whose result is lost and whose removal is still to be
   delivered, because that removes the last trace of them. */
void intake_answer_removed(struct intake *self);

/* Handles a step of `inflight` that must not run: discards a redelivered one, answers a cancelled
   one during a scan, and moves a cancel to `control`. Returns false if the step is another one. */
bool intake_filter_step(struct intake *self, const struct queued_step *step);

/* Handles the value of `started`, and then the newest entry of the stream. Unless the value is this
   agent's running step, an earlier agent had started the step. */
void intake_read_started(struct intake *self, const struct payload *step_id);
void intake_read_events(struct intake *self, const struct reply *entry);

/* Returns whether this is the step that an earlier agent had started; answers it (`step` is NULL if
   `inflight` does not have it). */
bool intake_is_interrupted(const struct intake *self, const struct queued_step *step);
void intake_answer_interrupted(struct intake *self, const struct queued_step *step);

/* --- the search of `in` --- */

/* Returns whether the fetched step is a shutdown, and `in` may have redelivered steps behind it
   that the next agent would run again. */
bool intake_has_unsearched_shutdown(const struct intake *self);

/* Returns whether a page should be read. */
bool intake_may_search(const struct intake *self);

/* Reads the next page; handles it, as consumer_handler.page; ends the search early. */
void intake_search(struct intake *self);
void intake_search_page(void *owner, size_t length, const struct reply *steps);
void intake_end_search(struct intake *self);

/* The bytes that a page should not exceed. */
#define INTAKE_PAGE_BYTES ((size_t)1024 * 1024)

/* Chooses the size of the page after one that was read. */
void intake_set_next_page(struct intake_page *self, size_t most);

/* --- control messages --- */

/* Finishes the pending cancels that were read before the query or the search: neither list has
   their steps. A cancel of the fetched step waits for READY. */
void intake_finish_unmatched(struct intake *self);

/* Returns whether there are pending cancels, and messages with at least this number. */
bool intake_has_new_cancels(const struct intake *self, uint64_t seen);

/* Applies cancels to the steps in memory, and removes the messages that are done. */
void intake_apply_messages(struct intake *self);
