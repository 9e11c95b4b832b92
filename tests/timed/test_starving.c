/* Endless input to the frontends of standard input: signals and deadlines take effect in time. */
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/support/machine_clock.h"
#include "tests/support/proc.h"
#include "tests/support/stdio_host.h"
#include "tests/test.h"

/* How late a signal or a deadline may take effect. The best attempt counts, because a busy machine
   delays any of them. */
enum { LATE_MS = 500, DEADLINE_MS = 3000, ATTEMPTS = 5 };

/* The size of an input whose requests take seconds to answer. */
enum { FILE_BYTES = 10 << 20 };

/* A call of a command, cut where its timeout stands, and a request with a long answer. */
static const struct frontend {
  const char *flag;
  const char *call, *call_end;
  const char *request;
} frontends[] = {
    {"--mcp",
     "{'jsonrpc':'2.0','id':0,'method':'tools/call','params':{'name':'execute_command',"
     "'arguments':{'command':'exec sleep 600.081','timeout':",
     "}}}", "{'jsonrpc':'2.0','id':1,'method':'tools/list'}"},
    {"--stdio", "{'id':0,'method':'execute','params':{'command':'exec sleep 600.081','timeout':",
     "}}", "{'id':1,'method':'info'}"},
    {"--once", "{'stepId':'s','command':'sleep','args':['600.081'],'timeoutSeconds':", "}", "{}"},
};

/* --- inputs ----------------------------------------------------------------------------------- */

typedef int input(const struct frontend *frontend, int seconds);

/* A file that cannot be polled and has no lines. */
static int zeros(const struct frontend *frontend, int seconds) {
  (void)frontend;
  (void)seconds;
  return open("/dev/zero", O_RDONLY | O_CLOEXEC);
}

static const char *call_of(const struct frontend *frontend, int seconds) {
  return quoted(formatted("%s%d%s", frontend->call, seconds, frontend->call_end));
}

/* A file that cannot be polled, with the call and then requests. */
static int file(const struct frontend *frontend, int seconds) {
  int fd = memfd_create("requests", MFD_CLOEXEC);
  FILE *out = fdopen(fcntl(fd, F_DUPFD_CLOEXEC, 0), "w");
  assert_non_null(out);
  fprintf(out, "%s\n", call_of(frontend, seconds));
  const char *request = quoted(frontend->request);
  while (ftell(out) < FILE_BYTES)
    fprintf(out, "%s\n", request);
  assert_int_equal(fclose(out), 0);
  assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
  return fd;
}

/* The call, then endless lines from a process that writes as fast as it can. */
static int busy_pipe(const struct frontend *frontend, int seconds) {
  int ends[2];
  const char *call = call_of(frontend, seconds);
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  pid_t writer = fork();
  assert_true(writer >= 0);
  if (writer == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGPIPE, SIG_DFL);
    close(ends[0]);
    dprintf(ends[1], "%s\n", call);
    (void)dup2(ends[1], STDOUT_FILENO);
    execlp("yes", "yes", NULL);
    _exit(1);
  }
  close(ends[1]);
  return ends[0];
}

/* --- the program ------------------------------------------------------------------------------ */

static struct stdio_host *start(const struct frontend *frontend, input *open_input, int seconds) {
  const char *const arguments[] = {frontend->flag, NULL};
  return stdio_host_start(
      &(struct stdio_host_setup){.arguments = arguments,
                                 .in = open_input(frontend, seconds),
                                 .out = open("/dev/null", O_WRONLY | O_CLOEXEC)});
}

static bool has_read_much(void *context) {
  char text[256] = "";
  int fd = open(formatted("/proc/%d/io", *(const pid_t *)context), O_RDONLY | O_CLOEXEC);
  (void)!read(fd, text, sizeof text - 1);
  close(fd);
  return strncmp(text, "rchar: ", 7) == 0 && strtoll(text + 7, NULL, 10) > 4 << 20;
}

/* Also ends the writer. */
static int exit_of(struct stdio_host *host) {
  int code = stdio_host_wait(host);
  stdio_host_free(host);
  proc_kill_children(getpid());
  while (waitpid(-1, NULL, WNOHANG) > 0)
    continue;
  return code;
}

static bool has_call(input *open_input) {
  return open_input != zeros;
}

/* The time from SIGTERM to the end of the command, or of the program if there is no command. */
static double signal_ms(const struct frontend *frontend, input *open_input) {
  struct stdio_host *host = start(frontend, open_input, 600);
  if (has_call(open_input))
    assert_true(proc_wait_for("sleep 600.081", WAIT_BOUND_MS) > 0);
  else
    assert_true(wait_until(has_read_much, &host->pid, WAIT_BOUND_MS));
  double start_ms = machine_clock_ms();
  assert_int_equal(kill(host->pid, SIGTERM), 0);
  bool is_gone = !has_call(open_input) || proc_wait_gone("sleep 600.081", WAIT_BOUND_MS);
  double gone_ms = machine_clock_ms();
  assert_int_equal(exit_of(host), 128 + SIGTERM);
  assert_true(is_gone);
  return (has_call(open_input) ? gone_ms : machine_clock_ms()) - start_ms;
}

/* The time from the start of the command to its end by the deadline. */
static double deadline_ms(const struct frontend *frontend, input *open_input) {
  struct stdio_host *host = start(frontend, open_input, DEADLINE_MS / 1000);
  assert_true(proc_wait_for("sleep 600.081", WAIT_BOUND_MS) > 0);
  double start_ms = machine_clock_ms();
  bool is_gone = proc_wait_gone("sleep 600.081", WAIT_BOUND_MS);
  double took_ms = machine_clock_ms() - start_ms;
  (void)kill(host->pid, SIGTERM);
  (void)exit_of(host);
  assert_true(is_gone);
  return took_ms;
}

static void expect_at_most(const char *what, double (*measure)(const struct frontend *, input *),
                           const struct frontend *frontend, input *open_input, double most_ms) {
  double took_ms = measure(frontend, open_input);
  for (int i = 1; i < ATTEMPTS && took_ms > most_ms; i++)
    took_ms = measure(frontend, open_input);
  print_message("%s, %s: %.1f ms\n", frontend->flag, what, took_ms);
  assert_true(took_ms <= most_ms);
}

enum { MCP, STDIO, ONCE };

TEST(input_without_an_end_delays_neither_signals_nor_deadlines) {
  static const struct {
    const char *input;
    int frontend;
    input *open;
  } rows[] = {{"zeros", MCP, zeros},
              {"zeros", STDIO, zeros},
              {"a file", MCP, file},
              {"a file", STDIO, file},
              {"a file", ONCE, file},
              {"a busy writer", MCP, busy_pipe},
              {"a busy writer", STDIO, busy_pipe},
              {"a busy writer", ONCE, busy_pipe}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const struct frontend *frontend = &frontends[rows[i].frontend];
    print_message("%s: ", rows[i].input);
    expect_at_most("SIGTERM", signal_ms, frontend, rows[i].open, LATE_MS);
    if (has_call(rows[i].open))
      expect_at_most("a deadline of three seconds", deadline_ms, frontend, rows[i].open,
                     DEADLINE_MS + LATE_MS);
  }
}

/* The input is rejected as soon as it is longer than the longest step. */
TEST(endless_zeros_are_rejected) {
  assert_int_equal(exit_of(start(&frontends[ONCE], zeros, 0)), 125);
}
