#pragma once

#include <stdint.h>

/*
 * Two clocks, in milliseconds. Unit tests replace both functions (tests/support/virtual_time.h), so
 * that no test waits.
 */

/* Returns milliseconds of a clock that never jumps, for deadlines and durations. */
int64_t clock_monotonic_ms(void);

/* Returns milliseconds since 1970 (UTC), for timestamps. Setting the clock makes it jump. */
int64_t clock_unix_ms(void);
