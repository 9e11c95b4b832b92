#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/test.h"

enum { TESTS_MAX = 256, SHARDS_MAX = 16 };

static struct CMUnitTest tests[TESTS_MAX];
static size_t test_count;
static CMFixtureFunction group_set_up, group_tear_down;
static int shard_count = 1;

/* Called before main, in the order of the tests in their file. */
void test_register(const struct test *test) {
  if (test_count == TESTS_MAX)
    abort();
  tests[test_count++] = (struct CMUnitTest){.name = test->name,
                                            .test_func = test->run,
                                            .setup_func = test->fixture[0],
                                            .teardown_func = test->fixture[1]};
}

void test_register_group(CMFixtureFunction set_up, CMFixtureFunction tear_down) {
  group_set_up = set_up;
  group_tear_down = tear_down;
}

void test_overlap(int processes) {
  if (processes < 1 || processes > SHARDS_MAX)
    abort();
  shard_count = processes;
}

/* Runs each `step`th test from `first` on. Orphans of the steps become children of this process
   (see proc_find). */
static int run(size_t first, size_t step) {
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct CMUnitTest chosen[TESTS_MAX];
  size_t count = 0;
  for (size_t i = first; i < test_count; i += step)
    chosen[count++] = tests[i];
  return count == 0 ? 0
                    : _cmocka_run_group_tests(program_invocation_short_name, chosen, count,
                                              group_set_up, group_tear_down);
}

/* Collects the output, so that the reports of parallel processes do not mix. */
static pid_t start_shard(int number, int output) {
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)
    _exit(1);
  exit(run((size_t)number, (size_t)shard_count));
}

static void copy_output(int fd) {
  char bytes[16384];
  ssize_t length;
  (void)lseek(fd, 0, SEEK_SET);
  while ((length = read(fd, bytes, sizeof bytes)) > 0)
    (void)fwrite(bytes, 1, (size_t)length, stdout);
  close(fd);
}

static int run_shards(const int count) {
  int outputs[SHARDS_MAX] = {0}, failed = 0;
  pid_t pids[SHARDS_MAX] = {0};
  for (int i = 0; i < count; i++) {
    outputs[i] = memfd_create("shard", MFD_CLOEXEC);
    pids[i] = start_shard(i, outputs[i]);
    if (outputs[i] < 0 || pids[i] < 0)
      abort();
  }
  for (int i = 0; i < count; i++) {
    int status;
    failed += waitpid(pids[i], &status, 0) != pids[i] || status != 0;
    copy_output(outputs[i]);
  }
  return failed;
}

int main(void) {
  umask(022);
  const char *filter = getenv("TEST_FILTER");
  if (filter != NULL)
    cmocka_set_test_filter(filter);
  return shard_count > 1 && filter == NULL ? run_shards(shard_count) : run(0, 1);
}
