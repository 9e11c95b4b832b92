#include "agent/doors/redis/delivery/records.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/net/command.h"
#include "base/check.h"
#include "base/decimal.h"
#include "base/memory.h"

/* The most that a piece has, but for event and result: records_refresh has 5 commands, SET ... EX 5
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

static void add(struct piece *piece, const struct command_word *words, size_t count) {
  CHECK(piece->commands < PIECE_COMMANDS && count <= PIECE_WORDS);
  memcpy(piece->words[piece->commands], words, count * sizeof *words);
  piece->counts[piece->commands++] = count;
}

static void add_expire(const struct records *self, struct piece *piece, const char *key) {
  if (self->ttl[0] != '\0')
    add(piece,
        (struct command_word[]){command_word("EXPIRE"), command_word(key), command_word(self->ttl)},
        3);
}

static void add_removal(const struct records *self, struct piece *piece,
                        const struct claimed *claimed) {
  struct command_word payload = {.text = claimed->payload, .length = claimed->length};
  if (!claimed->truncated)
    add(piece,
        (struct command_word[]){command_word("LREM"), command_word(self->keys->inflight),
                                command_word("-1"), payload},
        4);
  else
    add(piece, /* not RPOP, whose reply is the whole payload */
        (struct command_word[]){command_word("LTRIM"), command_word(self->keys->inflight),
                                command_word("0"), command_word("-2")},
        4);
}

static size_t piece_length(const struct piece *piece) {
  size_t length = 0;
  for (size_t i = 0; i < piece->commands; i++)
    length += command_length(piece->words[i], piece->counts[i]);
  return length;
}

static char *piece_write(const struct piece *piece, char *out) {
  for (size_t i = 0; i < piece->commands; i++)
    out = command_write(out, piece->words[i], piece->counts[i]);
  return out;
}

static struct piece_place commit(struct records *self, size_t commands, const char *payload) {
  send_queue_commit(self->send_queue, commands);
  return (struct piece_place){.end = self->send_queue->gone + self->send_queue->bytes,
                              .payload = payload};
}

static void put(struct records *self, const struct piece *piece) {
  if (piece->commands == 0)
    return;
  (void)piece_write(piece, send_queue_reserve(self->send_queue, piece_length(piece)));
  (void)commit(self, piece->commands, NULL);
}

/* Where the payload is written that is the last word of the first command; NULL for the removal of a
   truncated one. */
static const char *payload_at(const char *out, const struct piece *piece,
                              const struct claimed *claimed) {
  if (claimed == NULL || claimed->truncated)
    return NULL;
  return out + command_length(piece->words[0], piece->counts[0]) - 2 - claimed->length;
}

/* A piece whose first command removes the step. */
static struct piece_place put_removal(struct records *self, const struct piece *piece,
                                      const struct claimed *claimed) {
  char *out = send_queue_reserve(self->send_queue, piece_length(piece));
  (void)piece_write(piece, out);
  return commit(self, piece->commands, payload_at(out, piece, claimed));
}

static void make_heads(struct records *self, unsigned long long maxlen) {
  char number[DECIMAL_LENGTH_MAX + 1];
  (void)snprintf(number, sizeof number, "%llu", maxlen);
  const char *trimmed[] = {"XADD", self->keys->events, "MAXLEN", "~", number, "*", "data"};
  const char *whole[] = {"XADD", self->keys->events, "*", "data"};
  command_head_init(&self->event, maxlen > 0 ? trimmed : whole, maxlen > 0 ? 7 : 4);
  const char *result[] = {"LPUSH", self->keys->results};
  command_head_init(&self->result, result, 2);
}

void records_init(struct records *self, struct send_queue *send_queue, const struct keys *keys,
                  unsigned long long events_maxlen, unsigned long long key_ttl_seconds) {
  *self = (struct records){.send_queue = send_queue, .keys = keys};
  if (key_ttl_seconds > 0)
    (void)snprintf(self->ttl, sizeof self->ttl, "%llu", key_ttl_seconds);
  make_heads(self, events_maxlen);
}

void records_release(struct records *self) {
  command_head_release(&self->event);
  command_head_release(&self->result);
  buffer_release(&self->deferred);
  *self = (struct records){0};
}

static char *write_event(const struct records *self, const struct step_event *event, size_t length,
                         char *out) {
  return command_close(step_event_write(event, command_head_write(&self->event, out, length)));
}

static void count_events(struct records *self, size_t events, size_t bytes) {
  self->events += events;
  self->event_bytes += bytes;
}

void records_event(struct records *self, const struct step_event *event) {
  size_t length = step_event_length(event);
  count_events(self, 1, length);
  (void)write_event(
      self, event, length,
      send_queue_reserve(self->send_queue, command_head_length(&self->event, length)));
  send_queue_commit(self->send_queue, 1);
  if (event->kind != STEP_EVENT_STARTED)
    return;
  /* After it: the XADD may be what creates the stream. */
  struct piece piece = {0};
  add_expire(self, &piece, self->keys->events);
  put(self, &piece);
}

