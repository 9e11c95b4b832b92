#include "client/steps/history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/redis/job.h"
#include "client/steps/event.h"

/* Entries of one page. If that is too large (pipeline_is_truncated), fewer are asked for. At most PAGES_MAX
   pages are read: 16 million entries. */
#define PAGE_MAX 1000
#define PAGES_MAX 16384

/* A whole GUID is one step's, whatever others there are. */
#define GUID_LENGTH 36

/* --- entries ---------------------------------------------------------------------------------- */

static void read_entry(const char *entry, uint64_t *ms, uint64_t *number) {
  char *end;
  *ms = strtoull(entry, &end, 10);
  *number = *end == '-' ? strtoull(end + 1, NULL, 10) : 0;
}

int entry_compare(const char *entry, const char *other) {
  uint64_t ms, number, other_ms, other_number;
  read_entry(entry, &ms, &number);
  read_entry(other, &other_ms, &other_number);
  if (ms != other_ms)
    return ms < other_ms ? -1 : 1;
  return number < other_number ? -1 : number > other_number;
}

/* The greatest id below this one: "(" in front of an id needs Redis 6.2. */
static void entry_before(char out[ENTRY_SIZE], const char *entry) {
  uint64_t ms, number;
  read_entry(entry, &ms, &number);
  if (number > 0)
    number--;
  else if (ms > 0)
    ms--, number = UINT64_MAX;
  (void)snprintf(out, ENTRY_SIZE, "%" PRIu64 "-%" PRIu64, ms, number);
}

/* --- backwards -------------------------------------------------------------------------------- */

struct history_scan {
  struct pipeline *redis;
  const struct history_query *wish;
  struct history *past;
  struct buffer space;
  char at[ENTRY_SIZE]; /* the page ends there */
  unsigned count;
  uint64_t lines;    /* that were found */
  bool has_begin;    /* past->after is known */
  bool is_ambiguous; /* two steps begin so */
  bool is_over;      /* nothing older is looked at */
  bool is_too_large;
};

static bool begins_with(const struct event_view *view, const char *beginning) {
  size_t length = strlen(beginning);
  return view->step_id_length >= length && strncasecmp(view->step_id, beginning, length) == 0;
}

static bool is_of(const struct event_view *view, const char *id) {
  return view->step_id_length == strlen(id) && begins_with(view, id);
}

static void set_id(struct history *past, const struct event_view *view) {
  (void)snprintf(past->id, sizeof past->id, "%.*s", (int)view->step_id_length, view->step_id);
}

/* Whether the event is of what was asked for; of another step it may end the search. */
static bool is_wanted(struct history_scan *self, const struct event_view *view) {
  const char *id = self->wish->id;
  if (view->step_id_length >= HISTORY_ID_SIZE || (id != NULL && !begins_with(view, id)))
    return false;
  if (self->past->id[0] == '\0')
    set_id(self->past, view);
  bool is_same = is_of(view, self->past->id);
  if (id != NULL)
    self->is_ambiguous |= !is_same;
  else if (!is_same && self->wish->one_step)
    self->has_begin = true;
  self->is_over |= self->is_ambiguous;
  return is_same || (id == NULL && !self->wish->one_step);
}

/* Whether it is one too many: what is wanted begins behind it. */
static bool is_beyond(struct history_scan *self, const struct event_view *view) {
  const struct history_query *wish = self->wish;
  int64_t time_ms;
  if (view->kind == STEP_EVENT_COMPLETED && wish->id != NULL)
    return false; /* it is waited for */
  if (wish->since_ms != 0 && event_read_time(view, &time_ms) && time_ms < wish->since_ms)
    return true;
  bool is_line = view->kind == STEP_EVENT_STDOUT || view->kind == STEP_EVENT_STDERR;
  bool ends_line = is_line && !view->partial;
  return ends_line && wish->has_lines && self->lines++ == wish->lines;
}

static void look_at(struct history_scan *self, const char *entry, const struct event_view *view) {
  if (!is_wanted(self, view))
    return;
  if (!self->has_begin && is_beyond(self, view)) {
    (void)snprintf(self->past->after, ENTRY_SIZE, "%s", entry);
    self->has_begin = true;
  } else if (!self->has_begin) {
    entry_before(self->past->after, entry);
    self->has_begin = self->wish->id != NULL && view->kind == STEP_EVENT_STARTED;
  }
}

static void take_entry(struct history_scan *self, const redisReply *entry) {
  struct event_view view;
  if (entry->type != REDIS_REPLY_ARRAY || entry->elements != 2)
    return;
  const redisReply *id = entry->element[0], *fields = entry->element[1];
  (void)snprintf(self->at, ENTRY_SIZE, "%s", reply_text(id));
  if (fields->type != REDIS_REPLY_ARRAY || fields->elements < 2 ||
      fields->element[1]->type != REDIS_REPLY_STRING ||
      !event_parse(&view, fields->element[1]->str, fields->element[1]->len, &self->space))
    return;
  look_at(self, self->at, &view);
  /* Another step that begins so may lie before this one. */
  bool must_be_unique = self->wish->id != NULL && strlen(self->wish->id) < GUID_LENGTH;
  self->is_over |= self->has_begin && !must_be_unique;
}

