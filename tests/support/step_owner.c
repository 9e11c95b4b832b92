#include "tests/support/step_owner.h"

#include "agent/exit_code.h"
#include "agent/kinds/kind.h"
#include "base/memory.h"
#include "tests/test.h"

static struct step_owner *self_of(struct frontend *frontend) {
  return (struct step_owner *)frontend;
}

static void keep_event(struct frontend *frontend, const struct execution *execution,
                       const struct step_event *event) {
  static const char *const names[] = {"started", "stdout", "stderr", "completed"};
  struct step_owner *self = self_of(frontend);
  (void)execution;
  size_t capacity = sizeof self->events - self->length;
  int n = snprintf(self->events + self->length, capacity, "%s%c%.*s\n", names[event->kind],
                   event->partial ? '+' : ' ', (int)event->line_length, event->line);
  assert_true(n > 0 && (size_t)n < capacity);
  self->length += (size_t)n;
  self->event_count++;
  self->out_of_sequence += event->seq != (uint64_t)self->event_count;
}

static void flush(struct frontend *frontend) {
  struct step_owner *self = self_of(frontend);
  self->flushed_events = self->event_count;
}

static size_t capacity(const struct frontend *frontend) {
  const struct step_owner *self = (const struct step_owner *)frontend;
  return self->full ? 0 : self->capacity > 0 ? self->capacity + 1 : SIZE_MAX;
}

static void begin(struct frontend *frontend, struct execution *execution) {
  struct step_owner *self = self_of(frontend);
  self->execution = execution;
  flush(frontend);
}

static void want(struct frontend *frontend, unsigned requests) {
  (void)frontend;
  assert_in_range(requests, 0, 1);
}

static void activity(struct frontend *frontend, unsigned running) {
  (void)frontend;
  (void)running;
}

static void result(struct frontend *frontend, const struct execution *execution,
                   const struct execution_result *end) {
  struct step_owner *self = self_of(frontend);
  struct step_end answer;
  execution_step_end(execution, end, &answer);
  const struct step_result *result = &answer.result;
  keep_event(frontend, execution, &answer.completed);
  self->done++;
  self->result = *result;
  if (result->output_content != NULL)
    self->output_content = memory_copy(result->output_content, result->output_content_length);
  if (result->error_message != NULL)
    self->error_message = strndup(result->error_message, result->error_message_length);
  self->execution = NULL;
}

static void idle(struct frontend *frontend) {
  struct step_owner *self = self_of(frontend);
  self->idle++;
  if (self->leaves_when_idle)
    engine_leave(frontend, AGENT_EXIT_IDLE, "the idle limit");
}

static void close_frontend(struct frontend *frontend, enum frontend_close how) {
  struct step_owner *self = self_of(frontend);
  self->close = how;
  self->closes++;
  if (self->delivery == DELIVERS || how == FRONTEND_CLOSE_IMMEDIATE)
    engine_frontend_closed(frontend, self->delivery == HOLDS ? AGENT_EXIT_ERROR : 0);
}

static void dump(const struct frontend *frontend) {
  const struct step_owner *self = (const struct step_owner *)frontend;
  log_line(&self->loop.log, LOG_INFO, NULL, "state: frontend test");
}

static const struct frontend_type frontend_type = {.name = "test",
                                                   .want = want,
                                                   .begin = begin,
                                                   .capacity = capacity,
                                                   .event = keep_event,
                                                   .flush = flush,
                                                   .result = result,
                                                   .activity = activity,
                                                   .idle = idle,
                                                   .close = close_frontend,
                                                   .dump = dump};

static void reap(void *owner) {
  struct step_owner *self = owner;
  engine_reap(self->engine);
}

static void make_engine(struct step_owner *self) {
  static const struct confinement_options no_policy;
  struct error error;
  if (self->confinement == NULL)
    self->confinement = confinement_new(&no_policy, &error);
  struct engine_options options = {
      .base = self->loop.base,
      .log = &self->loop.log,
      .secrets = &self->secrets,
      .supervisor = {.work = self->work != NULL ? self->work : kinds_work,
                     .open_files = self->open_files,
                     .stdin_fd = self->loop.stdin_fd},
      .signal_fd = -1,
      .idle_limit_ms = self->idle_limit_ms,
      .line_bytes = STEP_OWNER_LINE_BYTES,
      .job_id = "pipe-42",
      .kind = {.environment = self->loop.environment,
               .known = self->kinds != NULL ? self->kinds : kinds,
               .confinement = self->confinement}};
  self->engine = engine_new(&options);
  engine_set_frontend(self->engine, &self->frontend);
}

