#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

#include "agent/process/process.h"
#include "agent/process/supervisor_message.h"
#include "tests/support/gate.h"
#include "tests/support/proc.h"
#include "tests/support/process_owner.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* Allows one more descriptor at a time until the process can be made; no failure leaks one. */
PROCESS_TEST(too_few_descriptors_are_an_error_that_names_the_limit) {
  char *argv[] = {"true", NULL};
  char *envp[] = {"PATH=/usr/bin:/bin", NULL};
  const struct process_spec spec = {.exec = {.argv = argv, .envp = envp}, .timeout_seconds = 60};
  static const struct process_handler handler = {0};
  int descriptors = proc_fd_count(getpid());
  int next = dup(STDIN_FILENO);
  close(next);
  struct rlimit usual;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &usual), 0);
  int failures = 0;
  for (;; failures++) {
    struct rlimit few = {.rlim_cur = (rlim_t)(next + failures), .rlim_max = usual.rlim_max};
    struct error error = {.text = ""};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct process *process = process_new(&owner->context, &spec, false, &handler, owner, &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &usual), 0);
    if (process != NULL) {
      process_free(process);
      break;
    }
    assert_non_null(strstr(error.text, ": the open-file limit of "));
    assert_int_equal(proc_fd_count(getpid()), descriptors);
  }
  assert_true(failures >= 4); /* two pipes */
}

static bool both_streams_ended(void *context) {
  const struct process_owner *owner = context;
  return owner->end_of_file[PROCESS_STDOUT] == 1 && owner->end_of_file[PROCESS_STDERR] == 1;
}

PROCESS_TEST(end_of_file_may_come_before_the_exit) {
  process_owner_start(owner, "echo out; exec >&- 2>&-; " GATE("$D/go") "exit 4");
  assert_true(loop_until(&owner->loop, both_streams_ended, owner));
  loop_settle(&owner->loop);
  assert_int_equal(owner->ended, 0);
  char byte;
  assert_int_equal(process_read(owner->process, PROCESS_STDOUT, &byte, 1), 0);
  loop_open_gate(&owner->loop, "go");
  process_owner_exits(owner, 4);
  assert_string_equal(owner->output[PROCESS_STDOUT], "out\n");
}

PROCESS_TEST(the_exit_may_come_before_end_of_file) {
  process_owner_start(owner, "(" GATE("$D/go") "echo late) & echo first; exit 5");
  process_owner_reap(owner);
  loop_settle(&owner->loop);
  assert_int_equal(owner->ended, 0);
  loop_open_gate(&owner->loop, "go");
  process_owner_exits(owner, 5);
  assert_string_equal(owner->output[PROCESS_STDOUT], "first\nlate\n");
  assert_int_equal(owner->outcome.holder.pid, 0);
}

PROCESS_TEST(while_paused_nothing_is_readable) {
  process_owner_start(owner, "echo out; echo err >&2; exit 3");
  process_pause(owner->process, true);
  process_owner_reap(owner);
  loop_settle(&owner->loop);
  assert_int_equal(owner->readable[PROCESS_STDOUT] + owner->readable[PROCESS_STDERR], 0);
  assert_int_equal(owner->ended, 0);
  process_pause(owner->process, false);
  process_owner_exits(owner, 3);
  assert_string_equal(owner->output[PROCESS_STDOUT], "out\n");
  assert_string_equal(owner->output[PROCESS_STDERR], "err\n");
}

PROCESS_TEST(while_paused_the_command_waits) {
  process_owner_start(owner, "touch $D/begun; yes | head -c 400000; touch $D/written");
  process_pause(owner->process, true);
  loop_await_file(&owner->loop, "begun");
  loop_settle(&owner->loop);
  assert_false(directory_has(&owner->loop.directory, "written"));
  process_pause(owner->process, false);
  process_owner_wait(owner);
  assert_int_equal(owner->length[PROCESS_STDOUT], 400000);
  assert_true(directory_has(&owner->loop.directory, "written"));
}

static bool drain_is_over(void *since_ms) {
  return wait_now_ms() - *(const int64_t *)since_ms > PROCESS_OWNER_DRAIN_MS + 100;
}

/* The drain ends while the owner reads nothing: later output is not read. */
PROCESS_TEST(output_that_is_in_a_held_pipe_when_the_drain_ends_is_read) {
  process_owner_start(owner,
                      "(" GATE("$D/go") "echo late; touch $D/alive; exec sleep 3001) & echo hi");
  process_pause(owner->process, true);
  process_owner_reap(owner);
  int64_t reaped_ms = wait_now_ms();
  assert_true(loop_until(&owner->loop, drain_is_over, &reaped_ms));
  assert_int_equal(owner->ended, 0); /* "hi" is not read yet */
  loop_open_gate(&owner->loop, "go");
  loop_await_file(&owner->loop, "alive");
  process_pause(owner->process, false);
  process_owner_wait(owner);
  assert_string_equal(owner->output[PROCESS_STDOUT], "hi\n");
  assert_true(owner->outcome.holder.pid > 0);
  assert_true(proc_wait_for("sleep 3001", WAIT_BOUND_MS) > 0);
}

