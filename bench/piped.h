#pragma once

#include <sys/types.h>

/*
 * A program with pipes at its standard input and output. It dies with the bench. A failure ends the
 * bench.
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

/* Reads a line, which must contain this text. */
void piped_expect(const struct piped *self, const char *text);

/* Kills and reaps it. */
void piped_kill(pid_t pid);
void piped_end(struct piped *self);

/* Runs `agent --once` with a step of this command, whose argument is "-" and which must succeed.
   Returns the milliseconds from the exec until the agent has exited. */
double piped_once_ms(const char *command);
