/* `agent --once`: one step from standard input, its events and its result on standard output, and
   nothing else needed. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "tests/support/agent_process.h"
#include "tests/support/directory.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/wait.h"
#include "tests/test.h"

enum { TIMED_OUT = 124, NOT_RUN = 125, USAGE = 64, MAX = 1 << 20 };

/* A program that is running, its standard input and output in the test's hands. */
struct once {
  pid_t pid;
  int in;  /* -1: closed */
  int out; /* -1: closed */
  int log;
  char *text; /* what was read so far */
  size_t length;
};

static void start(struct once *self, const char *const *more, bool closed_in, bool closed_out) {
  int in[2], out[2];
  assert_int_equal(pipe2(in, O_CLOEXEC), 0);
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  self->log = memfd_create("log", MFD_CLOEXEC);
  const char *arguments[12] = {agent_process_program(), "--once"};
  for (size_t i = 0; more != NULL && more[i] != NULL; i++)
    arguments[i + 2] = more[i];
  self->pid = fork();
  assert_true(self->pid >= 0);
  if (self->pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(in[0], STDIN_FILENO);
    (void)dup2(out[1], STDOUT_FILENO);
    (void)dup2(self->log, STDERR_FILENO);
    if (closed_in)
      close(STDIN_FILENO);
    if (closed_out)
      close(STDOUT_FILENO);
    (void)setenv("REDIS_URL", "redis://nobody:secret@192.0.2.1:1", 1);
    execv(arguments[0], (char **)(uintptr_t)arguments);
    _exit(AGENT_PROCESS_NO_START);
  }
  close(in[0]);
  close(out[1]);
  self->in = in[1];
  self->out = out[0];
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

static int tear_down(void **state) {
  struct once *self = *state;
  if (self->pid > 0)
    proc_kill_tree(self->pid);
  close_fd(&self->in);
  close_fd(&self->out);
  close_fd(&self->log);
  free(self->text);
  free(self);
  return 0;
}

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

/* A step of `sh -c script`, which holds no quote; fields more begin with a comma. */
static const char *script_step(const char *script, const char *more) {
  static char text[4096];
  snprintf(text, sizeof text, "{'stepId':'s','command':'sh','args':['-c','%s']%s}", script, more);
  return quoted(text);
}

static void run(struct once *self, const char *step) {
  start(self, NULL, false, false);
  send_text(self, step);
  close_fd(&self->in);
}

TEST_WITH(struct once *self, events_come_as_they_happen, set_up, tear_down) {
  struct directory directory;
  directory_init(&directory);
  char script[256];
  snprintf(script, sizeof script, "echo one; until [ -e %s/gate ]; do sleep 0.01; done; exit 3",
           directory.path);
  run(self, script_step(script, ""));
  read_until(self, quoted("'started'"));
  read_until(self, quoted("'line':'one'"));
  assert_null(strstr(self->text, "exitCode"));
  snprintf(script, sizeof script, "%s/gate", directory.path);
  fclose(fopen(script, "we"));
  expect_exit(self, 3);
  expect_result(self, 3, "one\n", NULL);
  assert_non_null(strstr(self->text, "exit=3 timedOut=False"));
  directory_release(&directory);
}

/* The writer keeps the pipe open, as who types does. */
TEST_WITH(struct once *self, the_end_of_the_value_will_do, set_up, tear_down) {
  start(self, NULL, false, false);
  const char *step = script_step("echo on", "");
  char byte[2] = "";
  for (size_t i = 0; step[i] != '\0'; i++) {
    byte[0] = step[i];
    send_text(self, byte);
  }
  expect_exit(self, 0);
  expect_result(self, 0, "on\n", NULL);
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
    self->length = 0;
    self->text[0] = '\0';
    run(self, quoted(rows[i].step));
    expect_exit(self, rows[i].exit_code);
    expect_result(self, rows[i].result_code, rows[i].output, rows[i].message);
    close_fd(&self->out);
    close_fd(&self->log);
  }
}

