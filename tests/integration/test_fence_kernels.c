/* Kernels with an older Landlock or without it, container engines that forbid it, and gVisor: what
   cannot be enforced is refused by name, or with bestEffort reported as missing. */

#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/support/container.h"
#include "tests/support/fence_trial.h"
#include "tests/support/landlock_shim.h"
#include "tests/test.h"

FENCE_GROUP()

struct row {
  struct landlock_shim kernel;
  const char *fence;
  const char *answer;             /* or a part of the refusal */
  const char *enforced, *missing; /* words of `started`, separated by spaces; NULL: refused */
  const char *command;
};

static bool lists_all(const struct fence_outcome *outcome, const char *member, const char *words) {
  const char *word;
  for (size_t i = 0; (word = nth_word(words, i)) != NULL && *word != '\0'; i++)
    if (!fence_outcome_lists(outcome, member, word))
      return false;
  return true;
}

static bool is_expected(const struct row *row, const struct fence_outcome *outcome) {
  if (row->missing == NULL)
    return strstr(outcome->answer, row->answer) != NULL && strstr(outcome->answer, "fence") &&
           fence_outcome_started(outcome) == NULL;
  return strcmp(outcome->answer, row->answer) == 0 &&
         lists_all(outcome, "enforced", row->enforced) &&
         lists_all(outcome, "missing", row->missing);
}

static int check(struct fence_trial *trial, const struct row *row,
                 const struct container *container) {
  struct fence_outcome outcome;
  fence_trial_run(trial,
                  &(struct fence_step){.place = FENCE_ROOT,
                                       .container = container,
                                       .command = row->command,
                                       .fence = row->fence,
                                       .prepare = landlock_shim_install,
                                       .prepare_context = &row->kernel},
                  &outcome);
  bool passed = is_expected(row, &outcome);
  char *started = cJSON_PrintUnformatted(fence_outcome_started(&outcome));
  if (!passed || getenv("FENCE_SHOW") != NULL)
    print_message("%s Landlock %d, error %d, %s, `%s`: %s, %s; expected: %s, enforced %s, "
                  "missing %s\n",
                  passed ? "ok" : "FAILED", row->kernel.abi, row->kernel.error, row->fence,
                  row->command, outcome.answer, started == NULL ? "no fence" : started, row->answer,
                  row->enforced == NULL ? "none" : row->enforced,
                  row->missing == NULL ? "(refused)" : row->missing);
  cJSON_free(started);
  return passed ? 0 : 1;
}

static void check_rows(struct fence_trial *trial, const struct row *rows, size_t count,
                       const struct container *container) {
  int failed = 0;
  for (size_t i = 0; i < count; i++)
    failed += check(trial, &rows[i], container);
  assert_int_equal(failed, 0);
}

#define CHECK_ROWS(ROWS, CONTAINER)                                                                \
  check_rows(trial, ROWS, sizeof(ROWS) / sizeof *(ROWS), CONTAINER)

#define WRITE "write @/out/file"
#define CUT "truncate @/out/file"
#define REDIS "redis connect 127.0.0.1 # inet stream 0"
#define WRITE_PATHS "'writePaths':['@/in']"
#define READ_PATHS "'readPaths':['/usr','/bin','/lib','/lib64','/etc','!','@/in']"
#define PORTS "'network':'ports','tcpConnect':[1]"
#define BEST ",'bestEffort':true"
#define SCOPES "signals abstractSockets"
#define GUARD "trace " SCOPES

FENCE_TEST(a_kernel_without_landlock_refuses_a_policy_by_name) {
  static const int errors[] = {ENOSYS, EOPNOTSUPP, EPERM};
  static const char *const fences[] = {"{}", "{" WRITE_PATHS "}", "{" READ_PATHS "}",
                                       "{" PORTS "}"};
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    for (size_t n = 0; n < sizeof fences / sizeof *fences; n++) {
      struct row row = {{.error = errors[i]}, fences[n], "Landlock", NULL, NULL, WRITE};
      check_rows(trial, &row, 1, NULL);
    }
  static const struct row forbidden[] = {
      {{.error = EPERM}, "{}", "seccomp profile forbids", NULL, NULL, WRITE},
  };
  CHECK_ROWS(forbidden, NULL);
}

FENCE_TEST(without_landlock_best_effort_names_what_is_missing) {
  static const struct row rows[] = {
      {{.error = ENOSYS},
       "{'network':'none'" BEST "}",
       "EACCES",
       "network agent",
       GUARD,
       "socket inet stream 0"},
      {{.error = EPERM}, "{" WRITE_PATHS BEST "}", "done", "agent", "write " GUARD, WRITE},
      {{.error = EOPNOTSUPP},
       "{" READ_PATHS BEST "}",
       "done",
       "agent",
       "read " GUARD,
       "read @/out/file"},
      {{.error = ENOSYS}, "{" PORTS BEST "}", "done", "agent", "connect bind " GUARD, REDIS},
      {{.error = ENOSYS}, "{" WRITE_PATHS BEST "}", "EPERM", "agent", "write", "limit agent"},
  };
  CHECK_ROWS(rows, NULL);
}

