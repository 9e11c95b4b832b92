#pragma once

/* The exit codes of `sandbox` itself. They follow timeout(1), env(1) and
   docker-run(1). 128 + N stands for signal N. */
/* A file is missing, grep found nothing, there is no agent to ping, or doctor found a problem. */
#define EXIT_FOUND 1
#define EXIT_PATTERN 2 /* grep's pattern is invalid */
#define EXIT_USAGE 64
#define EXIT_TIMED_OUT 124
#define EXIT_CLIENT 125 /* the client failed, or the step was rejected, interrupted or lost */
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127
#define EXIT_CANCELLED 130
