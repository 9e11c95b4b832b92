#pragma once

#include <cjson/cJSON.h>
#include <hiredis/hiredis.h>

#include "tests/support/agent_process.h"
#include "tests/support/proc.h"
#include "tests/support/redis_server.h"
#include "tests/test.h"

/*
 * One job, as the server that drives it sees it: a Redis of its own, an agent, steps in, events and
 * results out. Whatever is not as it must be fails the test and prints the agent's log.
 *
 *   JOB_TEST(says_hello) {
 *     const cJSON *result = job_run(job, job_step(job, "echo", "hello", NULL));
 *     job_expect_result(job, result, 0, NULL, "hello\n");
 *   }
 *
 * Every cJSON and every string that comes from here belongs to the job and lives until its
 * teardown; nothing is to be freed.
 */
struct job {
  struct redis_server *server;
  struct agent_process *agent; /* NULL until started */
  struct agent_setup setup;    /* of the next job_start_agent, except for the arguments */
  redisContext *redis;
  char id[32];
  const char *url;                /* <scheme>://[login@]127.0.0.1:<port> */
  long long events_before_result; /* entries in the stream when the last result could be taken */
  int last_number;                /* of the names that must be new within the job */
  int schema_version;             /* of its steps; their events and results must have it, too */
  cJSON *owned;                   /* see job_own */
};

/* For cmocka: a server and an agent that has nothing but --redis-url and --job-id. */
int job_setup(void **state);

/* For cmocka: a server only; the test itself starts the agent. */
int job_setup_server(void **state);

int job_teardown(void **state);

/* A test that has one of these at hand as `job`. */
#define JOB_TEST(NAME) TEST_WITH(struct job *job, NAME, job_setup, job_teardown)
#define JOB_TEST_NO_AGENT(NAME) TEST_WITH(struct job *job, NAME, job_setup_server, job_teardown)

/* A job at a server that was started already, and belongs to the job from here on. */
struct job *job_new(struct redis_server *server);
void job_free(struct job *self);

/* Starts the agent, with --redis-url and --job-id, then these arguments (up to NULL). */
void job_start_agent(struct job *self, ...) __attribute__((sentinel));

/* The URL of the agents to come is that of this port here: a proxy's, or another server's. */
void job_use_port(struct job *self, int port);

/* The server is killed and comes back, with what it has saved; the job's own connection with it. */
void job_restart_server(struct job *self);
void job_reconnect(struct job *self);

/* The job's agent from here on is another one, which is started; returns the one before. */
struct agent_process *job_start_second_agent(struct job *self);

/* A step of kind `run` with a new stepId; the arguments end with NULL. Fields are the caller's to
   add, change and delete. */
cJSON *job_step(struct job *self, const char *command, ...) __attribute__((sentinel));

/* The same for `sh -c script`. */
cJSON *job_script(struct job *self, const char *script);

/* Pushes it as it is now. */
void job_push(struct job *self, const cJSON *step);
void job_push_text(struct job *self, const char *payload, size_t length);
void job_push_json(struct job *self, const char *quoted); /* with quotes as in quoted.h */
/* Of `size` bytes: the head, the filling again and again, the tail. */
void job_push_filled(struct job *self, const char *head, const char *filling, size_t size,
                     const char *tail);
/* Of one byte more than `limit`; its id comes first. */
void job_push_larger(struct job *self, const char *id, size_t limit);
void job_push_shutdown(struct job *self);

/* Pushes a step that prints this line, and returns it. */
const cJSON *job_push_echo(struct job *self, const char *line);

/* The message that cancels this step; pushes it to `control`; pushes any text there. */
cJSON *job_cancel_of(struct job *self, const char *step_id);
void job_push_cancel(struct job *self, const cJSON *step);
void job_push_control(struct job *self, const char *text);

/* The next result, checked to be well-formed, with its fields in the contract's order. */
const cJSON *job_result(struct job *self);
const cJSON *job_result_within(struct job *self, int bound_ms);

/* The next result, which must be this step's. */
const cJSON *job_result_of(struct job *self, const cJSON *step);

/* Pushes a step and takes its result, which must carry the step's id. */
const cJSON *job_run(struct job *self, const cJSON *step);
const cJSON *job_run_within(struct job *self, const cJSON *step, int bound_ms);

/* Pushes a shutdown and waits until the agent has left with 0. */
void job_shut_down(struct job *self);

/* Waits until the agent has left; fails unless it is with this code. */
void job_expect_exit(struct job *self, int code);

