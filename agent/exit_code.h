#pragma once

/*
 * The exit codes of the program, which docs/operations.md explains to users. main.c, the engine and
 * the frontends choose one. --once and commands have codes of their own (execution_result.h).
 */
#define AGENT_EXIT_SHUTDOWN 0
#define AGENT_EXIT_UNREACHED 2 /* the idle limit, and Redis was never reached */
#define AGENT_EXIT_ERROR 3     /* also when memory is exhausted: base/memory.h */
#define AGENT_EXIT_USAGE 64
#define AGENT_EXIT_SIGNAL 128 /* plus the number of the signal */

/* The idle limit. Not a code of a process: main.c exits with that of --idle-exit-code instead. */
#define AGENT_EXIT_IDLE 256
