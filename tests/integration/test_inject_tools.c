/* `/python` in the carrier image: copied beside the agent, and found by the steps. */

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/injection.h"
#include "tests/support/job.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { AT_ONCE = 20, OLD = 1000000000 };

static void make_old(struct injection *self, const char *name) {
  const struct timespec times[] = {{.tv_sec = OLD}, {.tv_sec = OLD, .tv_nsec = 123456789}};
  assert_int_equal(utimensat(0, injection_path(self, "%s", name), times, AT_SYMLINK_NOFOLLOW), 0);
}

/* A carrier: the program and some tools; the test's injectors run in it. */
static int set_up_carrier(void **state) {
  injection_set_up(state);
  struct injection *self = *state;
  injection_make_directory(self, "root", 0755, 0);
  injection_succeeds(self, "root/agent");
  injection_make_directory(self, "root/python", 0755, 0);
  injection_make_directory(self, "root/python/bin", 0755, 0);
  injection_make_directory(self, "root/python/lib", 0555, 0);
  injection_write(self, "root/python/bin/tool", "#!/bin/sh\necho the tool\n", 0755);
  injection_write(self, "root/python/lib/module.py", "x = 1\n", 0444);
  injection_write(self, "root/python/lib/.hidden", "", 0600);
  assert_int_equal(symlink("tool", injection_path(self, "root/python/bin/other")), 0);
  assert_int_equal(symlink("/nowhere", injection_path(self, "root/python/bin/dangling")), 0);
  assert_int_equal(mkfifo(injection_path(self, "root/python/lib/fifo"), 0644), 0);
  make_old(self, "root/python/lib/module.py");
  make_old(self, "root/python/lib");
  injection_use_root(self);
  return 0;
}

#define CARRIER_TEST(NAME)                                                                         \
  TEST_WITH_IF(agent_process_is_shipped(), struct injection *self, NAME, set_up_carrier,           \
               injection_tear_down)

static void inject(struct injection *self, const char *target) {
  injection_has_succeeded(injection_start(self, target));
}

static struct stat look(struct injection *self, const char *name) {
  struct stat file;
  if (lstat(injection_path(self, "%s", name), &file) != 0)
    fail_msg("no %s", name);
  return file;
}

static void expect_link(struct injection *self, const char *name, const char *expected) {
  char target[64];
  ssize_t length = readlink(injection_path(self, "%s", name), target, sizeof target - 1);
  assert_true(length >= 0);
  target[length] = '\0';
  assert_string_equal(target, expected);
}

CARRIER_TEST(tools_are_copied_as_they_are) {
  mode_t before = umask(077);
  inject(self, "/a/shared/");
  umask(before);
  injection_expect_copy(self, "root/a/shared/agent");
  assert_int_equal(look(self, "root/a/shared/python").st_mode, S_IFDIR | 0755);
  assert_int_equal(look(self, "root/a/shared/python/bin").st_mode, S_IFDIR | 0755);
  assert_int_equal(look(self, "root/a/shared/python/bin/tool").st_mode, S_IFREG | 0755);
  assert_int_equal(look(self, "root/a/shared/python/lib/.hidden").st_mode, S_IFREG | 0600);
  struct stat module = look(self, "root/a/shared/python/lib/module.py");
  assert_int_equal(module.st_mode, S_IFREG | 0444);
  assert_int_equal(module.st_size, 6);
  assert_int_equal(module.st_mtim.tv_sec, OLD);
  assert_int_equal(module.st_mtim.tv_nsec, 123456789);
  struct stat lib = look(self, "root/a/shared/python/lib");
  assert_int_equal(lib.st_mode, S_IFDIR | 0555);
  assert_int_equal(lib.st_mtim.tv_sec, OLD);
  expect_link(self, "root/a/shared/python/bin/other", "tool");
  expect_link(self, "root/a/shared/python/bin/dangling", "/nowhere");
  assert_int_equal(injection_count(self, "root/a/shared"), 9); /* all but the fifo */
}