/* Sends it the signal, by which it must leave. */
void job_stop_agent(struct job *self, int signal_number);

/* A step is run and answered. */
void job_expect_to_go_on(struct job *self);

/* Shuts down, after which a server finds nothing but what it reads, and has read all results. */
void job_expect_nothing_left(struct job *self);

/* SIGKILL for the agent and all that descends from it, as if its container had ended. */
void job_kill_agent(struct job *self);

/* Has the steps that were pushed run by agents that are killed at random moments, each after at
   least one more result, and by a last one; returns when all steps are answered. */
void job_run_with_kills(struct job *self, long long steps, int kills);

/* The length of the job's list of this name ("in", "results", …); waits until it is so long, as
   long as it changes within WAIT_BOUND_MS. */
long long job_length(struct job *self, const char *list);
void job_wait_length(struct job *self, const char *list, long long length);

/* A condition for wait_until, of a job: its agent blocks for a step, and what it claimed is its
   own. Not after a step: the server could die between its result and the acknowledgement. */
bool job_agent_waits(void *job);

/* How many connections wait for a step. */
int job_count_waiting(const struct job *self);

/* A command on the job's own connection; it must not be answered with an error. The reply is the
   caller's to free. `job_do` frees it. */
redisReply *job_ask(struct job *self, const char *format, ...);
void job_do(struct job *self, const char *format, ...);

/* The same for a reply that is a number, or a text ("" where there is none). */
long long job_ask_number(struct job *self, const char *format, ...);
char *job_ask_text(struct job *self, const char *format, ...);

/* Waits until the command's reply holds the text: job_wait_text(job, "INFO clients", "…:2"). */
void job_wait_text(struct job *self, const char *command, const char *text);

/* Fails unless the job has these keys (up to NULL), and no others: "events", "results", … */
void job_expect_keys(struct job *self, ...) __attribute__((sentinel));

/* Fails unless the result is as said. A NULL message or output is JSON's null. */
void job_expect_result(struct job *self, const cJSON *result, int exit_code, const char *message,
                       const char *output);

/* The next result is this step's and as said. */
const cJSON *job_expect_answer(struct job *self, const cJSON *step, int exit_code,
                               const char *message, const char *output);

/* A result's eventCount; -1 where it is null. */
int job_event_count(const cJSON *result);

/* A result's (or event's) field as a string; "" where it is null. */
const char *job_text(const cJSON *object, const char *field);

/* A field that is a number; fails where it is none. */
double job_number(const cJSON *object, const char *field);

/* Fails unless the field's text holds `part`, in whatever case. */
void job_expect_part(struct job *self, const cJSON *object, const char *field, const char *part);

/* Makes the job the owner of a string or of a cJSON; returns it. */
char *job_own_text(struct job *self, char *text);
cJSON *job_own(struct job *self, cJSON *json);

/* printf into a string that belongs to the job. */
char *job_format(struct job *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, with quotes as in quoted.h: job_json(job, "{'stepId':'%s'}", id). */
char *job_json(struct job *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A name in the server's directory, which any user may write to. */
char *job_path(struct job *self, const char *name);

/* Makes a file of this name there; returns its path. */
char *job_write(struct job *self, const char *name, const char *content, mode_t mode);

/* `sleep <seconds>` with a fraction that no other one of this job has, for proc_find. */
char *job_sleep(struct job *self, int seconds);

/* Fails with this text and the agent's log. */
void job_fail(struct job *self, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* --- what it has written to its stream: as all that is returned, its own --- */

/* Every event of this step (an id, or a step or result that has one) so far, oldest first: a JSON
   array. Checked to be well-formed, with the contract's fields in their order, each with
   "entryMs" added: when Redis took it. */
const cJSON *job_events(struct job *job, const cJSON *step);

/* The lines of one kind ("stdout", …), each with "\n" behind it, pieces of one line joined. */
const char *job_lines(struct job *job, const cJSON *step, const char *kind);

/* All entries' data as they are, each with "\n" behind it. */
const char *job_raw_events(struct job *job);

/* Waits until the step has an event of this kind with this line. */
void job_wait_event(struct job *job, const cJSON *step, const char *kind, const char *line);

/* Pushes the step, waits until it has printed this line, and returns it. */
const cJSON *job_push_until(struct job *job, const cJSON *step, const char *line);

/* The same of one that says "up" and then runs until it is ended, as this `sleep …`. */
const cJSON *job_push_endless(struct job *job, const char *sleep);
