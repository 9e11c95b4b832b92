#include "agent/doors/redis/intake/inflight_reader.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/doors/redis/link/command.h"
#include "agent/payload_limit.h"
#include "base/memory.h"
#include "wire/step_event.h"

static void on_answer(void *owner, const redisReply *reply, bool whole);

static char *ask(void *owner) {
  struct inflight_reader *self = owner;
  const char *queries[INFLIGHT_READER_COMMANDS][COMMAND_LIST_WORDS] = {{NULL}};
  char positions[INFLIGHT_READER_COMMANDS][24];
  size_t position = self->handler->place(self->owner);
  for (size_t i = 0; i < self->commands; i++) {
    (void)snprintf(positions[i], sizeof positions[i], "-%zu", position + i);
    queries[i][0] = "LINDEX";
    queries[i][1] = self->keys->inflight;
    queries[i][2] = positions[i];
  }
  return command_list_new(queries, self->commands);
}

/* Twice as many as in the page before, while they are small. */
static void ask_for_page(struct inflight_reader *self, size_t most) {
  size_t fit = INFLIGHT_READER_BYTES / (self->bytes / self->commands + 1);
  if (most > 2 * self->commands)
    most = 2 * self->commands;
  if (most > INFLIGHT_READER_COMMANDS)
    most = INFLIGHT_READER_COMMANDS;
  if (most > fit)
    most = fit;
  self->commands = self->due = most > 0 ? most : 1;
  self->bytes = 0;
  delivery_query(self->outbox->delivery, ask, on_answer, self);
}

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  struct inflight_reader *self = owner;
  bool there = reply->type == REDIS_REPLY_STRING;
  if (there) {
    struct claimed claimed = {.payload = reply->str, .length = reply->len, .truncated = !whole};
    self->bytes += whole ? reply->len : payload_limit();
    self->is_wanted = self->is_wanted && self->handler->payload(self->owner, &claimed);
  }
  if (--self->due > 0)
    return;
  if (there && self->is_wanted) {
    ask_for_page(self, SIZE_MAX);
  } else {
    self->is_running = false;
    self->handler->end(self->owner, self->is_wanted);
  }
}

void inflight_reader_read(struct inflight_reader *self, size_t most) {
  self->is_running = self->is_wanted = true;
  ask_for_page(self, most);
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

/* What was started, the last event, the oldest step. */
static void on_boot_answer(void *owner, const redisReply *reply, bool whole) {
  struct inflight_reader *self = owner;
  switch (self->boot_asked) {
  case 2:
    if (reply->type == REDIS_REPLY_STRING)
      self->started = memory_copy(reply->str, reply->len);
    break;
  case 1:
    if (self->started != NULL)
      self->started_events = read_events(self, reply);
    break;
  default:
    on_answer(self, reply, whole);
    return;
  }
  self->boot_asked--;
}

static char *ask_at_boot(void *owner) {
  struct inflight_reader *self = owner;
  const char *const queries[][COMMAND_LIST_WORDS] = {
      {"GET", self->keys->started},
      {"XREVRANGE", self->keys->events, "+", "-", "COUNT", "1"},
      {"LINDEX", self->keys->inflight, "-1"},
  };
  return command_list_new(queries, 3);
}

void inflight_reader_boot(struct inflight_reader *self) {
  self->is_running = self->is_wanted = true;
  self->due = 1;
  self->boot_asked = 2;
  delivery_query(self->outbox->delivery, ask_at_boot, on_boot_answer, self);
}

void inflight_reader_init(struct inflight_reader *self, struct outbox *outbox,
                          const struct keys *keys, const struct inflight_reader_handler *handler,
                          void *owner) {
  *self = (struct inflight_reader){.outbox = outbox,
                                   .keys = keys,
                                   .handler = handler,
                                   .owner = owner,
                                   .started_version = 1,
                                   .commands = 1};
}

void inflight_reader_release(struct inflight_reader *self) {
  free(self->started);
  *self = (struct inflight_reader){0};
}
