#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "client/program.h"

/* Diagnoses problems, and reports each finding as a line with a fix. The hard part is a Redis that
   is broken or refuses most commands: each query has its own timeout, and a refusal is an answer.
   doctor.c has findings and queries; the other files check Redis, rights and the job. */
#define DOCTOR_TIMEOUT_MS 3000

enum finding { FINDING_OK, FINDING_WARNING, FINDING_PROBLEM };

struct doctor {
  struct program *program;
  size_t warnings, problems;
  char user[128];        /* this program's user in Redis */
  char *info;            /* the answer to INFO, or NULL */
  char refusal[256];     /* the last error of Redis; it may hold a password */
  struct buffer refused; /* " +time +info": the rights that this user lacks for the diagnosis */
  bool has_answered;     /* Redis has answered a query */
  bool is_gone;          /* the connection is lost, which was reported: no more queries */
};

/* Reports a finding, unless the connection is gone. The fix may be NULL. */
void doctor_report(struct doctor *self, enum finding finding, const char *fix, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

/* Adds a name from Redis to a fix, quoted if a shell or redis-cli might misread it. */
void doctor_add_word(struct buffer *fix, const char *name);

/* Returns the text, the quoted name and the rest as a fix; the caller releases it. */
struct buffer doctor_fix(const char *text, const char *name, const char *rest);

/* Adds " +rule" in lower case, as in ACL SETUSER. */
void doctor_add_rule(struct buffer *rules, const char *command);

/* Adds how far a clock is from that of Redis. Returns whether it is too far. */
bool doctor_add_clock(struct buffer *text, const char *whose, int64_t ahead_ms);

/* --- queries ---------------------------------------------------------------------------------- */

/* If there is no answer, that is reported, and `is_gone` is set. */
enum pipeline_answer doctor_query(struct doctor *self, const char *const *words,
                                  reply_handler *handler, void *owner);

/* The same for a query whose right users seldom have: doctor_report_refused names it at the end.
   Returns whether there is an answer. */
bool doctor_query_optional(struct doctor *self, const char *const *words, reply_handler *handler,
                           void *owner);

/* Whether Redis refused the last query because the user lacks a right. */
bool doctor_is_denied(const struct doctor *self);

/* Whether the missing right is one to use a key. */
bool doctor_is_key_denied(const struct doctor *self);

void doctor_report_refused(struct doctor *self);

/* --- checks ----------------------------------------------------------------------------------- */

/* Reports why there is no connection. */
void doctor_report_no_connection(struct doctor *self, const struct error *error);

/* Returns false if there is no connection, so that nothing else can be checked. */
bool doctor_check_connection(struct doctor *self);
void doctor_check_redis(struct doctor *self);

/* Checks the job. Returns whether an agent is alive, and sets whether it reads `control`. */
bool doctor_check_job(struct doctor *self, bool *has_control);

/* Checks the user of the URL and, for want of an agent's, as a future agent's. */
void doctor_check_rights(struct doctor *self, bool has_agent, bool has_control);

/* Returns the milliseconds since 1970 by the clock of Redis, or -1 if they are unknown. */
int64_t doctor_redis_ms(struct doctor *self);
