#include "agent/frontends/redis/delivery/reply_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* Returns the list that the command is about; its text is NULL if there is none. */
static struct command_word list_of(const struct keys *keys, const struct command_word words[3]) {
  const bool moves = command_word_is(&words[0], "BLMOVE");
  const bool expires = command_word_is(&words[0], "EXPIRE");
  const struct command_word *key = &words[moves ? 2 : 1];
  const bool is_found = (moves || expires) && keys_is_reply(keys, key->text, key->length);
  return is_found ? *key : (struct command_word){0};
}

bool reply_list_find(const struct keys *keys, const struct batch *batch, size_t index,
                     struct command_name *name) {
  struct command_word words[3], key = {0};
  if (index < batch->commands) {
    batch_find(batch, index, words, 3);
    key = list_of(keys, words);
  }
  if (key.text != NULL)
    *name = command_name(&words[0], &key);
  return key.text != NULL;
}

struct refused_list {
  const struct keys *keys;
  struct command_word key; /* its text is NULL: all lists */
};

static bool is_refused(const void *owner, const struct command_word words[3]) {
  const struct refused_list *self = owner;
  const struct command_word key = list_of(self->keys, words);
  return key.text != NULL &&
         (self->key.text == NULL ||
          (key.length == self->key.length && memcmp(key.text, self->key.text, key.length) == 0));
}

void reply_list_leave_out(const struct keys *keys, struct send_queue *send_queue, size_t index) {
  struct command_word words[3];
  batch_find(&send_queue->batch, index, words, 3);
  struct refused_list refused = {.keys = keys, .key = list_of(keys, words)};
  char *copy = memory_copy(refused.key.text, refused.key.length); /* the commands move */
  refused.key.text = send_queue->batch.left_out == 0 ? copy : NULL;
  send_queue_leave_out(send_queue, is_refused, &refused);
  free(copy);
}
