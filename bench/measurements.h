#pragma once

#include "bench/bench.h"

/* Lists the measurements for main.c. The file of the same name defines each of them, and its
   variant over TLS. */
extern const struct measurement bench_output;
extern const struct measurement bench_output_tls;
extern const struct measurement bench_step;
extern const struct measurement bench_queue;
extern const struct measurement bench_pace;
extern const struct measurement bench_start;
extern const struct measurement bench_start_tls;
extern const struct measurement bench_memory;
extern const struct measurement bench_memory_tls;
extern const struct measurement bench_fleet;
extern const struct measurement bench_grep;
extern const struct measurement bench_tools;
extern const struct measurement bench_ends;
extern const struct measurement bench_client;
extern const struct measurement bench_http;
extern const struct measurement bench_fence;
