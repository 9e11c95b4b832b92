#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The program under test (AGENT, else build/agent). Its output is captured, and it dies with the
 * test. Its environment is that of the test without the variables that the agent reads.
 *
 *   const char *const arguments[] = {"--redis-url", url, "--job-id", "j", NULL};
 *   struct agent_process *agent =
 *       agent_process_start(&(struct agent_setup){.arguments = arguments});
 *   …
 *   assert_int_equal(agent_process_wait(agent, WAIT_BOUND_MS), 0);
 *   agent_process_free(agent);
 */
struct agent_process;

/* The exit code of a program that could not be started; its log says why. */
enum { AGENT_PROCESS_NO_START = 126 };

struct agent_setup {
  const char *const *arguments;   /* after the program's name, NULL-terminated */
  const char *const *environment; /* additional "NAME=value", NULL-terminated; or NULL */
  const char *directory;          /* current directory; NULL: the test's */
  const char *root;               /* directory for chroot, in which /agent is executed; or NULL */
  const char *program;            /* another copy of it; NULL: the one under test */
  void (*prepare)(const void *context); /* the last thing before exec, in the child; or NULL */
  const void *prepare_context;
  uid_t uid; /* 0: no change of user */
  const struct container
      *container;   /* the agent runs in it, and the pid is that of process 1; or NULL */
  int inherited_fd; /* a descriptor that stays open; 0: only stdio */
};

/* Starts the program and returns at once. */
struct agent_process *agent_process_start(const struct agent_setup *setup);

/* Kills the program and its descendants if they still run, and frees self; NULL is fine. */
void agent_process_free(struct agent_process *self);

pid_t agent_process_pid(const struct agent_process *self);

/* Returns its exit code, or the negative signal that killed it. Fails the test, with the log, if it
   still runs after `bound_ms`. May be called again. */
int agent_process_wait(struct agent_process *self, int bound_ms);

bool agent_process_is_running(struct agent_process *self);

/* Its output so far, owned by self and valid until the next call. */
const char *agent_process_log(struct agent_process *self);    /* stderr */
const char *agent_process_output(struct agent_process *self); /* stdout */

/* How often the log contains the text. */
int agent_process_count_log(struct agent_process *self, const char *text);

/* Waits until the log contains the text; fails the test if it never does. */
void agent_process_wait_log(struct agent_process *self, const char *text);

/* Fails the test with this text and the log. */
void agent_process_fail(struct agent_process *self, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* The path of the program. */
const char *agent_process_program(void);

/* The program with an idle cycle of AGENT_SHORT_IDLE_MS instead of a minute; see the Makefile.
   Fails the test if it does not exist. */
enum { AGENT_SHORT_IDLE_MS = 5000 };
const char *agent_process_short_idle(void);

/* Whether the program is a shipped one, without an interpreter. For any other program (with
   sanitizers or coverage, or a script) limits of memory and time mean little. */
bool agent_process_is_shipped(void);
