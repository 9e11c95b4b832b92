#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>

#include "agent/process/process.h"
#include "agent/process/supervisor_message.h"
#include "tests/support/gate.h"
#include "tests/support/loop.h"
#include "tests/support/proc.h"
#include "tests/test.h"

enum { DRAIN_MS = 1500, READ_SIZE = 65536 };

/* The owner of a process in a test: starts `sh -c script`, reads its output and records its
   outcome. The script has a directory of its own in $D. */
struct process_owner {
  struct loop loop;
  struct process_context context;
  struct list drains;
  int oom_score_fd;        /* of this process */
  struct process *process; /* NULL: none */
  char script[1024];
  char *argv[4];           /* of the script */
  char output[2][1 << 19]; /* texts, by stream */
  size_t length[2];
  int ended; /* calls */
  struct process_outcome outcome;
};

static void on_readable(void *owner, enum process_stream stream) {
  struct process_owner *self = owner;
  size_t capacity = sizeof self->output[stream] - 1 - self->length[stream];
  assert_true(capacity > READ_SIZE);
  ssize_t n =
      process_read(self->process, stream, self->output[stream] + self->length[stream], READ_SIZE);
  if (n > 0)
    self->length[stream] += (size_t)n;
  self->output[stream][self->length[stream]] = '\0';
}

static void on_ended(void *owner, struct process_outcome *outcome) {
  struct process_owner *self = owner;
  self->ended++;
  self->outcome = *outcome;
}

static void reap_all(void *owner) {
  struct process_owner *self = owner;
  (void)supervisors_reap(self->context.supervisors);
}

static void make_supervisors(struct process_owner *self) {
  struct supervisor_options options = {.stdin_fd = self->context.stdin_fd,
                                       .oom_score_fd = self->oom_score_fd};
  getrlimit(RLIMIT_NOFILE, &options.open_files);
  self->context.supervisors = supervisors_new(self->loop.base, &options);
}

static int set_up(void **state) {
  struct process_owner *self = calloc(1, sizeof *self);
  assert_non_null(self);
  loop_init(&self->loop);
  self->loop.reap = reap_all;
  self->loop.owner = self;
  self->context.base = self->loop.base;
  self->context.grace_ms = 10000;
  self->context.drain_ms = DRAIN_MS;
  self->context.drains = &self->drains;
  self->context.stdin_fd = self->loop.stdin_fd;
  self->oom_score_fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  assert_true(self->oom_score_fd > 0);
  make_supervisors(self);
  *state = self;
  return 0;
}

static void free_process(struct process_owner *self) {
  process_free(self->process);
  self->process = NULL;
}

static int tear_down(void **state) {
  struct process_owner *self = *state;
  if (self->process != NULL)
    free_process(self);
  supervisors_free(self->context.supervisors);
  process_end_drains(&self->context);
  close(self->oom_score_fd);
  loop_release(&self->loop);
  free(self);
  return 0;
}

static const struct process_handler handler = {.readable = on_readable, .ended = on_ended};

static uint32_t add_texts(struct buffer *body, char *const *texts) {
  uint32_t count = 0;
  for (; texts[count] != NULL; count++)
    buffer_add(body, texts[count], strlen(texts[count]) + 1);
  return count;
}

static void start_argv(struct process_owner *self, char *const *argv) {
  struct process_spec spec = {.timeout_seconds = 600};
  spec.message.arguments = add_texts(&spec.body, argv);
  spec.message.variables = add_texts(&spec.body, self->loop.environment);
  buffer_add(&spec.body, ".", sizeof ".");
  struct error error;
  memset(self->length, 0, sizeof self->length);
  self->output[0][0] = self->output[1][0] = '\0';
  self->ended = 0;
  self->process = process_new(&self->context, &spec, false, &handler, self, &error);
  buffer_release(&spec.body);
  assert_non_null(self->process);
  assert_int_equal(self->ended, 0);
}

static char *const *make_script(struct process_owner *self, const char *script) {
  static char shell[] = "sh";
  static char option[] = "-c";
  snprintf(self->script, sizeof self->script, "%s", script);
  self->argv[0] = shell;
  self->argv[1] = option;
  self->argv[2] = self->script;
  return self->argv;
}

static void start(struct process_owner *self, const char *script) {
  start_argv(self, make_script(self, script));
}

static bool is_gone(void *context) {
  return kill(*(pid_t *)context, 0) != 0;
}

static void reap(struct process_owner *self) {
  pid_t pid = process_pid(self->process);
  while (pid == 0)
    pid = process_pid(self->process);
  assert_true(loop_until(&self->loop, is_gone, &pid));
}

static void await_end(struct process_owner *self) {
  assert_true(loop_until(&self->loop, loop_is_counted, &self->ended));
  loop_settle(&self->loop);
  assert_int_equal(self->ended, 1);
  free_process(self);
}

static void ends(struct process_owner *self, enum process_end end) {
  await_end(self);
  assert_int_equal(self->outcome.end, end);
}

