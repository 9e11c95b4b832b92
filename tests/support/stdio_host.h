#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/support/directory.h"

/*
 * The host of a program that reads and writes lines: the standard input and output of the program
 * under test are pipes of the test, and its log is kept. It dies with the test.
 *
 *   struct stdio_host *host = stdio_host_start(&(struct stdio_host_setup){.arguments = arguments});
 *   stdio_host_send(host, "{'id':1,'method':'ping'}\n");
 *   stdio_host_expect(host, "{'id':1,'result':{}}");
 *   stdio_host_close_input(host);
 *   stdio_host_expect_exit(host, 0);
 *   stdio_host_free(host);
 *
 * Texts are written as for quoted(). The test fails, with the log, if something does not happen
 * within WAIT_BOUND_MS.
 */
struct stdio_host {
  pid_t pid; /* 0: reaped */
  int in;    /* -1: closed */
  int out;   /* the same */
  int log;
  char *text; /* its output so far, NUL-terminated; from `taken` on not returned yet */
  size_t length, taken, size;
  char *line;
  char log_text[1 << 18];
};

struct stdio_host_setup {
  const char *name;             /* argv[0]; NULL: the program's path */
  const char *const *arguments; /* after the name, NULL-terminated; or NULL */
  const char *const *variables; /* additional "NAME=value", NULL-terminated; or NULL */
  const char *directory;        /* current directory; NULL: the test's */
  const char *input; /* the content of a file in memory that is standard input; or NULL */
  int in, out;       /* its descriptors; 0: pipes of the test, -1: closed */
};

struct stdio_host *stdio_host_start(const struct stdio_host_setup *setup);
void stdio_host_free(struct stdio_host *self);

/* Writes all of it, and blocks while the pipe is full. `offer` returns false if nobody reads. */
void stdio_host_send(struct stdio_host *self, const char *text);
void stdio_host_send_bytes(struct stdio_host *self, const char *bytes, size_t length);
bool stdio_host_offer(struct stdio_host *self, const char *bytes, size_t length);
void stdio_host_close_input(struct stdio_host *self);
void stdio_host_close_output(struct stdio_host *self);

/* Waits for more output; returns false at its end. */
bool stdio_host_read(struct stdio_host *self);

/* Returns the next line without its newline; NULL at the end of the output. Valid until the next
   call. */
const char *stdio_host_line(struct stdio_host *self);

/* Fails unless the next line is this one. A duration in seconds reads as S. */
void stdio_host_expect(struct stdio_host *self, const char *expected);

/* Fails unless the rest of the output is this. */
void stdio_host_expect_rest(struct stdio_host *self, const char *expected);

/* Waits for the end; returns the exit code, or the negative signal. The second function fails
   unless there is no more output and this code. */
int stdio_host_wait(struct stdio_host *self);
void stdio_host_expect_exit(struct stdio_host *self, int expected);
void stdio_host_kill(struct stdio_host *self, int signal);

const char *stdio_host_log(struct stdio_host *self);

/* A fixture: a directory, and the last program that the test has started, or NULL. */
struct stdio_trial {
  struct directory directory;
  struct stdio_host *host;
};

int stdio_trial_set_up(void **state);
int stdio_trial_tear_down(void **state);
