#pragma once

#include <stdint.h>

#include "client/program.h"

/* Access to a job by Redis: reads the job's keys (wire/PROTOCOL.md, Keys), pushes its steps and
   takes their results. The hard part is that servers and the agent change the lists at the same
   time, and that a list may be longer than a reply may be. */
extern const struct job_access redis_access;

/* Sets program->keys, for the job that was named or else for the only one that is alive. Waits 2 s
   for an agent that was just started. */
int redis_job_choose(struct program *program, struct error *error);

/* Lists the ids of all jobs that have a heartbeat, sorted. */
int redis_job_list(struct program *program, struct texts *ids, struct error *error);

/* Reads the heartbeat of any job. */
int redis_job_read_agent(struct program *program, const char *heartbeat_key,
                         struct job_agent *agent, struct error *error);

/* Tells the agent that the events up to `seq` were read. Does not wait for the reply. */
void redis_job_acknowledge(struct program *program, const char *id, uint64_t seq,
                           reply_handler *handler, void *owner);
