/* Many injectors at once, and injectors that are killed at any moment: a reader finds nothing or
   the whole program, and what the killed leave behind is cleared by the next. */

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/injection.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { AT_ONCE = 50, VICTIMS = 200, SEED = 42 };

/* A process that looks at the target as often as it can. */
struct reader {
  pid_t pid;
  struct {
    atomic_bool stop;
    atomic_int seen[3]; /* by enum injection_state */
  } * shared;
};

static void reader_start(struct reader *self, const char *path) {
  self->shared =
      mmap(NULL, sizeof *self->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(self->shared != MAP_FAILED);
  self->pid = fork();
  assert_true(self->pid >= 0);
  if (self->pid != 0)
    return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while (!self->shared->stop)
    self->shared->seen[injection_look(path)]++;
  _exit(0);
}

static bool reader_has_seen_it(void *context) {
  const struct reader *self = context;
  return self->shared->seen[INJECTION_WHOLE] > 0;
}

/* Fails when it has ever found anything but nothing or the whole. */
static void reader_stop(struct reader *self) {
  assert_true(wait_until(reader_has_seen_it, self, WAIT_BOUND_MS));
  self->shared->stop = true;
  int status;
  assert_int_equal(waitpid(self->pid, &status, 0), self->pid);
  assert_int_equal(status, 0);
  assert_int_equal(self->shared->seen[INJECTION_OTHER], 0);
  munmap(self->shared, sizeof *self->shared);
}

INJECTION_TEST(many_at_once) {
  struct agent_process *injectors[AT_ONCE];
  struct reader reader;
  injection_make_directory(self, "shared", 0755, 0);
  reader_start(&reader, injection_path(self, "shared/agent"));
  for (int i = 0; i < AT_ONCE; i++)
    injectors[i] = injection_start(self, injection_path(self, "shared"));
  for (int i = 0; i < AT_ONCE; i++)
    injection_has_succeeded(injectors[i]);
  reader_stop(&reader);
  injection_expect_copy(self, "shared/agent");
  assert_int_equal(injection_count(self, "shared"), 1);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits for its end, this long at the most. */
static void give_time(const struct agent_process *injector, int64_t ns) {
  int fd = (int)syscall(SYS_pidfd_open, agent_process_pid(injector), 0);
  assert_true(fd >= 0);
  const struct timespec time = {ns / 1000000000, ns % 1000000000};
  struct pollfd end = {.fd = fd, .events = POLLIN};
  assert_true(ppoll(&end, 1, &time, NULL) >= 0);
  close(fd);
}

/* How long one takes by itself. */
static int64_t measure(struct injection *self) {
  int64_t begin = now_ns();
  struct agent_process *injector = injection_start(self, injection_path(self, "measured"));
  give_time(injector, (int64_t)WAIT_BOUND_MS * 1000000);
  int64_t duration = now_ns() - begin;
  injection_has_succeeded(injector);
  return duration;
}

/* Returns whether it was killed, and not done by then. */
static bool kill_one(struct injection *self, int64_t after_ns) {
  struct agent_process *victim = injection_start(self, injection_path(self, "shared"));
  give_time(victim, after_ns);
  kill(agent_process_pid(victim), SIGKILL);
  int code = agent_process_wait(victim, WAIT_BOUND_MS);
  if (code != 0 && code != -SIGKILL)
    agent_process_fail(victim, "exit code %d", code);
  agent_process_free(victim);
  return code != 0;
}

INJECTION_TEST(killed_at_random_moments) {
  struct agent_process *others[AT_ONCE];
  struct reader reader;
  int started = 0;
  int killed = 0;
  unsigned short seed[3] = {SEED};
  injection_make_directory(self, "shared", 0755, 0);
  int64_t duration = measure(self);
  reader_start(&reader, injection_path(self, "shared/agent"));
  for (int i = 0; i < VICTIMS; i++) {
    if (i % (VICTIMS / AT_ONCE) == 0)
      others[started++] = injection_start(self, injection_path(self, "shared"));
    if (i % 20 == 10) /* so that nothing, too, is what a reader may find */
      (void)unlink(injection_path(self, "shared/agent"));
    killed += kill_one(self, (int64_t)(erand48(seed) * 1.5 * (double)duration));
  }
  for (int i = 0; i < started; i++)
    injection_has_succeeded(others[i]);
  reader_stop(&reader);
  assert_in_range(killed, VICTIMS / 20, VICTIMS);
  injection_makes(self, "shared", "shared/agent");
  assert_int_equal(injection_count(self, "shared"), 1);
}

static void be_traced(const void *context) {
  (void)context;
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

/* Waits until it stops; false when it has ended instead, which is left to be taken. */
static bool comes_to_a_stop(pid_t pid) {
  siginfo_t info;
  int status;
  assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT), 0);
  return (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) &&
         waitpid(pid, &status, 0) == pid;
}

/* Kills an injector when it enters or leaves a system call for the n-th time. Returns false when it
   has left before. */
static bool kill_in_call(struct injection *self, int number) {
  struct agent_process *victim = injection_start(self, injection_path(self, "new/shared/agent"));
  pid_t pid = agent_process_pid(victim);
  bool stopped = comes_to_a_stop(pid); /* at its exec */
  for (int i = 0; i < number && stopped; i++) {
    assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
    stopped = comes_to_a_stop(pid);
  }
  if (stopped)
    kill(pid, SIGKILL);
  assert_int_equal(agent_process_wait(victim, WAIT_BOUND_MS), stopped ? -SIGKILL : 0);
  agent_process_free(victim);
  return stopped;
}

/* --- the shipped program: one with sanitizers makes thousands of system calls before main() --- */

#define TRACED_TEST(NAME) INJECTION_TEST_IF(agent_process_is_shipped(), NAME)

/* Each moment that makes a difference, one after the other. */
TRACED_TEST(killed_in_every_system_call) {
  int left_behind = 0;
  int calls = 0;
  do {
    self->setup.prepare = be_traced;
    if (!kill_in_call(self, ++calls))
      break;
    self->setup.prepare = NULL;
    left_behind += access(injection_path(self, "new"), F_OK) == 0 &&
                   access(injection_path(self, "new/shared"), F_OK) == 0 &&
                   injection_count(self, "new/shared") > 0;
    assert_int_not_equal(injection_look(injection_path(self, "new/shared/agent")), INJECTION_OTHER);
    injection_makes(self, "new/shared/agent", "new/shared/agent");
    assert_int_equal(injection_count(self, "new"), 2);
    assert_int_equal(unlink(injection_path(self, "new/shared/agent")), 0);
    assert_int_equal(rmdir(injection_path(self, "new/shared")), 0);
    assert_int_equal(rmdir(injection_path(self, "new")), 0);
  } while (calls < 10000);
  assert_in_range(calls, 20, 9999);
  assert_in_range(left_behind, 5, calls);
}

/* Opens the hidden file that a killed injector left in new/shared. */
static int open_left_behind(struct injection *self) {
  self->setup.prepare = be_traced;
  int fd = -1;
  for (int calls = 1; fd < 0; calls++) {
    assert_true(kill_in_call(self, calls));
    DIR *shared = opendir(injection_path(self, "new/shared"));
    if (shared == NULL)
      continue;
    for (const struct dirent *entry; fd < 0 && (entry = readdir(shared)) != NULL;)
      if (entry->d_name[0] == '.' && entry->d_type == DT_REG)
        fd = openat(dirfd(shared), entry->d_name, O_RDONLY | O_CLOEXEC);
    closedir(shared);
  }
  self->setup.prepare = NULL;
  return fd;
}

static bool waits_for_a_lock(void *context) {
  const pid_t *pid = context;
  return proc_sleeps_in(*pid, SYS_flock);
}

/* Whether its maker lives tells the lock. What else is hidden is somebody's own. */
TRACED_TEST(hidden_files_of_the_living_stay) {
  int alive = open_left_behind(self);
  struct stat file;
  assert_int_equal(flock(alive, LOCK_SH), 0);
  injection_write(self, "new/shared/.write-notes", "somebody's own", 0700);
  struct agent_process *injector = injection_start(self, injection_path(self, "new/shared/agent"));
  pid_t pid = agent_process_pid(injector);
  assert_true(wait_until(waits_for_a_lock, &pid, WAIT_BOUND_MS));
  assert_int_equal(fstat(alive, &file), 0);
  assert_int_equal(file.st_nlink, 1);
  close(alive);
  injection_has_succeeded(injector);
  injection_expect_copy(self, "new/shared/agent");
  assert_int_equal(access(injection_path(self, "new/shared/.write-notes"), F_OK), 0);
  assert_int_equal(injection_count(self, "new/shared"), 2);
}

TEST_GROUP(injection_begin_group, NULL)