/* Stops the supervisor with a tracer, because its parent would continue it after a SIGSTOP. Returns
   the pid of the tracer, whose end continues the supervisor. */
static pid_t freeze_supervisor(pid_t supervisor) {
  int ends[2];
  char byte = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    bool is_frozen = ptrace(PTRACE_SEIZE, supervisor, NULL, NULL) == 0 &&
                     ptrace(PTRACE_INTERRUPT, supervisor, NULL, NULL) == 0 &&
                     waitpid(supervisor, NULL, 0) == supervisor;
    (void)!write(ends[1], is_frozen ? "y" : "n", 1);
    for (;;)
      (void)pause();
  }
  assert_int_equal(read(ends[0], &byte, 1), 1);
  assert_int_equal(byte, 'y');
  close(ends[0]);
  close(ends[1]);
  return pid;
}

PROCESS_TEST(survivors_are_unknown_if_the_supervisor_does_not_answer) {
  process_owner_start(owner, "sleep 3011 & echo hi");
  process_owner_reap(owner);
  loop_settle(&owner->loop);
  pid_t supervisor = proc_child_of(getpid(), 0);
  pid_t tracer = freeze_supervisor(supervisor);
  process_owner_exits(owner, 0);
  assert_string_equal(owner->output[PROCESS_STDOUT], "hi\n");
  assert_int_equal(owner->outcome.survivors, -1);
  assert_int_equal(owner->outcome.usage.processes, -1);
  assert_int_equal(owner->outcome.holder.pid, 0);
  assert_int_equal(kill(tracer, SIGKILL), 0);
}

/* The parent of the zombie does not reap it. */
PROCESS_TEST(survivors_are_counted_without_zombies) {
  process_owner_start(owner,
                      "(sh -c 'sleep 0 & echo $! >$D/pid; exec sleep 3012' >$D/x 2>&1 &);"
                      "until [ -s $D/pid ]; do :; done;"
                      "until grep -q '^State:.Z' /proc/$(cat $D/pid)/status; do :; done; echo hi");
  process_owner_exits(owner, 0);
  assert_int_equal(owner->outcome.survivors, 1);
  assert_int_equal(owner->outcome.holder.pid, 0);
}

/* On a busy machine an answer may be late, and a new process may have no page yet. */
static bool has_memory(void *context) {
  const struct process_owner *owner = context;
  int64_t bytes;
  return supervisors_count(owner->context.supervisors) &&
         supervisors_largest_left(owner->context.supervisors, &bytes) != NULL && bytes > 0;
}

static bool is_idle(void *context) {
  const struct process_owner *owner = context;
  return !supervisors_are_busy(owner->context.supervisors);
}

/* The last answer of the supervisor is out of date. */
PROCESS_TEST(background_processes_that_are_gone_use_no_memory) {
  struct supervisors *supervisors = owner->context.supervisors;
  int64_t bytes;
  process_owner_start(owner, "exec >&- 2>&-; sleep 3013 &");
  process_owner_exits(owner, 0);
  assert_true(loop_until(&owner->loop, has_memory, owner));
  assert_int_equal(kill(proc_wait_for("sleep 3013", WAIT_BOUND_MS), SIGKILL), 0);
  assert_true(loop_until(&owner->loop, is_idle, owner));
  assert_null(supervisors_largest_left(supervisors, &bytes));
  assert_int_equal(bytes, 0);
}

struct reporter {
  pid_t pid;
  const char *file;
};

/* It has reaped the command and waits. */
static bool has_reported(void *context) {
  const struct reporter *self = context;
  return access(self->file, F_OK) == 0 && proc_child_count(self->pid, NULL) == 0 &&
         proc_state(self->pid) == 'S';
}

PROCESS_TEST(a_report_counts_if_its_supervisor_dies_after_it) {
  char file[512];
  bool has_died;
  snprintf(file, sizeof file, "%s/done", owner->loop.directory.path);
  process_owner_start(owner, "exit 0");
  process_owner_exits(owner, 0);
  struct reporter reporter = {.pid = proc_child_of(getpid(), 0), .file = file};
  process_owner_start(owner, ": >$D/done");
  assert_true(wait_until(has_reported, &reporter, WAIT_BOUND_MS));
  assert_int_equal(kill(reporter.pid, SIGKILL), 0);
  siginfo_t info;
  assert_int_equal(waitid(P_PID, (id_t)reporter.pid, &info, WEXITED | WNOWAIT), 0);
  (void)supervisors_reap(owner->context.supervisors, &has_died);
  assert_true(has_died);
  assert_false(supervisors_are_killing(owner->context.supervisors));
  process_owner_exits(owner, 0);
  assert_int_equal(owner->outcome.usage.processes, 1);
}

static void says(struct process_owner *owner, const char *script, const char *expected) {
  process_owner_start(owner, script);
  process_owner_exits(owner, 0);
  assert_string_equal(owner->output[PROCESS_STDOUT], expected);
}

