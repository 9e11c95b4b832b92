/* The once door with an engine, in a child that has the test's pipes as its descriptors 0 and 1.
 */
#include "agent/doors/once/door.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/engine/lines.h"
#include "agent/exit_code.h"
#include "base/loop.h"
#include "tests/support/directory.h"
#include "tests/support/gate.h"
#include "tests/support/proc.h"
#include "tests/support/quoted.h"
#include "tests/support/wait.h"
#include "tests/test.h"
#include "wire/step.h"

struct once {
  struct directory directory;
  pid_t pid;
  int in;  /* -1: closed */
  int out; /* the same */
  int log;
  char *text; /* all that was read of its output */
  size_t length;
  size_t size; /* allocated */
};

static int set_up(void **state) {
  struct once *self = calloc(1, sizeof *self);
  assert_non_null(self);
  directory_init(&self->directory);
  self->in = self->out = -1;
  self->log = memfd_create("log", MFD_CLOEXEC);
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
  self->length = 0;
}

static int tear_down(void **state) {
  struct once *self = *state;
  close_fd(&self->in);
  close_fd(&self->out);
  close(self->log);
  if (self->pid > 0) {
    proc_kill_tree(self->pid);
    (void)waitpid(self->pid, NULL, 0);
  }
  directory_release(&self->directory);
  free(self->text);
  free(self);
  return 0;
}

/* In the child: what main does. */
static int serve(const struct once *self) {
  char variable[64];
  snprintf(variable, sizeof variable, "D=%s", self->directory.path);
  char path[] = "PATH=/usr/bin:/bin", *environment[] = {variable, path, NULL};
  sigset_t all, mine;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  sigemptyset(&mine);
  sigaddset(&mine, SIGCHLD);
  sigaddset(&mine, SIGTERM);
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct log log = {.least = LOG_INFO, .fd = self->log};
  struct event_base *base = loop_event_base_new();
  struct engine_options options = {.base = base,
                                   .log = &log,
                                   .spawn = {.stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC)},
                                   .signal_fd = signalfd(-1, &mine, SFD_NONBLOCK | SFD_CLOEXEC),
                                   .line_bytes = LINE_BYTES_DEFAULT,
                                   .environment = environment};
  getrlimit(RLIMIT_NOFILE, &options.spawn.open_files);
  struct engine *engine = engine_new(&options);
  struct door *door = once_door_new(base, &log);
  engine_set_door(engine, door);
  int exit_code = engine_run(engine);
  engine_free(engine);
  once_door_free(door);
  event_base_free(base);
  return exit_code;
}

/* `in` and `out` become the child's; -1: closed. */
static void start_with(struct once *self, int in, int out) {
  self->pid = fork();
  assert_true(self->pid >= 0);
  if (self->pid > 0)
    return;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  close_fd(&self->in);
  close_fd(&self->out);
  /* Not 0 and 1 while they are to be closed: what is opened then would get them. */
  int spare = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (dup2(in >= 0 ? in : spare, STDIN_FILENO) < 0 || dup2(out >= 0 ? out : spare, 1) < 0)
    _exit(99);
  _exit(serve(self));
}

/* Its input is this (-1: closed), which it takes over; its output is read here. */
static void start_reading(struct once *self, int in) {
  int out[2];
  assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  self->out = out[0];
  start_with(self, in, out[1]);
  close(in);
  close(out[1]);
}

/* The same with its output; its input is written here. */
static void start_writing(struct once *self, int out) {
  int in[2];
  assert_int_equal(pipe2(in, O_CLOEXEC), 0);
  self->in = in[1];
  start_with(self, in[0], out);
  close(in[0]);
  close(out);
}

static void start(struct once *self) {
  int in[2];
  assert_int_equal(pipe2(in, O_CLOEXEC), 0);
  self->in = in[1];
  start_reading(self, in[0]);
}

static void give(struct once *self, const char *bytes) {
  assert_int_equal(write(self->in, bytes, strlen(bytes)), strlen(bytes));
}

