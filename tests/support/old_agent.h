#ifndef TESTS_SUPPORT_OLD_AGENT_H
#define TESTS_SUPPORT_OLD_AGENT_H

#include "tests/support/job.h"

/*
 * An agent of 0.1.0, as a client sees it: its heartbeat says Ts, Pid and StepInFlight and no more,
 * its results have no `end`, fields that came later are passed over, kinds that came later are
 * refused. It runs commands; of the file kinds it answers what files of these tests hold.
 *
 *   JOB_TEST_NO_AGENT(…) {
 *     struct old_agent *agent = old_agent_start(job);
 *     …
 *     old_agent_free(agent);
 *   }
 */
struct old_agent;

/* It is alive when this returns, and dies with the test. */
struct old_agent *old_agent_start(struct job *job);
void old_agent_free(struct old_agent *self);

/* Waits until a shutdown has ended it. */
void old_agent_expect_end(struct old_agent *self);

/* What its readFile answers. */
#define OLD_AGENT_FILE "one\ntwo\n"

#endif
