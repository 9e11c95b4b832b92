#include "tests/support/process_owner.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void on_readable(void *owner, enum process_stream stream) {
  struct process_owner *self = owner;
  self->readable[stream]++;
  size_t capacity = sizeof self->output[stream] - 1 - self->length[stream];
  assert_true(capacity > self->read_size);
  ssize_t n = process_read(self->process, stream, self->output[stream] + self->length[stream],
                           self->read_size);
  if (n > 0)
    self->length[stream] += (size_t)n;
  self->output[stream][self->length[stream]] = '\0';
  self->end_of_file[stream] += n == 0;
}

static void on_ended(void *owner, const struct process_outcome *outcome) {
  struct process_owner *self = owner;
  self->ended++;
  self->outcome = *outcome;
  if (outcome->failure != NULL)
    self->failure = *outcome->failure;
}

static void reap(void *owner) {
  struct process_owner *self = owner;
  bool has_died;
  (void)supervisors_reap(self->context.supervisors, &has_died);
}

static void make_supervisors(struct process_owner *self) {
  struct supervisor_options options = {.stdin_fd = self->context.stdin_fd,
                                       .oom_score_fd = self->oom_score_fd};
  getrlimit(RLIMIT_NOFILE, &options.commands.open_files);
  self->context.supervisors = supervisors_new(self->loop.base, &options);
}

int process_owner_set_up(void **state) {
  struct process_owner *self = calloc(1, sizeof *self);
  assert_non_null(self);
  loop_init(&self->loop);
  self->loop.reap = reap;
  self->loop.owner = self;
  self->context.base = self->loop.base;
  self->context.grace_ms = PROCESS_OWNER_GRACE_MS;
  self->context.drain_ms = PROCESS_OWNER_DRAIN_MS;
  self->context.stdin_fd = self->loop.stdin_fd;
  self->oom_score_fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  assert_true(self->oom_score_fd > 0);
  make_supervisors(self);
  self->timeout_seconds = 600;
  self->read_size = 65536;
  *state = self;
  return 0;
}

int process_owner_tear_down(void **state) {
  struct process_owner *self = *state;
  if (self->process != NULL)
    process_owner_free(self);
  supervisors_free(self->context.supervisors);
  close(self->oom_score_fd);
  loop_release(&self->loop);
  free(self);
  return 0;
}

static const struct process_handler handler = {.readable = on_readable, .ended = on_ended};

static void begin(struct process_owner *self, bool waits, struct process_spec *spec) {
  spec->exec.envp = self->loop.environment;
  spec->timeout_seconds = self->timeout_seconds;
  struct error error;
  memset(self->length, 0, sizeof self->length);
  memset(self->readable, 0, sizeof self->readable);
  memset(self->end_of_file, 0, sizeof self->end_of_file);
  self->output[0][0] = self->output[1][0] = '\0';
  self->ended = 0;
  self->process = process_new(&self->context, spec, waits, &handler, self, &error);
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

void process_owner_start_argv(struct process_owner *self, char *const *argv,
                              const char *directory) {
  begin(self, false, &(struct process_spec){.exec = {.argv = argv, .directory = directory}});
}

void process_owner_prepare_argv(struct process_owner *self, char *const *argv,
                                const char *directory) {
  begin(self, true, &(struct process_spec){.exec = {.argv = argv, .directory = directory}});
}

void process_owner_start(struct process_owner *self, const char *script) {
  process_owner_start_argv(self, make_script(self, script), NULL);
}

void process_owner_prepare(struct process_owner *self, const char *script) {
  process_owner_prepare_argv(self, make_script(self, script), NULL);
}

void process_owner_free(struct process_owner *self) {
  process_free(self->process);
  self->process = NULL;
}

static bool is_gone(void *context) {
  return kill(*(pid_t *)context, 0) != 0;
}

void process_owner_reap(struct process_owner *self) {
  pid_t pid = process_pid(self->process);
  while (pid == 0)
    pid = process_pid(self->process);
  assert_true(loop_until(&self->loop, is_gone, &pid));
}

void process_owner_wait(struct process_owner *self) {
  assert_true(loop_until(&self->loop, loop_is_counted, &self->ended));
  loop_settle(&self->loop);
  assert_int_equal(self->ended, 1);
  process_owner_free(self);
}

void process_owner_ends(struct process_owner *self, enum process_end end) {
  process_owner_wait(self);
  assert_int_equal(self->outcome.end, end);
}

void process_owner_exits(struct process_owner *self, int exit_code) {
  process_owner_ends(self, PROCESS_EXITED);
  assert_true(WIFEXITED(self->outcome.status));
  assert_int_equal(WEXITSTATUS(self->outcome.status), exit_code);
}

struct expectation {
  const struct process_owner *owner;
  const char *text;
};

static bool is_met(void *context) {
  const struct expectation *expected = context;
  return strcmp(expected->owner->output[PROCESS_STDOUT], expected->text) == 0;
}

void process_owner_expect(struct process_owner *self, const char *text) {
  struct expectation expected = {.owner = self, .text = text};
  if (!loop_until(&self->loop, is_met, &expected))
    assert_string_equal(self->output[PROCESS_STDOUT], text);
}
