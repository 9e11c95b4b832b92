/*
 * The child runs on the parent's memory until it executes the program (CLONE_VM | CLONE_VFORK, as
 * posix_spawn does): no page tables are copied, so that starting a command costs the same however
 * much the agent holds. It may therefore do nothing but system calls; everything that needs memory
 * is made before. What goes wrong in it comes back through the shared memory: when clone(2)
 * returns, the program is being executed, or it has failed. Where vfork is emulated by fork
 * (qemu-user, valgrind) memory is not shared, which shows; there it comes back over a close-on-exec
 * pipe.
 */
#include "agent/step/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/step/exec_failure.h"
#include "wire/memory.h"

#define CHILD_STACK_SIZE 16384

#define NO_CANDIDATE SIZE_MAX

/* The kernel's fs.nr_open, unless somebody raised it. */
#define DESCRIPTORS_MAX (1024 * 1024)

enum stage { STAGE_SETUP, STAGE_DIRECTORY, STAGE_EXEC };

struct failure {
  enum stage stage;
  int error;
  size_t candidate; /* the one that is there and cannot be run; NO_CANDIDATE: none is there */
};

struct plan {
  const struct spawn_defaults *defaults;
  const struct spawn_request *request;
  char **candidates; /* NULL-terminated: the paths to try, in order */
  int report_fd;
  bool shared; /* set by the child: it runs on this memory */
  bool failed;
  struct failure failure;
};

static const char *find_path(char *const *envp) {
  for (; *envp != NULL; envp++)
    if (strncmp(*envp, "PATH=", 5) == 0)
      return *envp + 5;
  return SPAWN_DEFAULT_PATH;
}

/* The paths that a command name may mean: itself when it has a slash, else one per PATH entry. One
   allocation: the pointers, then the texts. An empty entry is the current directory (POSIX). */
static char **make_candidates(const char *command, char *const *envp) {
  const char *path = strchr(command, '/') != NULL ? NULL : find_path(envp);
  size_t entries = 1;
  for (const char *at = path; at != NULL && (at = strchr(at, ':')) != NULL; at++)
    entries++;
  size_t name = strlen(command);
  size_t texts = (path == NULL ? 0 : strlen(path)) + entries * (name + 3);
  char **candidates = memory_allocate((entries + 1) * sizeof *candidates + texts);
  char *text = (char *)(candidates + entries + 1);
  for (size_t i = 0; i < entries; i++) {
    size_t length = path == NULL ? 0 : strcspn(path, ":");
    candidates[i] = text;
    if (path != NULL) {
      memcpy(text, length > 0 ? path : ".", length > 0 ? length : 1);
      text += length > 0 ? length : 1;
      *text++ = '/';
      path += length + 1;
    }
    memcpy(text, command, name + 1);
    text += name + 1;
  }
  candidates[entries] = NULL;
  return candidates;
}

/* As execvp(3) does: a candidate that is not there is passed over; one that is there but may not be
   executed is remembered while the search goes on. What runs in the child is kept from
   AddressSanitizer: its frames lie in the parent's memory and are never left, so that their marks
   would stay. */
__attribute__((no_sanitize("address"))) static struct failure
exec_candidates(const struct plan *plan) {
  struct failure failure = {.stage = STAGE_EXEC, .error = ENOENT, .candidate = NO_CANDIDATE};
  for (size_t i = 0; plan->candidates[i] != NULL; i++) {
    execve(plan->candidates[i], plan->request->argv, plan->request->envp);
    if (errno == ENOENT && access(plan->candidates[i], F_OK) != 0)
      continue;
    if (errno == ENOTDIR || errno == ENAMETOOLONG)
      continue;
    if (failure.candidate == NO_CANDIDATE)
      failure = (struct failure){.stage = STAGE_EXEC, .error = errno, .candidate = i};
    if (errno != EACCES)
      break;
  }
  return failure;
}

/* What every child begins with; false: errno says why not. */
__attribute__((no_sanitize("address"))) static bool set_up(const struct spawn_defaults *defaults,
                                                           const struct spawn_request *request) {
  return setsid() >= 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
         setrlimit(RLIMIT_NOFILE, &defaults->open_files) == 0 &&
         dup2(defaults->stdin_fd, STDIN_FILENO) >= 0 &&
         dup2(request->stdout_fd, STDOUT_FILENO) >= 0 &&
         dup2(request->stderr_fd, STDERR_FILENO) >= 0;
}

