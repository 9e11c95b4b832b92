#ifndef TESTS_SUPPORT_WAIT_H
#define TESTS_SUPPORT_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/* How long a test waits for something that must happen, in milliseconds: it says that a test hangs,
   and nothing of how soon something happens. */
#define WAIT_BOUND_MS 60000

/* Milliseconds of a clock that never jumps; with what is below one. */
int64_t wait_now_ms(void);
double wait_exact_ms(void);

/*
 * Asks `condition(context)` again and again, a few milliseconds apart, until it is true or
 * `bound_ms` have gone by. Returns what it said last, so that a caller says itself what is missing.
 */
bool wait_until(bool (*condition)(void *context), void *context, int64_t bound_ms);

#endif