static void exits(struct process_owner *self, int exit_code) {
  ends(self, PROCESS_EXITED);
  assert_true(WIFEXITED(self->outcome.report.status));
  assert_int_equal(WEXITSTATUS(self->outcome.report.status), exit_code);
}

struct expectation {
  const struct process_owner *owner;
  const char *text;
};

static bool is_met(void *context) {
  const struct expectation *expected = context;
  return strcmp(expected->owner->output[PROCESS_STDOUT], expected->text) == 0;
}

static void expect(struct process_owner *self, const char *text) {
  struct expectation expected = {.owner = self, .text = text};
  if (!loop_until(&self->loop, is_met, &expected))
    assert_string_equal(self->output[PROCESS_STDOUT], text);
}

#define PROCESS_TEST(NAME) TEST_WITH(struct process_owner *owner, NAME, set_up, tear_down)

static bool drain_is_over(void *since_ms) {
  return wait_now_ms() - *(const int64_t *)since_ms > DRAIN_MS + 100;
}

/* The drain ends while the owner reads nothing: later output is not read. */
PROCESS_TEST(output_that_is_in_a_held_pipe_when_the_drain_ends_is_read) {
  start(owner, "(" GATE("$D/go") "echo late; touch $D/alive; exec sleep 3001) & echo hi");
  process_pause(owner->process, true);
  reap(owner);
  int64_t reaped_ms = wait_now_ms();
  assert_true(loop_until(&owner->loop, drain_is_over, &reaped_ms));
  assert_int_equal(owner->ended, 0); /* "hi" is not read yet */
  loop_open_gate(&owner->loop, "go");
  loop_await_file(&owner->loop, "alive");
  process_pause(owner->process, false);
  await_end(owner);
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
  start(owner, "sleep 3011 & echo hi");
  reap(owner);
  loop_settle(&owner->loop);
  pid_t supervisor = proc_child_of(getpid(), 0);
  pid_t tracer = freeze_supervisor(supervisor);
  exits(owner, 0);
  assert_string_equal(owner->output[PROCESS_STDOUT], "hi\n");
  assert_int_equal(owner->outcome.survivors, -1);
  assert_int_equal(owner->outcome.report.usage.processes, -1);
  assert_int_equal(owner->outcome.holder.pid, 0);
  assert_int_equal(kill(tracer, SIGKILL), 0);
}

struct reporter {
  pid_t pid;
  const char *file;
};

/* Whether the supervisor has reaped the command and waits. */
static bool has_reported(void *context) {
  const struct reporter *self = context;
  return access(self->file, F_OK) == 0 && proc_child_count(self->pid, NULL) == 0 &&
         proc_state(self->pid) == 'S';
}

PROCESS_TEST(a_report_counts_if_its_supervisor_dies_after_it) {
  char file[512];
  snprintf(file, sizeof file, "%s/done", owner->loop.directory.path);
  start(owner, "exit 0");
  exits(owner, 0);
  struct reporter reporter = {.pid = proc_child_of(getpid(), 0), .file = file};
  start(owner, ": >$D/done");
  assert_true(wait_until(has_reported, &reporter, WAIT_BOUND_MS));
  assert_int_equal(kill(reporter.pid, SIGKILL), 0);
  siginfo_t info;
  assert_int_equal(waitid(P_PID, (id_t)reporter.pid, &info, WEXITED | WNOWAIT), 0);
  (void)supervisors_reap(owner->context.supervisors);
  assert_true(is_gone(&reporter.pid));
  assert_false(supervisors_are_killing(owner->context.supervisors));
  exits(owner, 0);
  assert_int_equal(owner->outcome.report.usage.processes, 1);
}

static void says(struct process_owner *owner, const char *script, const char *expected) {
  start(owner, script);
  exits(owner, 0);
  assert_string_equal(owner->output[PROCESS_STDOUT], expected);
}

static bool has_no_child(void *context) {
  (void)context;
  int zombies;
  return proc_child_count(getpid(), &zombies) == zombies;
}

/* The supervisor holds a copy of the agent's memory, so the agent could not really free it. */
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
    start_argv(owner, argv);
    exits(owner, 0);
    (void)snprintf(expected, sizeof expected, "%d first last\n", count);
    assert_string_equal(owner->output[PROCESS_STDOUT], expected);
  }
  free(argv);
}

/* --- process_stop ----------------------------------------------------------------------------- */

/* A grace that is longer than a test may take. */
#define FOREVER_MS 3600000

PROCESS_TEST(a_stop_ends_the_wait_for_a_background_process) {
  owner->context.drain_ms = FOREVER_MS; /* only the stop can end the wait */
  start(owner, "sleep 3112 & echo hi; exit 2");
  expect(owner, "hi\n");
  reap(owner);
  process_stop(owner->process, FOREVER_MS);
  assert_int_equal(owner->ended, 0); /* never from inside a call */
  process_stop(owner->process, 0);
  await_end(owner);
  assert_int_equal(owner->outcome.end, PROCESS_EXITED);
  assert_int_equal(WEXITSTATUS(owner->outcome.report.status), 2);
  assert_true(proc_wait_for("sleep 3112", WAIT_BOUND_MS) > 0);
}
