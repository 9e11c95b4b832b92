#ifndef AGENT_STEP_SPAWN_H
#define AGENT_STEP_SPAWN_H

#include <sys/resource.h>
#include <sys/types.h>

#include "wire/error.h"

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
  const char *directory; /* NULL: the agent's own */
  int stdout_fd;
  int stderr_fd;
};

/*
 * Starts a program in a session of its own, with the three descriptors, an empty signal mask and
 * default dispositions (the agent blocks signals and handles none), and SIGKILL to come when the
 * agent dies. Returns its pid, or -1 when it could not be started: the text names the command or
 * the directory and the reason, and there is no child left. All descriptors stay the caller's;
 * those above 2 must be close-on-exec.
 */
pid_t spawn(const struct spawn_defaults *defaults, const struct spawn_request *request,
            struct error *error);

/*
 * Forks a child that calls `work` and exits with what it returns: with a copy of this process's
 * memory, set up as above, with no descriptor but the three and without a core file, which would
 * hold that memory. Of the request only the two descriptors count. Returns its pid, or -1 with the
 * reason.
 */
pid_t spawn_work(const struct spawn_defaults *defaults, const struct spawn_request *request,
                 int (*work)(const void *context), const void *context, struct error *error);

#endif
