/* `--inject`: where the copy goes, who may run it, and what it does not need. */

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "tests/support/injection.h"
#include "tests/test.h"

#define SMALL_ADDRESS_SPACE (8 * 1024 * 1024)

static void expect_mode(struct injection *self, const char *name, mode_t mode) {
  struct stat file;
  assert_int_equal(lstat(injection_path(self, "%s", name), &file), 0);
  assert_int_equal(file.st_mode, mode);
}

/* Runs the copy, which must print its version. */
static void expect_runs(struct injection *self, const char *name, uid_t uid) {
  const char *path = injection_path(self, "%s", name);
  struct agent_process *copy = agent_process_start(&(struct agent_setup){
      .program = path, .uid = uid, .arguments = (const char *[]){"--version", NULL}});
  assert_int_equal(agent_process_wait(copy, WAIT_BOUND_MS), 0);
  if (strstr(agent_process_output(copy), "libevent") == NULL)
    agent_process_fail(copy, "--version says nothing");
  agent_process_free(copy);
}

/* Like injection_makes; the injector must also print one line about the copy. */
static void makes(struct injection *self, const char *target, const char *said, const char *copy) {
  char expected[256];
  struct stat program;
  assert_int_equal(stat(agent_process_program(), &program), 0);
  snprintf(expected, sizeof expected, "agent: injected %s/%s, %lld bytes\n", self->path, said,
           (long long)program.st_size);
  struct agent_process *injector = injection_start(self, injection_path(self, "%s", target));
  assert_int_equal(agent_process_wait(injector, WAIT_BOUND_MS), 0);
  assert_string_equal(agent_process_output(injector), expected);
  assert_string_equal(agent_process_log(injector), "");
  agent_process_free(injector);
  injection_expect_copy(self, copy);
}

/* With any umask, the copy and its directories are for all users. */
INJECTION_TEST(the_target_may_be_a_file_or_a_directory) {
  static const struct {
    const char *target, *said, *copy; /* NULL: the column before */
  } rows[] = {
      {"runner", NULL, NULL},
      {"runner", NULL, NULL}, /* again */
      {"", "agent", NULL},
      {"there", "there/agent", NULL},
      {"there///", "there/agent", NULL},
      {"new/deep//file", "new/deep/file", NULL},
      {"newer/shared/", "newer/shared/agent", NULL},
      {"link", "link/agent", "there/agent"}, /* a link to a directory is followed */
      {"link/below/agent", NULL, "there/below/agent"},
      {"dangling", NULL, NULL}, /* any other link is replaced */
      {"to precious", NULL, NULL},
  };
  static const char *const made[] = {"new", "new/deep", "newer", "newer/shared", "there/below"};
  static const mode_t masks[] = {0777, 077, 0};
  injection_make_directory(self, "there", 0755, 0);
  injection_write(self, "precious", "precious", 0644);
  assert_int_equal(symlink("there", injection_path(self, "link")), 0);
  assert_int_equal(symlink("nowhere", injection_path(self, "dangling")), 0);
  assert_int_equal(symlink("precious", injection_path(self, "to precious")), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *said = rows[i].said != NULL ? rows[i].said : rows[i].target;
    mode_t before = umask(masks[i % 3]);
    makes(self, rows[i].target, said, rows[i].copy != NULL ? rows[i].copy : said);
    umask(before);
  }
  for (size_t i = 0; i < sizeof made / sizeof *made; i++)
    expect_mode(self, made[i], S_IFDIR | 0755);
  struct stat precious;
  assert_int_equal(stat(injection_path(self, "precious"), &precious), 0);
  assert_int_equal(precious.st_size, 8);
  assert_int_equal(injection_count(self, ""), 16);
  expect_runs(self, "new/deep/file", 1000);
}

INJECTION_TEST(inject_warns_about_a_private_directory) {
  injection_make_directory(self, "private", 0700, 0);
  struct agent_process *injector = injection_start(self, injection_path(self, "private"));
  assert_int_equal(agent_process_wait(injector, WAIT_BOUND_MS), 0);
  assert_non_null(strstr(agent_process_output(injector), "mode 0700: not every user"));
  agent_process_free(injector);
  expect_mode(self, "private", S_IFDIR | 0700);
}

INJECTION_TEST(the_target_may_be_relative_or_have_spaces) {
  static const char *const rows[][2] = {
      {"bare", "bare"}, {"a b/ c\td /my agent", "a b/ c\td /my agent"}, {".", "agent"}};
  self->setup.directory = self->path;
  static char program[512]; /* a relative path would not be found from there */
  assert_non_null(realpath(agent_process_program(), program));
  self->setup.program = program;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    injection_expect_success(injection_start(self, rows[i][0]));
    injection_expect_copy(self, rows[i][1]);
  }
}

INJECTION_TEST(inject_replaces_an_older_file) {
  injection_write(self, "agent", "half of a prog", 0600);
  int reader = open(injection_path(self, "agent"), O_RDONLY | O_CLOEXEC);
  assert_true(reader >= 0);
  injection_makes(self, "agent", "agent");
  char old[32];
  assert_int_equal(read(reader, old, sizeof old), 14); /* an open descriptor keeps the old file */
  close(reader);
}

INJECTION_TEST(an_injected_copy_can_replace_itself) {
  injection_succeeds(self, "agent");
  char copy[512];
  snprintf(copy, sizeof copy, "%s", injection_path(self, "agent"));
  self->setup.program = copy;
  injection_makes(self, "agent", "agent");
}

