#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "agent/confinement/confine.h"
#include "base/error.h"

/*
 * Executes a command in its process, and explains why that failed. A supervisor calls it in the
 * child. The hard part is the child, which shares the memory of its supervisor until the command
 * executes.
 */

/* The value of PATH if it is not set, as in a scratch image. */
#define EXEC_DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Why a process never became its command. */
enum exec_stage {
  EXEC_DONE, /* it did */
  EXEC_NO_DIRECTORY,
  EXEC_NOT_FOUND,
  EXEC_NOT_EXECUTABLE, /* the command exists */
  EXEC_NO_PROCESS,     /* no process could be made */
  EXEC_REFUSED         /* it could not be confined */
};

/* The size of an uncut reason, in which a secret is found that `struct error` would cut: a path and
   its directory, the interpreter, and words. */
#define EXEC_REASON_MAX (2 * PATH_MAX + 1024)

struct exec_failure {
  enum exec_stage stage;
  struct error reason;         /* with the name of the command or the directory; not of EXEC_DONE */
  char whole[EXEC_REASON_MAX]; /* the reason uncut; not of EXEC_NO_PROCESS */
};

/* The texts stay valid until the command is executed. */
struct exec_command {
  char *const *argv; /* argv[0] is searched in the PATH of envp, unless it contains a slash */
  char *const *envp;
  char **pwd;                    /* the first of two NULLs behind envp, for PWD; NULL: none */
  const char *directory;         /* NULL: the caller's */
  bool directory_may_be_missing; /* then the caller's is used */
  /* The offset of a "~" in `directory` that stands for the HOME of envp, unless there is an entry
     of that name; 0: none. */
  size_t home_at;
  const struct confine_record *record; /* see confine.h; NULL: it is not confined */
  int base, agent_rules;               /* see confine_open_directory, confine_restrict */
};

/*
 * Enters the directory, restricts the process, and executes the command with an empty signal mask.
 * Returns only if that fails. A child that shares the memory of its supervisor calls it. So it
 * allocates nothing, never reads errno, and changes only `failure`, errno, and what belongs to this
 * process alone.
 */
void exec_command(const struct exec_command *self, struct exec_failure *failure);

/*
 * Explains to a person why execve(2) rejected a file. The errno alone misleads: ENOENT for a file
 * that exists means that its interpreter or loader is missing (a glibc program in a musl image),
 * and ENOEXEC may be a program for another machine or a script without its first line. Opens the
 * file at `path`, which may block on its file system. `shown` is its name in the text. Allocates
 * nothing. The `why` of the reason is behind that name.
 */
void exec_command_explain(struct exec_failure *failure, enum exec_stage stage, const char *shown,
                          const char *path, int exec_errno);

/* The two calls of confine.h that confine this process. Return false with the failure. */
bool exec_command_install_filter(const struct confine_record *record, int *listener,
                                 struct exec_failure *failure);
bool exec_command_restrict(const struct confine_record *record, int directory, int agent_rules,
                           struct exec_failure *failure);

/* The directory for it: see confine_open_directory. Returns -1 with the failure. */
int exec_command_open_directory(const struct confine_record *record, int base,
                                struct exec_failure *failure);

/* Whether an errno of chdir(2) means that the directory does not exist. */
bool exec_command_is_missing(int error);
