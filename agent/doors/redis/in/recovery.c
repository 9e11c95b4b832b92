#include "agent/doors/redis/in/recovery.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/doors/redis/net/command.h"
#include "base/hash.h"
#include "base/memory.h"
#include "wire/step_event.h"

static void on_step(void *owner, const redisReply *reply, bool whole);

static void ask_step(struct recovery *self) {
  char position[16];
  (void)snprintf(position, sizeof position, "-%d", self->position);
  const char *words[] = {"LINDEX", self->keys->inflight, position};
  outbox_ask(self->outbox, command_new(words, 3), on_step, self);
}

/* Of those that are not whole nothing is compared, they go in order. */
static uint64_t hash(const struct claimed *claimed) {
  return hash_bytes(claimed->payload, claimed->truncated ? 0 : claimed->length);
}

/* Its removal may be on its way: then it is answered. A removal is of the oldest of those that are
   alike. */
static bool is_removed(struct recovery *self, const struct claimed *claimed) {
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

static void on_step(void *owner, const redisReply *reply, bool whole) {
  struct recovery *self = owner;
  struct claimed claimed = {.payload = reply->str, .length = reply->len, .truncated = !whole};
  bool more = reply->type == REDIS_REPLY_STRING;
  if (more && !is_removed(self, &claimed))
    more = self->handler->step(self->owner, &claimed);
  self->position++;
  if (more) {
    ask_step(self);
    return;
  }
  self->running = false;
  self->handler->done(self->owner);
}

static void begin(struct recovery *self) {
  self->running = true;
  self->position = 1;
  self->removed_count = 0;
}

void recovery_scan(struct recovery *self) {
  if (self->running)
    return;
  begin(self);
  ask_step(self);
}

/* The newest entry of the stream: [[id, [field, value]]]. */
static int64_t read_events(const struct recovery *self, const redisReply *reply) {
  const redisReply *at = reply;
  for (size_t deep = 0; deep < 3 && at != NULL; deep++)
    at = at->type == REDIS_REPLY_ARRAY && at->elements > 0 ? at->element[at->elements - 1] : NULL;
  if (at == NULL || at->type != REDIS_REPLY_STRING)
    return -1;
  return step_event_read_seq(at->str, at->len, self->started);
}

/* What was started, the last event, the oldest step. */
static void on_first_answers(void *owner, const redisReply *reply, bool whole) {
  struct recovery *self = owner;
  switch (self->answers++) {
  case 0:
    if (reply->type == REDIS_REPLY_STRING)
      self->started = memory_copy(reply->str, reply->len);
    return;
  case 1:
    if (self->started != NULL)
      self->handler->interrupted(self->owner, self->started, read_events(self, reply));
    return;
  default:
    on_step(self, reply, whole);
  }
}

void recovery_begin(struct recovery *self) {
  begin(self);
  const char *const queries[][COMMAND_LIST_WORDS] = {
      {"GET", self->keys->started},
      {"XREVRANGE", self->keys->events, "+", "-", "COUNT", "1"},
      {"LINDEX", self->keys->inflight, "-1"},
  };
  outbox_ask(self->outbox, command_list_new(queries, 3), on_first_answers, self);
}

void recovery_init(struct recovery *self, struct outbox *outbox, const struct keys *keys,
                   const struct recovery_handler *handler, void *owner) {
  *self = (struct recovery){.outbox = outbox, .keys = keys, .handler = handler, .owner = owner};
}

void recovery_release(struct recovery *self) {
  free(self->started);
  free(self->removed);
  *self = (struct recovery){0};
}