FENCE_TEST(an_older_landlock_refuses_what_it_cannot_do) {
  static const struct row rows[] = {
      {{.abi = 2}, "{" WRITE_PATHS "}", "has 2", NULL, NULL, WRITE},
      {{.abi = 2}, "{" READ_PATHS "}", "has 2", NULL, NULL, WRITE},
      {{.abi = 2}, "{}", "has 2", NULL, NULL, WRITE},
      {{.abi = 3}, "{}", "has 3", NULL, NULL, WRITE},
      {{.abi = 3}, "{" PORTS "}", "has 3", NULL, NULL, WRITE},
      {{.abi = 3}, "{" WRITE_PATHS "}", "has 3", NULL, NULL, WRITE},
      {{.abi = 4}, "{" PORTS "}", "has 4", NULL, NULL, WRITE},
      {{.abi = 4}, "{'network':'none'}", "has 4", NULL, NULL, WRITE},
      {{.abi = 6},
       "{" WRITE_PATHS "," READ_PATHS "," PORTS "}",
       "EACCES",
       "write read connect bind agent " GUARD,
       "",
       WRITE},
      {{.abi = 6}, "{}", "EPERM", "agent " GUARD, "", "signal kill agent"},
      {{.abi = 6}, "{}", "EPERM", "agent " GUARD, "", "abstract stream $"},
  };
  CHECK_ROWS(rows, NULL);
}

FENCE_TEST(an_older_landlock_with_best_effort_does_what_it_can) {
  static const struct row rows[] = {
      {{.abi = 2}, "{" WRITE_PATHS BEST "}", "done", "trace agent", "write " SCOPES, CUT},
      {{.abi = 3}, "{" WRITE_PATHS BEST "}", "EACCES", "write trace agent", SCOPES, WRITE},
      {{.abi = 3}, "{" WRITE_PATHS BEST "}", "EACCES", "write trace agent", SCOPES, CUT},
      {{.abi = 3},
       "{" READ_PATHS BEST "}",
       "EACCES",
       "read trace agent",
       SCOPES,
       "read @/out/file"},
      {{.abi = 3}, "{" PORTS BEST "}", "done", "trace agent", "connect bind " SCOPES, REDIS},
      {{.abi = 4}, "{" PORTS BEST "}", "EACCES", "connect bind trace agent", SCOPES, REDIS},
      {{.abi = 4}, "{" WRITE_PATHS BEST "}", "EACCES", "write trace agent", SCOPES, WRITE},
      {{.abi = 6}, "{" WRITE_PATHS BEST "}", "EACCES", "write agent " GUARD, "", WRITE},
  };
  CHECK_ROWS(rows, NULL);
}

/* The kernel delivers no signals of steps to process 1. */
FENCE_TEST(process_1_needs_no_landlock_6) {
  static const struct row rows[] = {
      {{.abi = 3}, "{" WRITE_PATHS "}", "EACCES", "write trace agent", SCOPES, WRITE},
      {{.abi = 3},
       "{'network':'none'}",
       "EACCES",
       "network trace agent",
       SCOPES,
       "socket inet stream 0"},
      {{.abi = 4}, "{" PORTS "}", "EACCES", "connect bind trace agent", SCOPES, REDIS},
      {{.abi = 3}, "{" PORTS "}", "has 3", NULL, NULL, REDIS},
      {{.abi = 2}, "{" WRITE_PATHS "}", "has 2", NULL, NULL, WRITE},
      {{.abi = 2}, "{}", "EPERM", "trace agent", SCOPES, "ptrace agent"},
      {{.abi = 3}, "{}", "EPERM", "trace agent", SCOPES, "ptrace agent"},
      {{.error = ENOSYS}, "{}", "done", "agent", GUARD, "ptrace agent"},
  };
  CHECK_ROWS(rows, &(struct container){0});
}

/* gVisor has seccomp without user notification, and no Landlock. */
FENCE_TEST(network_loopback_without_user_notification_is_refused_or_none) {
  static const struct row rows[] = {
      {{.has_no_listener = true}, "{'network':'loopback'}", "loopback", NULL, NULL, REDIS},
      {{.has_no_listener = true}, "{'network':'loopback'" BEST "}", "EACCES", "network", "", REDIS},
      {{.has_no_listener = true}, "{'network':'none'}", "EACCES", "network", "", REDIS},
      {{.error = ENOSYS, .has_no_listener = true},
       "{'network':'loopback'" BEST "}",
       "EACCES",
       "network",
       GUARD,
       REDIS},
      {{.error = ENOSYS, .has_no_listener = true},
       "{'network':'none'" BEST "}",
       "EACCES",
       "network agent",
       GUARD,
       REDIS},
      {{.error = ENOSYS, .has_no_listener = true},
       "{'network':'none'}",
       "Landlock",
       NULL,
       NULL,
       REDIS},
  };
  CHECK_ROWS(rows, NULL);
}

/* The shim has a listener. */
FENCE_TEST(network_loopback_below_another_listener_is_refused_or_none) {
  static const struct row rows[] = {
      {{.abi = 6}, "{'network':'loopback'}", "EBUSY", NULL, NULL, REDIS},
      {{.abi = 6}, "{'network':'loopback'" BEST "}", "EACCES", "network", "loopback", REDIS},
  };
  CHECK_ROWS(rows, NULL);
}