static void take_page(void *context, const redisReply *reply) {
  struct history_scan *self = context;
  if (pipeline_is_truncated(self->redis)) {
    self->is_too_large = self->count == 1;
    self->is_over = self->is_too_large;
    self->count = self->count / 4 > 0 ? self->count / 4 : 1;
    return;
  }
  bool is_array = reply->type == REDIS_REPLY_ARRAY;
  for (size_t i = 0; is_array && i < reply->elements && !self->is_over; i++)
    take_entry(self, reply->element[i]);
  self->is_over |= !is_array || reply->elements < self->count || strcmp(self->at, "0-0") == 0;
  entry_before(self->at, self->at);
}

static int scan_back(struct program *program, struct history_scan *self, struct error *error) {
  struct pipeline_pages pages = {.redis = program->redis, .most = PAGES_MAX};
  int result = 0;
  (void)snprintf(self->at, ENTRY_SIZE, "%s", self->past->newest);
  while (result == 0 && !self->is_over) {
    char count[16];
    (void)snprintf(count, sizeof count, "%u", self->count);
    result = pipeline_next_page(
        &pages, WORDS("XREVRANGE", program->keys.events, self->at, "-", "COUNT", count), take_page,
        self, error);
  }
  if (result == 0 && self->is_too_large)
    result = error_set(error, "an event is larger than this program reads");
  return result;
}

/* --- which step ------------------------------------------------------------------------------- */

static void take_newest(void *context, const redisReply *reply) {
  struct history_scan *self = context;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1 ||
      reply->element[0]->type != REDIS_REPLY_ARRAY || reply->element[0]->elements != 2)
    return;
  const redisReply *fields = reply->element[0]->element[1];
  struct event_view view;
  (void)snprintf(self->past->newest, ENTRY_SIZE, "%s", reply_text(reply->element[0]->element[0]));
  if (self->wish->id != NULL || fields->type != REDIS_REPLY_ARRAY || fields->elements < 2 ||
      fields->element[1]->type != REDIS_REPLY_STRING ||
      !event_parse(&view, fields->element[1]->str, fields->element[1]->len, &self->space) ||
      view.step_id_length >= HISTORY_ID_SIZE)
    return;
  set_id(self->past, &view);
  self->past->seq = view.seq;
}

static int read_newest(struct program *program, struct history_scan *self, struct error *error) {
  (void)snprintf(self->past->newest, ENTRY_SIZE, "0-0");
  int result = pipeline_call(program->redis,
                             WORDS("XREVRANGE", program->keys.events, "+", "-", "COUNT", "1"),
                             take_newest, self, error);
  (void)snprintf(self->past->after, ENTRY_SIZE, "%s", self->past->newest);
  return result;
}

int history_newest(struct program *program, char entry[ENTRY_SIZE], struct error *error) {
  static const struct history_query any = {.id = ""};
  struct history past = {0};
  struct history_scan scan = {.redis = program->redis, .wish = &any, .past = &past};
  int result = read_newest(program, &scan, error);
  (void)snprintf(entry, ENTRY_SIZE, "%s", past.newest);
  buffer_release(&scan.space);
  return result;
}

/* Before the events: a step that ends meanwhile has one by then. */
static int look_in_lists(struct program *program, const char *id, struct history *past,
                         struct error *error) {
  struct job_steps steps;
  size_t found = 0;
  int result = job_read_steps(program, &steps, error);
  for (size_t i = 0; i < steps.count && result == 0; i++) {
    if (strncasecmp(steps.list[i].id, id, strlen(id)) != 0 ||
        strlen(steps.list[i].id) >= HISTORY_ID_SIZE)
      continue;
    found++;
    (void)snprintf(past->id, sizeof past->id, "%s", steps.list[i].id);
    past->is_waiting = !steps.list[i].is_running;
  }
  job_steps_release(&steps);
  return found > 1 ? error_set(error, "%zu steps begin with '%.40s'", found, id) : result;
}

int history_find(struct program *program, const struct history_query *wish, struct history *past,
                 struct error *error) {
  struct history_scan scan = {
      .redis = program->redis, .wish = wish, .past = past, .count = PAGE_MAX};
  *past = (struct history){0};
  int result = wish->id != NULL ? look_in_lists(program, wish->id, past, error) : 0;
  if (result == 0)
    result = read_newest(program, &scan, error);
  bool wants_any = wish->id != NULL || (wish->has_lines ? wish->lines > 0 : wish->since_ms != 0);
  if (result == 0 && wants_any && strcmp(past->newest, "0-0") != 0)
    result = scan_back(program, &scan, error);
  if (result == 0 && scan.is_ambiguous)
    result = error_set(error, "several steps begin with '%.40s'", wish->id);
  else if (result == 0 && wish->id != NULL && past->id[0] == '\0')
    result =
        error_set(error, "no step that waits, runs, or has events begins with '%.40s'", wish->id);
  buffer_release(&scan.space);
  return result;
}
