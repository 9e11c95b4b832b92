#ifndef TESTS_SUPPORT_STDIO_HOST_H
#define TESTS_SUPPORT_STDIO_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The program under test as a host has it that speaks to it by lines: its standard input and output
 * are pipes of the test, its log is kept. It dies with the test.
 *
 *   struct stdio_host *host = stdio_host_start(&(struct stdio_host_setup){.arguments = arguments});
 *   stdio_host_send(host, "{'id':1,'method':'ping'}\n");
 *   stdio_host_expect(host, "{'id':1,'result':{}}");
 *   stdio_host_close_input(host);
 *   stdio_host_expect_exit(host, 0);
 *   stdio_host_free(host);
 *
 * Texts that are sent and expected are those of quoted.h. Whatever does not come within
 * WAIT_BOUND_MS fails the test, with the log.
 */
struct stdio_host {
  pid_t pid; /* 0: reaped */
  int in;    /* -1: closed */
  int out;   /* the same */
  int log;
  char *text; /* what was read of its output, a NUL behind it; from `taken` on not given yet */
  size_t length, taken, size;
  char *line;
  char log_text[1 << 18];
};

struct stdio_host_setup {
  const char *name;             /* argv[0]; NULL: the program's path */
  const char *const *arguments; /* after the name, NULL-terminated; or NULL */
  const char *const *variables; /* "NAME=value" more, NULL-terminated; or NULL */
  const char *directory;        /* current directory; NULL: the test's */
  const char *input;            /* a file in memory of this content is standard input; or NULL */
  int in, out; /* descriptors that become its own; 0: pipes of the test, -1: closed */
};

struct stdio_host *stdio_host_start(const struct stdio_host_setup *setup);
void stdio_host_free(struct stdio_host *self);

/* Writes all of it, and waits while the pipe is full. `offer` returns false when nobody reads. */
void stdio_host_send(struct stdio_host *self, const char *text);
void stdio_host_send_bytes(struct stdio_host *self, const char *bytes, size_t length);
bool stdio_host_offer(struct stdio_host *self, const char *bytes, size_t length);
void stdio_host_close_input(struct stdio_host *self);
void stdio_host_close_output(struct stdio_host *self);

/* Waits for more output; false at its end. */
bool stdio_host_read(struct stdio_host *self);

/* The next line, without its end; NULL: its output has ended. Valid until the next call. */
const char *stdio_host_line(struct stdio_host *self);

/* The next line is this one. A figure of seconds reads as S. */
void stdio_host_expect(struct stdio_host *self, const char *expected);

/* Everything up to the end of the output is this. */
void stdio_host_expect_rest(struct stdio_host *self, const char *expected);

/* Its exit code, or minus the signal, once it has ended; no more output, and this one. */
int stdio_host_wait(struct stdio_host *self);
void stdio_host_expect_exit(struct stdio_host *self, int expected);
void stdio_host_kill(struct stdio_host *self, int signal);

const char *stdio_host_log(struct stdio_host *self);

#endif
