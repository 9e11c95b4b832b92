#pragma once

#include <event2/event.h>
#include <stdbool.h>

#include "agent/frontends/redis/connection/tls.h"
#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/keys.h"
#include "client/redis/pipeline.h"
#include "client/screen/terminal.h"

/* What all commands of `sandbox` share. main.c fills it in before a command runs. */
struct program {
  struct redis_url url;
  struct tls_options tls;
  const char *job; /* NULL: the only job that is alive, until job_choose has found it */
  char *found_job; /* its id, owned; NULL if the job was named */
  struct keys keys;
  bool has_keys;
  bool json;
  struct terminal terminal;
  struct event_base *base;
  struct pipeline *redis; /* answers commands; step_watch.h has another one for events */
};