int step_owner_set_up(void **state) {
  struct step_owner *self = calloc(1, sizeof *self);
  assert_non_null(self);
  loop_init(&self->loop);
  self->loop.reap = reap;
  self->loop.owner = self;
  getrlimit(RLIMIT_NOFILE, &self->open_files);
  self->frontend.type = &frontend_type;
  self->frontend.terms = (struct frontend_terms)FRONTEND_TERMS_OF_PROTOCOL;
  make_engine(self);
  *state = self;
  return 0;
}

int step_owner_tear_down(void **state) {
  struct step_owner *self = *state;
  engine_free(self->engine);
  secrets_release(&self->secrets);
  confinement_free(self->confinement);
  loop_release(&self->loop);
  free(self->output_content);
  free(self->error_message);
  free(self);
  return 0;
}

void step_owner_limit_idle_time(struct step_owner *self, int64_t milliseconds) {
  engine_free(self->engine);
  self->idle_limit_ms = milliseconds;
  make_engine(self);
}

bool step_owner_is_stalled(void *owner) {
  const struct step_owner *self = owner;
  return self->execution != NULL && execution_is_stalled(self->execution);
}

void step_owner_use_kinds(struct step_owner *self, const struct step_kind *const *known,
                          supervisor_work *known_work) {
  engine_free(self->engine);
  self->kinds = known;
  self->work = known_work;
  make_engine(self);
}

void step_owner_make(struct step_owner *self, const char *json) {
  struct request request = {.user_data = self};
  struct error error;
  if (step_parse(&request.step, self->kinds != NULL ? self->kinds : kinds, json, strlen(json),
                 &error) != 0)
    fail_msg("%s", error.text);
  free(self->output_content);
  free(self->error_message);
  self->output_content = self->error_message = NULL;
  self->events[0] = '\0';
  self->length = 0;
  self->event_count = self->flushed_events = self->done = 0;
  self->out_of_sequence = 0;
  engine_submit(&self->frontend, &request);
  assert_non_null(self->execution);
  assert_ptr_equal(execution_user_data(self->execution), self);
  assert_null(request.step.target); /* the request owns the step */
  assert_int_equal(self->done, 0);
}

static void start(struct step_owner *self, const char *json) {
  step_owner_make(self, json);
  engine_start(self->execution);
  assert_int_equal(self->done, 0);
}

static void write_script(const struct step_owner *self, const char *script,
                         unsigned timeout_seconds, char json[2048]) {
  int n = snprintf(json, 2048,
                   "{\"schemaVersion\":1,\"stepId\":\"s-1\",\"command\":\"sh\",\"args\":[\"-c\","
                   "\"%s\"],\"workingDirectory\":\"%s\",\"timeoutSeconds\":%u}",
                   script, self->loop.directory.path, timeout_seconds);
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
  start(self, json);
}

void step_owner_wait(struct step_owner *self) {
  assert_true(loop_until(&self->loop, loop_is_counted, &self->done));
  loop_settle(&self->loop);
  assert_int_equal(self->done, 1);
  assert_int_equal(self->out_of_sequence, 0);
  assert_int_equal(self->result.event_count, self->event_count);
}

static void expect_text(const char *text, const char *expected) {
  assert_int_equal(text == NULL, expected == NULL);
  if (text != NULL && expected != NULL)
    assert_string_equal(text, expected);
}

void step_owner_ends(struct step_owner *self, int exit_code, const char *error_message,
                     const char *output_content) {
  step_owner_wait(self);
  assert_int_equal(self->result.exit_code, exit_code);
  expect_text(self->error_message, error_message);
  expect_text(self->output_content, output_content);
  assert_int_equal(self->flushed_events, self->event_count);
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
