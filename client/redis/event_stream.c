/* The events have a connection of their own, because one that blocks on them cannot answer other
   commands. */
#include "client/redis/event_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/error_reply.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "client/redis/redis_job.h"
#include "client/steps/history.h"
#include "client/steps/step_text.h"
#include "client/steps/step_watch.h"

/* An agent without a heartbeat for this time is away, or gone. */
#define AGENT_AWAY_MS 12000
#define AGENT_GONE_MS 60000

/* The heartbeat expires after this time. One that lasts longer is refreshed without a new value,
   because Redis is out of memory. */
#define HEARTBEAT_LIFE_MS 10000

/* The most entries of one reply. If they are too large for it, fewer are read. */
#define COUNT_MAX 1000

/* After a reply with this many entries, or with all that were requested, the next ones are
   requested before these are shown, so that Redis does not wait for the client. */
#define AHEAD_MIN 100

/* How long Redis waits for the first entry, in milliseconds. */
#define BLOCK_MS "1000"

/* The most entries of one page of a scan, and the most pages: 16 million entries. If a page is too
   large for a reply, fewer entries are read. */
#define PAGE_MAX 1000
#define PAGES_MAX 16384

/* A stream has about 10,000 entries; more are not searched for `started`. */
#define STARTED_ENTRIES_MAX 40000

struct event_stream {
  struct step_watch *watch;
  struct program *program;
  struct pipeline *reader;
  bool is_reading;
  char before[ENTRY_ID_SIZE]; /* `watch.last` at the last check */
  char gone[ENTRY_ID_SIZE];   /* the newest entry when the step had left the lists; "": unknown */
  unsigned count;             /* entries per read */
  struct buffer space;
  double heartbeat; /* the time in the last heartbeat */
  char *refusal;    /* a right is missing; NULL: none is */
};

/* --- reading ---------------------------------------------------------------------------------- */

static void on_reply(void *owner, const struct reply *reply);

static void read_source(void *source) {
  struct event_stream *self = source;
  char count[16];
  if (self->is_reading)
    return;
  (void)snprintf(count, sizeof count, "%u", self->count);
  self->is_reading = true;
  pipeline_send(self->reader,
                WORDS("XREAD", "COUNT", count, "BLOCK", BLOCK_MS, "STREAMS",
                      self->program->keys.events, self->watch->last),
                on_reply, self);
}

/* Returns NULL if the reply to XREAD has no entries. */
static const struct reply *find_entries(const struct reply *reply) {
  const struct reply *streams =
      reply->type == REPLY_ARRAY && reply->elements > 0 ? reply->element[0] : NULL;
  const struct reply *entries =
      streams != NULL && streams->type == REPLY_ARRAY && streams->elements == 2
          ? streams->element[1]
          : NULL;
  return entries != NULL && entries->type == REPLY_ARRAY && entries->elements > 0 ? entries : NULL;
}

static void deliver(struct event_stream *self, const struct reply *entries) {
  struct step_watch *watch = self->watch;
  struct event_view view;
  const char *last = event_entry_id(entries->element[entries->elements - 1]);
  if (last[0] != '\0')
    (void)snprintf(watch->last, sizeof watch->last, "%s", last);
  if (entries->elements >= AHEAD_MIN || entries->elements == self->count)
    step_watch_read(watch);
  for (size_t i = 0; i < entries->elements; i++)
    if (event_read(&view, entries->element[i], &self->space))
      watch->handler->event(watch->owner, &view);
}

static void on_reply(void *owner, const struct reply *reply) {
  struct event_stream *self = owner;
  struct step_watch *watch = self->watch;
  const bool is_truncated = reply != NULL && reply->is_truncated;
  const struct reply *entries = NULL;
  const char *failure = NULL;
  self->is_reading = false;
  if (is_truncated && self->count == 1)
    failure = "an event is larger than this program reads";
  else if (is_truncated)
    self->count = self->count / 4 > 0 ? self->count / 4 : 1;
  else if (reply != NULL && reply->type == REPLY_ERROR)
    failure = reply->str;
  else if (reply != NULL)
    entries = find_entries(reply);
  watch->wants_events &= failure == NULL;
  if (failure != NULL)
    watch->handler->failed(watch->owner, failure);
  if (entries != NULL)
    deliver(self, entries);
  if (reply != NULL)
    watch->handler->turn(watch->owner);
  if (failure == NULL)
    step_watch_read(watch);
}

