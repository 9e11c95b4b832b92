#pragma once

#include <event2/event.h>

#include "agent/engine/frontend.h"
#include "base/log.h"

/*
 * `agent --once`: runs one Step from standard input, which is one JSON value. Each StepEvent is a
 * line of JSON on standard output, as it happens, and the StepResult is the last line. The program
 * exits with
 *
 *   the step's exit code       0 to 255; 128+N if signal N ended the command
 *   124                        the step timed out
 *   125                        the step was rejected, or could not be started
 *   128+N                      the agent was stopped by signal N (130, 143)
 *   141                        the reader of standard output is gone (128 + SIGPIPE)
 *   3                          standard output cannot be written, for example to a full disk
 *
 * If standard output takes no more, ONCE_FRONTEND_HOLD_BYTES are held; then the command blocks.
 */
#define ONCE_FRONTEND_HOLD_BYTES ((size_t)256 * 1024)

#define ONCE_FRONTEND_EXIT_TIMED_OUT 124 /* as timeout(1) */
#define ONCE_FRONTEND_EXIT_REFUSED 125   /* as env(1) and docker run */

/* The frontend reads standard input only after the engine has called its want(). */
struct frontend *once_frontend_new(struct event_base *base, const struct log *log);
