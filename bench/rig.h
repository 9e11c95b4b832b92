#pragma once

#include <hiredis/hiredis.h>
#include <limits.h>
#include <stddef.h>

#include "bench/endpoint.h"
#include "tests/support/agent_process.h"
#include "tests/support/redis_server.h"

/*
 * The base of most measurements: a Redis of their own, agents that use it, and a connection for the
 * measurement itself, over the loopback like theirs. A failure ends the bench with its reason.
 *
 *   rig_init(&rig);                     or rig_init_tls: agents and bare senders connect over TLS
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

/* Opens another connection. The caller frees it. */
redisContext *rig_connect(const struct rig *self);

/* The arguments of an agent of this job, followed by `more`, which is NULL-terminated or NULL. They
   live as long as self and what was passed. */
enum { RIG_ARGUMENTS_MAX = 15 };
void rig_arguments(const struct rig *self, const char *job, const char *const *more,
                   const char *out[RIG_ARGUMENTS_MAX + 1]);

/* Starts an agent of this job with these additional arguments. The caller frees it. */
struct agent_process *rig_start_agent(const struct rig *self, const char *job,
                                      const char *const *more);

/* A number in the server's INFO, such as "process_id". */
long rig_info(const struct rig *self, const char *field);

/* Waits until this many agents wait for a step. */
void rig_wait_idle(const struct rig *self, long agents);

/* Runs a command, whose reply must be a number, or must not be an error. */
long long rig_number(redisContext *redis, const char *format, ...);
void rig_do(redisContext *redis, const char *format, ...);

/* Sends what was appended (redisAppendCommand), without waiting for a reply. */
void rig_send(redisContext *redis);

/* Returns the next reply, which must not be an error. The caller frees it. */
redisReply *rig_reply(redisContext *redis);

/* Writes a step that runs this program. `number` is unique within the job; `arguments` is the
   inside of a JSON array. */
#define RIG_STEP_SIZE (PATH_MAX + 256)
#define RIG_STEP_ID "00000000-0000-0000-0000-%012lu" /* of the number */
void rig_step(char out[RIG_STEP_SIZE], unsigned long number, const char *program,
              const char *arguments);

/* Runs a step, which must succeed. Returns the milliseconds from its LPUSH until its result is
   here. `results` is a connection that waits for it, so that only the result wakes it. */
double rig_step_ms(const struct rig *self, redisContext *results, const char *job,
                   const char *step);

/* Writes the absolute path of a program of bench/programs. */
void rig_program(char out[PATH_MAX], const char *name);

/* Runs a program, which must succeed, at the least possible cost. */
void rig_spawn(const char *const *arguments);