static void give_script(struct once *self, const char *script) {
  char step[2048];
  int n = snprintf(step, sizeof step,
                   "{'schemaVersion':1,'stepId':'s-1','command':'sh','args':['-c','%s'],"
                   "'workingDirectory':'%s'}",
                   script, self->directory.path);
  assert_true(n > 0 && n < (int)sizeof step);
  give(self, quoted(step));
}

static void start_script(struct once *self, const char *script) {
  start(self);
  give_script(self, script);
}

/* Reads more of its output; false at the end. */
static bool read_more(struct once *self) {
  struct pollfd out = {.fd = self->out, .events = POLLIN};
  assert_int_equal(poll(&out, 1, WAIT_BOUND_MS), 1);
  if (self->text == NULL || self->size < self->length + 65537) {
    self->size = 2 * self->length + 65537;
    self->text = realloc(self->text, self->size);
    assert_non_null(self->text);
  }
  ssize_t length = read(self->out, self->text + self->length, 65536);
  assert_true(length >= 0);
  self->length += (size_t)length;
  self->text[self->length] = '\0';
  return length > 0;
}

static void read_until(struct once *self, const char *text) {
  while (self->text == NULL || strstr(self->text, text) == NULL)
    assert_true(read_more(self));
}

static bool has_exited(void *context) {
  struct once *self = context;
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)self->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == self->pid;
}

/* Reads what is left; it exits with this code, and nothing is left of it. */
static void ends_with(struct once *self, int exit_code) {
  while (self->out >= 0 && read_more(self))
    continue;
  int status;
  assert_true(wait_until(has_exited, self, WAIT_BOUND_MS));
  assert_int_equal(waitpid(self->pid, &status, 0), self->pid);
  self->pid = 0;
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), exit_code);
}

/* The last line, which is the result. */
static const char *result(const struct once *self) {
  assert_true(self->length > 0 && self->text[self->length - 1] == '\n');
  const char *at = self->text + self->length - 1;
  while (at > self->text && at[-1] != '\n')
    at--;
  assert_non_null(strstr(at, "\"exitCode\":"));
  return at;
}

static int lines(const struct once *self) {
  int count = 0;
  for (size_t i = 0; i < self->length; i++)
    count += self->text[i] == '\n';
  return count;
}

static void logged(const struct once *self, const char *text) {
  char log[65536] = "";
  assert_true(pread(self->log, log, sizeof log - 1, 0) >= 0);
  if (strstr(log, text) == NULL)
    fail_msg("no '%s' in: %s", text, log);
}

/* --- a step ---------------------------------------------------------------------------------- */

#define ONCE_TEST(NAME) TEST_WITH(struct once *once, NAME, set_up, tear_down)

ONCE_TEST(events_come_as_they_happen_and_the_result_last) {
  start_script(once, "echo one; " GATE("$D/go") "echo two >&2; exit 7");
  close_fd(&once->in);
  read_until(once, "\"line\":\"one\"");
  assert_int_equal(lines(once), 2);
  assert_non_null(strstr(once->text, "\"kind\":\"started\",\"line\":\"sh\""));
  gate_open(directory_path(&once->directory, "go"));
  ends_with(once, 7);
  assert_int_equal(lines(once), 5);
  assert_non_null(strstr(once->text, "\"kind\":\"stderr\",\"line\":\"two\""));
  assert_non_null(strstr(once->text, "\"kind\":\"completed\",\"line\":\"exit=7 timedOut=False\""));
  assert_non_null(strstr(result(once), "\"exitCode\":7,"));
}

ONCE_TEST(exit_codes_are_the_steps) {
  static const struct {
    const char *fields;
    int exit_code;
  } rows[] = {{"'command':'true'", 0},
              {"'command':'sh','args':['-c','exit 2']", 2},
              {"'command':'sh','args':['-c','kill -ABRT $$']", 134},
              {"'command':'sleep','args':['4040'],'timeoutSeconds':1", 124},
              {"'command':'/no/such'", 125},
              {"'kind':'readFile','path':'/no/such'", 1},
              {"'command':7", 125},
              {"'kind':'shutdown'", 125},
              {"'kind':'cancel'", 125}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *step = formatted("{'schemaVersion':1,'stepId':'s-1',%s}", rows[i].fields);
    start(once);
    give(once, quoted(step));
    ends_with(once, rows[i].exit_code);
    assert_non_null(strstr(result(once), "\"stepId\":\"s-1\""));
    forget(once);
  }
}

