#ifndef TESTS_SUPPORT_CROWD_H
#define TESTS_SUPPORT_CROWD_H

#include "tests/support/job.h"

/* Many steps that wait together, each of which prints its number. */
enum { CROWD_MAX = 1000 };

struct crowd {
  const cJSON *steps[CROWD_MAX];
  size_t count;
};

/* Pushed in one go, each with so many bytes that say nothing. */
struct crowd crowd_push(struct job *job, size_t count, size_t padding_length);

/* All of them are answered in their order, but one, which is `left_out` (SIZE_MAX: none). */
void crowd_expect(struct job *job, const struct crowd *self, size_t left_out);

#endif
