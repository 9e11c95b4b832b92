#include "agent/process/exec_command.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/process/exec_error.h"

/* A candidate is an entry of PATH and the command's name; execve(2) takes no path that is longer than
   PATH_MAX, and fails as it should with one that is cut here. */
#define CANDIDATE_SIZE (PATH_MAX + 2)

bool exec_command_is_missing(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP;
}

void exec_command_no_process(const char *command, int error, struct exec_failure *failure) {
  failure->stage = EXEC_NO_PROCESS;
  (void)error_set(&failure->reason, "cannot start %.100s: %s", command, strerror(error));
  failure->reason.code = error;
}

static const char *find_path(char *const *envp) {
  for (char *const *entry = envp; *entry != NULL; entry++)
    if (strncmp(*entry, "PATH=", 5) == 0)
      return *entry + 5;
  return EXEC_DEFAULT_PATH;
}

/* An empty entry is the current directory (POSIX). */
static void make_candidate(char out[CANDIDATE_SIZE], const char *entry, size_t length,
                           const char *name) {
  (void)snprintf(out, CANDIDATE_SIZE, "%.*s/%s", length > 0 ? (int)length : 1,
                 length > 0 ? entry : ".", name);
}

/* The candidate that is there and cannot be run, else the first. */
struct search {
  int error;
  bool found;
  char path[CANDIDATE_SIZE];
};

/* As execvp(3): skips a candidate that is not there; remembers one that is there but may not be
   executed. False: no other one is to be tried. */
static bool try_candidate(const struct exec_command *self, const char *path,
                          struct search *search) {
  (void)execve(path, self->argv, self->envp);
  int error = errno;
  if (search->path[0] == '\0')
    (void)snprintf(search->path, sizeof search->path, "%s", path);
  if (error == ENOENT && access(path, F_OK) != 0)
    return true;
  if (error == ENAMETOOLONG && path == self->argv[0])
    search->error = error;
  if (error == ENOTDIR || error == ENAMETOOLONG)
    return true;
  if (!search->found) {
    search->error = error;
    search->found = true;
    (void)snprintf(search->path, sizeof search->path, "%s", path);
  }
  return error == EACCES;
}

static void try_candidates(const struct exec_command *self, struct search *search) {
  const char *name = self->argv[0];
  if (strchr(name, '/') != NULL) {
    (void)try_candidate(self, name, search);
    return;
  }
  char candidate[CANDIDATE_SIZE];
  for (const char *entry = find_path(self->envp);; entry++) {
    size_t length = strcspn(entry, ":");
    make_candidate(candidate, entry, length, name);
    entry += length;
    if (!try_candidate(self, candidate, search) || *entry == '\0')
      return;
  }
}

/* Shows a relative path below the directory in which the command would have run. */
static void explain(const struct exec_command *self, const struct search *search, bool in_directory,
                    struct exec_failure *failure) {
  bool is_missing = search->error == ENOENT && access(search->path, F_OK) != 0;
  failure->stage = is_missing ? EXEC_NOT_FOUND : EXEC_NOT_EXECUTABLE;
  if (is_missing && strchr(self->argv[0], '/') == NULL) {
    (void)error_set(&failure->reason, "%.150s: command not found on PATH", self->argv[0]);
    failure->reason.code = search->error;
    return;
  }
  bool is_below = search->path[0] != '/' && in_directory;
  char shown[2 * PATH_MAX];
  (void)snprintf(shown, sizeof shown, "%s%s%s", is_below ? self->directory : "",
                 is_below ? "/" : "", search->path);
  (void)exec_error(&failure->reason, shown, search->path, search->error);
}

/* Returns whether the command may be executed. */
static bool enter_directory(const struct exec_command *self, struct exec_failure *failure,
                            bool *is_there) {
  *is_there = self->directory != NULL && chdir(self->directory) == 0;
  if (*is_there || self->directory == NULL ||
      (self->directory_may_be_missing && exec_command_is_missing(errno)))
    return true;
  int error = errno;
  failure->stage = EXEC_NO_DIRECTORY;
  (void)error_set(&failure->reason, "working directory %.180s: %s", self->directory,
                  strerror(error));
  failure->reason.code = error;
  return false;
}

void exec_command(const struct exec_command *self, struct exec_failure *failure) {
  bool in_directory;
  if (!enter_directory(self, failure, &in_directory))
    return;
  uint64_t none = 0; /* the kernel's sigset_t: the C libraries' leave out the signals of threads */
  (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
  struct search search = {.error = ENOENT};
  try_candidates(self, &search);
  explain(self, &search, in_directory, failure);
}
