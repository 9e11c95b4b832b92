#include "client/http/http_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "client/http/http_job.h"
#include "client/redis/json_field.h"
#include "client/steps/history.h"
#include "client/steps/step_watch.h"
#include "wire/json.h"

/* The agent sends an empty line after 15 s of silence. */
#define SILENT_MS 17000

/* The pause before a stream is requested again: after a loss, and if the agent has no capacity. */
#define RETRY_MS 100
#define BUSY_MS 1000

/* How often the next step is looked for. */
#define LIST_MS 500

/* The most bytes of an event or a result. */
#define LINE_MAX_BYTES ((size_t)80 * 1024 * 1024)

struct http_events {
  struct step_watch *watch;
  struct http_job *http;
  struct http_link link;
  enum {
    EVENTS_IDLE,    /* the stream of `id` was not requested, or there is no step */
    EVENTS_PUSHES,  /* the step was sent, and its stream has not begun */
    EVENTS_READS,   /* it was */
    EVENTS_RETRIES, /* it was interrupted; the timer requests it again */
    EVENTS_OVER,    /* its result was read, or there is none */
    EVENTS_LOST     /* the agent refuses: `watch.error` */
  } state;
  char *id;       /* NULL: no step */
  unsigned order; /* of the step; 0: unknown */
  uint64_t seq;   /* of its last event */
  bool is_wait_reported;
  struct buffer line, completed, space;
  struct buffer early; /* the part of the stream that has come with its header */
  struct event *timer;
  int64_t listed_ms;
};

/* --- lines ------------------------------------------------------------------------------------ */

/* Returns whether the line is an event. */
static bool read_event(struct event_view *view, char entry[ENTRY_ID_SIZE], unsigned order,
                       const char *json, size_t length, struct buffer *space) {
  entry[0] = '\0';
  if (!event_read_json(view, entry, json, length, space))
    return false;
  (void)snprintf(entry, ENTRY_ID_SIZE, "%u-%llu", order, (unsigned long long)view->seq);
  (void)event_read_time(view, &view->logged_ms);
  return true;
}

static void deliver(struct http_events *self, const struct event_view *view) {
  self->seq = view->seq;
  if (view->kind != EVENT_GAP)
    self->watch->handler->event(self->watch->owner, view);
}

static void set_result(struct http_events *self, const char *json, size_t length) {
  struct http_job *http = self->http;
  free(http->result);
  free(http->result_id);
  http->result = memory_copy(json, length);
  http->result_id = memory_copy(self->id, strlen(self->id));
  self->state = EVENTS_OVER;
}

/* The event `completed` is delivered when the result is there, which follows it. */
static void read_line(struct http_events *self, const char *json, size_t length) {
  struct event_view view;
  char entry[ENTRY_ID_SIZE];
  struct buffer *completed = &self->completed;
  if (read_event(&view, entry, self->order, json, length, &self->space)) {
    if (view.kind == STEP_EVENT_COMPLETED)
      buffer_add(completed, json, length);
    else
      deliver(self, &view);
    return;
  }
  set_result(self, json, length);
  if (completed->length > 0 &&
      read_event(&view, entry, self->order, completed->bytes, completed->length, &self->space))
    deliver(self, &view);
  completed->length = 0;
}

static void read_lines(struct http_events *self, const char *bytes, size_t length) {
  struct buffer *line = &self->line;
  for (const char *feed; (feed = memchr(bytes, '\n', length)) != NULL;) {
    const size_t count = (size_t)(feed - bytes);
    if (line->length > 0) {
      buffer_add(line, bytes, count);
      read_line(self, line->bytes, line->length);
      line->length = 0;
    } else if (count > 0) { /* an empty line is a sign of life */
      read_line(self, bytes, count);
    }
    bytes += count + 1;
    length -= count + 1;
  }
  if (line->length + length <= LINE_MAX_BYTES)
    buffer_add(line, bytes, length);
}

/* --- the stream ------------------------------------------------------------------------------- */

static void request(struct http_events *self) {
  struct buffer path = http_job_path(self->id);
  buffer_add_format(&path, "/events?after=%llu", (unsigned long long)self->seq);
  buffer_add(&path, "", 1);
  self->line.length = self->completed.length = 0;
  self->state = EVENTS_READS;
  http_link_send(&self->link, "GET", path.bytes, NULL, 0);
  buffer_release(&path);
}

/* Delivers the early part, from the loop. */
static void read_early(struct http_events *self) {
  read_lines(self, self->early.bytes, self->early.length);
  buffer_release(&self->early);
  self->watch->handler->turn(self->watch->owner);
  step_watch_read(self->watch);
}

LOOP_CALLBACK(on_timer, struct http_events *self) {
  if (self->state == EVENTS_RETRIES)
    request(self);
  else if (self->early.length > 0)
    read_early(self);
}

static void retry(struct http_events *self, int64_t pause_ms) {
  self->state = EVENTS_RETRIES;
  loop_timer_start(self->timer, pause_ms);
}

