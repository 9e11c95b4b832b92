#include "tests/support/stdio_host.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "tests/support/agent_process.h"
#include "tests/support/proc.h"
#include "tests/test.h"

static void exec_program(const struct stdio_host_setup *setup) {
  const char *program = realpath(agent_process_program(), NULL);
  const char *arguments[16] = {setup->name != NULL ? setup->name : program};
  for (size_t i = 0; setup->arguments != NULL && setup->arguments[i] != NULL && i < 14; i++)
    arguments[i + 1] = setup->arguments[i];
  for (size_t i = 0; setup->variables != NULL && setup->variables[i] != NULL; i++)
    (void)putenv((char *)(uintptr_t)setup->variables[i]);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGHUP, SIG_DFL); /* which nohup ignores */
  if (program != NULL && (setup->directory == NULL || chdir(setup->directory) == 0))
    execv(program, (char **)(uintptr_t)arguments);
  _exit(AGENT_PROCESS_NO_START);
}

static int make_input(struct stdio_host *self, const char *content) {
  int in[2];
  if (content == NULL) {
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    self->in = in[1];
    return in[0];
  }
  int file = memfd_create("input", MFD_CLOEXEC);
  char *copy = strdup(content);
  assert_non_null(copy);
  quoted_in_place(copy);
  assert_int_equal(write(file, copy, strlen(copy)), strlen(copy));
  assert_int_equal(lseek(file, 0, SEEK_SET), 0);
  free(copy);
  return file;
}

static bool become(int fd, int standard) {
  return (fd < 0 ? close(standard) : dup2(fd, standard)) >= 0;
}

static void close_fd(int *fd) {
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

struct stdio_host *stdio_host_start(const struct stdio_host_setup *setup) {
  struct stdio_host *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->in = -1;
  int out[2] = {-1, setup->out}, in = setup->in != 0 ? setup->in : make_input(self, setup->input);
  if (setup->out == 0)
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
  self->out = out[0];
  self->text = calloc(1, 1);
  assert_non_null(self->text);
  self->log = memfd_create("log", MFD_CLOEXEC);
  (void)signal(SIGPIPE, SIG_IGN);
  pid_t parent = getpid();
  self->pid = fork();
  assert_true(self->pid >= 0);
  if (self->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || !become(in, STDIN_FILENO) || !become(out[1], STDOUT_FILENO) ||
        !become(self->log, STDERR_FILENO))
      _exit(AGENT_PROCESS_NO_START);
    exec_program(setup);
  }
  close_fd(&in);
  close_fd(&out[1]);
  return self;
}

void stdio_host_free(struct stdio_host *self) {
  if (self == NULL)
    return;
  if (self->pid > 0) {
    proc_kill_tree(self->pid);
    (void)waitpid(self->pid, NULL, 0);
  }
  close_fd(&self->in);
  close_fd(&self->out);
  close_fd(&self->log);
  free(self->text);
  free(self->line);
  free(self);
}

const char *stdio_host_log(struct stdio_host *self) {
  ssize_t length = pread(self->log, self->log_text, sizeof self->log_text - 1, 0);
  self->log_text[length > 0 ? length : 0] = '\0';
  return self->log_text;
}

bool stdio_host_offer(struct stdio_host *self, const char *bytes, size_t length) {
  while (length > 0) {
    ssize_t n = write(self->in, bytes, length);
    if (n <= 0)
      return false;
    bytes += n;
    length -= (size_t)n;
  }
  return true;
}

void stdio_host_send_bytes(struct stdio_host *self, const char *bytes, size_t length) {
  if (!stdio_host_offer(self, bytes, length))
    fail_msg("nobody reads the input; log: %s", stdio_host_log(self));
}

void stdio_host_send(struct stdio_host *self, const char *text) {
  text = quoted(text);
  stdio_host_send_bytes(self, text, strlen(text));
}

void stdio_host_close_input(struct stdio_host *self) {
  close_fd(&self->in);
}

void stdio_host_close_output(struct stdio_host *self) {
  close_fd(&self->out);
}

bool stdio_host_read(struct stdio_host *self) {
  struct pollfd out = {.fd = self->out, .events = POLLIN};
  if (poll(&out, 1, WAIT_BOUND_MS) != 1)
    fail_msg("no more output after `%.*s`; log: %s", (int)(self->length - self->taken),
             self->text + self->taken, stdio_host_log(self));
  if (self->size - self->length < 65536) {
    self->size = 2 * self->size + 65536;
    self->text = realloc(self->text, self->size);
    assert_non_null(self->text);
  }
  ssize_t n = read(self->out, self->text + self->length, self->size - self->length - 1);
  assert_true(n >= 0);
  self->length += (size_t)n;
  self->text[self->length] = '\0';
  return n > 0;
}

const char *stdio_host_line(struct stdio_host *self) {
  const char *end = NULL;
  while ((end = memchr(self->text + self->taken, '\n', self->length - self->taken)) == NULL)
    if (!stdio_host_read(self)) {
      if (self->length > self->taken)
        fail_msg("a line without its end: %.*s", (int)(self->length - self->taken),
                 self->text + self->taken);
      return NULL;
    }
  free(self->line);
  self->line = strndup(self->text + self->taken, (size_t)(end - self->text) - self->taken);
  assert_non_null(self->line);
  self->taken = (size_t)(end - self->text) + 1;
  return self->line;
}

static void hide_seconds(char *line) {
  static const char name[] = "\"durationSeconds\":";
  while ((line = strstr(line, name)) != NULL) {
    line += sizeof name - 1;
    size_t digits = strspn(line, "0123456789.");
    assert_true(digits > 0);
    line[0] = 'S';
    memmove(line + 1, line + digits, strlen(line + digits) + 1);
  }
}

void stdio_host_expect(struct stdio_host *self, const char *expected) {
  if (stdio_host_line(self) == NULL)
    fail_msg("no `%s`, but the end; log: %s", quoted(expected), stdio_host_log(self));
  hide_seconds(self->line);
  assert_string_equal(self->line, quoted(expected));
}

void stdio_host_expect_rest(struct stdio_host *self, const char *expected) {
  while (stdio_host_read(self))
    continue;
  hide_seconds(self->text + self->taken);
  assert_string_equal(self->text + self->taken, quoted(expected));
  self->taken = self->length = strlen(self->text);
}

static bool has_exited(void *context) {
  const struct stdio_host *self = context;
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)self->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == self->pid;
}

int stdio_host_wait(struct stdio_host *self) {
  int status;
  if (!wait_until(has_exited, self, WAIT_BOUND_MS))
    fail_msg("it still runs; log: %s", stdio_host_log(self));
  assert_int_equal(waitpid(self->pid, &status, 0), self->pid);
  self->pid = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void stdio_host_expect_exit(struct stdio_host *self, int expected) {
  const char *line = self->out >= 0 ? stdio_host_line(self) : NULL;
  if (line != NULL)
    fail_msg("more output: %s", line);
  int code = stdio_host_wait(self);
  if (code != expected)
    fail_msg("exit code %d, not %d; log: %s", code, expected, stdio_host_log(self));
}

void stdio_host_kill(struct stdio_host *self, int signal) {
  assert_int_equal(kill(self->pid, signal), 0);
}

int stdio_trial_set_up(void **state) {
  struct stdio_trial *self = calloc(1, sizeof *self);
  assert_non_null(self);
  directory_init(&self->directory);
  *state = self;
  return 0;
}

int stdio_trial_tear_down(void **state) {
  struct stdio_trial *self = *state;
  stdio_host_free(self->host);
  directory_release(&self->directory);
  free(self);
  return 0;
}
