#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* Milliseconds of a clock that never jumps: for deadlines and durations. */
int64_t clock_monotonic_ms(void);

/* Milliseconds since 1970, UTC: for timestamps. It jumps when the clock is set. */
int64_t clock_unix_ms(void);

#endif
