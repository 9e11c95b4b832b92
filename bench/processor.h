#ifndef BENCH_PROCESSOR_H
#define BENCH_PROCESSOR_H

#include <sys/types.h>

/* What a process and its threads, but not its children, have had of the processor so far, user and
   system, in milliseconds: the kernel's own account, which is finer than the ticks in /proc. */
double processor_ms(pid_t pid);

#endif