FENCE_TEST(a_network_that_becomes_none_has_no_udp_that_is_missing) {
  static const struct landlock_shim kernel = {.has_no_listener = true};
  struct fence_outcome outcome;
  fence_trial_run(trial,
                  &(struct fence_step){.place = FENCE_ROOT,
                                       .command = "socket inet dgram 0",
                                       .agent_fence = "{'network':'loopback'" BEST "}",
                                       .prepare = landlock_shim_install,
                                       .prepare_context = &kernel},
                  &outcome);
  assert_string_equal(outcome.answer, "EACCES");
  assert_true(fence_outcome_lists(&outcome, "missing", "loopback"));
  assert_false(fence_outcome_lists(&outcome, "missing", "udp"));
}

/* The agent does not start with a policy of its own that it cannot enforce. */
FENCE_TEST(an_agent_whose_policy_cannot_be_enforced_does_not_start) {
  static const struct {
    const char *fence, *log;
    struct landlock_shim kernel;
    int exit_code;
  } rows[] = {
      {"{" WRITE_PATHS "}", "Landlock", {.error = ENOSYS}, 3},
      {"{}", "seccomp profile", {.error = EPERM}, 3},
      {"{" WRITE_PATHS "}", "has 2", {.abi = 2}, 3},
      {"{" PORTS "}", "has 3", {.abi = 3}, 3},
      {"{'network':'loopback'}", "loopback", {.has_no_listener = true}, 3},
      {"{'writePaths':['@/none']}", "@/none", {0}, 3},
      {"{'writePaths':['@/in/link']}", "symbolic link", {0}, 3},
      {"{" WRITE_PATHS BEST "}", "", {.error = ENOSYS}, 0},
      {"{" WRITE_PATHS "}", "", {0}, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct fence_outcome outcome;
    fence_trial_run(trial,
                    &(struct fence_step){.place = FENCE_ROOT,
                                         .script = "echo done",
                                         .agent_fence = rows[i].fence,
                                         .prepare = landlock_shim_install,
                                         .prepare_context = &rows[i].kernel},
                    &outcome);
    if (outcome.exit_code != rows[i].exit_code ||
        strstr(outcome.log, fence_trial_text(trial, rows[i].log)) == NULL ||
        (strstr(outcome.log, "--fence: fence") != NULL) != (rows[i].exit_code != 0))
      fail_msg("--fence %s, Landlock %d, error %d: exit code %d, not %d, log: %s", rows[i].fence,
               rows[i].kernel.abi, rows[i].kernel.error, outcome.exit_code, rows[i].exit_code,
               outcome.log);
  }
}

/* The first members of struct landlock_ruleset_attr. */
struct rules {
  uint64_t fs, net, scoped;
};

/* What landlock_create_ruleset(2) answers below a shim: the version, or the negative error. */
static int ask_shim(const struct landlock_shim *shim, const struct rules *rules, size_t size) {
  enum { CREATE = 444, VERSION = 1 };
  int *answer =
      mmap(NULL, sizeof *answer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(answer != MAP_FAILED);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    landlock_shim_install(shim);
    long result = syscall(CREATE, rules, size, rules == NULL ? VERSION : 0);
    *answer = result < 0 ? -errno : rules == NULL ? (int)result : 0;
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  int result = *answer;
  munmap(answer, sizeof *answer);
  return result;
}

TEST(the_shim_answers_as_those_kernels) {
  const struct rules cut = {.fs = 1 << 14}, devices = {.fs = 1 << 15}, write = {.fs = 2};
  const struct rules net = {.fs = 2, .net = 3}, scopes = {.scoped = 3};
  const struct rules no_net = {.fs = 2};
  const size_t one = sizeof(uint64_t), two = 2 * one, three = 3 * one;
  static const int errors[] = {ENOSYS, EOPNOTSUPP, EPERM};
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    assert_int_equal(ask_shim(&(struct landlock_shim){.error = errors[i]}, NULL, 0), -errors[i]);
    assert_int_equal(ask_shim(&(struct landlock_shim){.error = errors[i]}, &write, one),
                     -errors[i]);
  }
  for (int abi = 2; abi <= 6; abi++) {
    const struct landlock_shim shim = {.abi = abi};
    assert_int_equal(ask_shim(&shim, NULL, 0), abi);
    assert_int_equal(ask_shim(&shim, &write, one), 0);
    assert_int_equal(ask_shim(&shim, &no_net, three), 0);
    assert_int_equal(ask_shim(&shim, &cut, one), abi < 3 ? -EINVAL : 0);
    assert_int_equal(ask_shim(&shim, &devices, one), abi < 5 ? -EINVAL : 0);
    assert_int_equal(ask_shim(&shim, &net, two), abi < 4 ? -E2BIG : 0);
    assert_int_equal(ask_shim(&shim, &scopes, three), abi < 6 ? -E2BIG : 0);
  }
}

TEST_OVERLAP(4)
