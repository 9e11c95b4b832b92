#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/startup.h"
#include "base/kernel_signal.h"
#include "tests/test.h"

/*
 * What startup_init does cannot be taken back, so that each test does it in a child. The child says
 * what it found: it writes the first check that failed, and nothing when all is as it should be.
 */
struct check {
  int report_fd;
};

static void expect(const struct check *check, bool holds, const char *what) {
  if (holds)
    return;
  (void)!write(check->report_fd, what, strlen(what));
  _exit(1); /* without a look for leaks, which needs a process that may be traced */
}

static struct startup init(const struct check *check) {
  struct startup self;
  struct error error = {.text = "self_init failed without a reason"};
  expect(check, startup_init(&self, false, &error) == 0, error.text);
  return self;
}

static void in_a_child(void (*body)(const struct check *check)) {
  int ends[2];
  char report[512];
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    /* Out of the way of what is closed and opened here. */
    struct check check = {.report_fd = fcntl(ends[1], F_DUPFD_CLOEXEC, 100)};
    close(ends[0]);
    close(ends[1]);
    body(&check);
    _exit(0);
  }
  close(ends[1]);
  ssize_t length = read(ends[0], report, sizeof report - 1);
  close(ends[0]);
  report[length > 0 ? length : 0] = '\0';
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_string_equal(report, "");
  assert_int_equal(status, 0);
}

#define CHILD_TEST(NAME)                                                                           \
  static void child_of_##NAME(const struct check *check);                                          \
  TEST(NAME) {                                                                                     \
    in_a_child(child_of_##NAME);                                                                   \
  }                                                                                                \
  static void child_of_##NAME(const struct check *check)

static bool is_open(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}

static bool closes_on_exec(int fd) {
  return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

CHILD_TEST(its_descriptors_are_its_own) {
  struct startup self = init(check);
  char byte;
  expect(check, self.signal_fd > STDERR_FILENO, "signal_fd is a standard descriptor");
  expect(check, self.stdin_fd > STDERR_FILENO, "stdin_fd is a standard descriptor");
  expect(check, closes_on_exec(self.signal_fd), "signal_fd stays open on exec");
  expect(check, closes_on_exec(self.stdin_fd), "stdin_fd stays open on exec");
  expect(check, read(self.stdin_fd, &byte, 1) == 0, "stdin_fd is not empty");
  expect(check, read(self.signal_fd, &byte, 1) == -1, "reading signals blocks");
  startup_release(&self);
  expect(check, !is_open(self.signal_fd) && !is_open(self.stdin_fd), "not released");
}

CHILD_TEST(descriptors_0_to_2_are_open) {
  for (int closed = 0; closed < 8; closed++) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
      if ((closed & 1 << fd) != 0)
        close(fd);
    struct startup self = init(check);
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
      expect(check, is_open(fd) && !closes_on_exec(fd), "0, 1 or 2 is not there for a child");
    expect(check, self.signal_fd > STDERR_FILENO && self.stdin_fd > STDERR_FILENO,
           "one of ours is 0, 1 or 2");
    startup_release(&self);
  }
}

CHILD_TEST(inherited_descriptors_close_on_exec) {
  static const int numbers[] = {3, 9, 200};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    expect(check, dup2(STDIN_FILENO, numbers[i]) == numbers[i], "dup2");
  struct startup self = init(check);
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    expect(check, is_open(numbers[i]) && closes_on_exec(numbers[i]), "an inherited one stays open");
  startup_release(&self);
}

static int next_signal(const struct startup *self) {
  struct signalfd_siginfo info;
  ssize_t length = read(self->signal_fd, &info, sizeof info);
  return length == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

CHILD_TEST(signals_are_read_from_a_descriptor) {
  static const int orders[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGCHLD};
  struct startup self = init(check);
  for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
    expect(check, raise(orders[i]) == 0, "raise");
    expect(check, next_signal(&self) == orders[i], "an order does not arrive");
  }
  /* These neither end the process nor arrive. */
  static const int others[] = {SIGPIPE, SIGUSR2, SIGALRM, SIGTSTP};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    expect(check, raise(others[i]) == 0, "raise");
  expect(check, next_signal(&self) == 0, "another signal arrives");
  startup_release(&self);
}

CHILD_TEST(dispositions_are_the_default_ones) {
  static const int ignored[] = {SIGPIPE, SIGINT, SIGQUIT, SIGCHLD, SIGHUP, SIGUSR1, SIGTSTP};
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
    expect(check, signal(ignored[i], SIG_IGN) != SIG_ERR, "signal");
  struct startup self = init(check);
  sigset_t blocked;
  expect(check, sigprocmask(SIG_SETMASK, NULL, &blocked) == 0, "sigprocmask");
  for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
    struct sigaction is;
    expect(check, sigaction(ignored[i], NULL, &is) == 0 && is.sa_handler == SIG_DFL,
           "a signal is still ignored");
    expect(check, sigismember(&blocked, ignored[i]) == 1, "a signal is not blocked");
  }
  /* Started by nohup: the end of a terminal is no order. Interactive shells' SIGINT is one. */
  expect(check, raise(SIGHUP) == 0 && next_signal(&self) == 0, "SIGHUP arrives");
  expect(check, raise(SIGINT) == 0 && next_signal(&self) == SIGINT, "SIGINT does not arrive");
  startup_release(&self);
}

