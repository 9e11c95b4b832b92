#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "agent/startup.h"
#include "tests/test.h"

/* startup_init cannot be undone, so each test calls it in a child. The child writes the text of the
   first check that failed. The other promises of startup.h are tested with the shipped program
   (integration/credentials, deadline, environment, open_files). */
struct check {
  int report_fd;
};

static void expect(const struct check *check, bool holds, const char *what) {
  if (holds)
    return;
  (void)!write(check->report_fd, what, strlen(what));
  _exit(1); /* without the leak check, which needs a dumpable process */
}

static struct startup init(const struct check *check) {
  struct startup self;
  struct error error = {.text = "startup_init failed without a reason"};
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
    /* Above the descriptors that a test closes and opens. */
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
  /* These signals neither end the process nor arrive. */
  static const int others[] = {SIGPIPE, SIGUSR2, SIGALRM, SIGTSTP};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    expect(check, raise(others[i]) == 0, "raise");
  expect(check, next_signal(&self) == 0, "another signal arrives");
  startup_release(&self);
}

/* The filter acts like an emulator without child subreapers. */
CHILD_TEST(the_agent_starts_without_child_subreapers) {
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
  expect(check, !self.keeps_orphans, "keeps_orphans is true");
  startup_release(&self);
}
