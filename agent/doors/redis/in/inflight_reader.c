#include "agent/doors/redis/in/inflight_reader.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/doors/redis/net/command.h"
#include "agent/payload_limit.h"
#include "base/hash.h"
#include "base/memory.h"
#include "wire/step_event.h"

static void on_answer(void *owner, const redisReply *reply, bool whole);

static void ask(struct inflight_reader *self, size_t commands) {
  const char *queries[INFLIGHT_READER_COMMANDS][COMMAND_LIST_WORDS] = {{NULL}};
  char positions[INFLIGHT_READER_COMMANDS][24];
  for (size_t i = 0; i < commands; i++) {
    (void)snprintf(positions[i], sizeof positions[i], "-%zu", self->position + i);
    queries[i][0] = "LINDEX";
    queries[i][1] = self->keys->inflight;
    queries[i][2] = positions[i];
  }
  self->commands = self->due = commands;
  self->bytes = 0;
  outbox_query(self->outbox, command_list_new(queries, commands), on_answer, self);
}

/* Twice as many as before, while they are small. */
static size_t next_commands(const struct inflight_reader *self) {
  size_t fit = INFLIGHT_READER_BYTES / (self->bytes / self->commands + 1);
  size_t most = 2 * self->commands;
  if (most > INFLIGHT_READER_COMMANDS)
    most = INFLIGHT_READER_COMMANDS;
  if (fit > most)
    fit = most;
  return fit > 0 ? fit : 1;
}

static void finish(struct inflight_reader *self, bool complete) {
  self->is_running = false;
  self->end(self->owner, complete);
}

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  struct inflight_reader *self = owner;
  bool there = reply->type == REDIS_REPLY_STRING;
  if (there && self->is_wanted) {
    struct claimed claimed = {.payload = reply->str, .length = reply->len, .truncated = !whole};
    self->bytes += whole ? reply->len : payload_limit();
    self->is_wanted = self->payload(self->owner, &claimed);
  }
  self->position++;
  if (--self->due > 0)
    return;
  if (there && self->is_wanted)
    ask(self, next_commands(self));
  else
    finish(self, !there && self->is_wanted);
}

static void begin(struct inflight_reader *self, size_t position) {
  self->is_running = self->is_wanted = true;
  self->position = position;
  self->removed_count = 0;
}

void inflight_reader_read(struct inflight_reader *self, size_t position, size_t commands) {
  begin(self, position);
  ask(self, commands);
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

void inflight_reader_boot(struct inflight_reader *self) {
  begin(self, 1);
  self->commands = self->due = 1;
  self->bytes = 0;
  self->boot_asked = 2;
  const char *const queries[][COMMAND_LIST_WORDS] = {
      {"GET", self->keys->started},
      {"XREVRANGE", self->keys->events, "+", "-", "COUNT", "1"},
      {"LINDEX", self->keys->inflight, "-1"},
  };
  outbox_query(self->outbox, command_list_new(queries, 3), on_boot_answer, self);
}

/* Of truncated ones nothing is compared: they are removed in their order. */
static uint64_t hash(const struct claimed *claimed) {
  return hash_bytes(claimed->payload, claimed->truncated ? 0 : claimed->length);
}

bool inflight_reader_is_removed(struct inflight_reader *self, const struct claimed *claimed) {
  size_t removals = outbox_removals(self->outbox, claimed);
  if (removals == 0)
    return false;
  uint64_t value = hash(claimed);
  for (size_t i = 0; i < self->removed_count; i++)
    if (self->removed[i] == value && --removals == 0)
      return false;
  self->removed = memory_resize(self->removed, (self->removed_count + 1) * sizeof *self->removed);
  self->removed[self->removed_count++] = value;
  return true;
}

void inflight_reader_init(struct inflight_reader *self, struct outbox *outbox,
                          const struct keys *keys,
                          bool (*payload)(void *owner, const struct claimed *claimed),
                          void (*end)(void *owner, bool complete), void *owner) {
  *self = (struct inflight_reader){.outbox = outbox,
                                   .keys = keys,
                                   .payload = payload,
                                   .end = end,
                                   .owner = owner,
                                   .started_version = 1};
}

void inflight_reader_release(struct inflight_reader *self) {
  free(self->started);
  free(self->removed);
  *self = (struct inflight_reader){0};
}