CHILD_TEST(signals_of_threads_are_ignored) {
  struct startup self = init(check);
  for (int i = KERNEL_SIGNAL_THREADS_FIRST; i <= KERNEL_SIGNAL_THREADS_LAST; i++)
    expect(check, kernel_signal_is_ignored(i), "a signal of threads is not ignored");
  startup_release(&self);
}

CHILD_TEST(orphans_come_to_it) {
  struct startup self = init(check);
  int ends[2];
  expect(check, pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  pid_t child = fork();
  if (child == 0) {
    pid_t grandchild = fork();
    if (grandchild == 0) {
      char byte;
      close(ends[1]);
      _exit(read(ends[0], &byte, 1) == 1 ? 42 : 1); /* not before its parent is gone */
    }
    _exit(grandchild > 0 ? 0 : 1);
  }
  int status;
  expect(check, waitpid(child, &status, 0) == child && status == 0, "no child");
  expect(check, write(ends[1], "x", 1) == 1, "write");
  expect(check, waitpid(-1, &status, 0) > 0 && WEXITSTATUS(status) == 42, "an orphan went away");
  expect(check, self.keeps_orphans, "it does not know that they come");
  startup_release(&self);
}

/* As an emulator without child subreapers answers. */
CHILD_TEST(it_can_do_without_orphans) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_CHILD_SUBREAPER, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  expect(check, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
  expect(check, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
  struct startup self = init(check);
  expect(check, !self.keeps_orphans, "it takes a refusal for a yes");
  startup_release(&self);
}

CHILD_TEST(its_memory_is_its_own) {
  struct startup self = init(check);
  expect(check, prctl(PR_GET_DUMPABLE) == 0, "dumpable");
  startup_release(&self);
}

CHILD_TEST(its_memory_is_open_to_debuggers_on_request) {
  struct startup self;
  struct error error;
  expect(check, prctl(PR_SET_DUMPABLE, 0) == 0, "prctl");
  expect(check, startup_init(&self, true, &error) == 0, error.text);
  expect(check, prctl(PR_GET_DUMPABLE) == 1, "not dumpable");
  startup_release(&self);
}

CHILD_TEST(open_files_are_raised_for_itself_only) {
  struct rlimit limit;
  expect(check, getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
  limit.rlim_cur = 128;
  expect(check, setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
  struct startup self = init(check);
  expect(check, self.open_files.rlim_cur == 128, "children get another limit");
  expect(check, self.open_files.rlim_max == limit.rlim_max, "children get another maximum");
  expect(check, getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == limit.rlim_max,
         "its own limit is not raised");
  startup_release(&self);
}

TEST(passwords_leave_arguments_and_environment) {
  char arguments[][64] = {"redis://u:agent@h", "--redis-url", "redis://u:s3cret@h",
                          "--redis-url=h,password=s3cret", "--job-id=redis"};
  char variables[][64] = {"REDIS_URL=redis://u:s3cret@h", "REDIS_URL_OTHER=kept", "A=b",
                          "REDIS_URL=twice", "REDIS_URL="};
  char *argv[] = {arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], NULL};
  char *entries[] = {variables[0], variables[1], variables[2], variables[3], variables[4], NULL};
  char **was = environ;
  environ = entries;
  startup_hide_credentials(5, argv);
  const char *kept = getenv("REDIS_URL_OTHER");
  const char *other = getenv("A");
  environ = was;
  assert_non_null(kept);
  assert_string_equal(kept, "kept");
  assert_non_null(other);
  assert_string_equal(other, "b");
  assert_string_equal(variables[0], "REDIS_URL=******************");
  assert_string_equal(variables[3], "REDIS_URL=*****");
  assert_string_equal(arguments[0], "redis://u:agent@h"); /* the program's name */
  assert_string_equal(arguments[1], "--redis-url");
  assert_string_equal(arguments[2], "redis://u:******@h");
  assert_string_equal(arguments[3], "--redis-url=h,password=******");
  assert_string_equal(arguments[4], "--job-id=redis");
}

TEST(there_may_be_nothing_to_hide) {
  char *nothing[] = {NULL};
  char **was = environ;
  environ = nothing;
  startup_hide_credentials(0, nothing);
  environ = NULL;
  startup_hide_credentials(0, nothing);
  environ = was;
  assert_null(nothing[0]);
}
