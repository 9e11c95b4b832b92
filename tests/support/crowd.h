#pragma once

#include "tests/support/job.h"

/* Pushes many steps, each of which prints its number, and checks their answers. Tests of the queue
   use it. */
enum { CROWD_MAX = 1000 };

struct crowd {
  const cJSON *steps[CROWD_MAX];
  size_t count;
};

/* Pushes the steps at once, each with this many bytes of padding. */
struct crowd crowd_push(struct job *job, size_t count, size_t padding_length);

/* Fails unless all of them are answered in order, except `left_out` (SIZE_MAX: none). */
void crowd_expect(struct job *job, const struct crowd *self, size_t left_out);