static void on_body(void *owner, const char *bytes, size_t length) {
  struct http_events *self = owner;
  if (self->state == EVENTS_PUSHES)
    buffer_add(&self->early, bytes, length);
  else if (self->link.response.status == 200)
    read_lines(self, bytes, length);
  else if (self->line.length < LINE_MAX_BYTES)
    buffer_add(&self->line, bytes, length);
}

static void on_turn(void *owner) {
  struct http_events *self = owner;
  if (self->state == EVENTS_PUSHES) {
    if (self->link.response.status == 200)
      self->state = EVENTS_READS;
    else
      http_link_read(&self->link);
    return;
  }
  self->watch->handler->turn(self->watch->owner);
  step_watch_read(self->watch);
}

static bool follows_all(const struct http_events *self) {
  return self->watch->id == NULL && !self->watch->handler->pushes;
}

/* The step goes on meanwhile, and events may be dropped. */
static void wait_for_capacity(struct http_events *self, int status) {
  if (!self->is_wait_reported)
    terminal_say(&self->watch->program->terminal, COLOR_YELLOW,
                 "the agent cannot serve another reader now (%d); retrying", status);
  self->is_wait_reported = true;
  retry(self, BUSY_MS);
}

/* A step of which nobody has read the events may be dropped meanwhile. */
static void on_over(void *owner, const struct error *why) {
  struct http_events *self = owner;
  const int status = self->link.response.status;
  if (self->state == EVENTS_PUSHES) {
    self->state = EVENTS_IDLE;
    return;
  }
  if (why != NULL || (status == 200 && self->state != EVENTS_OVER))
    retry(self, RETRY_MS);
  else if ((status == 404 || status == 410) && follows_all(self))
    self->state = EVENTS_OVER;
  else if (status == 429 || status >= 500)
    wait_for_capacity(self, status);
  else if (status != 200) {
    (void)http_job_explain(status, &self->line, &self->watch->error);
    self->state = EVENTS_LOST;
  }
  self->watch->handler->turn(self->watch->owner);
}

static const struct http_link_handler link_handler = {
    .body = on_body, .turn = on_turn, .over = on_over};

static void *open_source(struct step_watch *watch) {
  struct http_events *self = memory_zeros(sizeof *self);
  self->watch = watch;
  self->http = watch->program->http;
  self->timer = loop_timer_new(watch->program->base, on_timer, self);
  http_link_init(&self->link, &self->http->peer, SILENT_MS, &link_handler, self);
  self->link.accept = "application/x-ndjson";
  return self;
}

static void close_source(void *source) {
  struct http_events *self = source;
  http_link_close(&self->link);
  event_free(self->timer);
  buffer_release(&self->early);
  buffer_release(&self->line);
  buffer_release(&self->completed);
  buffer_release(&self->space);
  free(self->id);
  free(self);
}

/* A link that is open can be used again. */
static void set_step(struct http_events *self, const char *id, unsigned order, uint64_t seq) {
  if (self->link.state != LINK_OPEN)
    http_link_close(&self->link);
  free(self->id);
  self->id = id != NULL ? memory_copy(id, strlen(id)) : NULL;
  self->order = order;
  self->seq = seq;
  self->state = EVENTS_IDLE;
}

static void expect(void *source) {
  struct http_events *self = source;
  const struct step_watch *watch = self->watch;
  unsigned order = 0;
  unsigned long long seq = 0;
  (void)sscanf(watch->last, "%u-%llu", &order, &seq);
  const cJSON *step = http_job_find_order(self->http, order);
  const char *id = json_field_text(step, "stepId", NULL);
  if (watch->id != NULL && (id == NULL || strcasecmp(id, watch->id) != 0))
    order = 0, seq = 0;
  set_step(self, watch->id != NULL ? watch->id : follows_all(self) ? id : NULL, order, seq);
}

static void read_source(void *source) {
  struct http_events *self = source;
  if (self->state == EVENTS_IDLE && self->id != NULL)
    request(self);
  else if (self->early.length > 0)
    loop_timer_start_now(self->timer);
  else if (self->state == EVENTS_READS)
    http_link_read(&self->link);
}

bool http_events_push(void *source, const char *json) {
  struct http_events *self = source;
  struct buffer path = http_job_path(self->id);
  buffer_add(&path, "", 1);
  self->state = EVENTS_PUSHES;
  http_link_send(&self->link, "PUT", path.bytes, json, strlen(json));
  buffer_release(&path);
  while (self->state == EVENTS_PUSHES && self->watch->program->signal == 0)
    program_turn(self->watch->program);
  if (self->state == EVENTS_READS)
    return true;
  http_link_close(&self->link);
  buffer_release(&self->early);
  self->state = EVENTS_IDLE;
  return false;
}

/* --- what else has happened ------------------------------------------------------------------- */

