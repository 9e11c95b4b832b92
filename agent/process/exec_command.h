#ifndef AGENT_PROCESS_EXEC_COMMAND_H
#define AGENT_PROCESS_EXEC_COMMAND_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Where a command is looked for when PATH is not set, as in a scratch image. */
#define EXEC_DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Why a process never became its command. */
enum exec_stage {
  EXEC_DONE, /* it did */
  EXEC_NO_DIRECTORY,
  EXEC_NOT_FOUND,
  EXEC_NOT_EXECUTABLE, /* the command is there */
  EXEC_NO_PROCESS      /* there is none for it */
};

struct exec_failure {
  enum exec_stage stage;
  struct error reason; /* with the command's or the directory's name; nothing of EXEC_DONE */
};

/* The reason in full, with the bytes that `struct error` leaves out: so that a secret is found that
   is cut there. A path and its directory, the interpreter, and words. */
#define EXEC_REASON_MAX (2 * PATH_MAX + 1024)

/* Texts that stay until the command is executed. */
struct exec_command {
  char *const *argv; /* argv[0] is looked up on PATH as envp has it, unless it holds a slash */
  char *const *envp;
  const char *directory;         /* NULL: the caller's own */
  bool directory_may_be_missing; /* the caller's own then */
  /* Where in `directory` a "~" is that stands for HOME as envp has it, unless there is an entry of
     that name; 0: nowhere. */
  size_t home_at;
};

/*
 * Enters the directory and executes the command with an empty signal mask. Returns when that fails,
 * with the failure. For a process that shares its memory until then: it allocates nothing, and what
 * it changes beside `failure` and `whole`, which is its reason in full, are this process's
 * directory and mask, and errno.
 */
void exec_command(const struct exec_command *self, struct exec_failure *failure,
                  char whole[EXEC_REASON_MAX]);

/*
 * Writes why execve(2) refused a file, for a person. The errno alone misleads: ENOENT for a file
 * that exists means that its interpreter or loader is missing (a glibc program in a musl image),
 * and ENOEXEC may be a program for another machine or a script without its first line. Opens the
 * file at `path`, which may take as long as its file system needs; `shown` stands for it in the
 * text. Allocates nothing.
 */
void exec_command_error(struct error *error, char whole[EXEC_REASON_MAX], const char *shown,
                        const char *path, int exec_errno);

/* Whether an errno of chdir(2) means that there is no such directory. */
bool exec_command_is_missing(int error);

#endif
