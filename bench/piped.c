#include "bench/piped.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/latency.h"
#include "tests/support/agent_process.h"
#include "tests/test.h"

pid_t piped_fork(int in, int out, int log, const char *const *arguments) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid > 0)
    return pid;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)dup2(in, STDIN_FILENO);
  (void)dup2(out, STDOUT_FILENO);
  (void)dup2(log, STDERR_FILENO);
  (void)execv(arguments[0], (char *const *)(uintptr_t)arguments);
  _exit(127);
}

void piped_kill(pid_t pid) {
  (void)kill(pid, SIGKILL);
  (void)waitpid(pid, NULL, 0);
}

struct piped piped_start(const char *const *arguments) {
  int in[2], out[2];
  assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
  struct piped self = {
      .pid = piped_fork(in[0], out[1], STDERR_FILENO, arguments), .in = in[1], .out = out[0]};
  close(in[0]);
  close(out[1]);
  return self;
}

void piped_send(const struct piped *self, const char *text) {
  assert_int_equal(write(self->in, text, strlen(text)), (ssize_t)strlen(text));
}

void piped_expect(const struct piped *self, const char *text) {
  char line[1024] = "";
  size_t length = 0;
  while (length == 0 || line[length - 1] != '\n') {
    ssize_t size = read(self->out, line + length, sizeof line - 1 - length);
    assert_true(size > 0);
    length += (size_t)size;
  }
  line[length] = '\0';
  if (strstr(line, text) == NULL)
    fail_msg("expected %s in %s", text, line);
}

void piped_end(struct piped *self) {
  piped_kill(self->pid);
  close(self->in);
  close(self->out);
}

double piped_once_ms(const char *command) {
  char step[PATH_MAX + 256], output[4096];
  const char *const arguments[] = {agent_process_program(), "--once", NULL};
  int status;
  (void)snprintf(step, sizeof step, "{\"stepId\":\"1\",\"command\":\"%s\",\"args\":[\"-\"]}",
                 command);
  double begin_ms = latency_now_ms();
  struct piped agent = piped_start(arguments);
  piped_send(&agent, step);
  while (read(agent.out, output, sizeof output) > 0)
    ; /* until its end */
  assert_int_equal(waitpid(agent.pid, &status, 0), agent.pid);
  double ms = latency_now_ms() - begin_ms;
  close(agent.in);
  close(agent.out);
  assert_int_equal(status, 0);
  return ms;
}
