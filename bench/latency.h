#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Clocks for measurements, and quantiles of many measured times. Times are in milliseconds. */

/* A clock that never jumps. The programs of bench/programs print the same one. */
double latency_now_ms(void);

/* The processor time that a process has used so far, user and system, with its threads but without
   its children. The kernel counts it more finely than the ticks in /proc. */
double processor_ms(pid_t pid);

/* The smallest of `count` times, at least one, that at most 1 - `quantile` of them exceed. Sorts
   them. */
double latency_quantile(double *ms, size_t count, double quantile);