/* --- rights ----------------------------------------------------------------------------------- */

/* The events of the steps follow this entry. */
static void on_last(void *owner, const struct reply *reply) {
  struct event_stream *self = owner;
  if (reply == NULL || reply->type != REPLY_ARRAY)
    return;
  const char *id = reply->elements > 0 ? event_entry_id(reply->element[0]) : "0-0";
  (void)snprintf(self->watch->last, sizeof self->watch->last, "%s", id);
}

static void on_right(void *owner, const struct reply *reply) {
  struct event_stream *self = owner;
  if (reply != NULL && reply->type == REPLY_ERROR && self->refusal == NULL)
    self->refusal = memory_copy(reply->str, reply->len);
}

/* A step is not pushed if its events cannot be read or its result cannot be taken. Therefore these
   commands are tried before it with an id that nobody has. The replies arrive while the owner waits
   for another one. */
static void try_rights(struct event_stream *self) {
  struct pipeline *redis = self->program->redis;
  const struct keys *keys = &self->program->keys;
  char id[STEP_ID_SIZE];
  step_id_make(id);
  char *own = keys_reply(keys, id);
  pipeline_send(redis, WORDS("XREVRANGE", keys->events, "+", "-", "COUNT", "1"), on_last, self);
  pipeline_send(redis, WORDS("XREAD", "COUNT", "1", "STREAMS", keys->events, "$"), on_right, self);
  pipeline_send(redis, WORDS("LINDEX", own, "-1"), on_right, self);
  pipeline_send(redis, WORDS("DEL", own), on_right, self);
  free(own);
  pipeline_send(redis, WORDS("LRANGE", keys->results, "1", "0"), on_right, self);
  pipeline_send(redis, WORDS("LREM", keys->results, "1", id), on_right, self);
}

static void on_newest(void *context, const struct reply *reply) {
  struct history *self = context;
  struct event_view view;
  struct buffer space = {0};
  if (reply->type != REPLY_ARRAY || reply->elements != 1 ||
      event_entry_id(reply->element[0])[0] == '\0')
    return;
  (void)snprintf(self->newest, ENTRY_ID_SIZE, "%s", event_entry_id(reply->element[0]));
  if (event_read(&view, reply->element[0], &space) && view.step_id_length < HISTORY_ID_SIZE) {
    (void)snprintf(self->id, sizeof self->id, "%.*s", (int)view.step_id_length, view.step_id);
    self->seq = view.seq;
    (void)event_read_time(&view, &self->unix_ms);
  }
  buffer_release(&space);
}

static int read_newest(struct program *program, struct history *history, struct error *error) {
  *history = (struct history){.newest = "0-0"};
  return pipeline_call(program->redis,
                       WORDS("XREVRANGE", program->keys.events, "+", "-", "COUNT", "1"), on_newest,
                       history, error);
}

static int read_newest_entry(struct program *program, char entry[ENTRY_ID_SIZE],
                             struct error *error) {
  struct history history;
  const int result = read_newest(program, &history, error);
  if (result == 0)
    (void)snprintf(entry, ENTRY_ID_SIZE, "%s", history.newest);
  return result;
}

int event_stream_check_rights(void *source, struct error *error) {
  struct event_stream *self = source;
  struct program *program = self->program;
  if (self->watch->last[0] == '\0' && read_newest_entry(program, self->watch->last, error) != 0)
    return -1;
  return self->refusal == NULL ? 0
                               : error_set(error, "%s: sandbox doctor names the missing right",
                                           error_reply_explain(self->refusal, &program->url).text);
}

/* --- begin and end ---------------------------------------------------------------------------- */

static void *open_source(struct step_watch *watch) {
  struct program *program = watch->program;
  struct event_stream *self = memory_allocate(sizeof *self);
  *self = (struct event_stream){.watch = watch,
                                .program = program,
                                .reader = pipeline_new(program->base, &program->url, "sandbox"),
                                .count = COUNT_MAX};
  if (watch->handler->pushes)
    try_rights(self);
  return self;
}

static void close_source(void *source) {
  struct event_stream *self = source;
  pipeline_free(self->reader);
  pipeline_forget(self->program->redis, self);
  buffer_release(&self->space);
  free(self->refusal);
  free(self);
}

static void expect(void *source) {
  struct event_stream *self = source;
  self->gone[0] = '\0';
}