__attribute__((no_sanitize("address"))) static int child_main(void *context) {
  struct plan *plan = context;
  const struct spawn_request *request = plan->request;
  plan->shared = true;
  struct failure failure = {.stage = STAGE_SETUP};
  sigset_t none;
  sigemptyset(&none);
  if (!set_up(plan->defaults, request)) {
    failure.error = errno;
  } else if (request->directory != NULL && chdir(request->directory) != 0) {
    failure = (struct failure){.stage = STAGE_DIRECTORY, .error = errno};
  } else {
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    failure = exec_candidates(plan);
  }
  plan->failed = true;
  plan->failure = failure;
  (void)!write(plan->report_fd, &failure, sizeof failure);
  _exit(127);
}

/* Explains a failed exec from where the command would have run: its path may be relative. */
static void explain_exec(const struct plan *plan, const struct failure *failure,
                         struct error *error) {
  const char *command = plan->request->argv[0];
  bool there = failure->candidate != NO_CANDIDATE;
  if (!there && strchr(command, '/') == NULL) {
    (void)error_set(error, "%.150s: command not found on PATH", command);
    return;
  }
  const char *candidate = plan->candidates[there ? failure->candidate : 0];
  char *path = NULL;
  if (candidate[0] != '/' && plan->request->directory != NULL &&
      asprintf(&path, "%s/%s", plan->request->directory, candidate) < 0)
    memory_exhausted("a buffer");
  (void)exec_failure(error, path != NULL ? path : candidate, failure->error);
  free(path);
}

static void explain(const struct plan *plan, const struct failure *failure, struct error *error) {
  if (failure->stage == STAGE_EXEC)
    explain_exec(plan, failure, error);
  else if (failure->stage == STAGE_DIRECTORY)
    (void)error_set(error, "working directory %.180s: %s", plan->request->directory,
                    strerror(failure->error));
  else
    (void)error_set(error, "cannot start %.100s: %s", plan->request->argv[0],
                    strerror(failure->error));
}

/* Waits until the program is being executed, which closes the other end, or has failed. */
static bool read_failure(int fd, struct failure *failure) {
  ssize_t length;
  do
    length = read(fd, failure, sizeof *failure);
  while (length < 0 && errno == EINTR);
  return length > 0;
}

pid_t spawn(const struct spawn_defaults *defaults, const struct spawn_request *request,
            struct error *error) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0)
    return error_set(error, "cannot make a pipe: %s", strerror(errno));
  struct plan plan = {.defaults = defaults,
                      .request = request,
                      .candidates = make_candidates(request->argv[0], request->envp),
                      .report_fd = report[1]};
  alignas(16) char stack[CHILD_STACK_SIZE];
  pid_t pid = clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &plan);
  int clone_errno = errno;
  close(report[1]);
  bool failed = pid < 0 || (plan.shared ? plan.failed : read_failure(report[0], &plan.failure));
  close(report[0]);
  if (pid < 0)
    plan.failure = (struct failure){.stage = STAGE_SETUP, .error = clone_errno};
  if (failed) {
    explain(&plan, &plan.failure, error);
    if (pid >= 0)
      (void)waitpid(pid, NULL, 0);
    pid = -1;
  }
  free(plan.candidates);
  return pid;
}

/* Before Linux 5.9, and where a seccomp filter is older than that, one by one. */
static void close_all_but_stdio(void) {
  if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0) == 0)
    return;
  struct rlimit limit = {.rlim_max = DESCRIPTORS_MAX};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  int most = limit.rlim_max < DESCRIPTORS_MAX ? (int)limit.rlim_max : DESCRIPTORS_MAX;
  for (int fd = STDERR_FILENO + 1; fd < most; fd++)
    (void)close(fd);
}

__attribute__((noreturn)) static void work_main(const struct spawn_defaults *defaults,
                                                const struct spawn_request *request,
                                                int (*work)(const void *context),
                                                const void *context) {
  sigset_t none;
  sigemptyset(&none);
  if (!set_up(defaults, request))
    _exit(127);
  close_all_but_stdio();
  (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0});
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  _exit(work(context));
}

pid_t spawn_work(const struct spawn_defaults *defaults, const struct spawn_request *request,
                 int (*work)(const void *context), const void *context, struct error *error) {
  pid_t pid = fork();
  if (pid < 0)
    return error_set(error, "cannot start a process: %s", strerror(errno));
  if (pid == 0)
    work_main(defaults, request, work, context);
  return pid;
}
