#ifndef TESTS_SUPPORT_AGENT_PROCESS_H
#define TESTS_SUPPORT_AGENT_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The program under test (AGENT, else build/agent), with what it writes captured. It dies with the
 * test. The environment is the test's own without the variables that the agent reads.
 *
 *   const char *const arguments[] = {"--redis-url", url, "--job-id", "j", NULL};
 *   struct agent_process *agent =
 *       agent_process_start(&(struct agent_setup){.arguments = arguments});
 *   …
 *   assert_int_equal(agent_process_wait(agent, WAIT_BOUND_MS), 0);
 *   agent_process_free(agent);
 */
struct agent_process;

/* The exit code of a program that could not be started at all; its log says why. */
enum { AGENT_PROCESS_NO_START = 126 };

struct agent_setup {
  const char *const *arguments;         /* after the program's name, NULL-terminated */
  const char *const *environment;       /* "NAME=value" more, NULL-terminated; or NULL */
  const char *directory;                /* current directory; NULL: the test's */
  const char *root;                     /* chroot there first, and run /agent; or NULL */
  const char *program;                  /* another copy of it; NULL: the one under test */
  void (*prepare)(const void *context); /* the last thing before exec, in the child; or NULL */
  const void *prepare_context;
  uid_t uid;                         /* become this user first; 0: stay */
  const struct container *container; /* the agent is in it, its pid that of process 1; or NULL */
  int inherited_fd;                  /* left open at the same number; 0: only stdio */
};

/* Starts it and returns at once: whether it gets anywhere is what the test waits for. */
struct agent_process *agent_process_start(const struct agent_setup *setup);

/* SIGKILL for it and its descendants where it still runs, frees self; NULL is fine. */
void agent_process_free(struct agent_process *self);

pid_t agent_process_pid(const struct agent_process *self);

/* Its exit code, or minus the signal that killed it. Fails the test, with the log, when it still
   runs after `bound_ms`. May be asked again. */
int agent_process_wait(struct agent_process *self, int bound_ms);

bool agent_process_is_running(struct agent_process *self);

/* What it has written so far, owned by self and valid until the same is asked again. */
const char *agent_process_log(struct agent_process *self);    /* stderr */
const char *agent_process_output(struct agent_process *self); /* stdout */

/* How often the log holds it. */
int agent_process_count_log(struct agent_process *self, const char *text);

/* Waits until the log holds `text`; fails the test when it never does. */
void agent_process_wait_log(struct agent_process *self, const char *text);

/* Fails the test with this text and the log. */
void agent_process_fail(struct agent_process *self, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* The program's path, for who needs it as a file. */
const char *agent_process_program(void);

/* The same program with an idle cycle of AGENT_SHORT_IDLE_MS instead of a minute; see the Makefile.
   Fails the test when there is none. */
enum { AGENT_SHORT_IDLE_MS = 5000 };
const char *agent_process_short_idle(void);

/* Whether it is a program as it is shipped, without an interpreter. Of any other (a sanitizer or
   coverage build, a script around one) limits on memory and time mean little. */
bool agent_process_is_shipped(void);

#endif