TEST(the_exit_code_is_the_steps, set_up, tear_down) {
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
      {"{'stepId':'s','command':'true','schemaVersion':2}", NOT_RUN, -1, NULL, "schemaVersion"},
      {"{'stepId':'s','kind':'shutdown'}", NOT_RUN, -1, NULL, NULL},
      {"{'stepId':'s','kind':'cancel'}", NOT_RUN, -1, NULL, NULL},
      {"", NOT_RUN, -1, NULL, NULL},
      {"garbage", NOT_RUN, -1, NULL, NULL},
      {"{'stepId':'s','command':'true'", NOT_RUN, -1, NULL, NULL},
      {"[]", NOT_RUN, -1, NULL, NULL},
      {"{'stepId':'s','command':'a','command':'b'}", NOT_RUN, -1, NULL, "command"},
      {"}", NOT_RUN, -1, NULL, NULL},
  };
  run_rows(*state, rows, sizeof rows / sizeof *rows);
}

TEST(file_kinds_work, set_up, tear_down) {
  struct directory directory;
  directory_init(&directory);
  char write_step[256], read_step[256], none_step[256];
  snprintf(write_step, sizeof write_step,
           "{'stepId':'s','kind':'writeFile','path':'%s/f','content':'text'}", directory.path);
  snprintf(read_step, sizeof read_step, "{'stepId':'s','kind':'readFile','path':'%s/f'}",
           directory.path);
  snprintf(none_step, sizeof none_step, "{'stepId':'s','kind':'readFile','path':'%s/none'}",
           directory.path);
  const struct row rows[] = {{write_step, 0, 0, NULL, NULL},
                             {read_step, 0, 0, "text", NULL},
                             {none_step, 1, 1, NULL, "file not found"}};
  run_rows(*state, rows, sizeof rows / sizeof *rows);
  directory_release(&directory);
}

/* Whichever it does with the second, only one is run and answered. */
TEST_WITH(struct once *self, a_second_value_is_not_run, set_up, tear_down) {
  run(self, quoted("{'stepId':'s','command':'echo','args':['first']}"
                   "{'stepId':'t','command':'echo','args':['second']}"));
  while (read_more(self, WAIT_BOUND_MS))
    continue;
  int code = exit_of(self);
  assert_true(code == 0 || code == NOT_RUN);
  assert_null(strstr(self->text, "\"second\""));
  cJSON_Delete(result_of(self));
}

