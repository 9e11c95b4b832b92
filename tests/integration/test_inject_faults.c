/* Failures of `--inject`: it prints one line with the path, the reason and what to do, and leaves
   nothing behind. If the kernel lacks optional calls, it works anyway. */

#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "tests/support/injection.h"
#include "tests/test.h"

static void make_places(struct injection *self) {
  injection_mount(self, "noexec", "size=64m", MS_NOEXEC);
  injection_mount(self, "small", "size=64k", 0);
  injection_write(self, "small/old", "old", 0755);
  injection_mount(self, "few", "nr_inodes=2", 0); /* for its root and one directory */
  injection_mount(self, "fixed", "size=64m", MS_RDONLY);
  injection_make_directory(self, "roots", 0755, 0);
  injection_make_directory(self, "own", 0755, 1000);
  injection_make_directory(self, "own/closed", 0700, 0);
  injection_make_directory(self, "sticky", 01777, 0);
  injection_write(self, "sticky/agent", "old", 0755);
  injection_write(self, "file", "x", 0644);
  injection_make_directory(self, "taken", 0755, 0);
  injection_make_directory(self, "taken/agent", 0755, 0);
  assert_int_equal(symlink("nowhere", injection_path(self, "link")), 0);
  assert_int_equal(symlink("round", injection_path(self, "round")), 0);
  assert_int_equal(mkfifo(injection_path(self, "fifo"), 0644), 0);
  assert_int_equal(symlink("fifo", injection_path(self, "to fifo")), 0);
  assert_int_equal(symlink("/dev/null", injection_path(self, "null")), 0);
  assert_int_equal(mknod(injection_path(self, "device"), S_IFCHR | 0666, makedev(1, 3)), 0);
}

INJECTION_TEST(a_failed_injection_is_explained_and_leaves_nothing) {
  static const struct {
    uid_t uid;
    const char *target, *where, *reason, *advice;
  } rows[] = {
      {0, "noexec", "noexec/agent", "mounted noexec", "mount it with exec"},
      {0, "noexec/a/b/agent", "noexec/a/b/agent", "mounted noexec", "name another target"},
      {0, "small", "small/agent", "No space left", "more space"},
      {0, "small/a/b/agent", "small/a/b/agent", "No space left", "more space"},
      {0, "small/old", "small/old", "No space left", "more space"},
      {0, "few/a/agent", "few/a/agent", "No space left", "more space"},
      {0, "few/a/b/agent", "few/a/b", "No space left", "more space"},
      {0, "fixed/agent", "fixed/agent", "Read-only", "mount the volume writ"},
      {0, "fixed/a/b/", "fixed/a", "Read-only", "mount the volume writ"},
      {1000, "roots", "roots/agent", "Permission denied", "fsGroup"},
      {1000, "roots/a/b/agent", "roots/a", "Permission denied", "fsGroup"},
      {1000, "own/closed/agent", "own/closed/agent", "Permission denied", "fsGroup"},
      {1000, "own/new/../closed/deep/agent", "own/new/../closed/deep", "Permission denied",
       "fsGroup"}, /* directories that were made are removed */
      {1000, "sticky", "sticky/agent", "not permitted", "run as a user"},
      {0, "file/agent", "file/agent", "Not a directory", "another target"},
      {0, "file/", "file/agent", "Not a directory", "another target"},
      {0, "file/a/b/agent", "file/a", "Not a directory", "another target"},
      {0, "new/../file/a/agent", "new/../file/a", "Not a directory", "another target"},
      {0, "new/../roots/newer/../../file/agent", "new/../roots/newer/../../file/agent",
       "Not a directory", "another target"},
      {0, "link/agent", "link/agent", "No such file", "leads nowhere"},
      {0, "link/a/agent", "link/a", "No such file", "leads nowhere"},
      {0, "round/a/agent", "round/a", "ymbolic link", "leads nowhere"},
      {0, "taken/", "taken/agent", "Is a directory", "another target"},
      {0, "fifo", "fifo", "is a FIFO, not a regular file", "another target"},
      {0, "to fifo", "to fifo", "leads to a FIFO", "another target"},
      {0, "null", "null", "leads to a character device", "another target"},
      {0, "device", "device", "is a character device", "another target"},
  };
  make_places(self);
  int before = injection_count(self, "");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    self->setup.uid = rows[i].uid;
    injection_expect_refusal(self, rows[i].target, rows[i].where, rows[i].reason, rows[i].advice);
    assert_int_equal(injection_count(self, ""), before);
  }
  struct stat old;
  assert_int_equal(stat(injection_path(self, "small/old"), &old), 0);
  assert_int_equal(old.st_size, 3);
  assert_int_equal(lstat(injection_path(self, "fifo"), &old), 0);
  assert_true(S_ISFIFO(old.st_mode));
}

