#ifndef AGENT_PROCESS_SPAWN_H
#define AGENT_PROCESS_SPAWN_H

#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"

/* Where a command is looked for when PATH is not set, as in a scratch image. */
#define SPAWN_DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* What every child gets, whatever the step; made once. */
struct spawn_defaults {
  int stdin_fd;             /* reads as empty */
  struct rlimit open_files; /* as the agent found it: it raises its own */
};

struct spawn_request {
  char *const *argv; /* argv[0] is looked up on PATH as envp has it, unless it holds a slash */
  char *const *envp;
  void *memory;          /* freed with the object; where there is none, before spawn_new returns */
  const char *directory; /* NULL: the agent's own */
  bool directory_may_be_missing; /* the agent's own then */
  int stdout_fd;
  int stderr_fd;
};

/*
 * One start of a program. It is under way when spawn_new returns: to find the directory and the
 * program takes the child as long as their file systems like, and nobody waits for that.
 *
 *   spawn = spawn_new(…)
 *   …                          the process runs, is killed, is reaped
 *   spawn_failed(spawn, …)     once it was reaped: was it the program at all?
 *   spawn_free(spawn)
 */
struct spawn;

/*
 * Starts a program in a session of its own, with the three descriptors and no other, an empty
 * signal mask and default dispositions (the agent blocks signals and handles none), and SIGKILL to
 * come when the agent dies. NULL, with the reason, when there is no child. All descriptors stay the
 * caller's, who may close them at once; those above 2 must be close-on-exec. What the request
 * points to must stay until the object is freed.
 */
struct spawn *spawn_new(const struct spawn_defaults *defaults, const struct spawn_request *request,
                        struct error *error);

pid_t spawn_pid(const struct spawn *self);

/* Of a child that was reaped: true when it never became the program; the text names the command or
   the directory and the reason. It then exited with 127. Looks at no file. */
bool spawn_failed(const struct spawn *self, struct error *error);

/* Whether the child uses the object no more: it executes the program, or is gone. Waits for that,
   so long at the most. */
bool spawn_is_apart(const struct spawn *self, int wait_ms);

/* Only when the child is apart or was reaped: it would run on freed memory. One that is stuck in
   the kernel keeps the object, and what the request points to. */
void spawn_free(struct spawn *self);

/*
 * Forks a child that calls `work` and exits with what it returns: with a copy of this process's
 * memory, set up as above, with no descriptor but the three and without a core file, which would
 * hold that memory. Of the request only the two descriptors count. Returns its pid, or -1 with the
 * reason.
 */
pid_t spawn_work(const struct spawn_defaults *defaults, const struct spawn_request *request,
                 int (*work)(const void *context), const void *context, struct error *error);

#endif
