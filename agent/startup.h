#pragma once

#include <stdbool.h>
#include <sys/resource.h>

#include "base/error.h"

/*
 * Sets up this process and its environment before a frontend is made, for main.c: descriptors,
 * signals, limits, tools and directories. Steps rely on it, and so does the password of Redis,
 * which no other process may read.
 */

/* The fewest descriptors with which a step of Redis can be executed. */
#define STARTUP_OPEN_FILES_MIN 32

/* Prepares this process before anything else, so that steps can rely on it: descriptors 0 to 2 are
   open, inherited ones are close-on-exec, signals are blocked, read from a descriptor and have
   their default actions, orphans of steps become children of this process if the kernel can do
   that, and no other process of the same user can read its memory. In a restricted pod no process
   that it starts can set its limits (confinement/filter.h). */
struct startup {
  struct rlimit open_files; /* for commands: the original limit */
  int stdin_fd;             /* reads as empty */
  int oom_score_fd;         /* of its oom_score_adj; 0: that is not writable */
  int signal_fd;      /* SIGCHLD; SIGTERM, SIGINT, SIGQUIT and SIGHUP to stop; SIGUSR1 for a dump */
  bool is_protected;  /* by its own filter: see filter.h */
  bool keeps_orphans; /* else orphans become init's, and those that left their step are not found */
};

/* `dumpable`: lets debuggers and other processes of the same user read this one's memory. Returns
   0, or -1 with the reason. After 0 the caller calls startup_release. */
int startup_init(struct startup *self, bool dumpable, struct error *error);
void startup_release(struct startup *self);

/* Puts the directory python/bin beside this program, if it exists, at the front of PATH. */
void startup_offer_tools(void);

/* Returns the shell for command lines in the current PATH: "bash", else "sh", else NULL. */
const char *startup_shell(void);

/* Replaces the directory, which is owned, by its absolute path; NULL by the current directory, or
   by "/" if that is gone. Returns 0, or -1 with the reason if it is no directory. */
int startup_directory(const char **directory, struct error *error);

/* Overwrites every password of a Redis URL, and the variables REDIS_URL and SANDBOX_HTTP_KEY, in
   the memory that /proc/<pid>/cmdline and environ show. To be called after they were read. */
void startup_hide_credentials(int argc, char **argv);
