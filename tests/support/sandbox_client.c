#include "tests/support/sandbox_client.h"

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include "tests/test.h"

static const char *program(void) {
  const char *path = getenv("SANDBOX");
  return path == NULL || *path == '\0' ? "build/sandbox" : path;
}

/* What a test waits for. */
struct awaited {
  struct job *job;
  struct agent_process *client;
  struct sandbox_terminal *terminal;
  const char *text;
  int number; /* of steps, or the status of a process */
};

static bool has_heartbeat(void *context) {
  struct job *job = context;
  return job_ask_number(job, "EXISTS sandbox:%s:heartbeat", job->id) == 1;
}

/* Adds the variables, which the harness removes from the environment. Waits for the heartbeat if
   the job has an agent. */
static const char *with_variables(struct job *job, const char *script) {
  if (job->agent != NULL && agent_process_is_running(job->agent))
    assert_true(wait_until(has_heartbeat, job, WAIT_BOUND_MS));
  return job_format(job, "export S='%s' REDIS_URL='%s' JOB_ID='%s' TERM=xterm; unset NO_COLOR; %s",
                    program(), job->url, job->id, script);
}

struct agent_process *sandbox_start(struct job *job, const char *script) {
  const char *const arguments[] = {"-c", with_variables(job, script), NULL};
  return agent_process_start(&(struct agent_setup){.program = "/bin/sh", .arguments = arguments});
}

void sandbox_expect(struct job *job, const char *script, int code, const char *output,
                    const char *errors) {
  struct agent_process *client = sandbox_start(job, script);
  int actual = agent_process_wait(client, WAIT_BOUND_MS);
  if (actual != code)
    job_fail(job, "%s: exit %d, not %d\n%s%s", script, actual, code, agent_process_output(client),
             agent_process_log(client));
  if (output != NULL && strcmp(agent_process_output(client), output) != 0)
    job_fail(job, "%s: wrote `%s`, not `%s`", script, agent_process_output(client), output);
  if (errors != NULL && strcmp(agent_process_log(client), errors) != 0)
    job_fail(job, "%s: said `%s`, not `%s`", script, agent_process_log(client), errors);
  agent_process_free(client);
}

static bool has_output(void *context) {
  const struct awaited *self = context;
  return strstr(agent_process_output(self->client), self->text) != NULL;
}

void sandbox_wait_output(struct agent_process *client, const char *text) {
  struct awaited awaited = {.client = client, .text = text};
  assert_true(wait_until(has_output, &awaited, WAIT_BOUND_MS));
}

static bool has_steps(void *context) {
  const struct awaited *self = context;
  struct job *job = self->job;
  return job_ask_number(job, "LLEN sandbox:%s:in", job->id) +
             job_ask_number(job, "LLEN sandbox:%s:inflight", job->id) ==
         self->number;
}

void sandbox_wait_steps(struct job *job, int count) {
  struct awaited awaited = {.job = job, .number = count};
  assert_true(wait_until(has_steps, &awaited, WAIT_BOUND_MS));
}

/* --- at a terminal ---------------------------------------------------------------------------- */

struct sandbox_terminal *sandbox_terminal_start(struct job *job, const char *script) {
  struct sandbox_terminal *self = calloc(1, sizeof *self);
  assert_non_null(self);
  const struct winsize size = {.ws_row = 24, .ws_col = 80};
  const char *text = with_variables(job, script);
  self->job = job;
  self->pid = forkpty(&self->fd, NULL, NULL, &size);
  assert_true(self->pid >= 0);
  if (self->pid == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)unsetenv("COLUMNS");
    execl("/bin/sh", "sh", "-c", text, (char *)NULL);
    _exit(AGENT_PROCESS_NO_START);
  }
  assert_int_equal(tcgetattr(self->fd, &self->before), 0);
  return self;
}

void sandbox_terminal_send(struct sandbox_terminal *self, const char *keys) {
  assert_int_equal(write(self->fd, keys, strlen(keys)), strlen(keys));
}

/* Returns false if nothing arrives in this time, or at the end. */
static bool read_more(struct sandbox_terminal *self, int milliseconds) {
  struct pollfd readable = {.fd = self->fd, .events = POLLIN};
  if (poll(&readable, 1, milliseconds) <= 0)
    return false;
  ssize_t length = read(self->fd, self->text + self->length, sizeof self->text - 1 - self->length);
  if (length <= 0)
    return false;
  self->length += (size_t)length;
  self->text[self->length] = '\0';
  return true;
}

static bool read_until_part(void *context) {
  const struct awaited *self = context;
  (void)read_more(self->terminal, 20);
  return strstr(self->terminal->text, self->text) != NULL;
}

void sandbox_terminal_wait(struct sandbox_terminal *self, const char *part) {
  struct awaited awaited = {.terminal = self, .text = part};
  if (!wait_until(read_until_part, &awaited, WAIT_BOUND_MS))
    job_fail(self->job, "the terminal never shows `%s`: `%s`", part, self->text);
}

void sandbox_terminal_forget(struct sandbox_terminal *self) {
  while (read_more(self, 0))
    continue;
  self->length = 0;
  self->text[0] = '\0';
}

void sandbox_terminal_resize(struct sandbox_terminal *self, unsigned short columns) {
  const struct winsize size = {.ws_row = 24, .ws_col = columns};
  assert_int_equal(ioctl(self->fd, TIOCSWINSZ, &size), 0);
}

static bool read_until_end(void *context) {
  struct awaited *self = context;
  (void)read_more(self->terminal, 20);
  return waitpid(self->terminal->pid, &self->number, WNOHANG) == self->terminal->pid;
}

/* Returns the last occurrence, or NULL. */
static const char *find_last(const char *text, const char *part) {
  const char *found = NULL;
  for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
    found = at;
  return found;
}

/* The shell's prompt must be at the beginning of a line, with a cursor. */
static void expect_clean(struct sandbox_terminal *self) {
  struct termios after;
  const char *hidden = find_last(self->text, "\x1b[?25l");
  const char *shown = find_last(self->text, "\x1b[?25h");
  const char *line = strrchr(self->text, '\n'), *erased = find_last(self->text, "\r\x1b[K");
  const char *rest = line != NULL ? line + 1 : self->text;
  rest = erased != NULL && erased >= rest ? erased + 4 : rest;
  rest += strcmp(rest, "\x1b[0m") == 0 ? strlen(rest) : 0; /* resets colors */
  if (rest[0] != '\0' || (hidden != NULL && (shown == NULL || shown < hidden)))
    job_fail(self->job, "the terminal is not restored: `%s`", self->text);
  memset(&after, 0, sizeof after); /* the padding is compared, too */
  assert_int_equal(tcgetattr(self->fd, &after), 0);
  assert_memory_equal(&after, &self->before, sizeof after);
}

void sandbox_terminal_expect_exit(struct sandbox_terminal *self, int code) {
  struct awaited end = {.terminal = self};
  if (!wait_until(read_until_end, &end, WAIT_BOUND_MS))
    job_fail(self->job, "it does not end: `%s`", self->text);
  while (read_more(self, 0))
    continue;
  int actual = WIFEXITED(end.number) ? WEXITSTATUS(end.number) : -WTERMSIG(end.number);
  if (actual != code)
    job_fail(self->job, "exit %d, not %d: `%s`", actual, code, self->text);
  expect_clean(self);
  sandbox_terminal_free(self);
}

void sandbox_terminal_free(struct sandbox_terminal *self) {
  close(self->fd);
  free(self);
}
