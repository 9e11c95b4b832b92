#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/frontends/redis/connection/tls.h"
#include "agent/frontends/redis/connection/url.h"
#include "agent/frontends/redis/keys.h"
#include "client/access.h"
#include "client/redis/pipeline.h"
#include "client/screen/terminal.h"

/*
 * What all commands of `sandbox` share: the common options, the terminal, and the connection to
 * Redis or to the agent. main.c makes it, options.h fills in the options, and each command begins
 * and ends the rest.
 */

/* Options whose values are texts. Each has an environment variable, too. */
enum program_text {
  PROGRAM_URL, /* of -u or, unless it is given, of an agent or of Redis */
  PROGRAM_JOB,
  PROGRAM_CACERT,
  PROGRAM_CACERTDIR,
  PROGRAM_CERT,
  PROGRAM_KEY,
  PROGRAM_SNI,
  PROGRAM_TEXTS
};

/* What all commands of `sandbox` share. options.h fills in the first part. */
struct program {
  const char *command; /* its name; NULL: not known yet */
  const char *texts[PROGRAM_TEXTS];
  char *given_url; /* a copy of the URL in the arguments, where it is overwritten; may be NULL */
  struct tls_options tls;
  bool json;
  enum { PROGRAM_RUNS, PROGRAM_SHOWS_HELP, PROGRAM_SHOWS_VERSION } request;
  struct terminal terminal;
  int64_t begin_ms; /* monotonic time of the start */

  /* After program_begin: */
  struct redis_url url;
  const char *job; /* NULL: the only job that is alive, until job_choose has found it */
  char *found_job; /* its id, owned; NULL if the job was named */
  struct keys keys;
  bool has_keys;
  struct event_base *base;
  const struct job_access *access;
  char *key;              /* SANDBOX_HTTP_KEY, which is not in the environment anymore */
  struct http_job *http;  /* NULL over Redis */
  struct pipeline *redis; /* answers commands; NULL over HTTP */
  int signal;             /* one that has arrived, after which calls stop soon; 0: none */
};

/* An agent that was just started can be found after this time. */
#define PROGRAM_START_MS 2000

/* A probe waits 1 s by default, in which the program also starts and ends. */
#define PROGRAM_PING_MS 900

/* Whether the URL is that of an agent. */
bool program_is_http(const struct program *self);

/* Connects to Redis or to the agent. Each command calls it once, after it has checked its usage.
   Returns 0, or the exit code after an error message. */
int program_begin(struct program *self);

/* The same for a command that only works with Redis. */
int program_begin_redis(struct program *self);

/* Calls program_begin, and finds the job if none was named. */
int program_begin_job(struct program *self);

/* Runs one iteration of the loop, for at most 200 ms. */
void program_turn(struct program *self);

/* Does so until this time. Returns false when it is over, and after a signal. */
bool program_wait_for_start(struct program *self, int64_t end_ms);

/* Says why the peer is away. */
void program_say_away(void *program, const struct error *why);

void program_end(struct program *self);
