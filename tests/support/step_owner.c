#include "tests/support/step_owner.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/kinds/kinds.h"
#include "base/memory.h"

static void on_event(void *owner, const struct step_event *event) {
  static const char *const names[] = {"started", "stdout", "stderr", "completed"};
  struct step_owner *self = owner;
  size_t room = sizeof self->events - self->length;
  int n = snprintf(self->events + self->length, room, "%s%c%.*s\n", names[event->kind],
                   event->partial ? '+' : ' ', (int)event->line_length, event->line);
  assert_true(n > 0 && (size_t)n < room);
  self->length += (size_t)n;
  self->event_count++;
  self->out_of_sequence += event->seq != (uint64_t)self->event_count;
  snprintf(self->step_id, sizeof self->step_id, "%.*s", (int)event->step_id_length, event->step_id);
  self->timestamps_back += strcmp(event->timestamp, self->timestamp) < 0;
  strcpy(self->timestamp, event->timestamp);
}

static void on_flush(void *owner) {
  struct step_owner *self = owner;
  self->flushes++;
  self->flushed_events = self->event_count;
}

static bool on_full(void *owner, size_t more) {
  const struct step_owner *self = owner;
  return self->full || (self->room > 0 && more > self->room);
}

static void on_waits(void *owner) {
  ((struct step_owner *)owner)->waits++;
}

static void on_done(void *owner, const struct run_report *report) {
  struct step_owner *self = owner;
  on_event(self, &report->completed);
  on_flush(self); /* as the answer does */
  self->done++;
  self->result = report->result;
  if (report->result.output_content != NULL)
    self->output_content =
        memory_copy(report->result.output_content, report->result.output_content_length);
  if (report->result.error_message != NULL)
    self->error_message =
        strndup(report->result.error_message, report->result.error_message_length);
  snprintf(self->holder, sizeof self->holder, "%s", report->holder);
  self->survivors = report->survivors;
  run_free(self->run);
  self->run = NULL;
}

static void on_reaped(void *owner, pid_t pid, int status) {
  struct step_owner *self = owner;
  if (self->run != NULL)
    (void)run_reaped(self->run, pid, status);
}

int step_owner_set_up(void **state) {
  struct step_owner *self = calloc(1, sizeof *self);
  assert_non_null(self);
  loop_init(&self->loop);
  self->loop.reaped = on_reaped;
  self->loop.owner = self;
  self->context.process.base = self->loop.base;
  self->context.process.orphaned_pipes = orphaned_pipes_new(self->loop.base);
  self->context.process.spawn.stdin_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  getrlimit(RLIMIT_NOFILE, &self->context.process.spawn.open_files);
  directory_init(&self->directory);
  snprintf(self->variable, sizeof self->variable, "D=%s", self->directory.path);
  self->environment[0] = self->variable;
  static char path[] = "PATH=/usr/bin:/bin";
  self->environment[1] = path;
  self->context.environment = self->environment;
  self->context.job_id = "pipe-42";
  snprintf(self->tag, sizeof self->tag, "%d-99", (int)getpid());
  self->context.agent_tag = self->tag;
  *state = self;
  return 0;
}

int step_owner_tear_down(void **state) {
  struct step_owner *self = *state;
  if (self->run != NULL)
    run_free(self->run);
  self->run = NULL;
  orphaned_pipes_free(self->context.process.orphaned_pipes);
  close(self->context.process.spawn.stdin_fd);
  loop_release(&self->loop);
  directory_release(&self->directory);
  free(self->output_content);
  free(self->error_message);
  free(self);
  return 0;
}

void step_owner_make(struct step_owner *self, const char *json) {
  step_owner_make_of(self, kinds, json);
}

void step_owner_make_of(struct step_owner *self, const struct step_kind *const *known,
                        const char *json) {
  static const struct run_handler handler = {
      .event = on_event, .flush = on_flush, .full = on_full, .waits = on_waits, .done = on_done};
  struct step step;
  struct error error;
  if (step_parse(&step, known, json, strlen(json), &error) != 0)
    fail_msg("%s", error.text);
  free(self->output_content);
  free(self->error_message);
  self->output_content = self->error_message = NULL;
  self->events[0] = '\0';
  self->length = 0;
  self->event_count = self->flushes = self->flushed_events = self->done = 0;
  self->out_of_sequence = 0;
  self->run = run_new(&self->context, &step, ++self->number, &handler, self);
  assert_non_null(self->run);
  assert_null(step.target); /* the step was taken over */
  assert_int_equal(self->done, 0);
}

void step_owner_start(struct step_owner *self, const char *json) {
  step_owner_make(self, json);
  run_start(self->run);
  assert_int_equal(self->done, 0);
}

static void write_script(const struct step_owner *self, const char *script,
                         unsigned timeout_seconds, char json[2048]) {
  int n = snprintf(json, 2048,
                   "{\"schemaVersion\":1,\"stepId\":\"s-1\",\"command\":\"sh\",\"args\":[\"-c\","
                   "\"%s\"],\"workingDirectory\":\"%s\",\"timeoutSeconds\":%u}",
                   script, self->directory.path, timeout_seconds);
  assert_true(n > 0 && n < 2048);
}

void step_owner_make_script(struct step_owner *self, const char *script) {
  char json[2048];
  write_script(self, script, 600, json);
  step_owner_make(self, json);
}

void step_owner_start_script(struct step_owner *self, const char *script,
                             unsigned timeout_seconds) {
  char json[2048];
  write_script(self, script, timeout_seconds, json);
  step_owner_start(self, json);
}

void step_owner_wait(struct step_owner *self) {
  assert_true(loop_until(&self->loop, loop_is_counted, &self->done));
  loop_settle(&self->loop);
  assert_int_equal(self->done, 1);
  assert_int_equal(self->out_of_sequence, 0);
  assert_int_equal(self->result.event_count, self->event_count);
}

struct expectation {
  const struct step_owner *owner;
  const char *events;
};

static bool is_met(void *context) {
  const struct expectation *expected = context;
  return strcmp(expected->owner->events, expected->events) == 0 &&
         expected->owner->flushed_events == expected->owner->event_count;
}

void step_owner_expect(struct step_owner *self, const char *events) {
  struct expectation expected = {.owner = self, .events = events};
  if (!loop_until(&self->loop, is_met, &expected))
    fail_msg("%d of %d events flushed: %s", self->flushed_events, self->event_count, self->events);
}

void step_owner_touch(struct step_owner *self, const char *name) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", self->directory.path, name);
  int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  close(fd);
}

static bool is_there(void *path) {
  return access(path, F_OK) == 0;
}

void step_owner_await(struct step_owner *self, const char *name) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", self->directory.path, name);
  assert_true(loop_until(&self->loop, is_there, path));
}
