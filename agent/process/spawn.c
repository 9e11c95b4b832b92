/*
 * The child of a command runs on the agent's memory until it executes the command (CLONE_VM): no
 * page tables are copied, so that it costs the same however much memory the agent holds.
 * posix_spawn stops the parent meanwhile (CLONE_VFORK); here the parent goes on, because the child
 * may have to wait for a disk, for a network mount without end, or for its gate. What both need
 * lies in struct spawn, the child's stack too; the kernel clears `in_use` when the child is off
 * this memory (set_tid_address). launch.h says what the child may do.
 *
 * An emulator knows no such child (qemu-user) and refuses it. There the child is made when it is to
 * run, by a vfork as in posix_spawn; that may be emulated by a fork, so that nothing comes back
 * through memory but over a close-on-exec pipe.
 *
 * The child of work is forked.
 */
#include "agent/process/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/process/exec_error.h"
#include "agent/process/launch.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/memory.h"

#define CHILD_STACK_SIZE 4096

/* How long the agent waits for a child that need not wait to execute its command, which mostly
   takes it 50 us: queued steps are 4 % faster when the two do not share the memory from two
   processors. After spawn_go the agent does not: that costs the command 40 us. */
#define CHILD_FIRST_MS 20

/* How often a child that does not detach is checked for being dead: one that was killed before it
   called set_tid_address never clears `in_use`. */
#define DEAD_CHECK_MS 1

#define FUTEX_WAIT 0 /* of linux/futex.h, which musl does not bring */
#define FUTEX_WAKE 1

/* The kernel's fs.nr_open, unless somebody raised it. */
#define DESCRIPTORS_MAX (1024 * 1024)

/* The report of a failure arrives in one piece. */
static_assert(sizeof(struct launch_failure) <= PIPE_BUF, "a write of it is atomic");

struct spawn {
  struct launch launch;
  pid_t pid;
  alignas(16) char stack[CHILD_STACK_SIZE];
};

static const char *find_path(char *const *envp) {
  for (; *envp != NULL; envp++)
    if (strncmp(*envp, "PATH=", 5) == 0)
      return *envp + 5;
  return SPAWN_DEFAULT_PATH;
}

/* Lists the paths that a command name may mean: itself when it has a slash, else one per PATH
   entry. One allocation: the pointers, then the texts. An empty entry is the current directory
   (POSIX). */
static char **make_candidates(const char *command, char *const *envp) {
  const char *path = strchr(command, '/') != NULL ? NULL : find_path(envp);
  size_t entries = 1;
  for (const char *at = path; at != NULL && (at = strchr(at, ':')) != NULL; at++)
    entries++;
  size_t name = strlen(command);
  size_t texts = (path == NULL ? 0 : strlen(path)) + entries * (name + 3);
  char **candidates = memory_allocate((entries + 1) * sizeof *candidates + texts);
  char *text = (char *)(candidates + entries + 1);
  const char *end = text + texts;
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
  CHECK(text <= end);
  candidates[entries] = NULL;
  return candidates;
}

/* Shows a relative path below the directory in which the command would have run. */
static void explain_exec(const struct launch *launch, struct error *error) {
  const struct launch_failure *failure = &launch->failure;
  const char *command = launch->request.argv[0];
  if (failure->error == ENOENT && !failure->probe.there && strchr(command, '/') == NULL) {
    (void)error_set(error, "%.150s: command not found on PATH", command);
    return;
  }
  const char *candidate = launch->candidates[failure->candidate];
  char *path = NULL;
  if (candidate[0] != '/' && failure->in_directory &&
      asprintf(&path, "%s/%s", launch->request.directory, candidate) < 0)
    memory_exhausted("a buffer");
  (void)exec_error(error, path != NULL ? path : candidate, &failure->probe);
  free(path);
}

static void explain(const struct launch *launch, struct error *error) {
  const struct launch_failure *failure = &launch->failure;
  if (failure->stage == LAUNCH_EXEC)
    explain_exec(launch, error);
  else if (failure->stage == LAUNCH_DIRECTORY)
    (void)error_set(error, "working directory %.180s: %s", launch->request.directory,
                    strerror(failure->error));
  else
    (void)error_set(error, "cannot start %.100s: %s",
                    launch->request.work != NULL ? "a process" : launch->request.argv[0],
                    strerror(failure->error));
}

/* Waits until the command is executed, which closes the other end, or has failed. */
static bool read_failure(int fd, struct launch_failure *failure) {
  ssize_t length;
  do
    length = read(fd, failure, sizeof *failure);
  while (length < 0 && errno == EINTR);
  return length > 0;
}

static int start_child(struct spawn *self, int flags) {
  self->launch.in_use = 1;
  pid_t pid = clone(launch_main, self->stack + sizeof self->stack, CLONE_VM | SIGCHLD | flags,
                    &self->launch);
  if (pid < 0) {
    self->launch.in_use = 0;
    return -1;
  }
  self->pid = pid;
  return 0;
}

