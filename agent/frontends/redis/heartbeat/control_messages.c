#include "agent/frontends/redis/heartbeat/control_messages.h"

#include <stdlib.h>
#include <string.h>

#include "agent/kinds/kind.h"
#include "base/hash.h"
#include "base/memory.h"
#include "wire/step.h"

#define BUCKETS 4096

static void free_message(struct control_message *message) {
  free((char *)(uintptr_t)message->payload.bytes);
  free(message->step_id);
  free(message);
}

void control_messages_release(struct control_messages *self) {
  for (struct control_message *message = self->oldest, *newer; message != NULL; message = newer) {
    newer = message->newer;
    free_message(message);
  }
  free(self->by_id);
  *self = (struct control_messages){.next_number = self->next_number, .activity = self->activity};
}

static struct control_message **bucket(const struct control_messages *self, const char *step_id) {
  return &self->by_id[hash_bytes(step_id, strlen(step_id)) % BUCKETS];
}

/* Returns the id of the step to cancel, which the caller owns, or NULL if the message is not a
   valid cancel. At startup messages are read on another connection, which accepts longer ones. */
static char *parse_cancel(const struct payload *payload) {
  struct step step;
  struct error error;
  if (payload->is_truncated || payload->length > CONTROL_MESSAGE_BYTES)
    return NULL;
  bool is_cancel = step_parse(&step, kinds, payload->bytes, payload->length, &error) == 0 &&
                   step.kind == &step_cancel;
  char *step_id = is_cancel ? memory_copy(step.step_id, strlen(step.step_id)) : NULL;
  step_release(&step);
  return step_id;
}

struct control_message *control_messages_add(struct control_messages *self,
                                             const struct payload *payload) {
  struct control_message *message = memory_allocate(sizeof *message);
  *message = (struct control_message){
      .payload = *payload, .step_id = parse_cancel(payload), .number = self->next_number++};
  message->payload.bytes = memory_copy(payload->bytes, payload->length);
  *(self->newest != NULL ? &self->newest->newer : &self->oldest) = message;
  self->newest = message;
  self->count++;
  self->bytes += payload->length;
  self->by_state[CONTROL_PENDING]++;
  if (message->step_id == NULL) {
    control_messages_set_state(self, message, CONTROL_DONE);
    return message;
  }
  if (self->by_id == NULL)
    self->by_id = memory_zeros(BUCKETS * sizeof *self->by_id);
  struct control_message **first = bucket(self, message->step_id);
  message->same_hash = *first;
  *first = message;
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

static void release_message(struct control_messages *self, struct control_message *message) {
  if (message->step_id != NULL) {
    struct control_message **at = bucket(self, message->step_id);
    while (*at != message)
      at = &(*at)->same_hash;
    *at = message->same_hash;
  }
  self->count--;
  self->by_state[message->state]--;
  self->bytes -= message->payload.length;
  free_message(message);
}

void control_messages_free_removed(struct control_messages *self, uint64_t delivered) {
  if (self->removal_end == 0 || self->removal_end > delivered)
    return;
  struct control_message **at = &self->oldest, *last = NULL;
  while (*at != NULL) {
    struct control_message *message = *at;
    if (message->state == CONTROL_REMOVING) {
      *at = message->newer;
      release_message(self, message);
    } else {
      last = message;
      at = &message->newer;
    }
  }
  self->newest = last;
  self->removal_end = 0;
  if (self->count == 0)
    control_messages_release(self);
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