CARRIER_TEST(the_next_injection_replaces_them) {
  inject(self, "/shared/");
  assert_int_equal(unlink(injection_path(self, "root/python/bin/other")), 0);
  injection_write(self, "root/python/bin/new", "", 0755);
  injection_write(self, "root/shared/python/lib/stray", "", 0644);
  inject(self, "/shared");
  assert_int_equal(look(self, "root/shared/python/bin/new").st_mode, S_IFREG | 0755);
  assert_int_equal(injection_count(self, "root/shared"), 9);
  assert_int_equal(injection_count(self, "root/shared/python/bin"), 3);
}

/* What the carrier forbids to change, its owner replaces all the same. */
CARRIER_TEST(another_user_may_copy_them_twice) {
  assert_int_equal(chmod(injection_path(self, "root/python/lib/.hidden"), 0644), 0);
  injection_make_directory(self, "root/shared", 0755, 1000);
  self->setup.uid = 1000;
  inject(self, "/shared");
  inject(self, "/shared");
  assert_int_equal(look(self, "root/shared/python/lib").st_mode, S_IFDIR | 0555);
  assert_int_equal(injection_count(self, "root/shared"), 9);
}

CARRIER_TEST(many_at_once_leave_one) {
  struct agent_process *injectors[AT_ONCE];
  for (int i = 0; i < AT_ONCE; i++)
    injectors[i] = injection_start(self, "/shared/");
  for (int i = 0; i < AT_ONCE; i++)
    injection_has_succeeded(injectors[i]);
  assert_int_equal(injection_count(self, "root/shared"), 9);
}

static void is_refused(struct injection *self, const char *target, const char *where,
                       const char *reason) {
  struct agent_process *injector = injection_start(self, target);
  assert_int_equal(agent_process_wait(injector, WAIT_BOUND_MS), 3);
  if (strstr(agent_process_log(injector), where) == NULL ||
      strstr(agent_process_log(injector), reason) == NULL)
    agent_process_fail(injector, "no word of %s, or of %s", where, reason);
  agent_process_free(injector);
}

/* Room for the program, and not for all of the tools. */
CARRIER_TEST(a_full_disk_leaves_neither) {
  struct stat program = look(self, "root/agent");
  char options[32];
  snprintf(options, sizeof options, "size=%lld", (long long)program.st_size + 64 * 1024);
  char big[128 * 1024];
  memset(big, 'x', sizeof big - 1);
  big[sizeof big - 1] = '\0';
  injection_write(self, "root/python/bin/big", big, 0755);
  injection_mount(self, "root/shared", options, 0);
  is_refused(self, "/shared/deep/agent", "/shared/deep/python/bin/big", "No space left");
  assert_int_equal(injection_count(self, "root/shared"), 0);
}

CARRIER_TEST(tools_that_cannot_be_read) {
  injection_make_directory(self, "root/shared", 0755, 1000);
  self->setup.uid = 1000;
  is_refused(self, "/shared/a/agent", "/shared/a/python/lib/.hidden", "Permission denied");
  assert_int_equal(injection_count(self, "root/shared"), 0);
}

CARRIER_TEST(a_file_in_their_place) {
  injection_make_directory(self, "root/shared", 0755, 0);
  injection_write(self, "root/shared/python", "mine", 0644);
  is_refused(self, "/shared", "/shared/python", "Not a directory");
  assert_int_equal(injection_count(self, "root/shared"), 1);
}

/* The program is refused before the tools take their place. */
CARRIER_TEST(a_directory_in_the_agents_place) {
  injection_make_directory(self, "root/shared", 0755, 0);
  injection_make_directory(self, "root/shared/agent", 0755, 0);
  is_refused(self, "/shared", "/shared/agent", "Is a directory");
  assert_int_equal(injection_count(self, "root/shared"), 1);
}

