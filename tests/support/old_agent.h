#pragma once

#include "tests/support/job.h"

/*
 * An agent of 0.1.0 as a client sees it: its heartbeat has only Ts, Pid and StepInFlight, its
 * results have no `end`, it ignores later fields and refuses later kinds. It runs commands; its
 * readFile returns a fixed text.
 *
 *   JOB_TEST_NO_AGENT(…) {
 *     struct old_agent *agent = old_agent_start(job);
 *     …
 *     old_agent_free(agent);
 *   }
 */
struct old_agent;

/* Returns when it is alive; it dies with the test. */
struct old_agent *old_agent_start(struct job *job);
void old_agent_free(struct old_agent *self);

/* Waits until a shutdown has ended it. */
void old_agent_expect_end(struct old_agent *self);

/* The answer of its readFile. */
#define OLD_AGENT_FILE "one\ntwo\n"
