#pragma once

#include <stdint.h>

/* Returns milliseconds of a clock that never jumps, for deadlines and durations. */
int64_t clock_monotonic_ms(void);

/* Returns milliseconds since 1970 (UTC), for timestamps. Setting the clock makes it jump. */
int64_t clock_unix_ms(void);
