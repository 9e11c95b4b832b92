#ifndef AGENT_FRONTENDS_ONCE_FRONTEND_H
#define AGENT_FRONTENDS_ONCE_FRONTEND_H

#include <event2/event.h>

#include "agent/engine/frontend.h"
#include "base/log.h"

/*
 * `agent --once`: one Step from standard input, to its end or to the end of one JSON value; each
 * StepEvent as a line of JSON on standard output, as it happens; the StepResult as the last line.
 * Then the program ends with
 *
 *   the step's exit code       0 to 255, 128+N where a signal ended the command
 *   124                        it timed out
 *   125                        it was refused, or could not be started
 *   128+N                      the agent was stopped by signal N (130, 143)
 *   141                        nobody reads standard output any more (128 + SIGPIPE)
 *   3                          standard output cannot be written, such as to a full disk
 *
 * While standard output takes no more, ONCE_FRONTEND_HOLD_BYTES are held, then the command waits.
 */
#define ONCE_FRONTEND_HOLD_BYTES ((size_t)256 * 1024)

#define ONCE_FRONTEND_EXIT_TIMED_OUT 124 /* as timeout(1) */
#define ONCE_FRONTEND_EXIT_REFUSED 125   /* as env(1) and docker run */

/* It reads with the engine's first want(). Uses descriptors 0 and 1 without changing their flags,
   which other processes share. */
struct frontend *once_frontend_new(struct event_base *base, const struct log *log);

#endif
