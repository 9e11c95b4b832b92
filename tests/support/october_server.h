#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/job.h"
#include "tests/support/october_step.h"

/*
 * A model of the server of October as far as it talks to an agent: what it sends, how it reads, and
 * what it concludes. It does not depend on this agent's code. The test fails if the server's reader
 * would throw, or if an answer does not arrive.
 *
 *   OCTOBER_TEST(says_hello) {
 *     const struct october_answer *answer =
 *         october_run(server, &(struct october_step){.command = "echo", .args = words});
 *   }
 *
 * The agent is started as in its pods: --job-id and --run-id; REDIS_URL, JOB_ID, a secret and the
 * idle limit, which later releases set, in the environment. Returned values belong to the server
 * and are valid until its teardown.
 */
struct october_server {
  struct job *job;
  int window[2];          /* the versions of results that it accepts without advice */
  int advices;            /* results of other versions so far */
  int stale_results;      /* results so far that arrived too late */
  int poll_ms;            /* between two polls: OCTOBER_POLL_MS, or less */
  int64_t looked_ms;      /* the time of the last poll */
  int slowest_ms;         /* how late a poll ended, at most so far */
  char cursor[64];        /* the last event that was read */
  struct answer *answers; /* the answers of all steps so far, to be freed */
};

/* The poll interval of the server; a test that is not about time uses OCTOBER_QUICK_MS. */
enum { OCTOBER_POLL_MS = 250, OCTOBER_QUICK_MS = 2 };

/* The server waits this much longer for a result than the step may take. */
enum { OCTOBER_SILENCE_SECONDS = 30 };

/* What the server of October makes of a command's standard output, from the lines of its events and
   from outputContent: the head and the tail that a model reads. Lengths are in UTF-16 units, texts
   in UTF-8. */
struct october_stream {
  char *text; /* each line with a newline; NUL-terminated */
  size_t length;
  size_t size;
  long long units; /* the server's Total */
};

struct october_answer {
  int schema_version;
  int exit_code;
  bool timed_out;
  double duration_seconds;
  const char *error_message;            /* NULL: none */
  const char *output_content;           /* NULL: none */
  struct october_stream output, errors; /* the lines in the events */
  int started, completed;               /* the numbers of events of these kinds */
};

/* For cmocka: a server with an agent or without one, or one that polls like the live one. */
int october_setup(void **state);
int october_setup_server(void **state);
int october_teardown(void **state);
#define OCTOBER_TEST(NAME)                                                                         \
  TEST_WITH(struct october_server *server, NAME, october_setup, october_teardown)
#define OCTOBER_TEST_NO_AGENT(NAME)                                                                \
  TEST_WITH(struct october_server *server, NAME, october_setup_server, october_teardown)

/* Starts the agent as a pod does; job->setup may have more, except an environment. More arguments
   end with NULL. */
void october_start_agent(struct october_server *self, ...) __attribute__((sentinel));

/* Pushes the step; returns its id. */
const char *october_push(struct october_server *self, const struct october_step *step);

/* The same for JSON that has this id. */
void october_push_json(struct october_server *self, const char *json);

/* Waits for its result and reads events meanwhile; discards those of other steps. */
const struct october_answer *october_wait(struct october_server *self, const char *id,
                                          int timeout_seconds);

/* Pushes the step and waits for its result. */
const struct october_answer *october_run(struct october_server *self,
                                         const struct october_step *step);

/* Runs `/bin/sh -c script`, as the tool run_command does. */
const struct october_answer *october_run_script(struct october_server *self, const char *script);

/* Whether the agent has exited without an answer to the step, and its heartbeat has stopped. */
bool october_vanishes(struct october_server *self, const char *id);

/* Shuts down as the server does with a sandbox: the agent must exit with 0 within ten seconds, and
   the server deletes its three keys. */
void october_dispose(struct october_server *self);

/* Uploads a file into a directory (an absolute one, or "" for /work). Returns NULL, or the server's
   error. `checked`: the server checks the size first. */
const char *october_upload(struct october_server *self, const char *directory, const char *name,
                           const void *bytes, size_t length, bool checked);

/* What the server concludes from a search: OCTOBER_NO_MATCH proves absence. */
enum october_look { OCTOBER_MATCHED, OCTOBER_NO_MATCH, OCTOBER_COULD_NOT_RUN };
enum october_look october_look_at(const struct october_answer *answer);

/* Searches everything, or without hidden files. */
enum october_look october_search(struct october_server *self, const char *pattern,
                                 const char *path);

/* Fails unless the answer has these values; NULL is no message, or no output. */
void october_expect(struct october_server *self, const struct october_answer *answer, int exit_code,
                    const char *message, const char *output);

/* Parts of a stream or a body, which must outlive this. */
struct october_section {
  const char *head;
  size_t head_length; /* in bytes, like the next one */
  const char *tail;   /* "" if the head has everything that is known */
  size_t tail_length;
  long long total;
  bool tail_not_captured; /* the end of the output is unknown, and total is a minimum */
};

/* Of standard output: `body` is outputContent, or NULL. */
struct october_section october_section_of(const char *body, const struct october_stream *stream);

/* Whether the last known line, without its newline, is this one. */
bool october_section_ends_with(const struct october_section *self, const char *line);

/* The units of well-formed UTF-8. */
long long october_units(const char *text, size_t length);

/* A body with fewer units is complete; one with as many may be cut. */
enum { OCTOBER_BODY_UNITS = 1000000 };