/* If the connection was lost or Redis refused it, the next acknowledgement follows in time. */
static void on_acknowledged(void *owner, const struct reply *reply) {
  struct event_stream *self = owner;
  if (reply == NULL || reply->type == REPLY_ERROR)
    self->watch->acknowledged = 0;
}

static void acknowledge(void *source, uint64_t seq) {
  struct event_stream *self = source;
  redis_job_acknowledge(self->program, self->watch->id, seq, on_acknowledged, self);
}

/* --- what else has happened ------------------------------------------------------------------- */

/* The time counts from the last new heartbeat, not from the end of its key. */
static void check_agent(struct event_stream *self, int64_t now_ms) {
  struct step_watch *watch = self->watch;
  struct error ignored;
  struct job_agent agent;
  int result = redis_job_read_agent(self->program, self->program->keys.heartbeat, &agent, &ignored);
  const double time = job_agent_figure(&agent, "Ts");
  if (result != 0 || (agent.is_alive &&
                      (time != self->heartbeat || now_ms - watch->alive_ms > HEARTBEAT_LIFE_MS))) {
    watch->alive_ms = now_ms;
    watch->is_away_reported = false;
  }
  self->heartbeat = time;
  job_agent_release(&agent);
}

/* The stream was deleted or lost if no new entry has arrived and its newest one is older than the
   last one. XREAD would not return its entries until their ids are higher. An older copy of the
   stream looks the same, so some entries may be read twice. */
static void check_stream(struct event_stream *self) {
  struct step_watch *watch = self->watch;
  struct error ignored;
  char newest[ENTRY_ID_SIZE];
  const bool is_idle = strcmp(self->before, watch->last) == 0;
  memcpy(self->before, watch->last, sizeof self->before);
  if (!is_idle || read_newest_entry(self->program, newest, &ignored) != 0 ||
      strcmp(newest, "0-0") == 0 || entry_compare(newest, self->before) >= 0)
    return;
  memcpy(watch->again, newest, sizeof watch->again);
  (void)snprintf(watch->last, sizeof watch->last, "0-0");
  terminal_say(&self->program->terminal, COLOR_YELLOW,
               "the stream of events begins again: lines may be missing");
}

/* The last event of a step that has left the lists is in the stream. If the newest entry is older
   than the last one that was read, check_stream comes first. */
static bool has_read_all(struct event_stream *self) {
  struct error ignored;
  char newest[ENTRY_ID_SIZE];
  if (self->gone[0] == '\0') {
    if (read_newest_entry(self->program, newest, &ignored) != 0 ||
        (strcmp(newest, "0-0") != 0 && entry_compare(newest, self->watch->last) < 0))
      return false;
    memcpy(self->gone, newest, sizeof self->gone);
  }
  return entry_compare(self->watch->last, self->gone) >= 0;
}

static enum watch_report check(void *source) {
  struct event_stream *self = source;
  struct step_watch *watch = self->watch;
  struct pipeline *redis = self->program->redis;
  const int64_t now_ms = clock_monotonic_ms();
  if (pipeline_away_ms(self->reader) > ACCESS_TIMEOUT_MS) {
    struct error why;
    pipeline_connection_error(self->reader, &why);
    (void)error_set(&watch->error, "redis is gone: %s", why.text);
    return WATCH_PEER_GONE;
  }
  pipeline_report_away(redis);
  if (pipeline_away_ms(redis) > 0) {
    watch->alive_ms = now_ms; /* the agent cannot reach it either */
    return WATCH_NOTHING;
  }
  if (step_watch_is_due(watch, now_ms)) {
    check_agent(self, now_ms);
    check_stream(self);
    if (watch->id != NULL && !step_watch_look(watch))
      return has_read_all(self) ? WATCH_STEP_ABSENT : WATCH_NOTHING;
    watch->present_ms = now_ms;
    self->gone[0] = '\0';
  }
  if (now_ms - watch->alive_ms >= AGENT_GONE_MS)
    return WATCH_AGENT_GONE;
  if (now_ms - watch->alive_ms < AGENT_AWAY_MS || watch->is_away_reported)
    return WATCH_NOTHING;
  watch->is_away_reported = true;
  return WATCH_AGENT_AWAY;
}

/* --- backwards -------------------------------------------------------------------------------- */

