#pragma once

#include <cjson/cJSON.h>

#include "tests/support/http_agent.h"

/*
 * Steps of an agent with `--http`, for tests that do not look at single bytes:
 *
 *   http_steps_put(http, "1", http_steps_script("echo hello"));
 *   const cJSON *result = http_steps_result(http, "1");
 *
 *   struct http_stream *stream = http_stream_open(http, "/steps/1/events", NULL);
 *   while ((line = http_stream_next(stream)) != NULL) …     each event, and the result
 *   assert_true(http_stream_has_result(stream));
 *   http_stream_free(stream);
 *
 * Each request uses a connection of its own. Texts and JSON that are returned are valid until 64
 * more were requested; the test does not free them.
 */

/* Sends a request, and fails the test unless the response has the status and the fields that all
   responses have. Returns the body. `fields` and `body` may be NULL, as of
   http_client_send_request. */
const char *http_steps_ask(struct http_agent *http, int status, const char *method,
                           const char *target, const char *fields, const char *body);

/* The same for a body of JSON; and for an error, whose word it must be. */
const cJSON *http_steps_ask_json(struct http_agent *http, int status, const char *method,
                                 const char *target, const char *fields, const char *body);
void http_steps_expect_error(struct http_agent *http, int status, const char *word,
                             const char *method, const char *target, const char *body);

/* A step whose script runs in the test's directory. */
const char *http_steps_script(const char *script);

/* Puts a step that is new, and returns the state. */
const cJSON *http_steps_put(struct http_agent *http, const char *id, const char *step);

/* Waits until the step is over, and returns its result. */
const cJSON *http_steps_result(struct http_agent *http, const char *id);

/* Puts a step and waits for its result. */
const cJSON *http_steps_run(struct http_agent *http, const char *id, const char *step);

/* Puts a step whose script runs first, and which then waits at the gate `id`; waits until it
   does. Opening the gate: http_agent_open_gate(http, id). */
void http_steps_hold(struct http_agent *http, const char *id, const char *script);

/* Waits until a step is in this state, or until it has at least as many events. */
void http_steps_wait_state(struct http_agent *http, const char *id, const char *state);
void http_steps_wait_events(struct http_agent *http, const char *id, double count);

/* The value of a sample of GET /metrics, such as "sandbox_results_held"; fails the test if there is
   none. */
double http_steps_metric(struct http_agent *http, const char *sample);

/* A value of GET /health with the members of an authorised request. */
double http_steps_health(struct http_agent *http, const char *member);

/* Members of JSON; the test fails if there is none of this type. */
const char *http_steps_text(const cJSON *json, const char *member);
double http_steps_number(const cJSON *json, const char *member);

/* The content of a file in the test's directory; "" if there is none. */
const char *http_steps_file(struct http_agent *http, const char *name);

/* --- streams ---------------------------------------------------------------------------------- */

/* A stream of NDJSON or, with the field Accept, of server-sent events. */
struct http_stream;

/* Sends GET, or PUT with a body, and fails the test unless a stream follows. */
struct http_stream *http_stream_open(struct http_agent *http, const char *target,
                                     const char *fields);
struct http_stream *http_stream_put(struct http_agent *http, const char *target, const char *fields,
                                    const char *body);

/* Takes over a connection on which a request for a stream was sent. */
struct http_stream *http_stream_of(struct http_agent *http, struct http_client *client);
void http_stream_free(struct http_stream *self);

struct http_client *http_stream_client(struct http_stream *self);

/* Returns the JSON of the next event, gap or result, without its newline; NULL at the end of the
   body or of the connection. Fails the test if the number of an event is not the one that follows,
   if a gap does not begin there, or if anything follows the result. Valid until the next call. */
const char *http_stream_next(struct http_stream *self);

/* The number of the last event; the missing events that gaps have named; and the lines of silence
   that were skipped. */
double http_stream_last_seq(const struct http_stream *self);
double http_stream_missing(const struct http_stream *self);
int http_stream_silences(const struct http_stream *self);

/* Whether the result was read, and the body has ended as it must. */
bool http_stream_has_result(const struct http_stream *self);

/* Reads to the end, and fails the test unless it is the result. Returns all lines, to be freed;
   the second function those of a new stream. */
char *http_stream_read_all(struct http_stream *self);
char *http_stream_all(struct http_agent *http, const char *target, const char *fields);

#define HTTP_SSE "Accept: text/event-stream\r\n"
#define HTTP_NDJSON "Accept: application/x-ndjson\r\n"
