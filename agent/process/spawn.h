#ifndef AGENT_PROCESS_SPAWN_H
#define AGENT_PROCESS_SPAWN_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"

/* Where a command is looked for when PATH is not set, as in a scratch image. */
#define SPAWN_DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Closes every descriptor above this one. */
void spawn_close_all_above(int fd);

/* What every child gets, whatever the step; made once. */
struct spawn_defaults {
  int stdin_fd;             /* reads as empty */
  struct rlimit open_files; /* as the agent found it: it raises its own */
};

/* A command, or work: a function of this program. */
struct spawn_request {
  char *const *argv; /* argv[0] is looked up on PATH as envp has it, unless it holds a slash */
  char *const *envp;
  void *memory;          /* freed with the object; where there is none, before spawn_new returns */
  const char *directory; /* NULL: the agent's own */
  bool directory_may_be_missing; /* the agent's own then */
  /* Of work, which the fields above do not concern. The child exits with what this returns. */
  int (*work)(const void *context);
  const void *work_context;
  int stdout_fd;
  int stderr_fd;
  bool waits; /* a command's child does nothing but set itself up until spawn_go */
};

/*
 * One child: a session of its own, the three descriptors and no other, an empty signal mask and
 * default dispositions (the agent blocks signals and handles none), and SIGKILL when the agent
 * dies. A command is found and executed by the child, which takes as long as its file systems need;
 * nobody waits for that. Work runs on a copy of the agent's memory, taken by spawn_new, and leaves
 * no core file, which would hold that memory.
 *
 *   spawn = spawn_new(…)
 *   spawn_go(spawn)            of one that waits, or SIGKILL: it then has left no trace
 *   …                          the process runs, is killed, is reaped
 *   spawn_failed(spawn, …)     after it was reaped: did it ever become the command?
 *   spawn_free(spawn)
 */
struct spawn;

/*
 * Makes the child. Returns NULL, with the reason, when there is none. What the request points to
 * must stay until spawn_free. All descriptors stay the caller's; those above 2 must be
 * close-on-exec. The caller may close them as soon as there is a pid.
 */
struct spawn *spawn_new(const struct spawn_defaults *defaults, const struct spawn_request *request,
                        struct error *error);

/*
 * Lets a waiting child go on; call it once. Where the kernel makes no child that can wait (an
 * emulator), this makes it, and spawn_failed gives the reason when it cannot.
 */
void spawn_go(struct spawn *self);

/* 0: no child yet (see spawn_go). -1: spawn_go could not make it. */
pid_t spawn_pid(const struct spawn *self);

enum spawn_failure {
  SPAWN_DONE, /* no failure: the command was executed */
  SPAWN_NO_DIRECTORY,
  SPAWN_NOT_FOUND,
  SPAWN_NOT_EXECUTABLE, /* the command is there */
  SPAWN_NO_CHILD
};

/* Of a child that was reaped, or could not be made: whether it became the command. The text names
   the command or the directory and the reason. The child exited with 127. Reads no file. */
enum spawn_failure spawn_failed(const struct spawn *self, struct error *error);

/* Whether the child no longer uses this object: it has executed the command, or is dead. Waits for
   that, up to `wait_ms` milliseconds. */
bool spawn_is_detached(const struct spawn *self, int wait_ms);

/* Only when the child is detached or was reaped: it would run on freed memory. One that is stuck in
   the kernel keeps the object, and what the request points to. */
void spawn_free(struct spawn *self);

#endif
