#ifndef BENCH_PIPED_H
#define BENCH_PIPED_H

#include <sys/types.h>

/*
 * A program with a pipe at its standard input and one at its output. It dies with the bench; what
 * cannot be done ends the bench.
 */
struct piped {
  pid_t pid;
  int in, out;
};

/* `arguments` begin with the program's path and end with NULL. */
struct piped piped_start(const char *const *arguments);

/* The same with these descriptors at 0, 1 and 2. */
pid_t piped_fork(int in, int out, int log, const char *const *arguments);

void piped_send(const struct piped *self, const char *text);

/* Reads a line, which must hold this. */
void piped_expect(const struct piped *self, const char *text);

/* Kills it, and takes note of its end. */
void piped_kill(pid_t pid);
void piped_end(struct piped *self);

/* `agent --once` with a step of this command, whose argument is "-": from the exec until its end,
   which must be a good one; in milliseconds. */
double piped_once_ms(const char *command);

#endif