/* Where the child cannot run beside this process. Returns 0, or -1 with errno. */
static int start_child_and_wait(struct spawn *self) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0)
    return -1;
  self->launch.report_fd = report[1];
  self->launch.gate = LAUNCH_GATE_OPEN;
  int result = start_child(self, CLONE_VFORK);
  int clone_errno = errno;
  close(report[1]);
  if (result == 0 && !self->launch.shared)
    self->launch.failed = read_failure(report[0], &self->launch.failure);
  close(report[0]);
  self->launch.in_use = 0;
  errno = clone_errno;
  return result;
}

/* Returns 0, or -1 with errno. Where a child that is to wait cannot be made, that is spawn_go's. */
static int start_command(struct spawn *self) {
  const struct spawn_request *request = &self->launch.request;
  self->launch.candidates = make_candidates(request->argv[0], request->envp);
  self->launch.gate = request->waits ? LAUNCH_GATE_CLOSED : LAUNCH_GATE_OPEN;
  if (start_child(self, 0) == 0) {
    if (!request->waits)
      (void)spawn_is_detached(self, CHILD_FIRST_MS);
    return 0;
  }
  if (errno != EINVAL)
    return -1;
  return request->waits ? 0 : start_child_and_wait(self);
}

/* Before Linux 5.9, and where a seccomp filter is older than that, one by one. */
void spawn_close_all_above(int last) {
  if (syscall(SYS_close_range, last + 1, ~0U, 0) == 0)
    return;
  struct rlimit limit = {.rlim_max = DESCRIPTORS_MAX};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  int end = limit.rlim_max < DESCRIPTORS_MAX ? (int)limit.rlim_max : DESCRIPTORS_MAX;
  for (int fd = last + 1; fd < end; fd++)
    (void)close(fd);
}

__attribute__((noreturn)) static void work_main(const struct launch *launch) {
  sigset_t none;
  sigemptyset(&none);
  if (launch_set_up(&launch->defaults, &launch->request, launch->agent) != 0)
    _exit(127);
  spawn_close_all_above(STDERR_FILENO);
  (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0});
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  _exit(launch->request.work(launch->request.work_context));
}

/* Returns 0, or -1 with errno. */
static int start_work(struct spawn *self) {
  CHECK(!self->launch.request.waits);
  pid_t pid = fork();
  if (pid < 0)
    return -1;
  if (pid == 0)
    work_main(&self->launch);
  self->pid = pid;
  return 0;
}

struct spawn *spawn_new(const struct spawn_defaults *defaults, const struct spawn_request *request,
                        struct error *error) {
  struct spawn *self = memory_allocate(sizeof *self);
  self->launch = (struct launch){
      .defaults = *defaults, .request = *request, .agent = getpid(), .report_fd = -1};
  self->pid = 0;
  if ((request->work != NULL ? start_work(self) : start_command(self)) == 0)
    return self;
  self->launch.failure.error = errno;
  explain(&self->launch, error);
  spawn_free(self);
  return NULL;
}

void spawn_go(struct spawn *self) {
  CHECK(self->launch.request.waits);
  self->launch.request.waits = false; /* once */
  if (self->pid > 0) {
    __atomic_store_n(&self->launch.gate, LAUNCH_GATE_OPEN, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, &self->launch.gate, FUTEX_WAKE, 1, NULL, NULL, 0);
  } else if (start_child_and_wait(self) != 0) {
    self->pid = -1;
    self->launch.failed = true;
    self->launch.failure.error = errno;
  }
}

pid_t spawn_pid(const struct spawn *self) {
  return self->pid;
}

enum spawn_failure spawn_failed(const struct spawn *self, struct error *error) {
  const struct launch_failure *failure = &self->launch.failure;
  if (!self->launch.failed)
    return SPAWN_DONE;
  explain(&self->launch, error);
  if (failure->stage == LAUNCH_DIRECTORY)
    return SPAWN_NO_DIRECTORY;
  if (failure->stage != LAUNCH_EXEC)
    return SPAWN_NO_CHILD;
  return failure->error == ENOENT && !failure->probe.there ? SPAWN_NOT_FOUND : SPAWN_NOT_EXECUTABLE;
}

/* A zombie, or reaped: either has given up its memory. */
static bool is_dead(pid_t pid) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

bool spawn_is_detached(const struct spawn *self, int wait_ms) {
  int64_t end_ms = clock_monotonic_ms() + wait_ms;
  while (__atomic_load_n(&self->launch.in_use, __ATOMIC_ACQUIRE) != 0) {
    if (clock_monotonic_ms() >= end_ms)
      return is_dead(self->pid);
    static const struct timespec slice = {.tv_nsec = DEAD_CHECK_MS * 1000000};
    if (syscall(SYS_futex, &self->launch.in_use, FUTEX_WAIT, 1, &slice, NULL, 0) != 0 &&
        errno == ETIMEDOUT && is_dead(self->pid))
      return true;
  }
  return true;
}

void spawn_free(struct spawn *self) {
  free(self->launch.candidates);
  free(self->launch.request.memory);
  free(self);
}
