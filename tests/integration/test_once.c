/* `agent --once`: one step from standard input, its events and its result on standard output, and
   nothing else needed. */

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tests/support/agent_process.h"
#include "tests/support/directory.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { TIMED_OUT = 124, NOT_RUN = 125, MAX = 1 << 20 };

/* A program that is running, its standard input and output in the test's hands. */
struct once {
  pid_t pid;
  int in;  /* -1: closed */
  int out; /* -1: closed */
  int log;
  char *text; /* what was read so far */
  size_t length;
};

/* Verbose: its log is on standard error, and none of it in the output, which a program may read.
   `out` becomes its output; -1: it is closed. */
static void start_into(struct once *self, bool closed_in, int out) {
  int in[2];
  assert_int_equal(pipe2(in, O_CLOEXEC), 0);
  self->log = memfd_create("log", MFD_CLOEXEC);
  const char *const arguments[] = {agent_process_program(), "--once", "--verbose", NULL};
  self->pid = fork();
  assert_true(self->pid >= 0);
  if (self->pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(in[0], STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(self->log, STDERR_FILENO);
    if (closed_in)
      close(STDIN_FILENO);
    if (out < 0)
      close(STDOUT_FILENO);
    (void)setenv("REDIS_URL", "redis://nobody:secret@192.0.2.1:1", 1);
    execv(arguments[0], (char **)(uintptr_t)arguments);
    _exit(AGENT_PROCESS_NO_START);
  }
  close(in[0]);
  if (out >= 0)
    close(out);
  self->in = in[1];
}

/* Its output is read here. */
static void start(struct once *self, bool closed_in) {
  int out[2];
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  self->out = out[0];
  start_into(self, closed_in, out[1]);
}

static int set_up(void **state) {
  struct once *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->text = calloc(1, MAX);
  assert_non_null(self->text);
  self->in = self->out = self->log = -1;
  signal(SIGPIPE, SIG_IGN);
  *state = self;
  return 0;
}

static void close_fd(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

/* What it was: another one can be started. */
static void forget(struct once *self) {
  close_fd(&self->in);
  close_fd(&self->out);
  close_fd(&self->log);
  self->length = 0;
  self->text[0] = '\0';
}

static int tear_down(void **state) {
  struct once *self = *state;
  if (self->pid > 0)
    proc_kill_tree(self->pid);
  forget(self);
  free(self->text);
  free(self);
  return 0;
}

#define ONCE_TEST(NAME) TEST_WITH(struct once *self, NAME, set_up, tear_down)

static const char *log_of(const struct once *self) {
  static char text[8192];
  ssize_t length = pread(self->log, text, sizeof text - 1, 0);
  text[length > 0 ? length : 0] = '\0';
  return text;
}

static void send_text(struct once *self, const char *text) {
  for (size_t length = strlen(text); length > 0;) {
    ssize_t n = write(self->in, text, length);
    if (n < 0)
      return; /* whoever does not read has said why */
    text += n;
    length -= (size_t)n;
  }
}

/* Waits for so many milliseconds for more output; false: none, or its end. */
static bool read_more(struct once *self, int bound_ms) {
  struct pollfd readable = {.fd = self->out, .events = POLLIN};
  if (poll(&readable, 1, bound_ms) <= 0)
    return false;
  assert_true(self->length < MAX - 1);
  ssize_t n = read(self->out, self->text + self->length, MAX - 1 - self->length);
  if (n <= 0)
    return false;
  self->length += (size_t)n;
  self->text[self->length] = '\0';
  return true;
}

static void read_until(struct once *self, const char *part) {
  int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS;
  while (strstr(self->text, part) == NULL)
    if (!read_more(self, (int)(end_ms - wait_now_ms())))
      fail_msg("no `%s` in `%.2000s`; log: %s", part, self->text, log_of(self));
}

static bool has_exited(void *context) {
  struct once *self = context;
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)self->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == self->pid;
}

/* Its exit code, or minus the signal; within the bound. */
static int exit_of(struct once *self) {
  int status;
  if (!wait_until(has_exited, self, WAIT_BOUND_MS))
    fail_msg("it still runs; log: %s", log_of(self));
  assert_int_equal(waitpid(self->pid, &status, 0), self->pid);
  self->pid = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void expect_exit(struct once *self, int expected) {
  while (self->out >= 0 && read_more(self, WAIT_BOUND_MS))
    continue;
  int code = exit_of(self);
  if (code != expected)
    fail_msg("exit code %d, not %d; output: %.2000s; log: %s", code, expected, self->text,
             log_of(self));
}

/* The value of the last line, which is the result, and is to be freed; every other line is an
 * event. */
static cJSON *result_of(struct once *self) {
  cJSON *last = NULL;
  char *copy = strdup(self->text), *rest = copy;
  assert_true(self->length > 0 && self->text[self->length - 1] == '\n');
  for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
    if (last != NULL && cJSON_GetObjectItem(last, "line") == NULL)
      fail_msg("not an event in front of another line: %s", self->text);
    cJSON_Delete(last);
    last = cJSON_Parse(line);
    if (last == NULL)
      fail_msg("no JSON: `%s`", line);
  }
  free(copy);
  if (cJSON_GetObjectItem(last, "exitCode") == NULL)
    fail_msg("the last line is no result: %s", self->text);
  return last;
}

static void expect_result(struct once *self, int exit_code, const char *output,
                          const char *message_part) {
  cJSON *result = result_of(self);
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(result, "outputContent"));
  const char *message = cJSON_GetStringValue(cJSON_GetObjectItem(result, "errorMessage"));
  assert_int_equal(cJSON_GetObjectItem(result, "exitCode")->valueint, exit_code);
  assert_string_equal(text == NULL ? "(null)" : text, output == NULL ? "(null)" : output);
  if (message_part != NULL && strcasestr(message == NULL ? "" : message, message_part) == NULL)
    fail_msg("`%s` should speak of `%s`", message == NULL ? "(null)" : message, message_part);
  cJSON_Delete(result);
}

