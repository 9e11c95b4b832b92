#pragma once

#include <sys/types.h>
#include <termios.h>

#include "tests/support/job.h"

/*
 * Runs the client under test (SANDBOX, or build/sandbox) beside a job. The script may replace the
 * job's REDIS_URL and JOB_ID.
 *
 *   JOB_TEST(run_exits_with_the_code) {
 *     sandbox_expect(job, "$S run -- sh -c 'echo a; exit 3'", 3, "a\n", "");
 *   }
 */

/* Runs a shell script in which $S is the client. The exit code and the output must be these; NULL
   allows anything. */
void sandbox_expect(struct job *job, const char *script, int code, const char *output,
                    const char *errors);

/* Starts such a script in the background. */
struct agent_process *sandbox_start(struct job *job, const char *script);

/* Waits until the output holds this text. */
void sandbox_wait_output(struct agent_process *client, const char *text);

/* Waits until this many steps run or wait. */
void sandbox_wait_steps(struct job *job, int count);

/* --- at a terminal ---------------------------------------------------------------------------- */

/* A shell script at its own terminal of 80 columns and 24 lines. It dies with the test. */
struct sandbox_terminal {
  struct job *job;
  pid_t pid;
  int fd;
  struct termios before; /* the first settings */
  char text[1 << 16];    /* the output so far */
  size_t length;
};

struct sandbox_terminal *sandbox_terminal_start(struct job *job, const char *script);
void sandbox_terminal_send(struct sandbox_terminal *self, const char *keys);

/* Waits until the text holds this, or fails. */
void sandbox_terminal_wait(struct sandbox_terminal *self, const char *part);

/* Discards the text so far. */
void sandbox_terminal_forget(struct sandbox_terminal *self);

/* Changes the number of columns, which sends SIGWINCH. */
void sandbox_terminal_resize(struct sandbox_terminal *self, unsigned short columns);

/* Waits for the exit with this code. The terminal must be restored: its settings, the cursor, and a
   clean line. Frees it. */
void sandbox_terminal_expect_exit(struct sandbox_terminal *self, int code);

/* Closes the terminal, as if its window were closed. */
void sandbox_terminal_free(struct sandbox_terminal *self);
