#pragma once

#include "client/http/http_link.h"
#include "client/program.h"

/*
 * Access to an agent over HTTP. Requests are repeated until they are answered: the agent runs a
 * step only once, and Sandbox-Instance makes sure that it is still the same agent. The hard part is
 * to tell an agent that is away for a moment from one that is gone.
 */
extern const struct job_access http_access;

struct http_job {
  struct program *program;
  struct http_peer peer;
  struct http_link link; /* for requests that are answered at once */
  struct buffer answer;  /* the body of the last one */
  bool is_answered, fails_fast;
  uint64_t last_seq; /* the answer ends with this event of a stream; 0: it ends by itself */
  bool is_away_reported;
  cJSON *steps; /* the last list; each step that has begun has a number, `order` */
  unsigned last_order;
  char *result_id, *result; /* of the step that was read last; NULL: none */
};

/* Parses the URL and checks the key, which is taken over. Returns 0, or -1 with the error. */
int http_job_begin(struct program *program, const char *url, struct error *error);
void http_job_end(struct http_job *self);

/* Reads the list of steps into `steps`. Returns 0, or -1 with the error. */
int http_job_list(struct http_job *self, struct error *error);

/* Returns a step of that list, or NULL. */
const cJSON *http_job_find(const struct http_job *self, const char *id);
const cJSON *http_job_find_order(const struct http_job *self, unsigned order);

/* Reads the events of a step, up to this one, into `answer`. Returns 0, or -1 with the error. */
int http_job_read_events(struct http_job *self, const char *id, uint64_t last_seq,
                         struct error *error);

/* Returns "/steps/ID", to which the caller adds the rest. */
struct buffer http_job_path(const char *id);

/* Sets the error of a status that is no success, from the JSON of the body. Returns -1. */
int http_job_explain(int status, const struct buffer *body, struct error *error);

/* Reports once that nobody answers, if that is the case for a while. */
void http_job_report_away(struct http_job *self, const struct http_link *link);
