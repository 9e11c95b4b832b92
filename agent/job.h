#ifndef AGENT_JOB_H
#define AGENT_JOB_H

#include <event2/event.h>

#include "agent/doors/redis/keys.h"
#include "agent/doors/redis/out/outbox.h"
#include "agent/options.h"
#include "base/log.h"

/* What everybody who works for the job shares, and outlives them all. Nothing is owned. */
struct job {
  struct event_base *base;
  const struct log *log;
  const struct options *options;
  const struct keys *keys;
  struct outbox *outbox;
};

#endif
