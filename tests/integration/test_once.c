/* `agent --once`: one step from standard input, its events and its result on standard output.
   Nothing else is needed. */

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cjson/cJSON.h>

#include "tests/support/agent_process.h"
#include "tests/support/gate.h"
#include "tests/support/proc.h"
#include "tests/support/stdio_host.h"
#include "tests/test.h"
#include "wire/step.h"

enum { TIMED_OUT = 124, NOT_RUN = 125 };

/* The agent is verbose: its log goes to standard error, and the output has none of it. `in` and
   `out` are those of stdio_host_setup. */
static void start(struct stdio_trial *self, int in, int out) {
  const char *const arguments[] = {"--once", "--verbose", NULL};
  const char *const variables[] = {formatted("D=%s", self->directory.path),
                                   "REDIS_URL=redis://nobody:n0body@192.0.2.1:1", NULL};
  stdio_host_free(self->host);
  self->host = stdio_host_start(&(struct stdio_host_setup){
      .arguments = arguments, .variables = variables, .in = in, .out = out});
}

#define ONCE_TEST(NAME)                                                                            \
  TEST_WITH(struct stdio_trial *self, NAME, stdio_trial_set_up, stdio_trial_tear_down)

static void send_text(struct stdio_trial *self, const char *text) {
  (void)stdio_host_offer(self->host, text,
                         strlen(text)); /* a program that does not read has logged why */
}

static void read_until(struct stdio_trial *self, const char *part) {
  while (strstr(self->host->text, part) == NULL)
    if (!stdio_host_read(self->host))
      fail_msg("no `%s` in `%.2000s`; log: %s", part, self->host->text, stdio_host_log(self->host));
}

static void expect_exit(struct stdio_trial *self, int expected) {
  while (self->host->out >= 0 && stdio_host_read(self->host))
    continue;
  int code = stdio_host_wait(self->host);
  if (code != expected)
    fail_msg("exit code %d, not %d; output: %.2000s; log: %s", code, expected, self->host->text,
             stdio_host_log(self->host));
}

/* The value of the last line, which is the result, to be freed. Each other line must be an
   event. */
static cJSON *result_of(struct stdio_trial *self) {
  cJSON *last = NULL;
  char *copy = strdup(self->host->text), *rest = copy;
  assert_true(self->host->length > 0 && self->host->text[self->host->length - 1] == '\n');
  for (char *line; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
    if (last != NULL && cJSON_GetObjectItem(last, "line") == NULL)
      fail_msg("not an event in front of another line: %s", self->host->text);
    cJSON_Delete(last);
    last = cJSON_Parse(line);
    if (last == NULL)
      fail_msg("no JSON: `%s`", line);
  }
  free(copy);
  if (cJSON_GetObjectItem(last, "exitCode") == NULL)
    fail_msg("the last line is no result: %s", self->host->text);
  return last;
}

static void expect_result(struct stdio_trial *self, int exit_code, const char *output,
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

/* A step of `sh -c script`. The script must not contain quotes. */
static const char *script_step(const char *script) {
  return quoted(formatted("{'stepId':'s','command':'sh','args':['-c','%s']}", script));
}

static void run(struct stdio_trial *self, const char *step) {
  start(self, 0, 0);
  send_text(self, step);
  stdio_host_close_input(self->host);
}

static void run_script(struct stdio_trial *self, const char *script) {
  start(self, 0, 0);
  send_text(self, script_step(script));
}

static int lines(const struct stdio_trial *self) {
  int count = 0;
  for (size_t i = 0; i < self->host->length; i++)
    count += self->host->text[i] == '\n';
  return count;
}

struct row {
  const char *step;
  int exit_code;
  int result_code;
  const char *output;
  const char *message;
};

static void run_rows(struct stdio_trial *self, const struct row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    run(self, quoted(rows[i].step));
    expect_exit(self, rows[i].exit_code);
    expect_result(self, rows[i].result_code, rows[i].output, rows[i].message);
  }
}

ONCE_TEST(the_exit_code_is_that_of_the_step) {
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
      {"{'stepId':'s','kind':'cancel'}", NOT_RUN, -1, NULL, NULL},
      {"", NOT_RUN, -1, NULL, NULL},
      {"{'stepId':'s','command':'a','command':'b'}", NOT_RUN, -1, NULL, "command"},
  };
  run_rows(self, rows, sizeof rows / sizeof *rows);
}