/* A step of `sh -c script`, which holds no quote. */
static const char *script_step(const char *script) {
  return quoted(formatted("{'stepId':'s','command':'sh','args':['-c','%s']}", script));
}

static void run(struct once *self, const char *step) {
  start(self, false);
  send_text(self, step);
  close_fd(&self->in);
}

static void run_into(struct once *self, const char *step, int out) {
  start_into(self, false, out);
  send_text(self, step);
  close_fd(&self->in);
}

struct row {
  const char *step;
  int exit_code;
  int result_code;
  const char *output;
  const char *message;
};

static void run_rows(struct once *self, const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    run(self, quoted(rows[i].step));
    expect_exit(self, rows[i].exit_code);
    expect_result(self, rows[i].result_code, rows[i].output, rows[i].message);
    forget(self);
  }
}

ONCE_TEST(the_exit_code_is_the_steps) {
  static const struct row rows[] = {
      {"{'stepId':'s','command':'true'}", 0, 0, NULL, NULL},
      {" \n{'stepId':'s','command':'echo','args':['a']}\n", 0, 0, "a\n", NULL},
      {"{'stepId':'s','command':'sh','args':['-c','exit 77']}", 77, 77, NULL, NULL},
      {"{'stepId':'s','command':'sh','args':['-c','kill -9 $$']}", 137, 137, NULL, NULL},
      {"{'stepId':'s','command':'sleep','args':['60'],'timeoutSeconds':1}", TIMED_OUT, -1, NULL,
       "timed out after 1s"},
      {"{'stepId':'s','command':'no-such-command'}", NOT_RUN, -1, NULL, "no-such-command"},
      {"{'stepId':'s','command':'true','workingDirectory':'/none'}", NOT_RUN, -1, NULL, "/none"},
      {"{'stepId':'s','command':''}", NOT_RUN, -1, NULL, "command"},
      {"{'command':'true'}", NOT_RUN, -1, NULL, "stepId"},
      {"{'stepId':'s','command':'true','schemaVersion':1.5}", NOT_RUN, -1, NULL, "schemaVersion"},
      {"{'stepId':'s','kind':'shutdown'}", NOT_RUN, -1, NULL, NULL},
      {"", NOT_RUN, -1, NULL, NULL},
      {"{'stepId':'s','command':'a','command':'b'}", NOT_RUN, -1, NULL, "command"},
  };
  run_rows(self, rows, sizeof rows / sizeof *rows);
}

