/* Injectors that are killed at any moment, that find no space at any moment, and many at once. Each
   file is the old one or the new one, complete, or does not exist if there was none before; the
   tools are complete or do not exist. The next injector removes what killed ones left. */

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>

#include "tests/support/injection.h"
#include "tests/test.h"

enum { AT_ONCE = 60, CALLS_MAX = 10000, PAGE = 4096 };

/* A process that reads the target as often as it can. */
struct reader {
  pid_t pid;
  struct {
    atomic_bool stop;
    atomic_int seen[3]; /* indexed by enum injection_state */
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

/* Fails if the process has ever found an incomplete file. */
static void reader_stop(struct reader *self) {
  assert_true(wait_until(reader_has_seen_it, self, WAIT_BOUND_MS));
  self->shared->stop = true;
  int status;
  assert_int_equal(waitpid(self->pid, &status, 0), self->pid);
  assert_int_equal(status, 0);
  assert_int_equal(self->shared->seen[INJECTION_OTHER], 0);
  munmap(self->shared, sizeof *self->shared);
}

static void end_of(struct agent_process *injector, bool may_be_killed) {
  int code = agent_process_wait(injector, WAIT_BOUND_MS);
  if (code != 0 && (code != -SIGKILL || !may_be_killed))
    agent_process_fail(injector, "exit code %d", code);
  agent_process_free(injector);
}

static const char *const companions[] = {"ca-certificates.crt", "sandbox"};
enum { COMPANIONS = sizeof companions / sizeof *companions };

static void put_file(struct injection *self, const char *place, const char *file,
                     const char *content) {
  char name[64];
  snprintf(name, sizeof name, "%s/%s", place, file);
  (void)unlink(injection_path(self, "%s", name));
  injection_write(self, name, content, 0644);
}

/* Fills the carrier with three entries of tools, a bundle and a client, all with this content. */
static void put_content(struct injection *self, const char *place, const char *content) {
  const char *const words[] = {"python", "python/lib"};
  for (size_t i = 0; i < 2; i++)
    (void)mkdir(injection_path(self, "%s/%s", place, words[i]), 0755);
  put_file(self, place, "python/lib/module", content);
  put_file(self, place, "python/tool", content);
  for (size_t i = 0; i < COMPANIONS; i++)
    put_file(self, place, companions[i], content);
}
enum { TOOLS = 3, ALL = 1 + TOOLS + COMPANIONS + 1 /* entries of a volume after an injection */ };

static int set_up_carrier(void **state) {
  injection_set_up(state);
  struct injection *self = *state;
  injection_mount(self, "root", "size=64m", 0); /* in memory, because a disk is slow to sync */
  injection_make_directory(self, "root/shared", 0755, 0);
  injection_succeeds(self, "root/agent");
  assert_int_equal(chmod(injection_path(self, "root/agent"), 0755),
                   0); /* as in the carrier image */
  put_content(self, "root", "new");
  injection_use_root(self);
  return 0;
}

/* This uses the shipped program. A program with sanitizers makes thousands of system calls before
   main(). */
#define CARRIER_TEST(NAME)                                                                         \
  TEST_WITH_IF(agent_process_is_shipped(), struct injection *self, NAME, set_up_carrier,           \
               injection_tear_down)

/* The content is at most one byte longer than "new". */
static bool has_content(struct injection *self, const char *name, const char *content) {
  char found[5] = "";
  int fd = open(injection_path(self, "root/shared/%s", name), O_RDONLY | O_CLOEXEC);
  bool has = fd >= 0 && read(fd, found, 4) == (ssize_t)strlen(content);
  close(fd);
  return has && strcmp(found, content) == 0;
}

static bool has_tools(struct injection *self, const char *content) {
  return has_content(self, "python/tool", content) &&
         has_content(self, "python/lib/module", content) &&
         injection_count(self, "root/shared/python") == TOOLS;
}

static bool is_absent(struct injection *self, const char *name) {
  return access(injection_path(self, "root/shared/%s", name), F_OK) != 0;
}

/* Whether it is the program, in its last mode. */
static bool has_program(struct injection *self) {
  const char *path = injection_path(self, "root/shared/agent");
  struct stat file;
  return injection_look(path) == INJECTION_WHOLE && stat(path, &file) == 0 &&
         (file.st_mode & 07777) == 0111;
}

/* `old` is the content before, or NULL. */
static void expect_whole(struct injection *self, const char *old) {
  bool was_there = old != NULL;
  assert_true(has_program(self) ||
              (was_there ? has_content(self, "agent", old) : is_absent(self, "agent")));
  for (size_t i = 0; i < COMPANIONS; i++)
    assert_true(
        has_content(self, companions[i], "new") ||
        (was_there ? has_content(self, companions[i], old) : is_absent(self, companions[i])));
  assert_true(is_absent(self, "python") || has_tools(self, "new") ||
              (was_there && has_tools(self, old)));
}

static void expect_new(struct injection *self) {
  injection_expect_copy(self, "root/shared/agent");
  assert_true(has_tools(self, "new"));
  for (size_t i = 0; i < COMPANIONS; i++)
    assert_true(has_content(self, companions[i], "new"));
  assert_int_equal(injection_count(self, "root/shared"), ALL);
}

/* The next injector succeeds and leaves only its own files. */
static void expect_next(struct injection *self) {
  self->setup.prepare = NULL;
  injection_expect_success(injection_start(self, "/shared/"));
  expect_new(self);
}

CARRIER_TEST(concurrent_injections_survive_the_death_of_some) {
  struct agent_process *injectors[AT_ONCE];
  struct reader reader;
  reader_start(&reader, injection_path(self, "root/shared/agent"));
  for (int i = 0; i < AT_ONCE; i++) {
    injectors[i] = injection_start(self, i % 4 == 3 ? "/shared/another" : "/shared/");
    if (i % 3 == 2)
      kill(agent_process_pid(injectors[i - 1]), SIGKILL);
    if (i % 20 == 10) /* so that a reader may also find no file */
      (void)unlink(injection_path(self, "root/shared/agent"));
  }
  for (int i = 0; i < AT_ONCE; i++)
    end_of(injectors[i], i % 3 == 1);
  injection_expect_success(injection_start(self, "/shared/another"));
  assert_int_equal(unlink(injection_path(self, "root/shared/another")), 0);
  expect_next(self);
  reader_stop(&reader);
}

/* An ordinary user cannot lock the hidden file of another injector that has its last mode. */
INJECTION_TEST(concurrent_injections_of_an_ordinary_user_succeed) {
  struct agent_process *injectors[AT_ONCE];
  injection_make_directory(self, "shared", 0755, 1000);
  self->setup.uid = 1000;
  for (int i = 0; i < AT_ONCE; i++)
    injectors[i] = injection_start(self, injection_path(self, "shared/agent"));
  for (int i = 0; i < AT_ONCE; i++)
    end_of(injectors[i], false);
  assert_int_equal(injection_count(self, "shared"), 1);
}

static void be_traced(const void *context) {
  (void)context;
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
    _exit(AGENT_PROCESS_NO_START);
}

/* Waits until the process stops; returns false if it has exited, and leaves it to be reaped. */
static bool comes_to_a_stop(pid_t pid) {
  siginfo_t info;
  int status;
  assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOWAIT), 0);
  return (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED) &&
         waitpid(pid, &status, 0) == pid;
}