ONCE_TEST(file_steps_are_executed) {
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

/* More than 64 MiB are refused, and not kept. */
ONCE_TEST(a_step_that_is_too_large_is_rejected) {
  enum { PIECE = 1 << 20, PIECES = 80, HWM_MAX_KIB = 160 * 1024 };
  start(self, 0, 0);
  char *piece = malloc(PIECE + 1);
  assert_non_null(piece);
  memset(piece, 'x', PIECE);
  piece[PIECE] = '\0';
  send_text(self, quoted("{'stepId':'s','command':'true','padding':'"));
  long peak = 0;
  for (int i = 0; i < PIECES; i++) {
    send_text(self, piece);
    long kib = proc_status_kib(self->host->pid, "VmHWM");
    peak = kib > peak ? kib : peak;
  }
  free(piece);
  stdio_host_close_input(self->host);
  expect_exit(self, NOT_RUN);
  expect_result(self, -1, NULL, NULL);
  print_message("resident: %ld KiB at most\n", peak);
  if (agent_process_is_shipped())
    assert_true(peak < HWM_MAX_KIB);
}

ONCE_TEST(a_signal_ends_the_process_tree_before_the_agent) {
  static const int signals[] = {SIGTERM, SIGINT};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
    run(self, script_step("setsid sleep 600.071 & echo up; sleep 600.072"));
    read_until(self, quoted("'line':'up'"));
    assert_true(proc_wait_for("sleep 600.071", WAIT_BOUND_MS) > 0);
    assert_int_equal(kill(self->host->pid, signals[i]), 0);
    expect_exit(self, 128 + signals[i]);
    assert_int_equal(proc_find("sleep 600.071"), 0);
    assert_int_equal(proc_find("sleep 600.072"), 0);
    const char *by = signals[i] == SIGTERM ? "SIGTERM" : "SIGINT";
    expect_result(self, -1, "up\n", formatted("cancelled: the agent was stopped by %s", by));
  }
}

ONCE_TEST(a_closed_standard_input_is_an_error) {
  start(self, -1, 0);
  expect_exit(self, NOT_RUN);
}

/* The agent must not write to another file that has got descriptor 1. */
ONCE_TEST(a_closed_standard_output_is_an_error) {
  start(self, 0, -1);
  send_text(self, script_step("true"));
  stdio_host_close_input(self->host);
  assert_true(stdio_host_wait(self->host) > 0);
}

/* start() sets a URL that does not exist; its password must not appear. */
ONCE_TEST(the_url_in_the_environment_is_ignored) {
  run(self, quoted("{'stepId':'s','command':'env'}"));
  expect_exit(self, 0);
  assert_null(strstr(self->host->text, "REDIS_URL"));
  assert_null(strstr(self->host->text, "n0body"));
  assert_string_not_equal(stdio_host_log(self->host), "");
  assert_null(strstr(stdio_host_log(self->host), "n0body"));
}

ONCE_TEST(the_command_does_not_read_the_input_of_the_agent) {
  start(self, 0, 0);
  send_text(self, quoted("{'stepId':'s','command':'cat'}\n"));
  expect_exit(self, 0);
  expect_result(self, 0, NULL, NULL);
}

ONCE_TEST(events_arrive_at_once_and_the_result_last) {
  run_script(self, "echo one; " GATE("$D/go") "echo two >&2; exit 7");
  stdio_host_close_input(self->host);
  read_until(self, "\"line\":\"one\"");
  assert_int_equal(lines(self), 2);
  assert_non_null(strstr(self->host->text, "\"kind\":\"started\",\"line\":\"sh\""));
  gate_open(directory_path(&self->directory, "go"));
  expect_exit(self, 7);
  assert_int_equal(lines(self), 5);
  assert_non_null(strstr(self->host->text, "\"kind\":\"stderr\",\"line\":\"two\""));
  assert_non_null(
      strstr(self->host->text, "\"kind\":\"completed\",\"line\":\"exit=7 timedOut=False\""));
  expect_result(self, 7, "one\n", "two");
}

ONCE_TEST(background_processes_end_with_the_agent) {
  run_script(self, "setsid sleep 4042 >&- 2>&- & exit 4");
  expect_exit(self, 4);
  assert_int_equal(proc_find("sleep 4042"), 0);
}

static bool is_read(void *context) {
  int unread = -1;
  return ioctl(((struct stdio_trial *)context)->host->in, FIONREAD, &unread) == 0 && unread == 0;
}

