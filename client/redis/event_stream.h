#pragma once

#include "client/access.h"

/* The events of a job in Redis, where they are a stream with a bounded number of entries. Others
   may write to it, trim or delete it. */
extern const struct event_access redis_event_access;

/* Finds the event `started` of a step of any job. */
int event_stream_find_started_of(struct program *program, const char *events_key, const char *id,
                                 struct started *started, struct error *error);

/* Fails if a right is missing that a step with its events and its result needs. */
int event_stream_check_rights(void *source, struct error *error);