/* Kills an injector between its system calls number n and n + 1. Returns false if it has exited
   before. */
static bool kill_between_calls(struct injection *self, int number) {
  self->setup.prepare = be_traced;
  struct agent_process *victim = injection_start(self, "/shared/");
  pid_t pid = agent_process_pid(victim);
  bool stopped = comes_to_a_stop(pid);                  /* at its exec */
  for (int i = 0; i < 2 * number + 1 && stopped; i++) { /* at each entry and exit */
    assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
    stopped = comes_to_a_stop(pid);
  }
  if (stopped)
    kill(pid, SIGKILL);
  end_of(victim, stopped);
  return stopped;
}

static void put_old(struct injection *self, const char *old) {
  injection_remove(self, "root/shared");
  injection_make_directory(self, "root/shared", 0755, 0);
  if (old == NULL)
    return;
  put_content(self, "root/shared", old);
  injection_write(self, "root/shared/agent", old, 0755);
}

static void kill_everywhere(struct injection *self, const char *old) {
  int left_behind = 0, calls = 0;
  for (;; calls++) {
    put_old(self, old);
    if (!kill_between_calls(self, calls))
      break;
    expect_whole(self, old);
    int visible = !is_absent(self, "agent") + (is_absent(self, "python") ? 0 : 1 + TOOLS);
    for (size_t i = 0; i < COMPANIONS; i++)
      visible += !is_absent(self, companions[i]);
    left_behind += injection_count(self, "root/shared") > visible;
    expect_next(self);
    assert_in_range(calls, 0, CALLS_MAX);
  }
  assert_in_range(calls, 100, CALLS_MAX);
  assert_in_range(left_behind, 5, calls);
}

CARRIER_TEST(an_injection_into_an_empty_directory_may_be_killed_at_any_system_call) {
  kill_everywhere(self, NULL);
}

CARRIER_TEST(an_injection_over_older_files_may_be_killed_at_any_system_call) {
  kill_everywhere(self, "old");
}

/* Injects with more and more free space, from none to enough for all files. */
static void fill_everywhere(struct injection *self, const char *old) {
  struct stat program;
  assert_int_equal(stat(injection_path(self, "root/agent"), &program), 0);
  long whole = (long)program.st_size / PAGE + 1;
  int code = 3;
  injection_remove(self, "root/shared");
  injection_mount(self, "root/shared", "size=64m", 0);
  for (long pages = 1; code == 3; pages += pages < whole - 10 ? whole / 8 : 1) {
    char options[32];
    const char *volume = injection_path(self, "root/shared");
    assert_int_equal(umount(volume), 0);
    snprintf(options, sizeof options, "size=%ld", (pages + (old != NULL ? 5 : 0)) * PAGE);
    assert_int_equal(mount("tmpfs", volume, "tmpfs", 0, options), 0);
    assert_int_equal(chmod(volume, 0755), 0);
    if (old != NULL) {
      put_content(self, "root/shared", old);
      injection_write(self, "root/shared/agent", old, 0755);
    }
    struct agent_process *injector = injection_start(self, "/shared/");
    code = agent_process_wait(injector, WAIT_BOUND_MS);
    if (code == 3 && strstr(agent_process_log(injector), "No space left") == NULL)
      agent_process_fail(injector, "the log does not say that there is no space");
    agent_process_free(injector);
    assert_int_equal(injection_count(self, "root/shared"), code == 0 || old != NULL ? ALL : 0);
    expect_whole(self, old);
    assert_in_range(pages, 1, whole + 100);
  }
  assert_int_equal(code, 0);
  expect_new(self);
}

CARRIER_TEST(a_full_file_system_keeps_the_older_files) {
  fill_everywhere(self, NULL);
  assert_int_equal(umount(injection_path(self, "root/shared")), 0);
  fill_everywhere(self, "old");
}

TEST_GROUP(injection_begin_group, NULL)