ONCE_TEST(a_signal_before_the_step_ends_the_agent) {
  start(self, 0, 0);
  send_text(self, "{");
  assert_true(wait_until(is_read, self, WAIT_BOUND_MS));
  kill(self->host->pid, SIGTERM);
  expect_exit(self, 128 + SIGTERM);
  assert_int_equal(self->host->length, 0);
}

/* --- the end of the step in the input --------------------------------------------------------- */

ONCE_TEST(the_agent_does_not_wait_for_the_end_of_the_input) {
  static const char *const steps[] = {
      "{'schemaVersion':1,'stepId':'s-1','command':'true'}",
      " \r\n\t{'schemaVersion':1,'stepId':'s-1','command':'true','args':[]}",
      "{'schemaVersion':1,'stepId':'s-1','command':'true','args':['}','\\\\','\\'}','[{']}",
      "{'schemaVersion':1,'x':{'y':[[{}],{}]},'stepId':'s-1','command':'true'}"};
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    start(self, 0, 0);
    send_text(self, quoted(steps[i]));
    expect_exit(self, 0);
  }
}

ONCE_TEST(only_the_first_of_two_steps_runs) {
  start(self, 0, 0);
  send_text(self, quoted("{'schemaVersion':1,'stepId':'s-1','command':'true'}"
                         "{'schemaVersion':1,'stepId':'s-2','command':'false'}"));
  expect_exit(self, 0);
  assert_int_equal(lines(self), 3);
  assert_null(strstr(self->host->text, "s-2"));
}

/* A number or a word ends with its line; an open value ends with the input. */
ONCE_TEST(input_that_is_not_a_step_is_rejected) {
  static const struct {
    const char *input;
    bool closed;
  } rows[] = {{"42\n", false},  {"42", true},   {"null\n", false},      {"\"{\"\n", false},
              {"[1,2]", false}, {"}\n", false}, {"[}", false},          {"", true},
              {" \n ", true},   {"{", true},    {"{\"stepId\":", true}, {"no step\n", false}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    start(self, 0, 0);
    send_text(self, rows[i].input);
    if (rows[i].closed)
      stdio_host_close_input(self->host);
    expect_exit(self, NOT_RUN);
    assert_int_equal(lines(self), 1);
    assert_non_null(strstr(self->host->text, "00000000-0000-0000-0000-000000000000"));
  }
}

ONCE_TEST(standard_input_may_be_a_file) {
  static const struct {
    const char *content;
    int exit_code;
  } rows[] = {{"{'schemaVersion':1,'stepId':'s-1','command':'sh','args':['-c','exit 9']}", 9},
              {"", NOT_RUN}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int file = memfd_create("step", MFD_CLOEXEC);
    const char *content = quoted(rows[i].content);
    assert_int_equal(pwrite(file, content, strlen(content), 0), strlen(content));
    start(self, file, 0);
    expect_exit(self, rows[i].exit_code);
  }
}

/* The file is longer than one read. */
ONCE_TEST(standard_input_may_be_a_long_file) {
  int file = memfd_create("step", MFD_CLOEXEC);
  FILE *stream = fdopen(dup(file), "w");
  fputs(quoted("{'schemaVersion':1,'stepId':'s-1','command':'true','x':'"), stream);
  for (int i = 0; i < 1000000; i++)
    fputc('x', stream);
  fputs("\"}", stream);
  fclose(stream);
  lseek(file, 0, SEEK_SET);
  start(self, file, 0);
  expect_exit(self, 0);
}

/* --- readers ---------------------------------------------------------------------------------- */

ONCE_TEST(a_closed_reader_ends_a_silent_step) {
  run_script(self, "echo ready; exec sleep 4044");
  read_until(self, "ready");
  stdio_host_close_output(self->host);
  expect_exit(self, 128 + SIGPIPE);
  assert_int_equal(proc_find("sleep 4044"), 0);
  assert_non_null(strstr(stdio_host_log(self->host), "stopping: a closed standard output"));
}

/* The test reads the output from `ours`. */
static void start_into(struct stdio_trial *self, int out, int ours) {
  start(self, 0, out);
  self->host->out = ours;
}