struct backward_scan {
  event_visitor *visit;
  void *owner;
  char at[ENTRY_ID_SIZE]; /* the next page begins here */
  unsigned count;         /* entries per page */
  enum { SCAN_GOES_ON, SCAN_ENDED, SCAN_TOO_LARGE } state;
  struct buffer space;
};

static void on_page(void *context, const struct reply *reply) {
  struct backward_scan *self = context;
  struct event_view view;
  if (reply->is_truncated) {
    self->state = self->count == 1 ? SCAN_TOO_LARGE : SCAN_GOES_ON;
    self->count = self->count / 4 > 0 ? self->count / 4 : 1;
    return;
  }
  const size_t elements = reply->type == REPLY_ARRAY ? reply->elements : 0;
  const char *last = elements > 0 ? event_entry_id(reply->element[elements - 1]) : "";
  if (elements < self->count || last[0] == '\0' || strcmp(last, "0-0") == 0)
    self->state = SCAN_ENDED;
  entry_before(self->at, last);
  for (size_t i = 0; i < elements; i++)
    if (event_read(&view, reply->element[i], &self->space) && !self->visit(self->owner, &view)) {
      self->state = SCAN_ENDED;
      return;
    }
}

static int scan_backward(struct program *program, const char *key, struct backward_scan *self,
                         struct error *error) {
  struct pipeline_pages pages = {.redis = program->redis, .max = PAGES_MAX};
  int result = 0;
  self->count = PAGE_MAX;
  while (result == 0 && self->state == SCAN_GOES_ON) {
    char count[16];
    (void)snprintf(count, sizeof count, "%u", self->count);
    result = pipeline_next_page(&pages, WORDS("XREVRANGE", key, self->at, "-", "COUNT", count),
                                on_page, self, error);
  }
  buffer_release(&self->space);
  return result;
}

static int scan(struct program *program, const char *prefix, event_visitor *visit, void *owner,
                struct error *error) {
  struct backward_scan scan = {.visit = visit, .owner = owner, .at = "+"};
  (void)prefix;
  if (scan_backward(program, program->keys.events, &scan, error) != 0)
    return -1;
  return scan.state == SCAN_TOO_LARGE
             ? error_set(error, "an event is larger than this program reads")
             : 0;
}

static int64_t read_clock(struct program *program) {
  struct error ignored;
  int64_t ms;
  const int result = pipeline_call(program->redis, WORDS("TIME"), reply_to_time, &ms, &ignored);
  return result == 0 && ms >= 0 ? ms : clock_unix_ms();
}

/* --- the event `started` ---------------------------------------------------------------------- */

struct started_search {
  const char *id;
  struct started *started;
  size_t entries;
};

static bool visit_for_started(void *owner, const struct event_view *view) {
  struct started_search *self = owner;
  struct started *started = self->started;
  const size_t max = sizeof started->line - 1;
  if (!event_is_of(view, self->id))
    return ++self->entries < STARTED_ENTRIES_MAX;
  if (view->kind != STEP_EVENT_STARTED)
    return view->seq > 1 && ++self->entries < STARTED_ENTRIES_MAX;
  (void)snprintf(started->timestamp, sizeof started->timestamp, "%.*s", (int)view->timestamp_length,
                 view->timestamp != NULL ? view->timestamp : "");
  (void)snprintf(started->line, sizeof started->line, "%.*s",
                 (int)(view->line_length > max ? utf8_cut(view->line, max) : view->line_length),
                 view->line);
  (void)event_read_time(view, &started->unix_ms);
  return false;
}

int event_stream_find_started_of(struct program *program, const char *events_key, const char *id,
                                 struct started *started, struct error *error) {
  struct started_search search = {.id = id, .started = started};
  struct backward_scan scan = {.visit = visit_for_started, .owner = &search, .at = "+"};
  *started = (struct started){0};
  return scan_backward(program, events_key, &scan, error);
}

static int find_started(struct program *program, const char *id, struct started *started,
                        struct error *error) {
  return event_stream_find_started_of(program, program->keys.events, id, started, error);
}

const struct event_access redis_event_access = {.open = open_source,
                                                .close = close_source,
                                                .read = read_source,
                                                .expect = expect,
                                                .acknowledge = acknowledge,
                                                .check = check,
                                                .read_newest = read_newest,
                                                .scan = scan,
                                                .read_clock = read_clock,
                                                .find_started = find_started};