/* Continues with the step that began after this one. */
static void find_next(struct http_events *self, int64_t now_ms) {
  struct error error;
  if (self->id != NULL && self->state != EVENTS_OVER)
    return;
  if (self->id == NULL && now_ms - self->listed_ms < LIST_MS)
    return;
  self->listed_ms = now_ms;
  if (http_job_list(self->http, &error) != 0) {
    const bool is_stopped = self->watch->program->signal != 0;
    self->watch->error = error;
    self->state = is_stopped ? self->state : EVENTS_LOST;
    return;
  }
  for (unsigned order = self->order + 1; order <= self->http->last_order; order++) {
    const cJSON *step = http_job_find_order(self->http, order);
    if (step == NULL)
      continue;
    set_step(self, json_field_text(step, "stepId", ""), order, 0);
    return;
  }
  set_step(self, NULL, self->order, 0);
}

static enum watch_report check(void *source) {
  struct http_events *self = source;
  struct step_watch *watch = self->watch;
  const int64_t now_ms = clock_monotonic_ms(), lost_ms = self->link.lost_ms;
  http_job_report_away(self->http, &self->link);
  if (follows_all(self))
    find_next(self, now_ms);
  if (self->state == EVENTS_LOST)
    return WATCH_PEER_GONE;
  if (lost_ms != 0 && now_ms - lost_ms > ACCESS_TIMEOUT_MS) {
    const char *why = self->link.why.text;
    (void)error_set(&watch->error, "the agent is gone: %s",
                    why[0] != '\0' ? why : "it does not answer");
    return WATCH_PEER_GONE;
  }
  if (self->state == EVENTS_OVER && watch->id != NULL)
    return WATCH_STEP_ABSENT;
  watch->present_ms = now_ms;
  if (watch->id != NULL && watch->step != WATCH_STEP_STARTED && step_watch_is_due(watch, now_ms))
    (void)step_watch_look(watch);
  return WATCH_NOTHING;
}

/* --- history ---------------------------------------------------------------------------------- */

static int read_newest(struct program *program, struct history *history, struct error *error) {
  struct http_job *http = program->http;
  *history = (struct history){.newest = "0-0"};
  if (http_job_list(http, error) != 0)
    return -1;
  for (unsigned order = http->last_order; order > 0; order--) {
    const cJSON *step = http_job_find_order(http, order);
    const char *id = json_field_text(step, "stepId", ""),
               *since = json_field_text(step, "since", "");
    const double seq = json_field_number(step, "lastSeq", 0);
    if (seq < 1 || strlen(id) >= HISTORY_ID_SIZE)
      continue;
    (void)snprintf(history->newest, ENTRY_ID_SIZE, "%u-%.0f", order, seq);
    (void)snprintf(history->id, sizeof history->id, "%s", id);
    history->seq = (uint64_t)seq;
    (void)event_parse_time(since, strlen(since), &history->unix_ms);
    return 0;
  }
  return 0;
}

/* Returns whether to go on. */
static bool visit_backward(const struct buffer *events, unsigned order, event_visitor *visit,
                           void *owner) {
  struct event_view view;
  struct buffer space = {0};
  char entry[ENTRY_ID_SIZE];
  bool goes_on = true;
  for (size_t end = events->length, begin; end > 0 && goes_on; end = begin > 0 ? begin - 1 : 0) {
    const char *text = events->bytes, *feed = memrchr(text, '\n', end);
    begin = feed != NULL ? (size_t)(feed - text) + 1 : 0;
    if (end > begin && read_event(&view, entry, order, text + begin, end - begin, &space) &&
        view.kind != EVENT_GAP)
      goes_on = visit(owner, &view);
  }
  buffer_release(&space);
  return goes_on;
}

static int scan(struct program *program, const char *prefix, event_visitor *visit, void *owner,
                struct error *error) {
  struct http_job *http = program->http;
  bool goes_on = true;
  int result = 0;
  for (unsigned order = http->last_order; order > 0 && goes_on && result == 0; order--) {
    const cJSON *step = http_job_find_order(http, order);
    const char *id = json_field_text(step, "stepId", "");
    const uint64_t last_seq = (uint64_t)json_field_number(step, "lastSeq", 0);
    if (step == NULL || last_seq == 0 ||
        (prefix != NULL && strncasecmp(id, prefix, strlen(prefix)) != 0))
      continue;
    result = http_job_read_events(http, id, last_seq, error);
    goes_on = result == 0 && visit_backward(&http->answer, order, visit, owner);
  }
  return result;
}

static int64_t read_clock(struct program *program) {
  (void)program;
  return clock_unix_ms();
}

/* The list was just read. */
static int find_started(struct program *program, const char *id, struct started *started,
                        struct error *error) {
  const cJSON *step = http_job_find(program->http, id);
  (void)error;
  *started = (struct started){0};
  (void)snprintf(started->timestamp, sizeof started->timestamp, "%s",
                 json_field_text(step, "since", ""));
  (void)event_parse_time(started->timestamp, strlen(started->timestamp), &started->unix_ms);
  return 0;
}

const struct event_access http_event_access = {.open = open_source,
                                               .close = close_source,
                                               .read = read_source,
                                               .expect = expect,
                                               .check = check,
                                               .read_newest = read_newest,
                                               .scan = scan,
                                               .read_clock = read_clock,
                                               .find_started = find_started};