/* 64 MiB and no end: refused, and no more of it is kept. */
TEST_WITH(struct once *self, a_step_that_is_too_large_is_refused, set_up, tear_down) {
  enum { PIECE = 1 << 20, PIECES = 80, HWM_MAX_KIB = 160 * 1024 };
  start(self, NULL, false, false);
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

static void end_by(struct once *self, int signal_number) {
  run(self, script_step("setsid sleep 600.071 & echo up; sleep 600.072", ""));
  read_until(self, quoted("'line':'up'"));
  assert_true(proc_wait_for("sleep 600.071", WAIT_BOUND_MS) > 0);
  assert_int_equal(kill(self->pid, signal_number), 0);
  expect_exit(self, 128 + signal_number);
  assert_int_equal(proc_find("sleep 600.071"), 0);
  assert_int_equal(proc_find("sleep 600.072"), 0);
  expect_result(self, -1, "up\n", "cancelled");
}

TEST(sigterm_ends_the_tree_first, set_up, tear_down) {
  end_by(*state, SIGTERM);
}

TEST(sigint_ends_the_tree_first, set_up, tear_down) {
  end_by(*state, SIGINT);
}

/* While it still waits for its step. */
static bool waits_for_events(void *context) {
  const pid_t *pid = context;
#ifdef SYS_epoll_wait
  if (proc_sleeps_in(*pid, SYS_epoll_wait))
    return true;
#endif
  return proc_sleeps_in(*pid, SYS_epoll_pwait);
}

TEST_WITH(struct once *self, a_signal_ends_it_before_the_step, set_up, tear_down) {
  start(self, NULL, false, false);
  send_text(self, "{");
  assert_true(wait_until(waits_for_events, &self->pid, WAIT_BOUND_MS));
  assert_int_equal(kill(self->pid, SIGTERM), 0);
  expect_exit(self, 128 + SIGTERM);
}

/* `| head -1` */
static void reader_goes(struct once *self, const char *script, const char *sleep) {
  run(self, script_step(script, ""));
  read_until(self, quoted("'line':'up'"));
  close_fd(&self->out);
  (void)exit_of(self);
  assert_int_equal(proc_find(sleep), 0);
}

TEST_WITH(struct once *self, a_reader_that_goes_ends_the_step, set_up, tear_down) {
  reader_goes(self, "setsid sleep 600.073 & echo up; yes", "sleep 600.073");
  assert_int_equal(proc_find("yes"), 0);
}

/* Also when the command says nothing more: the end of a pipe is an event. */
TEST_WITH(struct once *self, a_reader_that_goes_ends_a_silent_step, set_up, tear_down) {
  reader_goes(self, "echo up; sleep 600.074", "sleep 600.074");
}

static unsigned long ticks_of(pid_t pid) {
  unsigned long user = 0, system = 0;
  char *stat = proc_read(pid, "stat", NULL);
  if (stat != NULL)
    (void)sscanf(strrchr(stat, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                 &user, &system);
  free(stat);
  return user + system;
}

struct writer {
  pid_t pid;
  unsigned long ticks;
  int64_t since_ms;
};

/* It has not worked for a second. */
static bool rests(void *context) {
  struct writer *self = context;
  unsigned long ticks = ticks_of(self->pid);
  if (ticks != self->ticks)
    self->since_ms = wait_now_ms();
  self->ticks = ticks;
  return wait_now_ms() - self->since_ms >= 1000;
}

TEST_WITH(struct once *self, a_reader_that_sleeps_makes_the_command_wait, set_up, tear_down) {
  enum { HWM_MAX_KIB = 16 * 1024 };
  run(self, quoted("{'stepId':'s','command':'seq','args':['400000000']}"));
  struct writer writer = {.pid = proc_wait_for("seq 400000000", WAIT_BOUND_MS),
                          .since_ms = wait_now_ms()};
  assert_true(writer.pid > 0);
  assert_true(wait_until(rests, &writer, WAIT_BOUND_MS));
  long peak = proc_status_kib(self->pid, "VmHWM");
  print_message("resident: %ld KiB at most\n", peak);
  if (agent_process_is_shipped())
    assert_true(peak > 0 && peak < HWM_MAX_KIB);
  /* It goes on where it was. */
  long long expected = 1;
  char line[64];
  for (; expected <= 2000; expected++) {
    snprintf(line, sizeof line, "'line':'%lld'", expected);
    read_until(self, quoted(line));
  }
  assert_int_equal(kill(self->pid, SIGTERM), 0);
  close_fd(&self->out);
  (void)exit_of(self);
  assert_int_equal(proc_find("seq 400000000"), 0);
}

TEST_WITH(struct once *self, a_closed_standard_input_is_no_step, set_up, tear_down) {
  start(self, NULL, true, false);
  expect_exit(self, NOT_RUN);
}

/* And nothing is written to what has got its number. */
TEST_WITH(struct once *self, a_closed_standard_output_is_an_error, set_up, tear_down) {
  start(self, NULL, false, true);
  send_text(self, script_step("true", ""));
  close_fd(&self->in);
  int code = exit_of(self);
  assert_int_not_equal(code, 0);
  assert_true(code > 0);
}

TEST_WITH(struct once *self, it_takes_no_redis, set_up, tear_down) {
  start(self, (const char *const[]){"--redis-url", "redis://127.0.0.1:1", NULL}, false, false);
  close_fd(&self->in);
  expect_exit(self, USAGE);
  assert_string_equal(self->text, "");
  assert_non_null(strstr(log_of(self), "--once"));
}

/* start() sets one that nobody answers at; its password is nobody's business. */
TEST_WITH(struct once *self, the_url_in_the_environment_is_ignored, set_up, tear_down) {
  run(self, quoted("{'stepId':'s','command':'env'}"));
  expect_exit(self, 0);
  assert_null(strstr(self->text, "REDIS_URL"));
  assert_null(strstr(self->text, "secret"));
  assert_null(strstr(log_of(self), "secret"));
}

/* Its own log is standard error's: what is on standard output can be piped to a program. */
TEST_WITH(struct once *self, a_verbose_log_is_not_in_the_output, set_up, tear_down) {
  start(self, (const char *const[]){"--verbose", NULL}, false, false);
  send_text(self, script_step("echo out; echo err >&2", ""));
  close_fd(&self->in);
  expect_exit(self, 0);
  expect_result(self, 0, "out\n", NULL);
  assert_true(strlen(log_of(self)) > 0);
}

/* The command's standard input is not the agent's. */
TEST_WITH(struct once *self, the_command_reads_nothing_of_the_input, set_up, tear_down) {
  start(self, NULL, false, false);
  send_text(self, quoted("{'stepId':'s','command':'cat'}\n"));
  expect_exit(self, 0);
  expect_result(self, 0, NULL, NULL);
}

TEST_OVERLAP(4)