/* The program's rename fails behind that of the tools: nothing can take a mount's place. */
CARRIER_TEST(what_was_there_comes_back) {
  inject(self, "/shared/");
  injection_write(self, "root/python/bin/new", "", 0755);
  const char *target = injection_path(self, "root/shared/agent");
  assert_int_equal(mount(injection_path(self, "root/agent"), target, NULL, MS_BIND, NULL), 0);
  is_refused(self, "/shared", "/shared/agent", "busy");
  assert_int_equal(umount(target), 0);
  assert_int_equal(injection_count(self, "root/shared/python/bin"), 3);
  assert_int_equal(injection_count(self, "root/shared"), 9);
  assert_int_equal(injection_count(self, "root"), 9 + 10 + 2);
}

CARRIER_TEST(they_are_not_copied_into_themselves) {
  is_refused(self, "/python", "/python/agent", "tools");
  is_refused(self, "/python/lib/deep/", "/python/lib/deep/agent", "tools");
  is_refused(self, "/shared/python", "/shared/python", "tools");
  assert_int_equal(injection_count(self, "root/python"), 8);
  assert_int_equal(injection_count(self, "root"), 10);
}

CARRIER_TEST(a_tight_umask_keeps_nobody_out) {
  assert_int_equal(chmod(injection_path(self, "root/python/lib/.hidden"), 0644), 0);
  injection_make_directory(self, "root/shared", 0755, 1000);
  self->setup.uid = 1000;
  mode_t before = umask(0777);
  inject(self, "/shared/a/b/");
  umask(before);
  injection_expect_copy(self, "root/shared/a/b/agent");
  assert_int_equal(injection_count(self, "root/shared/a/b"), 9);
}

static void limit_file_size(const void *context) {
  (void)context;
  const struct rlimit limit = {1000, 1000};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

CARRIER_TEST(a_limit_on_files_is_an_error) {
  self->setup.prepare = limit_file_size;
  is_refused(self, "/new/agent", "/new/agent", "File too large");
  assert_int_not_equal(access(injection_path(self, "root/new"), F_OK), 0);
}

static struct job *start_job(struct injection *self, const char *const *environment) {
  void *state;
  job_setup_server(&state);
  struct job *job = state;
  job->setup = (struct agent_setup){.program = injection_path(self, "root/shared/agent"),
                                    .environment = environment};
  job_start_agent(job, NULL);
  return job;
}

/* The last thing that the job is there for. */
static void expect_last(struct job *job, const cJSON *step, const char *output) {
  job_expect_result(job, job_run(job, step), 0, NULL, output);
  job_shut_down(job);
  job_free(job);
}

CARRIER_TEST(steps_find_them_first) {
  inject(self, "/shared/");
  struct job *job = start_job(self, (const char *const[]){"PATH=/usr/bin:/bin", NULL});
  job_expect_result(job, job_run(job, job_step(job, "tool", NULL)), 0, NULL, "the tool\n");
  expect_last(job, job_script(job, "echo \"$PATH\""),
              job_format(job, "%s/root/shared/python/bin:/usr/bin:/bin\n", self->path));
}

CARRIER_TEST(a_step_that_sets_path_has_its_own) {
  inject(self, "/shared/");
  struct job *job = start_job(self, NULL);
  cJSON *step = job_script(job, "echo \"$PATH\"; tool || echo none");
  cJSON_AddStringToObject(cJSON_AddObjectToObject(step, "env"), "PATH", "/usr/bin:/bin");
  expect_last(job, step, "/usr/bin:/bin\nnone\n");
}

INJECTION_TEST(no_tools_leave_path_alone) {
  injection_succeeds(self, "root/shared/agent");
  struct job *job = start_job(self, (const char *const[]){"PATH=/usr/bin:/bin", NULL});
  expect_last(job, job_script(job, "echo \"$PATH\""), "/usr/bin:/bin\n");
}

TEST_GROUP(injection_begin_group, NULL)
