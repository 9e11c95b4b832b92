#include "agent/frontends/redis/intake/inflight_reader.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/payload_limit.h"
#include "base/memory.h"
#include "wire/step_report.h"

static char *ask(void *owner) {
  struct inflight_reader *self = owner;
  const struct keys *keys = self->keys;
  const char *queries[2 + INFLIGHT_READER_COMMANDS][COMMAND_LIST_WORDS] = {
      {"GET", keys->started}, {"XREVRANGE", keys->events, "+", "-", "COUNT", "1"}};
  char positions[INFLIGHT_READER_COMMANDS][24];
  size_t position = self->handler->place(self->owner);
  for (size_t i = 0; i < self->commands; i++) {
    (void)snprintf(positions[i], sizeof positions[i], "-%zu", position + i);
    queries[2 + i][0] = "LINDEX";
    queries[2 + i][1] = keys->inflight;
    queries[2 + i][2] = positions[i];
  }
  size_t first = 2 - self->boot_due;
  return command_list_new(queries + first, 2 + self->commands - first);
}

/* The newest entry of the stream: [[id, [field, value]]]. */
static int64_t read_events(struct inflight_reader *self, const redisReply *reply) {
  const redisReply *at = reply;
  for (size_t deep = 0; deep < 3 && at != NULL; deep++)
    at = at->type == REDIS_REPLY_ARRAY && at->elements > 0 ? at->element[at->elements - 1] : NULL;
  if (at == NULL || at->type != REDIS_REPLY_STRING)
    return -1;
  return step_event_read_seq(at->str, at->len, self->started, &self->started_version);
}

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  struct inflight_reader *self = owner;
  bool there = reply->type == REDIS_REPLY_STRING;
  if (self->boot_due > 0) {
    if (self->boot_due-- == 1)
      self->started_events = self->started != NULL ? read_events(self, reply) : 0;
    else if (there)
      self->started = memory_copy(reply->str, reply->len);
    return;
  }
  if (there) {
    struct claimed claimed = {.payload = reply->str, .length = reply->len, .truncated = !whole};
    self->bytes += whole ? reply->len : payload_limit();
    self->is_wanted = self->is_wanted && self->handler->payload(self->owner, &claimed);
  }
  if (--self->due > 0)
    return;
  self->is_running = false;
  if (there && self->is_wanted)
    inflight_reader_read(self, SIZE_MAX);
  else
    self->handler->end(self->owner, self->is_wanted);
}

/* Twice as many as in the page before, while they are small. */
void inflight_reader_read(struct inflight_reader *self, size_t most) {
  size_t fit = INFLIGHT_READER_BYTES / (self->bytes / self->commands + 1);
  if (most > 2 * self->commands)
    most = 2 * self->commands;
  if (most > INFLIGHT_READER_COMMANDS)
    most = INFLIGHT_READER_COMMANDS;
  if (most > fit)
    most = fit;
  self->is_running = self->is_wanted = true;
  self->commands = self->due = most > 0 ? most : 1;
  self->bytes = 0;
  delivery_query(self->outbox->delivery, ask, on_answer, self);
}
