#ifndef TESTS_SUPPORT_EVENTS_H
#define TESTS_SUPPORT_EVENTS_H

#include "tests/support/job.h"

/*
 * What a job has written to its stream. As with a job, all that is returned belongs to it.
 */

/* Every event of this step (an id, or a step or result that has one) so far, oldest first: a JSON
   array. Checked to be well-formed, with the contract's fields in their order, each with
   "entryMs" added: when Redis took it. */
const cJSON *events_of(struct job *job, const cJSON *step);

/* The lines of one kind ("stdout", …), each with "\n" behind it, pieces of one line joined. */
const char *events_lines(struct job *job, const cJSON *step, const char *kind);

/* All entries' data as they are, each with "\n" behind it. */
const char *events_raw(struct job *job);

/* Waits until the step has an event of this kind with this line. */
void events_wait(struct job *job, const cJSON *step, const char *kind, const char *line);

/* Pushes the step, waits until it has printed this line, and returns it. */
const cJSON *events_push(struct job *job, const cJSON *step, const char *line);

/* The same of one that says "up" and then runs until it is ended, as this `sleep …`. */
const cJSON *events_push_endless(struct job *job, const char *sleep);

#endif
