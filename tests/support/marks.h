#pragma once

#include "tests/support/job.h"

/*
 * Steps that a test can block and count, with files in the job's directory. In the script of such a
 * step, `ran` leaves a mark, and `gate name` waits until the test opens the gate of this name. The
 * name may be empty.
 *
 *   const cJSON *step = job_push_until(job, marks_step(job, "ran; echo up; gate"), "up");
 *   marks_open_gate(job, "");
 *   assert_int_equal(marks_count(job), 1);
 */
cJSON *marks_step(struct job *job, const char *script);

/* The number of marks that steps of this job have left; the names of the marks, one line each. */
int marks_count(struct job *job);
const char *marks_read(struct job *job);

void marks_open_gate(struct job *job, const char *name);
