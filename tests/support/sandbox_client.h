#ifndef TESTS_SUPPORT_SANDBOX_CLIENT_H
#define TESTS_SUPPORT_SANDBOX_CLIENT_H

#include <sys/types.h>
#include <termios.h>

#include "tests/support/job.h"

/*
 * The client under test (SANDBOX, else build/sandbox), beside a job: REDIS_URL and JOB_ID are the
 * job's, unless the script sets others.
 *
 *   JOB_TEST(it_has_the_steps_code) {
 *     sandbox_expect(job, "$S run -- sh -c 'echo a; exit 3'", 3, "a\n", "");
 *   }
 */

/* Runs a script of sh, in which $S is the client; its exit code and all that it writes must be as
   said (NULL: anything). */
void sandbox_expect(struct job *job, const char *script, int code, const char *output,
                    const char *errors);

/* The same in the background. */
struct agent_process *sandbox_start(struct job *job, const char *script);

/* Waits until this many steps run or wait. */
void sandbox_wait_steps(struct job *job, int count);

/* --- at a terminal ---------------------------------------------------------------------------- */

/* A script of sh at a terminal of its own, of 80 columns and 24 lines; it dies with the test. */
struct sandbox_terminal {
  struct job *job;
  pid_t pid;
  int fd;
  struct termios before; /* as it was at first */
  char text[1 << 16];    /* what was written to it so far */
  size_t length;
};

struct sandbox_terminal *sandbox_terminal_start(struct job *job, const char *script);
void sandbox_terminal_send(struct sandbox_terminal *self, const char *keys);

/* Waits until the text so far holds this; fails when it never does. */
void sandbox_terminal_wait(struct sandbox_terminal *self, const char *part);

/* What was written so far is not looked at any more. */
void sandbox_terminal_forget(struct sandbox_terminal *self);

/* It has so many columns from here on, and hears of it (SIGWINCH). */
void sandbox_terminal_resize(struct sandbox_terminal *self, unsigned short columns);

/* Waits for its end: this code; and the terminal must be as it was before: its settings, a cursor,
   the line clean. Frees it. */
void sandbox_terminal_expect_exit(struct sandbox_terminal *self, int code);

/* The terminal is gone, as when its window is closed. */
void sandbox_terminal_free(struct sandbox_terminal *self);

#endif
