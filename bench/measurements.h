#ifndef BENCH_MEASUREMENTS_H
#define BENCH_MEASUREMENTS_H

#include "bench/bench.h"

/* One per file of the same name, and where it has a second one by TLS, that; main.c lists them in
   the order of the table. */
extern const struct measurement bench_output;
extern const struct measurement bench_output_tls;
extern const struct measurement bench_step;
extern const struct measurement bench_queue;
extern const struct measurement bench_read;
extern const struct measurement bench_silence;
extern const struct measurement bench_pace;
extern const struct measurement bench_start;
extern const struct measurement bench_start_tls;
extern const struct measurement bench_memory;
extern const struct measurement bench_memory_tls;
extern const struct measurement bench_size;
extern const struct measurement bench_inject;
extern const struct measurement bench_fleet;
extern const struct measurement bench_grep;
extern const struct measurement bench_growth;
extern const struct measurement bench_tools;
extern const struct measurement bench_ends;
extern const struct measurement bench_client;

#endif