static bool has_no_child(void *context) {
  (void)context;
  int zombies;
  return proc_child_count(getpid(), &zombies) == zombies;
}

PROCESS_TEST(a_command_has_a_clean_environment) {
  says(owner, "cat; echo end", "end\n"); /* standard input is empty */
  says(owner, "exec sed -n '/^SigBlk/p;/^SigCgt/p' /proc/self/status",
       "SigBlk:\t0000000000000000\nSigCgt:\t0000000000000000\n");
  says(owner, "exec ls /proc/self/fd", "0\n1\n2\n3\n"); /* 3 is the directory that ls reads */
  says(owner, "set -- $(cat /proc/$$/stat); test $1 = $5 && test $1 = $6 && echo leads", "leads\n");
  says(owner, "cat /proc/self/oom_score_adj", "1000\n");
}

/* It has a copy of the memory, which the agent may free. */
PROCESS_TEST(a_supervisor_of_a_large_agent_serves_one_command) {
  enum { LARGE = 2 * SUPERVISOR_PAGES_MAX * 4096 };
  char *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  memset(memory, 1, LARGE);
  says(owner, "echo $PPID >$D/first", "");
  assert_true(wait_until(has_no_child, NULL, WAIT_BOUND_MS));
  assert_int_equal(munmap(memory, LARGE), 0);
  says(owner, "echo $PPID >$D/second", "");
  says(owner, "test $PPID = $(cat $D/second) && test $PPID != $(cat $D/first) && echo same",
       "same\n");
}

/* Up to messages that travel as a file, whose last page has no space for the pointers. */
PROCESS_TEST(all_arguments_arrive_whatever_their_number) {
  static char sh[] = "sh", option[] = "-c", script[] = "echo $# ${1} $(eval echo \\${$#})";
  static char first[] = "first", last[] = "last", none[] = "";
  enum { MOST = SUPERVISOR_BODY_MAX / sizeof(char *) };
  char **argv = calloc(MOST + 8, sizeof *argv);
  for (int count = 64; count <= MOST; count += count < MOST - 512 ? MOST / 8 - 8 : 64) {
    char expected[64];
    argv[0] = sh;
    argv[1] = option;
    argv[2] = script;
    argv[3] = sh;
    for (int i = 0; i < count; i++)
      argv[4 + i] = i == 0 ? first : i == count - 1 ? last : none;
    argv[4 + count] = NULL;
    process_owner_start_argv(owner, argv, NULL);
    process_owner_exits(owner, 0);
    (void)snprintf(expected, sizeof expected, "%d first last\n", count);
    assert_string_equal(owner->output[PROCESS_STDOUT], expected);
  }
  free(argv);
}

PROCESS_TEST(a_stopped_supervisor_obeys_an_order) {
  process_owner_start(owner, "kill -STOP $PPID; setsid sleep 3021 & echo ready; sleep 3022");
  process_owner_expect(owner, "ready\n");
  process_stop(owner->process, 100);
  process_owner_ends(owner, PROCESS_STOPPED);
  assert_int_equal(owner->outcome.survivors, 0);
  assert_int_equal(proc_find("sleep 302"), 0);
}

/* --- process_stop ----------------------------------------------------------------------------- */

/* A grace that is longer than a test may take. */
#define FOREVER_MS 3600000

#define STUBBORN "trap 'echo term' TERM; echo ready; while :; do sleep 0.01; done 2>&-"

PROCESS_TEST(a_stop_may_precede_the_execution) {
  for (int i = 0; i < 40; i++) {
    process_owner_start(owner, "exec sleep 3114");
    process_stop(owner->process, i % 2 == 0 ? FOREVER_MS : 0);
    process_owner_wait(owner);
    assert_int_equal(owner->outcome.end, PROCESS_STOPPED);
    assert_int_equal(owner->outcome.survivors, 0);
  }
}

PROCESS_TEST(a_stop_after_the_deadline_keeps_the_outcome) {
  owner->timeout_seconds = 1;
  process_owner_start(owner, STUBBORN);
  process_owner_expect(owner, "ready\nterm\n");
  process_stop(owner->process, 0);
  process_owner_ends(owner, PROCESS_TIMED_OUT);
}

PROCESS_TEST(a_stop_ends_the_wait_for_a_background_process) {
  process_owner_start(owner, "sleep 3112 & echo hi; exit 2");
  process_owner_expect(owner, "hi\n");
  process_owner_reap(owner);
  int64_t start_ms = wait_now_ms();
  process_stop(owner->process, FOREVER_MS);
  assert_int_equal(owner->ended, 0); /* never from inside a call */
  process_stop(owner->process, 0);
  process_owner_wait(owner);
  assert_true(wait_now_ms() - start_ms < PROCESS_OWNER_DRAIN_MS);
  assert_int_equal(owner->outcome.end, PROCESS_EXITED);
  assert_int_equal(WEXITSTATUS(owner->outcome.status), 2);
  assert_true(proc_wait_for("sleep 3112", WAIT_BOUND_MS) > 0);
}