void records_trim(struct records *self, uint64_t entries) {
  char number[DECIMAL_LENGTH_MAX + 1];
  *decimal_write(number, entries) = '\0';
  struct piece piece = {0};
  add(&piece,
      (struct command_word[]){command_word("XTRIM"), command_word(self->keys->events),
                              command_word("MAXLEN"), command_word(number)},
      4);
  put(self, &piece);
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
  count_events(self, self->deferred_commands, self->deferred.length);
  if (self->deferred.length > 0)
    memcpy(out, self->deferred.bytes, self->deferred.length);
  out += self->deferred.length;
  buffer_release(&self->deferred);
  self->deferred_commands = 0;
  return out;
}

void records_put_deferred(struct records *self) {
  size_t commands = self->deferred_commands;
  if (commands == 0)
    return;
  (void)write_deferred(self, send_queue_reserve(self->send_queue, self->deferred.length));
  send_queue_commit(self->send_queue, commands);
}

void records_started(struct records *self, const char *step_id) {
  struct piece piece = {0};
  struct command_word set[] = {command_word("SET"), command_word(self->keys->started),
                               command_word(step_id != NULL ? step_id : ""), command_word("EX"),
                               command_word(self->ttl)};
  if (step_id != NULL)
    add(&piece, set, self->ttl[0] != '\0' ? 5 : 3);
  else
    add(&piece, (struct command_word[]){command_word("DEL"), command_word(self->keys->started)}, 2);
  add_expire(self, &piece, self->keys->in);
  add_expire(self, &piece, self->keys->inflight);
  put(self, &piece);
}

/* Event and result are encoded straight into the send queue, before the commands after them. */
struct piece_place records_result(struct records *self, const struct step_event *completed,
                                  const struct step_result *result, const struct claimed *claimed,
                                  bool started) {
  struct piece rest = {0};
  if (claimed != NULL)
    add_removal(self, &rest, claimed);
  if (started)
    add(&rest, (struct command_word[]){command_word("DEL"), command_word(self->keys->started)}, 2);
  add_expire(self, &rest, self->keys->results);
  add_expire(self, &rest, self->keys->events);

  size_t event_length = completed != NULL ? step_event_length(completed) : 0;
  size_t result_length = step_result_length(result);
  size_t length = command_head_length(&self->result, result_length) + piece_length(&rest);
  size_t commands = 1 + rest.commands;
  if (completed != NULL) {
    count_events(self, 1, event_length);
    length += self->deferred.length + command_head_length(&self->event, event_length);
    commands += self->deferred_commands + 1;
  }
  char *out = send_queue_reserve(self->send_queue, length);
  if (completed != NULL)
    out = write_event(self, completed, event_length, write_deferred(self, out));
  const char *json = command_head_write(&self->result, out, result_length);
  out = command_close(step_result_write(result, (char *)(uintptr_t)json));
  (void)piece_write(&rest, out);
  struct piece_place place = commit(self, commands, payload_at(out, &rest, claimed));
  place.result = json;
  place.result_length = result_length;
  return place;
}

struct piece_place records_removal(struct records *self, const struct claimed *claimed) {
  struct piece piece = {0};
  add_removal(self, &piece, claimed);
  return put_removal(self, &piece, claimed);
}

struct piece_place records_removal_of_copy(struct records *self, const struct claimed *claimed) {
  struct piece piece = {0};
  struct command_word payload = {.text = claimed->payload, .length = claimed->length};
  add(&piece,
      (struct command_word[]){command_word("LREM"), command_word(self->keys->inflight),
                              command_word("1"), payload},
      4);
  return put_removal(self, &piece, claimed);
}

struct piece_place records_return(struct records *self, const struct claimed *claimed) {
  struct piece piece = {0};
  struct command_word payload = {.text = claimed->payload, .length = claimed->length};
  add_removal(self, &piece, claimed);
  add(&piece,
      (struct command_word[]){command_word("RPUSH"), command_word(self->keys->inflight), payload},
      3);
  add_expire(self, &piece, self->keys->inflight);
  return put_removal(self, &piece, claimed);
}

void records_refresh(struct records *self) {
  const struct keys *keys = self->keys;
  const char *all[] = {keys->in, keys->events, keys->results, keys->inflight, keys->started};
  struct piece piece = {0};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (self->ttl[0] != '\0')
      add_expire(self, &piece, all[i]);
    else
      add(&piece, (struct command_word[]){command_word("PERSIST"), command_word(all[i])}, 2);
  put(self, &piece);
}

void records_beat(struct records *self, const char *value, const char *seconds) {
  struct piece piece = {0};
  add(&piece,
      (struct command_word[]){command_word("SET"), command_word(self->keys->heartbeat),
                              command_word(value), command_word("EX"), command_word(seconds)},
      5);
  put(self, &piece);
}

void records_remove_heartbeat(struct records *self) {
  struct piece piece = {0};
  add(&piece, (struct command_word[]){command_word("DEL"), command_word(self->keys->heartbeat)}, 2);
  put(self, &piece);
}
