#include "agent/frontends/redis/heartbeat/control_messages.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "wire/step.h"

#define BUCKETS 4096

static void free_message(struct control_message *message) {
  free((char *)(uintptr_t)message->payload.bytes);
  free(message->step_id);
  free(message);
}

static struct control_message **bucket(const struct control_messages *self, const char *step_id) {
  return &self->by_id[hash_bytes(step_id, strlen(step_id)) % BUCKETS];
}

static void append(struct control_messages *self, struct control_message *message) {
  message->newer = NULL;
  *(self->newest != NULL ? &self->newest->newer : &self->oldest) = message;
  self->newest = message;
  self->count++;
  self->bytes += message->payload.length;
  self->by_state[message->state]++;
  if (message->kind != CONTROL_CANCEL)
    return;
  if (self->by_id == NULL)
    self->by_id = memory_zeros(BUCKETS * sizeof(struct control_message *));
  struct control_message **first = bucket(self, message->step_id);
  message->same_hash = *first;
  *first = message;
}

/* A message without a kind is malformed, so the first kind is none of a message. */
static const struct step_kind *const message_kinds[] = {&step_shutdown, &step_cancel, &step_read,
                                                        NULL};

/* Sets the kind and the step's id, unless the message is malformed. */
static void parse(struct control_message *message) {
  const struct payload *payload = &message->payload;
  struct step step;
  struct error error;
  if (payload->is_truncated)
    return;
  if (step_parse(&step, message_kinds, payload->bytes, payload->length, &error) == 0 &&
      step.kind != &step_shutdown) {
    message->kind = step.kind == &step_cancel ? CONTROL_CANCEL : CONTROL_READ;
    message->step_id = memory_copy(step.step_id, strlen(step.step_id));
    if (message->kind == CONTROL_READ)
      message->seq = ((const struct read_fields *)step.fields)->seq;
  }
  step_release(&step);
}

/* At startup, messages are read on another connection, which accepts longer ones. */
struct control_message *control_messages_add(struct control_messages *self,
                                             const struct payload *payload) {
  struct control_message *message = memory_allocate(sizeof *message);
  *message = (struct control_message){.payload = *payload, .number = self->next_number++};
  if (payload->length > CONTROL_MESSAGE_BYTES)
    message->payload = (struct payload){
        .bytes = payload->bytes, .length = CONTROL_MESSAGE_BYTES, .is_truncated = true};
  message->payload.bytes = memory_copy(message->payload.bytes, message->payload.length);
  parse(message);
  message->state = message->kind == CONTROL_CANCEL ? CONTROL_PENDING : CONTROL_DONE;
  append(self, message);
  return message;
}

struct control_message *control_messages_find(const struct control_messages *self,
                                              const char *step_id) {
  struct control_message *message = self->by_id != NULL ? *bucket(self, step_id) : NULL;
  while (message != NULL &&
         (message->state != CONTROL_PENDING || strcmp(message->step_id, step_id) != 0))
    message = message->same_hash;
  return message;
}

void control_messages_set_state(struct control_messages *self, struct control_message *message,
                                enum control_state state) {
  self->by_state[message->state]--;
  self->by_state[state]++;
  message->state = state;
}

void control_messages_begin_removal(struct control_messages *self, struct control_message *message,
                                    uint64_t end) {
  control_messages_set_state(self, message, CONTROL_REMOVING);
  self->removal_end = end;
}

static void free_messages(struct control_messages *self, bool all) {
  struct control_message *message = self->oldest, *newer;
  free(self->by_id);
  *self = (struct control_messages){.next_number = self->next_number, .activity = self->activity};
  for (; message != NULL; message = newer) {
    newer = message->newer;
    if (all || message->state == CONTROL_REMOVING)
      free_message(message);
    else
      append(self, message);
  }
}

void control_messages_free_removed(struct control_messages *self, uint64_t delivered) {
  if (self->removal_end > 0 && self->removal_end <= delivered)
    free_messages(self, false);
}

void control_messages_release(struct control_messages *self) {
  free_messages(self, true);
}

bool control_messages_is_full(const struct control_messages *self) {
  return self->count >= CONTROL_MESSAGES_MAX || self->bytes >= CONTROL_BYTES_MAX;
}

bool control_messages_may_read(const struct control_messages *self) {
  return self->activity == CONTROL_IDLE && !control_messages_is_full(self);
}

bool control_messages_may_remove(const struct control_messages *self) {
  return self->activity != CONTROL_READING;
}
