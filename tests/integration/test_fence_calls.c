/* The system calls of steps, counted by strace: a step without a sandbox policy makes none of those
   that a policy needs, neither in the agent nor in the supervisor nor in the child. */

#include <sys/mman.h>

#include "tests/support/agent_process.h"
#include "tests/support/directory.h"
#include "tests/test.h"

enum { FEW = 1, MANY = 21 };

/* Of a line of the trace such as "17 prctl(PR_SET_NO_NEW_PRIVS, 1". */
static const char *const calls[] = {
    " landlock_create_ruleset(",
    " landlock_add_rule(",
    " landlock_restrict_self(",
    " seccomp(",
    " prctl(PR_SET_NO_NEW_PRIVS",
    " prctl(PR_SET_SECCOMP",
    " openat2(",
};
enum { CALLS = sizeof calls / sizeof *calls };

struct counts {
  int of[CALLS];
  int all;
};

static struct directory directory;

static int set_up(void **state) {
  (void)state;
  directory_init(&directory);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  directory_release(&directory);
  return 0;
}

TEST_GROUP(set_up, tear_down)

static void read_input(const void *fd) {
  (void)dup2(*(const int *)fd, STDIN_FILENO);
}

/* Continued lines ("<... read resumed>") count once. */
static void count_line(const char *line, struct counts *counts) {
  if (strstr(line, "resumed>") != NULL || strstr(line, " --- ") != NULL ||
      strstr(line, " +++ ") != NULL)
    return;
  counts->all++;
  for (size_t i = 0; i < CALLS; i++)
    counts->of[i] += strstr(line, calls[i]) != NULL;
}

static struct counts read_trace(const char *path) {
  struct counts counts = {.all = 0};
  char *line = NULL;
  size_t size = 0;
  FILE *file = fopen(path, "re");
  assert_non_null(file);
  while (getline(&line, &size, file) > 0)
    count_line(line, &counts);
  free(line);
  assert_int_equal(fclose(file), 0);
  return counts;
}

/* Runs this many steps. `policy` is of --fence, or NULL. */
static struct counts count(int steps, const char *policy) {
  const char *trace = directory_path(&directory, "trace");
  const char *const arguments[] = {"-f",      "-qq",
                                   "-s0",     "-o",
                                   trace,     agent_process_program(),
                                   "--stdio", policy == NULL ? NULL : "--fence",
                                   policy,    NULL};
  /* LeakSanitizer does not work under strace. */
  const char *const environment[] = {"ASAN_OPTIONS=detect_leaks=0", NULL};
  int input = memfd_create("input", MFD_CLOEXEC);
  assert_true(input >= 0);
  for (int i = 0; i < steps; i++)
    dprintf(input, "{\"id\":%d,\"method\":\"execute\",\"params\":{\"command\":\"true\"}}\n", i);
  assert_int_equal(lseek(input, 0, SEEK_SET), 0);
  struct agent_process *agent =
      agent_process_start(&(struct agent_setup){.program = "/usr/bin/strace",
                                                .arguments = arguments,
                                                .environment = environment,
                                                .inherited_fd = input,
                                                .prepare = read_input,
                                                .prepare_context = &input});
  if (agent_process_wait(agent, WAIT_BOUND_MS) != 0)
    agent_process_fail(agent, "strace does not exit with 0");
  agent_process_free(agent);
  close(input);
  return read_trace(trace);
}

/* Those that the additional steps make. */
static struct counts count_of_steps(const char *policy) {
  struct counts few = count(FEW, policy), many = count(MANY, policy);
  many.all -= few.all;
  for (size_t i = 0; i < CALLS; i++)
    many.of[i] -= few.of[i];
  return many;
}

TEST(a_step_without_a_policy_makes_no_call_for_one) {
  struct counts counts = count_of_steps(NULL);
  print_message("# %.1f system calls a step\n", (double)counts.all / (MANY - FEW));
  for (size_t i = 0; i < CALLS; i++)
    if (counts.of[i] != 0)
      fail_msg("%d calls more of%s)", counts.of[i], calls[i]);
}

TEST(a_step_with_a_policy_is_seen_to_make_them) {
  struct counts counts = count_of_steps("{\"writePaths\":[\"/tmp\"],\"network\":\"none\"}");
  print_message("# %.1f system calls a step with a policy\n", (double)counts.all / (MANY - FEW));
  assert_true(counts.of[2] >= MANY - FEW);
  assert_true(counts.of[3] + counts.of[5] >= MANY - FEW);
  assert_true(counts.of[4] >= MANY - FEW);
}
