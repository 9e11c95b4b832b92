#pragma once

/* The exit codes of the program. */
#define AGENT_EXIT_SHUTDOWN 0
#define AGENT_EXIT_IDLE 2
#define AGENT_EXIT_ERROR 3 /* also when memory is exhausted: base/memory.h */
#define AGENT_EXIT_USAGE 64
#define AGENT_EXIT_SIGNAL 128 /* plus the number of the signal */