ONCE_TEST(what_it_left_in_the_background_ends_with_it) {
  start_script(once, "setsid sleep 4042 >&- 2>&- & exit 4");
  ends_with(once, 4);
  assert_int_equal(proc_find("sleep 4042"), 0);
}

static bool is_read(void *context) {
  int unread = -1;
  return ioctl(((struct once *)context)->in, FIONREAD, &unread) == 0 && unread == 0;
}

ONCE_TEST(a_signal_before_the_step_ends_it) {
  start(once);
  give(once, "{");
  assert_true(wait_until(is_read, once, WAIT_BOUND_MS));
  kill(once->pid, SIGTERM);
  ends_with(once, 128 + SIGTERM);
  assert_int_equal(once->length, 0);
}

/* --- where the step ends ---------------------------------------------------------------------- */

/* The writer need not close the pipe. */
ONCE_TEST(the_step_ends_with_its_value) {
  static const char *const steps[] = {
      "{'schemaVersion':1,'stepId':'s-1','command':'true'}",
      " \r\n\t{'schemaVersion':1,'stepId':'s-1','command':'true','args':[]}",
      "{'schemaVersion':1,'stepId':'s-1','command':'true','args':['}','\\\\','\\'}','[{']}",
      "{'schemaVersion':1,'x':{'y':[[{}],{}]},'stepId':'s-1','command':'true'}"};
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    start(once);
    give(once, quoted(steps[i]));
    ends_with(once, 0);
    forget(once);
  }
}

ONCE_TEST(it_may_come_byte_by_byte) {
  start(once);
  for (const char *at = quoted("{'schemaVersion':1,'stepId':'s-1','command':'true'}"); *at != '\0';
       at++) {
    assert_int_equal(write(once->in, at, 1), 1);
    usleep(200);
  }
  ends_with(once, 0);
}

ONCE_TEST(of_two_values_the_first_is_run) {
  start(once);
  give(once, quoted("{'schemaVersion':1,'stepId':'s-1','command':'true'}"
                    "{'schemaVersion':1,'stepId':'s-2','command':'false'}"));
  ends_with(once, 0);
  assert_int_equal(lines(once), 3);
  assert_null(strstr(once->text, "s-2"));
}

/* A number, a word: with the end of their line; what is open, with the end of the input. */
ONCE_TEST(what_is_no_step_is_refused) {
  static const struct {
    const char *input;
    bool closed;
  } rows[] = {{"42\n", false},  {"42", true},   {"null\n", false},      {"\"{\"\n", false},
              {"[1,2]", false}, {"}\n", false}, {"[}", false},          {"", true},
              {" \n ", true},   {"{", true},    {"{\"stepId\":", true}, {"no step\n", false}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    start(once);
    give(once, rows[i].input);
    if (rows[i].closed)
      close_fd(&once->in);
    ends_with(once, ONCE_DOOR_EXIT_REFUSED);
    assert_int_equal(lines(once), 1);
    assert_non_null(strstr(result(once), STEP_NIL_ID));
    forget(once);
  }
}

ONCE_TEST(the_largest_step_has_64_mib) {
  static char spaces[1 << 16];
  memset(spaces, ' ', sizeof spaces);
  start(once);
  size_t given = 0;
  for (ssize_t n; given <= STEP_PAYLOAD_MAX && (n = write(once->in, spaces, sizeof spaces)) > 0;)
    given += (size_t)n;
  ends_with(once, ONCE_DOOR_EXIT_REFUSED);
  assert_true(given > STEP_PAYLOAD_MAX - (2 << 20));
  assert_non_null(strstr(result(once), "payload: expected at most 67108864 bytes"));
}

ONCE_TEST(a_file_is_read_to_its_end) {
  static const struct {
    const char *content;
    int exit_code;
  } rows[] = {{"{'schemaVersion':1,'stepId':'s-1','command':'sh','args':['-c','exit 9']}", 9},
              {"", ONCE_DOOR_EXIT_REFUSED}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int file = memfd_create("step", MFD_CLOEXEC);
    const char *content = quoted(rows[i].content);
    assert_int_equal(write(file, content, strlen(content)), strlen(content));
    assert_int_equal(lseek(file, 0, SEEK_SET), 0);
    start_reading(once, file);
    ends_with(once, rows[i].exit_code);
    forget(once);
  }
}

