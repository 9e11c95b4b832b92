#ifndef BENCH_RIG_H
#define BENCH_RIG_H

#include <hiredis/hiredis.h>
#include <limits.h>
#include <stddef.h>

#include "bench/endpoint.h"
#include "tests/support/agent_process.h"
#include "tests/support/redis_server.h"

/*
 * What is measured stands on: a Redis of its own, agents at it, and a client's connection, over the
 * loopback like theirs. Whatever cannot be done ends the bench, with a line that says what.
 *
 *   rig_init(&rig);                     or rig_init_tls: agents and bare senders connect by TLS
 *   struct agent_process *agent = rig_start_agent(&rig, "job", NULL);
 *   rig_wait_idle(&rig, 1);
 *   …
 *   agent_process_free(agent);
 *   rig_release(&rig);
 */
struct rig {
  struct redis_server *server;
  redisContext *redis;      /* plain */
  struct endpoint endpoint; /* of agents and bare senders */
};

void rig_init(struct rig *self);
void rig_init_tls(struct rig *self);
void rig_release(struct rig *self);

/* One connection more; the caller frees it. */
redisContext *rig_connect(const struct rig *self);

/* What an agent of this job is called with, and these arguments more: NULL-terminated, or NULL.
   They live as long as self and what was passed. */
enum { RIG_ARGUMENTS_MAX = 15 };
void rig_arguments(const struct rig *self, const char *job, const char *const *more,
                   const char *out[RIG_ARGUMENTS_MAX + 1]);

/* An agent of this job with these arguments more: NULL-terminated, or NULL. The caller frees it. */
struct agent_process *rig_start_agent(const struct rig *self, const char *job,
                                      const char *const *more);

/* A figure of the server's INFO, say "process_id". */
long rig_info(const struct rig *self, const char *field);

/* Waits until so many clients, which are agents, wait for a step. */
void rig_wait_idle(const struct rig *self, long agents);

/* What this command of the client is answered: a number, or what is no error. */
long long rig_number(redisContext *redis, const char *format, ...);
void rig_do(redisContext *redis, const char *format, ...);

/* Sends what was appended (redisAppendCommand), and does not wait for an answer. */
void rig_send(redisContext *redis);

/* The next answer, which is no error; the caller frees it. */
redisReply *rig_reply(redisContext *redis);

/* A step that runs this program. `number` is its own within the job; `arguments` is the inside of a
   JSON array. */
#define RIG_STEP_SIZE (PATH_MAX + 256)
#define RIG_STEP_ID "00000000-0000-0000-0000-%012lu" /* of the number */
void rig_step(char out[RIG_STEP_SIZE], unsigned long number, const char *program,
              const char *arguments);

/* From the LPUSH of this step until its result is here, which must be a good one; in milliseconds.
   `results` is a connection that waits for it, to be woken by the result alone. */
double rig_step_ms(const struct rig *self, redisContext *results, const char *job,
                   const char *step);

/* Where the program of this name of bench/programs/ is: an absolute path. */
void rig_program(char out[PATH_MAX], const char *name);

/* Runs a program and waits for its end, which must be a good one: as little as it takes. */
void rig_spawn(const char *const *arguments);

#endif
