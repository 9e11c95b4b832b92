#include "client/steps/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "client/redis/job.h"

/* The most entries of one page, and the most pages: 16 million entries. If a page is too large for
   a reply, fewer entries are read. */
#define PAGE_MAX 1000
#define PAGES_MAX 16384

/* A stream has about 10,000 entries; more are not searched for `started`. */
#define STARTED_ENTRIES_MAX 40000

/* --- backwards -------------------------------------------------------------------------------- */

struct backward_scan {
  /* Called for each event, the newest first. Returns whether to go on. */
  bool (*visit)(void *owner, const struct event_view *view);
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

/* --- where to begin --------------------------------------------------------------------------- */

struct history_search {
  const struct history_query *query;
  struct history *history;
  enum {
    SEARCH_BEGIN,     /* where to begin is unknown */
    SEARCH_OTHER_IDS, /* it is known; another step's id may have the same prefix, or be the query */
    SEARCH_AMBIGUOUS, /* another one has; none is the query so far */
    SEARCH_DONE
  } state;
  uint64_t lines; /* that were found */
  int64_t since_ms;
  bool has_raw[2]; /* a raw event of standard output, and of standard error, was visited … */
  char next[2];    /* … and begins with this */
};

static bool has_prefix(const struct event_view *view, const char *prefix) {
  const size_t length = strlen(prefix);
  return view->step_id_length >= length && strncasecmp(view->step_id, prefix, length) == 0;
}

static void set_id(struct history *history, const struct event_view *view) {
  (void)snprintf(history->id, sizeof history->id, "%.*s", (int)view->step_id_length, view->step_id);
}

static bool is_complete(const struct history_search *self) {
  return self->query->id != NULL && strcasecmp(self->history->id, self->query->id) == 0;
}

/* A complete id wins over longer ones that begin with it. */
static void prefer(struct history_search *self, const struct event_view *view) {
  set_id(self->history, view);
  self->history->is_cut = false;
  self->state = SEARCH_BEGIN;
  self->lines = 0;
}

/* Returns whether the query asks for events of this step. */
static bool match_step(struct history_search *self, const struct event_view *view) {
  const struct history_query *query = self->query;
  if (view->step_id_length >= HISTORY_ID_SIZE ||
      (query->id != NULL && !has_prefix(view, query->id)))
    return false;
  if (self->history->id[0] == '\0')
    set_id(self->history, view);
  if (query->id != NULL && !is_complete(self) && view->step_id_length == strlen(query->id))
    prefer(self, view);
  if (event_is_of(view, self->history->id))
    return true;
  if (is_complete(self))
    return false;
  if (query->id != NULL)
    self->state = SEARCH_AMBIGUOUS;
  else if (query->one_step)
    self->state = SEARCH_DONE;
  return query->id == NULL && !query->one_step;
}

/* Returns how many lines end in this event, as raw_text.h counts them. Nothing follows the newest
   raw event of a stream: what it ends with is a line, too. */
static uint64_t count_lines(const struct history_search *self, const struct event_view *view) {
  const bool is_stderr = view->kind == STEP_EVENT_STDERR;
  uint64_t count = 0;
  if (view->kind != STEP_EVENT_STDOUT && !is_stderr)
    return 0;
  if (!view->is_raw)
    return !view->partial;
  for (size_t i = 0; i < view->line_length; i++) {
    const bool is_last = i + 1 == view->line_length;
    const int next = is_last ? self->next[is_stderr] : view->line[i + 1];
    count += view->line[i] == '\n' || (view->line[i] == '\r' && next != '\n') ||
             (is_last && !self->has_raw[is_stderr]);
  }
  return count;
}

static void note_raw(struct history_search *self, const struct event_view *view) {
  const bool is_stderr = view->kind == STEP_EVENT_STDERR;
  if (!view->is_raw || view->line_length == 0)
    return;
  self->has_raw[is_stderr] = true;
  self->next[is_stderr] = view->line[0];
}

static bool is_before_first(const struct history_search *self, const struct event_view *view) {
  const struct history_query *query = self->query;
  if (view->kind == STEP_EVENT_COMPLETED && query->id != NULL)
    return false; /* `follow ID` needs the exit code */
  if (query->has_age && strtoll(view->entry, NULL, 10) < self->since_ms)
    return true;
  return query->has_lines && count_lines(self, view) > 0 && self->lines == query->lines;
}

static bool visit_event(void *owner, const struct event_view *view) {
  struct history_search *self = owner;
  const char *id = self->query->id;
  if (match_step(self, view) && self->state == SEARCH_BEGIN) {
    const bool is_over = is_before_first(self, view);
    self->history->is_cut |= is_over;
    if (is_over)
      (void)snprintf(self->history->after, ENTRY_ID_SIZE, "%s", view->entry);
    else
      entry_before(self->history->after, view->entry);
    self->lines += count_lines(self, view);
    note_raw(self, view);
    if (!is_over && self->query->has_lines && self->lines > self->query->lines) {
      self->history->skip = self->lines - self->query->lines;
      self->lines = self->query->lines;
    }
    if (is_over || (id != NULL && view->kind == STEP_EVENT_STARTED))
      self->state = id != NULL && !is_complete(self) ? SEARCH_OTHER_IDS : SEARCH_DONE;
  }
  return self->state != SEARCH_DONE;
}

/* --- which step ------------------------------------------------------------------------------- */

static void on_newest(void *context, const struct reply *reply) {
  struct history *self = context;
  struct event_view view;
  struct buffer space = {0};
  if (reply->type != REPLY_ARRAY || reply->elements != 1 ||
      event_entry_id(reply->element[0])[0] == '\0')
    return;
  (void)snprintf(self->newest, ENTRY_ID_SIZE, "%s", event_entry_id(reply->element[0]));
  if (event_read(&view, reply->element[0], &space) && view.step_id_length < HISTORY_ID_SIZE) {
    set_id(self, &view);
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

int history_newest(struct program *program, char entry[ENTRY_ID_SIZE], struct error *error) {
  struct history history;
  int result = read_newest(program, &history, error);
  if (result == 0)
    (void)snprintf(entry, ENTRY_ID_SIZE, "%s", history.newest);
  return result;
}

/* Searches the lists before the events: a step that ends meanwhile has events by then. */
static int find_in_lists(struct program *program, const char *id, struct history *history,
                         struct error *error) {
  struct job_steps steps;
  size_t found = 0;
  int result = job_read_steps(program, &steps, error);
  for (size_t i = 0; i < steps.count && result == 0; i++) {
    if (strncasecmp(steps.list[i].id, id, strlen(id)) != 0 ||
        strlen(steps.list[i].id) >= HISTORY_ID_SIZE)
      continue;
    found++;
    (void)snprintf(history->id, sizeof history->id, "%s", steps.list[i].id);
    if (strlen(history->id) == strlen(id)) {
      found = 1;
      break;
    }
  }
  job_steps_release(&steps);
  return found > 1
             ? error_set(error, "%zu steps begin with '%.40s': give more of the ID", found, id)
             : result;
}

/* Returns the time of Redis, or of this machine if Redis refuses TIME. */
static int64_t read_clock_ms(struct program *program) {
  struct error ignored;
  int64_t ms;
  const int result = pipeline_call(program->redis, WORDS("TIME"), reply_to_time, &ms, &ignored);
  return result == 0 && ms >= 0 ? ms : clock_unix_ms();
}

int history_find(struct program *program, const struct history_query *query,
                 struct history *history, struct error *error) {
  struct history listed = {0};
  struct history_search search = {.query = query, .history = history};
  struct backward_scan scan = {.visit = visit_event, .owner = &search};
  *history = listed;
  if ((query->id != NULL && find_in_lists(program, query->id, &listed, error) != 0) ||
      read_newest(program, history, error) != 0)
    return -1;
  (void)snprintf(history->after, ENTRY_ID_SIZE, "%s", history->newest);
  if (query->id != NULL)
    memcpy(history->id, listed.id, sizeof history->id);
  const bool wants_old_events =
      query->id != NULL || (query->has_lines ? query->lines > 0 : query->has_age);
  if (query->has_age)
    search.since_ms = read_clock_ms(program) - query->age_ms;
  (void)snprintf(scan.at, ENTRY_ID_SIZE, "%s", history->newest);
  if (wants_old_events && strcmp(history->newest, "0-0") != 0 &&
      scan_backward(program, program->keys.events, &scan, error) != 0)
    return -1;
  history->is_cut |= wants_old_events ? query->has_lines && search.lines >= query->lines
                                      : strcmp(history->newest, "0-0") != 0;
  if (scan.state == SCAN_TOO_LARGE)
    return error_set(error, "an event is larger than this program reads");
  if (search.state == SEARCH_AMBIGUOUS)
    return error_set(error, "several steps begin with '%.40s': give more of the ID", query->id);
  if (query->id != NULL && history->id[0] == '\0')
    return error_set(error, "no step that waits, runs, or has events begins with '%.40s'",
                     query->id);
  return 0;
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

int history_find_started(struct program *program, const char *events_key, const char *id,
                         struct started *started, struct error *error) {
  struct started_search search = {.id = id, .started = started};
  struct backward_scan scan = {.visit = visit_for_started, .owner = &search, .at = "+"};
  *started = (struct started){0};
  return scan_backward(program, events_key, &scan, error);
}