/* Longer than one read: the file is not waited for, and the loop goes on in between. */
ONCE_TEST(a_long_file_is_read_too) {
  int file = memfd_create("step", MFD_CLOEXEC);
  FILE *stream = fdopen(dup(file), "w");
  fputs(quoted("{'schemaVersion':1,'stepId':'s-1','command':'true','x':'"), stream);
  for (int i = 0; i < 1000000; i++)
    fputc('x', stream);
  fputs("\"}", stream);
  fclose(stream);
  lseek(file, 0, SEEK_SET);
  start_reading(once, file);
  ends_with(once, 0);
}

/* --- who reads -------------------------------------------------------------------------------- */

ONCE_TEST(a_reader_that_is_gone_ends_a_silent_step) {
  start_script(once, "echo ready; exec sleep 4044");
  read_until(once, "ready");
  close_fd(&once->out);
  ends_with(once, 128 + SIGPIPE);
  assert_int_equal(proc_find("sleep 4044"), 0);
  logged(once, "stopping: a closed standard output");
}

static bool is_answered(void *context) {
  char log[4096] = "";
  (void)!pread(((struct once *)context)->log, log, sizeof log - 1, 0);
  return strstr(log, "exit=0 in ") != NULL;
}

/* The step has ended well; but who asked does not know. */
ONCE_TEST(a_result_that_is_not_read_is_no_success) {
  start_script(once, "seq 1 1200"); /* more than the pipe takes, less than is held */
  assert_true(wait_until(is_answered, once, WAIT_BOUND_MS));
  assert_false(has_exited(once));
  close_fd(&once->out);
  ends_with(once, 128 + SIGPIPE);
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

ONCE_TEST(a_reader_that_waits_stops_the_command) {
  start(once);
  long before = proc_status_kib(once->pid, "VmRSS");
  give_script(once, "exec seq 1 100000");
  pid_t pid = proc_wait_for("seq 1 100000", WAIT_BOUND_MS);
  assert_true(pid > 0);
  assert_true(wait_until(waits_to_write, &pid, WAIT_BOUND_MS));
  /* Held are some hundred KiB of 13 MiB; the rest is the program itself. */
  assert_true(proc_status_kib(once->pid, "VmRSS") - before < 8192);
  ends_with(once, 0);
  assert_int_equal(lines(once), 100003);
  long last = 0;
  for (char *end, *at = once->text; *at != '\0'; at = end + 1) {
    static const char beginning[] = "\"kind\":\"stdout\",\"line\":\"";
    end = memchr(at, '\n', (size_t)(once->text + once->length - at));
    assert_non_null(end);
    *end = '\0'; /* so that a search ends with the line */
    const char *line = strstr(at, beginning);
    if (line != NULL)
      assert_int_equal(strtol(line + sizeof beginning - 1, NULL, 10), ++last);
  }
  assert_int_equal(last, 100000);
}

ONCE_TEST(output_to_a_file_needs_no_reader) {
  int file = memfd_create("out", MFD_CLOEXEC);
  start_writing(once, fcntl(file, F_DUPFD_CLOEXEC, 0));
  give_script(once, "seq 1 1000");
  ends_with(once, 0);
  once->text = calloc(1, 1 << 20);
  once->length = (size_t)pread(file, once->text, (1 << 20) - 1, 0);
  assert_int_equal(lines(once), 1003);
  (void)result(once);
  close(file);
}

ONCE_TEST(output_that_cannot_be_written_is_an_error) {
  start_writing(once, open("/dev/full", O_WRONLY | O_CLOEXEC));
  give_script(once, "true");
  ends_with(once, AGENT_EXIT_ERROR);
}

ONCE_TEST(without_input_there_is_no_step) {
  start_reading(once, -1); /* /dev/null, which startup opens in place of a closed one */
  ends_with(once, ONCE_DOOR_EXIT_REFUSED);
  assert_non_null(strstr(result(once), STEP_NIL_ID));
}