/* A running program neither makes the injector fail nor prevents others from running the copy. */
INJECTION_TEST(inject_replaces_a_running_program) {
  injection_succeeds(self, "agent");
  const char *const arguments[] = {"--redis-url", "redis://127.0.0.1:1", "--job-id", "j", NULL};
  struct agent_process *running = agent_process_start(
      &(struct agent_setup){.program = injection_path(self, "agent"), .arguments = arguments});
  agent_process_wait_log(running, "127.0.0.1");
  /* The running agent exits in the end because its server does not exist. A slow program injects
     less often. */
  int times = agent_process_is_shipped() ? 30 : 3;
  for (int i = 0; i < times; i++) {
    struct agent_process *injector = injection_start(self, injection_path(self, "agent"));
    while (agent_process_is_running(injector))
      expect_runs(self, "agent", 0);
    injection_expect_success(injector);
  }
  assert_true(agent_process_is_running(running));
  agent_process_free(running);
  injection_expect_copy(self, "agent");
}

INJECTION_TEST(any_user_may_inject_into_its_directory) {
  injection_make_directory(self, "shared", 0755, 1000);
  self->setup.uid = 1000;
  injection_makes(self, "shared/a/agent", "shared/a/agent");
  expect_runs(self, "shared/a/agent", 1000);
  expect_runs(self, "shared/a/agent", 2000);
}

/* A program that its user cannot read is not dumpable, so no process of the same user can read the
   agent's memory. Such a copy cannot inject itself, and it reports that. */
INJECTION_TEST(an_ordinary_user_can_run_but_not_read_the_copy) {
  injection_makes(self, "shared/agent", "shared/agent");
  expect_runs(self, "shared/agent", 1000);
  injection_make_directory(self, "own", 0755, 1000);
  self->setup.uid = 1000;
  self->setup.program = injection_path(self, "shared/agent");
  injection_expect_refusal(self, "own/agent", "own/agent",
                           "the running program cannot be read: Permission denied",
                           "as a user who may read it");
}

/* With the fsGroup of a pod, for example, the shared directory has another owner. */
INJECTION_TEST(a_member_of_the_group_may_inject) {
  injection_make_directory(self, "shared", 02775, 0);
  assert_int_equal(chown(injection_path(self, "shared"), 0, 1000), 0);
  assert_int_equal(chmod(injection_path(self, "shared"), 02775), 0);
  self->setup.uid = 1000;
  injection_succeeds(self, "shared/");
  injection_makes(self, "shared/sub/agent", "shared/agent");
  expect_runs(self, "shared/sub/agent", 2000);
}

static void close_standard_descriptors(const void *context) {
  for (const char *fd = context; *fd != '\0'; fd++)
    close(*fd - '0');
}

INJECTION_TEST(inject_works_with_closed_standard_descriptors) {
  static const char *const closed[] = {"0", "1", "2", "01", "02", "12", "012"};
  self->setup.prepare = close_standard_descriptors;
  for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
    self->setup.prepare_context = closed[i];
    injection_makes(self, closed[i], closed[i]);
  }
}

/* Between file systems the kernel cannot share blocks. */
INJECTION_TEST(inject_copies_to_another_file_system) {
  injection_mount(self, "shared", "size=64m", 0);
  injection_makes(self, "shared", "shared/agent");
  char copy[512];
  snprintf(copy, sizeof copy, "%s", injection_path(self, "shared/agent"));
  self->setup.program = copy;
  injection_succeeds(self, "shared/again/agent"); /* within tmpfs */
  injection_expect_copy(self, "shared/again/agent");
  injection_makes(self, "back", "back");
}

static void leave_no_proc(const void *context) {
  (void)context;
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    _exit(AGENT_PROCESS_NO_START);
  while (umount2("/proc", MNT_DETACH) == 0)
    ; /* mounts may be stacked */
  if (access("/proc/self", F_OK) == 0)
    _exit(AGENT_PROCESS_NO_START);
}

INJECTION_TEST_IF(agent_process_is_shipped(), inject_works_without_proc) {
  self->setup.prepare = leave_no_proc;
  injection_makes(self, "a/agent", "a/agent");
}

static void limit_memory(const void *context) {
  (void)context;
  const struct rlimit limit = {SMALL_ADDRESS_SPACE, SMALL_ADDRESS_SPACE};
  if (setrlimit(RLIMIT_AS, &limit) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

INJECTION_TEST_IF(agent_process_is_shipped(), inject_needs_little_memory) {
  self->setup.prepare = limit_memory;
  injection_makes(self, "a/agent", "a/agent");
}

/* A carrier image, for example, has only the program. */
INJECTION_TEST_IF(agent_process_is_shipped(), inject_works_in_an_empty_root) {
  injection_make_directory(self, "root", 0755, 0);
  injection_make_directory(self, "root/shared", 0755, 1000);
  injection_succeeds(self, "root/agent");
  assert_int_equal(chmod(injection_path(self, "root/agent"), 0755),
                   0); /* as in the carrier image */
  char root[512];
  snprintf(root, sizeof root, "%s", injection_path(self, "root"));
  self->setup.root = root;
  self->setup.prepare = limit_memory;
  injection_expect_success(injection_start(self, "/first"));
  injection_expect_copy(self, "root/first");
  self->setup.uid = 1000;
  injection_expect_success(injection_start(self, "/shared/agent"));
  injection_expect_copy(self, "root/shared/agent");
  assert_int_equal(injection_count(self, "root"), 4);
}

TEST_GROUP(injection_begin_group, NULL)
