#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How long a test waits for something that must happen, in milliseconds. The bound only detects a
   test that hangs; it says nothing about speed. */
#define WAIT_BOUND_MS 60000

/* Milliseconds of a monotonic clock; the second function has fractions. */
int64_t wait_now_ms(void);
double wait_exact_ms(void);

/* The clock of libevent's timers, which is up to 4 ms behind: the beginning of the shortest time
   that a timer may take. */
double wait_timer_ms(void);

/*
 * Calls `condition(context)` every few milliseconds until it is true or `bound_ms` have passed.
 * Returns its last result, so that the caller can report what is missing.
 */
bool wait_until(bool (*condition)(void *context), void *context, int64_t bound_ms);