INJECTION_TEST(a_name_that_is_too_long_is_rejected) {
  char name[300];
  memset(name, 'n', sizeof name);
  name[sizeof name - 1] = '\0';
  injection_expect_refusal(self, name, "nnn", "too long", "shorter");
  name[256] = '\0';
  char below[310];
  snprintf(below, sizeof below, "new/%s", name);
  injection_expect_refusal(self, below, "new/nnn", "too long", "shorter");
  char path[PATH_MAX + 10];
  memset(path, '/', sizeof path);
  path[sizeof path - 1] = '\0';
  struct agent_process *injector = injection_start(self, path);
  assert_int_equal(agent_process_wait(injector, WAIT_BOUND_MS), 3);
  assert_non_null(strstr(agent_process_log(injector), "a shorter target"));
  agent_process_free(injector);
  assert_int_equal(injection_count(self, ""), 0);
  name[255] = '\0'; /* the longest possible name */
  injection_makes(self, name, name);
}

INJECTION_TEST(an_empty_target_is_wrong_usage) {
  struct agent_process *injector = injection_start(self, "");
  assert_int_equal(agent_process_wait(injector, WAIT_BOUND_MS), 64);
  assert_non_null(strstr(agent_process_log(injector), "--inject"));
  agent_process_free(injector);
}

/* A system call that always fails with this error. */
struct fault {
  uint32_t number;
  uint32_t error;
};

static void let_calls_fail(const void *context) {
  struct sock_filter program[32];
  unsigned short length = 0;
  program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                   (uint32_t)offsetof(struct seccomp_data, nr));
  for (const struct fault *fault = context; fault->error != 0; fault++) {
    program[length++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, fault->number, 0, 1);
    program[length++] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | fault->error);
  }
  program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const struct sock_fprog filter = {length, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

static void use_faults(struct injection *self, const struct fault *faults) {
  self->setup.prepare = let_calls_fail;
  self->setup.prepare_context = faults;
}

/* Old kernels, network file systems and sandboxes lack such calls. */
INJECTION_TEST(inject_works_without_optional_system_calls) {
  static const struct fault faults[][2] = {{{SYS_ioctl, ENOTTY}},
                                           {{SYS_ioctl, EPERM}},
                                           {{SYS_flock, ENOLCK}},
                                           {{SYS_flock, EOPNOTSUPP}}};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    use_faults(self, faults[i]);
    injection_makes(self, "agent", "agent");
    assert_int_equal(injection_count(self, ""), 1);
    assert_int_equal(unlink(injection_path(self, "agent")), 0);
  }
}

INJECTION_TEST(inject_reports_errors_of_the_disk) {
  static const struct {
    struct fault faults[3];
    const char *reason, *advice;
  } rows[] = {
      {{{SYS_pwrite64, EIO}}, " error; ", "for errors"},
      {{{SYS_fsync, EIO}}, " error; ", "for errors"},
      {{{SYS_renameat, EIO}}, " error; ", "for errors"},
      {{{SYS_fchmod, EIO}}, " error; ", "for errors"},
      {{{SYS_pwrite64, EDQUOT}}, "uota exceeded", "more space"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    use_faults(self, rows[i].faults);
    injection_expect_refusal(self, "a/b/agent", "a/b/agent", rows[i].reason, rows[i].advice);
    assert_int_equal(injection_count(self, ""), 0);
  }
}

/* The copy is read back. Only in a static program is this the first pread. */
INJECTION_TEST_IF(agent_process_is_shipped(), inject_reports_errors_of_reading_back) {
  static const struct fault faults[] = {{SYS_pread64, EIO}, {0, 0}};
  use_faults(self, faults);
  injection_expect_refusal(self, "a/b/agent", "a/b/agent", "cannot read back", "for errors");
  assert_int_equal(injection_count(self, ""), 0);
}

INJECTION_TEST(inject_reports_a_program_that_it_cannot_read) {
  injection_succeeds(self, "closed");
  assert_int_equal(chmod(injection_path(self, "closed"), 0711), 0);
  injection_make_directory(self, "shared", 0777, 0);
  char program[512];
  snprintf(program, sizeof program, "%s", injection_path(self, "closed"));
  self->setup.program = program;
  self->setup.uid = 1000;
  injection_expect_refusal(self, "shared/agent", "shared/agent", "Permission denied", "start it");
  assert_int_equal(injection_count(self, "shared"), 0);
}

TEST_GROUP(injection_begin_group, NULL)
