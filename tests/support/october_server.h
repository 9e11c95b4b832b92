#ifndef TESTS_SUPPORT_OCTOBER_SERVER_H
#define TESTS_SUPPORT_OCTOBER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/job.h"
#include "tests/support/october_step.h"

/*
 * The server of October, as far as it speaks with an agent: what it sends, how it reads, and what
 * it makes of what it has read. It knows nothing of this agent: an answer that its reader would
 * throw at, or that does not come, fails the test.
 *
 *   OCTOBER_TEST(says_hello) {
 *     const struct october_answer *answer =
 *         october_run(server, &(struct october_step){.command = "echo", .args = words});
 *   }
 *
 * The agent is started as in its pods: --job-id and --run-id; REDIS_URL, JOB_ID, a secret and the
 * idle limit, which later releases set, in the environment. What is returned belongs to the server,
 * and lives until its teardown.
 */
struct october_server {
  struct job *job;
  int window[2];          /* the versions of results that it takes without an advice */
  int advices;            /* results of other versions so far */
  int stale_results;      /* results so far that nobody waited for any more */
  int poll_ms;            /* from one look to the next: OCTOBER_POLL_MS, or less */
  int slowest_ms;         /* what a look at events and results took so far at most */
  char cursor[64];        /* the last event that was read */
  struct answer *answers; /* of all steps so far, to be freed */
};

/* What the server polls with; a test that is not about time polls every OCTOBER_QUICK_MS. */
enum { OCTOBER_POLL_MS = 250, OCTOBER_QUICK_MS = 2 };

/* It waits for a result so much longer than the step may take. */
enum { OCTOBER_SILENCE_SECONDS = 30 };

/*
 * What the server of October makes of a command's standard output: from the lines of its events and
 * from outputContent, the head and the tail that a model reads. Lengths are in UTF-16 units; texts
 * are UTF-8.
 */
struct october_stream {
  char *text; /* every line with "\n" behind it; terminated */
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
  struct october_stream output, errors; /* what the events said of it */
  int started, completed;               /* events of these kinds */
};

/* For cmocka: a server with an agent, or without one yet; and one that polls as the live one. */
int october_setup(void **state);
int october_setup_server(void **state);
int october_teardown(void **state);
#define OCTOBER_TEST(NAME)                                                                         \
  TEST_WITH(struct october_server *server, NAME, october_setup, october_teardown)
#define OCTOBER_TEST_NO_AGENT(NAME)                                                                \
  TEST_WITH(struct october_server *server, NAME, october_setup_server, october_teardown)

/* Starts the agent as a pod does; job->setup may hold more, but no environment. The arguments more
   end with NULL. */
void october_start_agent(struct october_server *self, ...) __attribute__((sentinel));

/* Pushes the step, and returns its id. */
const char *october_push(struct october_server *self, const struct october_step *step);

/* The same for JSON that has this id. */
void october_push_json(struct october_server *self, const char *json);

/* Waits for its result, and reads events meanwhile: those of other steps are gone then. */
const struct october_answer *october_wait(struct october_server *self, const char *id,
                                          int timeout_seconds);

/* Both. */
const struct october_answer *october_run(struct october_server *self,
                                         const struct october_step *step);

/* `/bin/sh -c script`, as the tool run_command. */
const struct october_answer *october_run_script(struct october_server *self, const char *script);

/* Whether the agent has left without an answer to the step, and its heartbeat has stopped. */
bool october_vanishes(struct october_server *self, const char *id);

/* Shutdown, as the server disposes of a sandbox: the agent leaves with 0, for which the server
   waits ten seconds, and deletes its three keys. */
void october_dispose(struct october_server *self);

/* The upload of a file into a directory (an absolute one, or "" for /work). NULL, or what the
   server says of its failure. `checked`: its own check of the size comes first. */
const char *october_upload(struct october_server *self, const char *directory, const char *name,
                           const void *bytes, size_t length, bool checked);

/* What a proposal review concludes from a search: OCTOBER_NO_MATCH is a proof of absence. */
enum october_look { OCTOBER_MATCHED, OCTOBER_NO_MATCH, OCTOBER_COULD_NOT_RUN };
enum october_look october_look_at(const struct october_answer *answer);

/* The search itself: everything, hidden or not. */
enum october_look october_search(struct october_server *self, const char *pattern,
                                 const char *path);

/* Fails unless the answer is as said; NULL is no message, or no output. */
void october_expect(struct october_server *self, const struct october_answer *answer, int exit_code,
                    const char *message, const char *output);

/* Parts of a stream or of a body, which must outlive it. */
struct october_section {
  const char *head;
  size_t head_length; /* in bytes, as the next */
  const char *tail;   /* "" where the head holds all that is known */
  size_t tail_length;
  long long total;
  bool tail_not_captured; /* what was printed last is not known; total is the least */
};

/* Of standard output: `body` is outputContent, or NULL. */
struct october_section october_section_of(const char *body, const struct october_stream *stream);

/* Whether the last line of what is known, without its "\n", is this one. */
bool october_section_ends_with(const struct october_section *self, const char *line);

/* Units of well-formed UTF-8. */
long long october_units(const char *text, size_t length);

/* A body of fewer is whole; one of as many may be cut. */
enum { OCTOBER_BODY_UNITS = 1000000 };

#endif
