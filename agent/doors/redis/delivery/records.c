#include "agent/doors/redis/delivery/records.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/decimal.h"
#include "base/memory.h"

/* The most that a piece has, except for event and result: records_refresh has 5 commands, SET ... EX 5
   words. */
#define PIECE_COMMANDS 5
#define PIECE_WORDS 5

static_assert(sizeof((struct records *)NULL)->ttl > DECIMAL_LENGTH_MAX, "any number of seconds");

/* A piece before it is encoded: the words are borrowed. */
struct piece {
  struct command_word words[PIECE_COMMANDS][PIECE_WORDS];
  size_t counts[PIECE_COMMANDS];
  size_t commands;
};

/* Adds a command of these words, the last of which is the payload of the step (NULL: of none). */
#define ADD(piece, step, ...) add(piece, (const char *const[]){__VA_ARGS__, NULL}, step)
static void add(struct piece *piece, const char *const *texts, const struct claimed *step) {
  CHECK(piece->commands < PIECE_COMMANDS);
  struct command_word *words = piece->words[piece->commands];
  size_t count = 0;
  for (; texts[count] != NULL; count++) {
    CHECK(count < PIECE_WORDS);
    words[count] = command_word(texts[count]);
  }
  CHECK(step == NULL || count < PIECE_WORDS);
  if (step != NULL)
    words[count++] = (struct command_word){.text = step->payload, .length = step->length};
  piece->counts[piece->commands++] = count;
}

static void add_expire(const struct records *self, struct piece *piece, const char *key) {
  if (self->ttl[0] != '\0')
    ADD(piece, NULL, "EXPIRE", key, self->ttl);
}

static void add_removal(const struct records *self, struct piece *piece,
                        const struct claimed *claimed) {
  if (claimed->truncated)
    ADD(piece, NULL, "LTRIM", self->keys->inflight, "0", "-2"); /* RPOP returns the payload */
  else
    ADD(piece, claimed, "LREM", self->keys->inflight, "-1");
}

static size_t piece_length(const struct piece *piece) {
  size_t length = 0;
  for (size_t i = 0; i < piece->commands; i++)
    length += command_length(piece->words[i], piece->counts[i]);
  return length;
}

/* Writes the piece to the end of what was reserved, and queues all of that. `commands` stand before
   it. Its first command removes `removed`; NULL: nothing. */
static struct piece_place commit(struct records *self, const struct piece *piece, char *out,
                                 size_t commands, const struct claimed *removed) {
  struct piece_place place = {.payload = NULL};
  if (removed != NULL && !removed->truncated)
    place.payload = out + command_length(piece->words[0], piece->counts[0]) - 2 - removed->length;
  for (size_t i = 0; i < piece->commands; i++)
    out = command_write(out, piece->words[i], piece->counts[i]);
  send_queue_commit(self->send_queue, commands + piece->commands);
  place.end = self->send_queue->gone + self->send_queue->bytes;
  return place;
}

static struct piece_place put(struct records *self, const struct piece *piece,
                              const struct claimed *removed) {
  if (piece->commands == 0)
    return (struct piece_place){.payload = NULL};
  return commit(self, piece, send_queue_reserve(self->send_queue, piece_length(piece)), 0, removed);
}

void records_init(struct records *self, struct send_queue *send_queue, const struct keys *keys,
                  unsigned long long events_maxlen, unsigned long long keep_bytes,
                  unsigned long long key_ttl_seconds) {
  *self = (struct records){.send_queue = send_queue, .keys = keys};
  retention_init(&self->retention, events_maxlen, keep_bytes);
  bool with_maxlen = events_maxlen > 0 && !retention_is_on(&self->retention);
  char number[DECIMAL_LENGTH_MAX + 1];
  (void)snprintf(number, sizeof number, "%llu", events_maxlen);
  const char *trimmed[] = {"XADD", keys->events, "MAXLEN", "~", number, "*", "data"};
  const char *whole[] = {"XADD", keys->events, "*", "data"};
  command_head_init(&self->event, with_maxlen ? trimmed : whole, with_maxlen ? 7 : 4);
  command_head_init(&self->result, (const char *[]){"LPUSH", keys->results}, 2);
  if (key_ttl_seconds > 0)
    (void)snprintf(self->ttl, sizeof self->ttl, "%llu", key_ttl_seconds);
}

void records_release(struct records *self) {
  command_head_release(&self->event);
  command_head_release(&self->result);
  buffer_release(&self->deferred);
  *self = (struct records){0};
}

void records_trim(struct records *self, uint64_t entries) {
  char number[DECIMAL_LENGTH_MAX + 1];
  *decimal_write(number, entries) = '\0';
  struct piece piece = {0};
  ADD(&piece, NULL, "XTRIM", self->keys->events, "MAXLEN", number);
  (void)put(self, &piece, NULL);
}

/* So many events were queued. */
static void retain(struct records *self, size_t events, size_t bytes) {
  uint64_t most = retention_add(&self->retention, events, bytes,
                                self->send_queue->gone + self->send_queue->bytes);
  if (most > 0)
    records_trim(self, most);
}

