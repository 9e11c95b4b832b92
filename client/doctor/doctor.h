#ifndef CLIENT_DOCTOR_DOCTOR_H
#define CLIENT_DOCTOR_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "client/program.h"

/*
 * Looks for what is wrong: each finding is a line, with the command that mends it. Each question
 * has DOCTOR_PATIENCE_MS; what the server refuses to say is named at the end.
 *
 *   doctor.c          the command, the findings, the questions
 *   doctor_server.c   the connection, TLS, memory, clocks
 *   doctor_rights.c   what the user of the URL, and the agent's, may do
 *   doctor_job.c      keys, the agent, results and events of a job
 */
#define DOCTOR_PATIENCE_MS 3000

enum finding { FINDING_OK, FINDING_WARNING, FINDING_PROBLEM };

struct doctor {
  struct program *program;
  size_t warnings, problems;
  char user[128];        /* that the server knows this program as */
  char *info;            /* its answer to INFO; NULL: it gave none */
  char refusal[256];     /* the error that was answered last; it may hold a password */
  struct buffer refused; /* " +time +info": what this user may not ask */
  bool has_answered;     /* the server, some question */
  bool is_gone;          /* the connection was lost for good */
};

/* `fix`: the command that mends it; NULL: there is none. Both become printable. */
void doctor_find(struct doctor *self, enum finding finding, const char *fix, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

/* Adds a name from Redis to a fix, as a word for a shell or redis-cli. A person may paste it, so a
   name with characters other than letters, digits and "._:{}-" is quoted. */
void doctor_add_word(struct buffer *fix, const char *name);

/* Asks one question. LOST: the connection was, which is a finding already. */
enum answer { ANSWER_LOST, ANSWER_REFUSED, ANSWER_GIVEN };
enum answer doctor_ask(struct doctor *self, const char *const *words, reply_handler *take,
                       void *owner);

/* The same; that it was refused is told at the end. True: it was answered. */
bool doctor_learn(struct doctor *self, const char *const *words, reply_handler *take, void *owner);

/* Whether the last refusal is for want of a right; and whether of one for a key. */
bool doctor_is_denied(const struct doctor *self, bool *of_key);

/* From now on nothing is asked. */
void doctor_find_no_connection(struct doctor *self);

/* False: there is no connection, so that nothing else can be found. */
bool doctor_look_at_connection(struct doctor *self);
void doctor_look_at_server(struct doctor *self);

/* `has_agent`: an agent is alive, and so has the rights that it needs. */
void doctor_look_at_rights(struct doctor *self, bool has_agent);

/* Of program->keys; returns whether there is an agent. */
bool doctor_look_at_job(struct doctor *self);

/* Milliseconds since 1970 by the clock of Redis; -1: not known. */
int64_t doctor_redis_ms(struct doctor *self);

#endif