/* Node.js gives its children sockets: `theirs` is the program's end. */
static int socket_for(int *theirs) {
  int ends[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  *theirs = ends[0];
  return ends[1];
}

ONCE_TEST(standard_input_and_output_may_be_sockets) {
  int in, out, ours[] = {socket_for(&in), socket_for(&out)};
  start(self, in, out);
  self->host->in = ours[0];
  self->host->out = ours[1];
  send_text(self, script_step("seq 1 20000"));
  expect_exit(self, 0);
  assert_int_equal(lines(self), 20003);
}

ONCE_TEST(a_closed_socket_ends_a_silent_step) {
  int out, ours = socket_for(&out);
  start_into(self, out, ours);
  send_text(self, script_step("echo ready; exec sleep 4045"));
  read_until(self, "ready");
  stdio_host_close_output(self->host);
  expect_exit(self, 128 + SIGPIPE);
}

ONCE_TEST(a_half_closed_socket_can_still_read) {
  int out, ours = socket_for(&out);
  assert_int_equal(shutdown(ours, SHUT_WR), 0);
  start_into(self, out, ours);
  send_text(self, script_step("echo hello"));
  expect_exit(self, 0);
  expect_result(self, 0, "hello\n", NULL);
}

ONCE_TEST(a_fifo_opened_for_both_directions_has_a_reader) {
  int out[2];
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  int both = open(formatted("/proc/self/fd/%d", out[1]), O_RDWR | O_CLOEXEC);
  assert_true(both >= 0);
  close(out[1]);
  start_into(self, both, out[0]);
  send_text(self, script_step("echo hello"));
  expect_exit(self, 0);
  expect_result(self, 0, "hello\n", NULL);
}

/* Other processes share the open file, and must not see a new flag. */
ONCE_TEST(the_agent_changes_no_flags_of_its_descriptors) {
  int in[2], out[2];
  assert_int_equal(pipe2(in, O_CLOEXEC), 0);
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  int kept[] = {fcntl(in[0], F_DUPFD_CLOEXEC, 0), fcntl(out[1], F_DUPFD_CLOEXEC, 0)};
  start(self, in[0], out[1]);
  self->host->in = in[1];
  self->host->out = out[0];
  send_text(self, script_step("seq 1 20000; exec sleep 4046"));
  read_until(self, "20000");
  for (int i = 0; i < 2; i++) {
    assert_int_equal(fcntl(kept[i], F_GETFL) & O_NONBLOCK, 0);
    close(kept[i]);
  }
}

static bool is_answered(void *context) {
  return strstr(stdio_host_log(((struct stdio_trial *)context)->host), "exit=0 in ") != NULL;
}

/* The step has succeeded, but the reader does not know it. */
ONCE_TEST(a_result_that_is_not_read_is_a_failure) {
  run_script(self, "seq 1 1200"); /* more than the pipe holds, less than the agent holds */
  assert_true(wait_until(is_answered, self, WAIT_BOUND_MS));
  assert_int_not_equal(proc_state(self->host->pid), 'Z');
  stdio_host_close_output(self->host);
  expect_exit(self, 128 + SIGPIPE);
}

static bool waits_to_write(void *context) {
  pid_t pid = *(const pid_t *)context;
  for (int i = 0; i < 10; i++) {
    if (proc_state(pid) != 'S')
      return false;
    usleep(5000);
  }
  return true;
}

ONCE_TEST(a_slow_reader_blocks_the_command) {
  start(self, 0, 0);
  long before = proc_status_kib(self->host->pid, "VmRSS");
  send_text(self, script_step("exec seq 1 100000"));
  pid_t pid = proc_wait_for("seq 1 100000", WAIT_BOUND_MS);
  assert_true(pid > 0);
  assert_true(wait_until(waits_to_write, &pid, WAIT_BOUND_MS));
  /* The agent holds some hundred KiB of the 13 MiB. */
  if (agent_process_is_shipped())
    assert_true(proc_status_kib(self->host->pid, "VmRSS") - before < 8192);
  expect_exit(self, 0);
  assert_int_equal(lines(self), 100003);
  long last = 0;
  for (char *end, *at = self->host->text; *at != '\0'; at = end + 1) {
    static const char beginning[] = "\"kind\":\"stdout\",\"line\":\"";
    end = memchr(at, '\n', (size_t)(self->host->text + self->host->length - at));
    assert_non_null(end);
    *end = '\0'; /* so that a search ends with the line */
    const char *line = strstr(at, beginning);
    if (line != NULL)
      assert_int_equal(strtol(line + sizeof beginning - 1, NULL, 10), ++last);
  }
  assert_int_equal(last, 100000);
}

ONCE_TEST(output_that_cannot_be_written_is_an_error) {
  start(self, 0, open("/dev/full", O_WRONLY | O_CLOEXEC));
  send_text(self, script_step("true"));
  expect_exit(self, 3);
}

TEST_OVERLAP(4)
