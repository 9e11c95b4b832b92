#include "client/steps/started.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/utf8.h"
#include "client/steps/event.h"

/* Entries of one reply, and of all: the stream has about 10,000. */
#define PAGE 500
#define ENTRIES_MAX 40000

struct started_search {
  struct program *program;
  const char *id;
  struct started *found;
  struct buffer space;
  char oldest[48]; /* entry that was seen */
  size_t count;    /* entries of the last page */
  bool is_cut, is_over;
};

/* "2026-05-05T10:00:00.123+00:00" */
static int64_t read_timestamp(const char *text) {
  struct tm tm = {0};
  int ms = 0;
  if (sscanf(text, "%d-%d-%dT%d:%d:%d.%3d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
             &tm.tm_min, &tm.tm_sec, &ms) < 6)
    return 0;
  tm.tm_year -= 1900;
  tm.tm_mon -= 1;
  return (int64_t)timegm(&tm) * 1000 + ms;
}

static void take_event(struct started_search *self, const char *json, size_t length) {
  struct event_view view;
  if (!event_parse(&view, json, length, &self->space) || view.step_id_length != strlen(self->id) ||
      memcmp(view.step_id, self->id, view.step_id_length) != 0)
    return;
  self->is_over = view.seq <= 1;
  if (view.kind != STEP_EVENT_STARTED)
    return;
  struct started *found = self->found;
  const size_t most = sizeof found->line - 1;
  const size_t shown = view.line_length > most ? utf8_cut(view.line, most) : view.line_length;
  (void)snprintf(found->timestamp, sizeof found->timestamp, "%.*s", (int)view.timestamp_length,
                 view.timestamp);
  (void)snprintf(found->line, sizeof found->line, "%.*s", (int)shown, view.line);
  found->unix_ms = read_timestamp(found->timestamp);
  self->is_over = true;
}

static void take_page(void *context, const redisReply *reply) {
  struct started_search *self = context;
  self->is_cut = pipeline_is_truncated(self->program->redis);
  self->count = 0;
  if (self->is_cut || reply->type != REDIS_REPLY_ARRAY)
    return;
  for (size_t i = 0; i < reply->elements && !self->is_over; i++) {
    const redisReply *entry = reply->element[i];
    if (entry->type != REDIS_REPLY_ARRAY || entry->elements != 2 ||
        entry->element[0]->type != REDIS_REPLY_STRING)
      continue;
    (void)snprintf(self->oldest, sizeof self->oldest, "%s", entry->element[0]->str);
    self->count++;
    const redisReply *fields = entry->element[1];
    if (fields->type == REDIS_REPLY_ARRAY && fields->elements >= 2 &&
        fields->element[1]->type == REDIS_REPLY_STRING)
      take_event(self, fields->element[1]->str, fields->element[1]->len);
  }
}

int started_find(struct program *program, const char *events_key, const char *id,
                 struct started *self, struct error *error) {
  struct started_search search = {.program = program, .id = id, .found = self, .oldest = "+"};
  size_t page = PAGE, seen = 0;
  int result = 0;
  *self = (struct started){0};
  while (result == 0 && !search.is_over && seen < ENTRIES_MAX) {
    /* The oldest of the page before comes again: "(" is of Redis 6.2. */
    char count[16];
    (void)snprintf(count, sizeof count, "%zu", page + (seen > 0));
    result = pipeline_call(program->redis,
                           WORDS("XREVRANGE", events_key, search.oldest, "-", "COUNT", count),
                           take_page, &search, error);
    if (result == 0 && search.is_cut && page == 1)
      break;
    if (search.is_cut) {
      page = page / 4 > 0 ? page / 4 : 1;
      continue;
    }
    if (search.count < page + (seen > 0))
      break;
    seen += page;
  }
  buffer_release(&search.space);
  return result;
}
