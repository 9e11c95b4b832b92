#ifndef AGENT_STARTUP_H
#define AGENT_STARTUP_H

#include <stdbool.h>
#include <sys/resource.h>

#include "base/error.h"

/* The fewest descriptors with which a step of Redis can run. */
#define STARTUP_OPEN_FILES_MIN 32

/* Prepares this process before anything else, so that steps can rely on it: descriptors 0 to 2 are
   open, inherited others close on exec, signals are blocked (and read from a descriptor) with
   default dispositions, orphans of steps become children of this process where the kernel can do
   that, no other process of the same user may read its memory, and in a restricted pod none that it
   starts may set its limits (call_filter.h). */
struct startup {
  struct rlimit open_files; /* of commands: as they were found */
  int stdin_fd;             /* reads as empty */
  int oom_score_fd;         /* of its oom_score_adj; 0: that cannot be written */
  int signal_fd;      /* SIGCHLD; SIGTERM, SIGINT, SIGQUIT, SIGHUP to stop; SIGUSR1 for a dump */
  bool keeps_orphans; /* else orphans become init's, and one that has left its step is not found */
};

/* `dumpable`: other processes of the same user may read this one's memory after all, and debuggers
   attach. Returns 0, or -1 with the reason. After 0 the caller ends with startup_release. */
int startup_init(struct startup *self, bool dumpable, struct error *error);
void startup_release(struct startup *self);

/* Puts the directory python/bin beside this program, if there is one, at the front of PATH. */
void startup_offer_tools(void);

/* The shell of command lines, as PATH has it now: "bash", else "sh"; NULL: there is neither. */
const char *startup_shell(void);

/* Replaces the directory, which is owned, by its absolute path; NULL by the current one, or "/"
   where that is gone. Returns 0, or -1 with the reason when it is no directory. */
int startup_directory(const char **directory, struct error *error);

/* Overwrites every password of a Redis URL, and the variable REDIS_URL, in the memory that
   /proc/<pid>/cmdline and environ show. To be called after both were read. */
void startup_hide_credentials(int argc, char **argv);

#endif