ONCE_TEST(answers_have_the_version_of_the_step) {
  static const struct {
    const char *step;
    int exit_code, expected;
  } rows[] = {{"{'schemaVersion':2,'stepId':'s','command':'true'}", 0, 2},
              {"{'schemaVersion':2,'stepId':'s','command':''}", NOT_RUN, 2},
              {"{'schemaVersion':2,'stepId':'s','kind':'shutdown'}", NOT_RUN, 2},
              {"{'schemaVersion':1,'stepId':'s','command':'true'}", 0, 1},
              {"{'stepId':'s','command':'true'}", 0, 1},
              {"{'schemaVersion':2,", NOT_RUN, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    run(self, quoted(rows[i].step));
    expect_exit(self, rows[i].exit_code);
    const char *begin = formatted("{\"schemaVersion\":%d,", rows[i].expected);
    for (const char *line = self->text; *line != '\0'; line = strchr(line, '\n') + 1)
      if (strncmp(line, begin, strlen(begin)) != 0)
        fail_msg("%s: %s", rows[i].step, line);
    forget(self);
  }
}

ONCE_TEST(file_kinds_work) {
  struct directory directory;
  directory_init(&directory);
  const char *path = directory.path;
  const struct row rows[] = {
      {formatted("{'stepId':'s','kind':'writeFile','path':'%s/f','content':'text'}", path), 0, 0,
       NULL, NULL},
      {formatted("{'stepId':'s','kind':'readFile','path':'%s/f'}", path), 0, 0, "text", NULL},
      {formatted("{'stepId':'s','kind':'readFile','path':'%s/none'}", path), 1, 1, NULL,
       "file not found"}};
  run_rows(self, rows, sizeof rows / sizeof *rows);
  directory_release(&directory);
}

/* 64 MiB and no end: refused, and no more of it is kept. */
ONCE_TEST(a_step_that_is_too_large_is_refused) {
  enum { PIECE = 1 << 20, PIECES = 80, HWM_MAX_KIB = 160 * 1024 };
  start(self, false);
  char *piece = malloc(PIECE + 1);
  assert_non_null(piece);
  memset(piece, 'x', PIECE);
  piece[PIECE] = '\0';
  send_text(self, quoted("{'stepId':'s','command':'true','padding':'"));
  long peak = 0;
  for (int i = 0; i < PIECES; i++) {
    send_text(self, piece);
    long kib = proc_status_kib(self->pid, "VmHWM");
    peak = kib > peak ? kib : peak;
  }
  free(piece);
  close_fd(&self->in);
  expect_exit(self, NOT_RUN);
  expect_result(self, -1, NULL, NULL);
  print_message("resident: %ld KiB at most\n", peak);
  if (agent_process_is_shipped())
    assert_true(peak < HWM_MAX_KIB);
}

ONCE_TEST(a_signal_ends_the_tree_first) {
  static const int signals[] = {SIGTERM, SIGINT};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    run(self, script_step("setsid sleep 600.071 & echo up; sleep 600.072"));
    read_until(self, quoted("'line':'up'"));
    assert_true(proc_wait_for("sleep 600.071", WAIT_BOUND_MS) > 0);
    assert_int_equal(kill(self->pid, signals[i]), 0);
    expect_exit(self, 128 + signals[i]);
    assert_int_equal(proc_find("sleep 600.071"), 0);
    assert_int_equal(proc_find("sleep 600.072"), 0);
    const char *by = signals[i] == SIGTERM ? "SIGTERM" : "SIGINT";
    expect_result(self, -1, "up\n", formatted("cancelled: the agent was stopped by %s", by));
    forget(self);
  }
}

/* `| head -1` */
ONCE_TEST(a_reader_that_goes_ends_the_tree) {
  run(self, script_step("setsid sleep 600.073 & echo up; yes"));
  read_until(self, quoted("'line':'up'"));
  close_fd(&self->out);
  expect_exit(self, 128 + SIGPIPE);
  assert_int_equal(proc_find("sleep 600.073"), 0);
  assert_int_equal(proc_find("yes"), 0);
}

ONCE_TEST(a_closed_standard_input_is_no_step) {
  start(self, true);
  expect_exit(self, NOT_RUN);
}

/* And nothing is written to what has got its number. */
ONCE_TEST(a_closed_standard_output_is_an_error) {
  start_into(self, false, -1);
  send_text(self, script_step("true"));
  close_fd(&self->in);
  assert_true(exit_of(self) > 0);
}

/* start() sets one that nobody answers at; its password is nobody's business. */
ONCE_TEST(the_url_in_the_environment_is_ignored) {
  run(self, quoted("{'stepId':'s','command':'env'}"));
  expect_exit(self, 0);
  assert_null(strstr(self->text, "REDIS_URL"));
  assert_null(strstr(self->text, "secret"));
  assert_string_not_equal(log_of(self), "");
  assert_null(strstr(log_of(self), "secret"));
}

/* The last line comes with the end of the command, so that it is not written when the result needs
   room; and then all is written at once. */
ONCE_TEST(a_result_finds_room_where_output_is_taken_at_once) {
  run_into(self, script_step("seq 60000; printf end"), open("/dev/null", O_WRONLY | O_CLOEXEC));
  expect_exit(self, 0);
}

/* The command's standard input is not the agent's. */
ONCE_TEST(the_command_reads_nothing_of_the_input) {
  start(self, false);
  send_text(self, quoted("{'stepId':'s','command':'cat'}\n"));
  expect_exit(self, 0);
  expect_result(self, 0, NULL, NULL);
}

TEST_OVERLAP(4)