static char *write_event(const struct records *self, const struct step_event *event, size_t length,
                         char *out) {
  return command_close(step_event_write(event, command_head_write(&self->event, out, length)));
}

void records_event(struct records *self, const struct step_event *event) {
  size_t length = step_event_length(event);
  (void)write_event(
      self, event, length,
      send_queue_reserve(self->send_queue, command_head_length(&self->event, length)));
  send_queue_commit(self->send_queue, 1);
  if (event->kind == STEP_EVENT_STARTED) { /* after it: the XADD may be what creates the stream */
    struct piece piece = {0};
    add_expire(self, &piece, self->keys->events);
    (void)put(self, &piece, NULL);
  }
  retain(self, 1, length);
}

size_t records_defer_event(struct records *self, const struct step_event *event) {
  size_t length = step_event_length(event);
  size_t all = command_head_length(&self->event, length);
  (void)write_event(self, event, length, buffer_space(&self->deferred, all));
  self->deferred.length += all;
  self->deferred_commands++;
  return self->deferred.length;
}

/* Returns the end. */
static char *write_deferred(struct records *self, char *out) {
  if (self->deferred.length > 0)
    memcpy(out, self->deferred.bytes, self->deferred.length);
  out += self->deferred.length;
  buffer_release(&self->deferred);
  self->deferred_commands = 0;
  return out;
}

void records_put_deferred(struct records *self) {
  size_t commands = self->deferred_commands, bytes = self->deferred.length;
  if (commands > 0) {
    (void)write_deferred(self, send_queue_reserve(self->send_queue, bytes));
    send_queue_commit(self->send_queue, commands);
  }
  retain(self, commands, bytes);
}

void records_started(struct records *self, const char *step_id) {
  const char *key = self->keys->started;
  struct piece piece = {0};
  if (step_id == NULL)
    ADD(&piece, NULL, "DEL", key);
  else if (self->ttl[0] != '\0')
    ADD(&piece, NULL, "SET", key, step_id, "EX", self->ttl);
  else
    ADD(&piece, NULL, "SET", key, step_id);
  add_expire(self, &piece, self->keys->in);
  add_expire(self, &piece, self->keys->inflight);
  (void)put(self, &piece, NULL);
}

/* Event and result are encoded straight into the send queue, before the commands after them. */
struct piece_place records_result(struct records *self, const struct step_event *completed,
                                  const struct step_result *result, const struct claimed *claimed,
                                  bool started) {
  struct piece rest = {0};
  if (claimed != NULL)
    add_removal(self, &rest, claimed);
  if (started)
    ADD(&rest, NULL, "DEL", self->keys->started);
  add_expire(self, &rest, self->keys->results);
  add_expire(self, &rest, self->keys->events);

  size_t result_length = step_result_length(result), event_length = 0, events = 0, bytes = 0;
  size_t length = command_head_length(&self->result, result_length) + piece_length(&rest);
  if (completed != NULL) {
    event_length = step_event_length(completed);
    events = self->deferred_commands + 1;
    bytes = self->deferred.length + event_length;
    length += self->deferred.length + command_head_length(&self->event, event_length);
  }
  char *out = send_queue_reserve(self->send_queue, length);
  if (completed != NULL)
    out = write_event(self, completed, event_length, write_deferred(self, out));
  const char *json = command_head_write(&self->result, out, result_length);
  out = command_close(step_result_write(result, (char *)(uintptr_t)json));
  struct piece_place place = commit(self, &rest, out, events + 1, claimed);
  place.result = json;
  place.result_length = result_length;
  retain(self, events, bytes);
  return place;
}

struct piece_place records_removal(struct records *self, const struct claimed *claimed) {
  struct piece piece = {0};
  add_removal(self, &piece, claimed);
  return put(self, &piece, claimed);
}

struct piece_place records_removal_of_copy(struct records *self, const struct claimed *claimed) {
  struct piece piece = {0};
  ADD(&piece, claimed, "LREM", self->keys->inflight, "1");
  return put(self, &piece, claimed);
}

struct piece_place records_return(struct records *self, const struct claimed *claimed) {
  struct piece piece = {0};
  add_removal(self, &piece, claimed);
  ADD(&piece, claimed, "RPUSH", self->keys->inflight);
  add_expire(self, &piece, self->keys->inflight);
  return put(self, &piece, claimed);
}

void records_refresh(struct records *self) {
  const struct keys *keys = self->keys;
  const char *all[] = {keys->in, keys->events, keys->results, keys->inflight, keys->started};
  struct piece piece = {0};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (self->ttl[0] != '\0')
      add_expire(self, &piece, all[i]);
    else
      ADD(&piece, NULL, "PERSIST", all[i]);
  (void)put(self, &piece, NULL);
}

void records_beat(struct records *self, const char *value, const char *seconds) {
  struct piece piece = {0};
  ADD(&piece, NULL, "SET", self->keys->heartbeat, value, "EX", seconds);
  (void)put(self, &piece, NULL);
}

void records_remove_heartbeat(struct records *self) {
  struct piece piece = {0};
  ADD(&piece, NULL, "DEL", self->keys->heartbeat);
  (void)put(self, &piece, NULL);
}
