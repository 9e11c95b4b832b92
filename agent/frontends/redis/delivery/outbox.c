#include "agent/frontends/redis/delivery/outbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

/* How often the keys' time to live is restarted: this often in it, and at least once an hour. */
#define REFRESHES 3
#define REFRESH_MAX_SECONDS 3600

/* The most that a piece has, except for event and result: outbox_refresh has 6 commands, a record 3
   changes, the key `started` and 4 EXPIRE. SET … EX has 5 words. */
#define PIECE_COMMANDS 8
#define PIECE_WORDS 5

/* A piece before it is encoded: the words are borrowed. */
struct piece {
  struct command_word words[PIECE_COMMANDS][PIECE_WORDS];
  size_t counts[PIECE_COMMANDS];
  size_t commands;
};

/* Adds a command of these words, the last of which is the value (NULL: there is none). */
#define ADD(piece, value, ...) add(piece, (const char *const[]){__VA_ARGS__, NULL}, value)
static void add(struct piece *piece, const char *const *texts, const struct payload *value) {
  CHECK(piece->commands < PIECE_COMMANDS);
  struct command_word *words = piece->words[piece->commands];
  size_t count = 0;
  for (; texts[count] != NULL; count++) {
    CHECK(count < PIECE_WORDS);
    words[count] = command_word(texts[count]);
  }
  CHECK(value == NULL || count < PIECE_WORDS);
  if (value != NULL)
    words[count++] = (struct command_word){.text = value->bytes, .length = value->length};
  piece->counts[piece->commands++] = count;
}

static void add_expire(const struct outbox *self, struct piece *piece, const char *key) {
  if (self->ttl[0] != '\0')
    ADD(piece, NULL, "EXPIRE", key, self->ttl);
}

static void add_change(const struct outbox *self, struct piece *piece,
                       const struct outbox_change *change) {
  const char *const keys[] = {[OUTBOX_IN] = self->keys->in,
                              [OUTBOX_INFLIGHT] = self->keys->inflight,
                              [OUTBOX_CONTROL] = self->keys->control};
  const char *key = keys[change->list];
  if (change->kind == OUTBOX_REMOVE_OLDEST && change->value.is_truncated)
    ADD(piece, NULL, "LTRIM", key, "0", "-2"); /* RPOP returns the payload */
  else if (change->kind == OUTBOX_REMOVE_OLDEST)
    ADD(piece, &change->value, "LREM", key, "-1");
  else if (change->kind == OUTBOX_REMOVE_NEWEST)
    ADD(piece, &change->value, "LREM", key, "1");
  else {
    ADD(piece, &change->value, change->kind == OUTBOX_PUSH_OLDEST ? "RPUSH" : "LPUSH", key);
    add_expire(self, piece, key);
  }
}

static size_t piece_length(const struct piece *piece) {
  size_t length = 0;
  for (size_t i = 0; i < piece->commands; i++)
    length += command_length(piece->words[i], piece->counts[i]);
  return length;
}

/* Writes the piece to the end of what was reserved, and queues all of that. `commands` stand before
   it. */
static void commit(struct outbox *self, const struct piece *piece, char *out, size_t commands) {
  for (size_t i = 0; i < piece->commands; i++)
    out = command_write(out, piece->words[i], piece->counts[i]);
  send_queue_commit(&self->send_queue, commands + piece->commands);
}

static void put(struct outbox *self, const struct piece *piece) {
  if (piece->commands > 0)
    commit(self, piece, send_queue_reserve(&self->send_queue, piece_length(piece)), 0);
}

static void trim_stream(struct outbox *self, uint64_t entries) {
  char number[DECIMAL_LENGTH_MAX + 1];
  *decimal_write(number, entries) = '\0';
  struct piece piece = {0};
  ADD(&piece, NULL, "XTRIM", self->keys->events, "MAXLEN", number);
  put(self, &piece);
}

/* So many events were queued. */
static void retain(struct outbox *self, size_t events, size_t bytes) {
  uint64_t most = retention_add(&self->retention, events, bytes,
                                self->send_queue.gone + self->send_queue.bytes);
  if (most > 0)
    trim_stream(self, most);
}

static char *write_event(const struct outbox *self, const struct step_event *event, size_t length,
                         char *out) {
  return command_close(step_event_write(event, command_head_write(&self->event, out, length)));
}

void outbox_event(struct outbox *self, const struct step_event *event) {
  size_t length = step_event_length(event);
  (void)write_event(
      self, event, length,
      send_queue_reserve(&self->send_queue, command_head_length(&self->event, length)));
  send_queue_commit(&self->send_queue, 1);
  if (event->kind == STEP_EVENT_STARTED) { /* after it: the XADD may be what creates the stream */
    struct piece piece = {0};
    add_expire(self, &piece, self->keys->events);
    put(self, &piece);
  }
  retain(self, 1, length);
}

size_t outbox_defer_event(struct outbox *self, const struct step_event *event) {
  size_t length = step_event_length(event);
  size_t all = command_head_length(&self->event, length);
  (void)write_event(self, event, length, buffer_space(&self->deferred, all));
  self->deferred.length += all;
  self->deferred_commands++;
  return self->deferred.length;
}

/* Returns the end. */
static char *write_deferred(struct outbox *self, char *out) {
  if (self->deferred.length > 0)
    memcpy(out, self->deferred.bytes, self->deferred.length);
  out += self->deferred.length;
  buffer_release(&self->deferred);
  self->deferred_commands = 0;
  return out;
}

void outbox_put_deferred(struct outbox *self) {
  size_t commands = self->deferred_commands, bytes = self->deferred.length;
  if (commands > 0) {
    (void)write_deferred(self, send_queue_reserve(&self->send_queue, bytes));
    send_queue_commit(&self->send_queue, commands);
  }
  retain(self, commands, bytes);
}

static void add_started(const struct outbox *self, struct piece *piece, const char *step_id) {
  const char *key = self->keys->started;
  if (self->ttl[0] != '\0')
    ADD(piece, NULL, "SET", key, step_id, "EX", self->ttl);
  else
    ADD(piece, NULL, "SET", key, step_id);
  add_expire(self, piece, self->keys->in);
  add_expire(self, piece, self->keys->inflight);
}

/* What follows event and result. */
static struct piece rest_of(const struct outbox *self, const struct outbox_record *record) {
  struct piece piece = {0};
  for (size_t i = 0; i < record->change_count; i++)
    add_change(self, &piece, &record->changes[i]);
  if (record->started != NULL)
    add_started(self, &piece, record->started);
  else if (record->ends_started)
    ADD(&piece, NULL, "DEL", self->keys->started);
  if (record->result != NULL) {
    add_expire(self, &piece, self->keys->results);
    add_expire(self, &piece, self->keys->events);
  }
  return piece;
}

/* Event and result are encoded straight into the send queue, before the commands after them. */
static void put_result(struct outbox *self, const struct outbox_record *record,
                       const struct piece *rest) {
  const struct step_event *completed = record->completed;
  size_t result_length = step_result_length(record->result), event_length = 0, events = 0,
         bytes = 0;
  size_t length = command_head_length(&self->result, result_length) + piece_length(rest);
  if (completed != NULL) {
    event_length = step_event_length(completed);
    events = self->deferred_commands + 1;
    bytes = self->deferred.length + event_length;
    length += self->deferred.length + command_head_length(&self->event, event_length);
  }
  char *out = send_queue_reserve(&self->send_queue, length);
  if (completed != NULL)
    out = write_event(self, completed, event_length, write_deferred(self, out));
  out = command_head_write(&self->result, out, result_length);
  commit(self, rest, command_close(step_result_write(record->result, out)), events + 1);
  retain(self, events, bytes);
}

uint64_t outbox_write(struct outbox *self, const struct outbox_record *record) {
  struct piece rest = rest_of(self, record);
  if (record->result != NULL)
    put_result(self, record, &rest);
  else
    put(self, &rest);
  return self->send_queue.gone + self->send_queue.bytes;
}

static bool is_word(const struct command_word *word, const char *text) {
  return word->length == strlen(text) && memcmp(word->text, text, word->length) == 0;
}

void outbox_each_result(const struct outbox *self, outbox_result_seen *seen, void *owner) {
  struct iovec piece;
  for (size_t i = 0; send_queue_piece(&self->send_queue, i, &piece); i++) {
    struct command_word words[3];
    const char *at = piece.iov_base, *end = at + piece.iov_len;
    while (command_read(&at, end, words, 3))
      if (is_word(&words[0], "LPUSH") && is_word(&words[1], self->keys->results))
        seen(owner, words[2].text, words[2].length);
  }
}

static void refresh_keys(struct outbox *self) {
  const struct keys *keys = self->keys;
  const char *all[] = {keys->in,       keys->events,  keys->results,
                       keys->inflight, keys->started, keys->control};
  struct piece piece = {0};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (self->ttl[0] != '\0')
      add_expire(self, &piece, all[i]);
    else
      ADD(&piece, NULL, "PERSIST", all[i]);
  put(self, &piece);
}

static bool has_beat(const struct outbox *self) {
  return self->beat_length > 0 && self->send_queue.gone <= self->beat_start;
}

/* What is delivered is looked up, and not reported: nothing depends on some milliseconds. */
static void look_at_deliveries(struct outbox *self) {
  struct retention *retention = &self->retention;
  retention_delivered(retention, self->send_queue.gone, clock_monotonic_ms());
  if (!retention_is_settled(retention) && !evtimer_pending(self->trim, NULL))
    loop_timer_start(self->trim, RETENTION_TICK_MS);
}

LOOP_CALLBACK(on_trim, struct outbox *self) {
  look_at_deliveries(self);
  if (!retention_is_due(&self->retention))
    return;
  (void)evtimer_del(self->trim);
  trim_stream(self, self->retention.maxlen);
  delivery_flush(self->delivery);
}

bool outbox_beat(struct outbox *self, const char *value, const char *seconds) {
  if (has_beat(self))
    return false;
  size_t before = self->send_queue.bytes;
  struct piece piece = {0};
  ADD(&piece, NULL, "SET", self->keys->heartbeat, value, "EX", seconds);
  put(self, &piece);
  self->beat_start = self->send_queue.gone + before;
  self->beat_length = self->send_queue.bytes - before;
  return true;
}

void outbox_end(struct outbox *self) {
  struct piece piece = {0};
  ADD(&piece, NULL, "DEL", self->keys->heartbeat);
  put(self, &piece);
  delivery_end(self->delivery);
}

void outbox_flush(struct outbox *self) {
  if (retention_is_on(&self->retention))
    look_at_deliveries(self);
  delivery_flush(self->delivery);
}

size_t outbox_capacity(const struct outbox *self) {
  if (self->send_queue.bytes == 0)
    return SIZE_MAX;
  return self->send_queue.bytes < self->hold_bytes ? self->hold_bytes - self->send_queue.bytes : 0;
}

bool outbox_has_capacity_again(const struct outbox *self) {
  return self->send_queue.bytes <= self->capacity_bytes;
}

bool outbox_is_empty(const struct outbox *self) {
  return self->send_queue.bytes == (has_beat(self) ? self->beat_length : 0);
}

static void start_refresh(struct outbox *self) {
  if (self->refresh_ms > 0)
    loop_timer_start(self->refresh, self->refresh_ms);
}

LOOP_CALLBACK(on_refresh, struct outbox *self) {
  /* One is enough while Redis is unreachable: it is sent with the first batch. */
  if (!delivery_is_unreachable(self->delivery)) {
    refresh_keys(self);
    delivery_flush(self->delivery);
  }
  start_refresh(self);
}

void outbox_refresh(struct outbox *self) {
  if (delivery_had_owner(self->delivery)) {
    retention_resume(&self->retention);
    look_at_deliveries(self);
  }
  refresh_keys(self);
  start_refresh(self);
}

static void init_commands(struct outbox *self, unsigned long long maxlen) {
  const struct keys *keys = self->keys;
  bool with_maxlen = maxlen > 0 && !retention_is_on(&self->retention);
  char number[DECIMAL_LENGTH_MAX + 1];
  (void)snprintf(number, sizeof number, "%llu", maxlen);
  const char *trimmed[] = {"XADD", keys->events, "MAXLEN", "~", number, "*", "data"};
  const char *whole[] = {"XADD", keys->events, "*", "data"};
  command_head_init(&self->event, with_maxlen ? trimmed : whole, with_maxlen ? 7 : 4);
  command_head_init(&self->result, (const char *[]){"LPUSH", keys->results}, 2);
}

struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct delivery_options *options, const struct keys *keys,
                          const struct delivery_handler *handler, void *owner) {
  struct outbox *self = memory_allocate(sizeof *self);
  unsigned long long seconds = options->key_ttl_seconds;
  if (seconds > REFRESHES * REFRESH_MAX_SECONDS)
    seconds = REFRESHES * REFRESH_MAX_SECONDS;
  *self = (struct outbox){
      .keys = keys,
      .hold_bytes = options->hold_bytes,
      .refresh_ms = (int64_t)seconds * 1000 / REFRESHES,
      .retention = {.maxlen = options->events_maxlen, .keep_bytes = options->events_keep_bytes}};
  /* Readers are woken when half a batch is free, not when all of it is: they fill it while
     the next batch is under way. */
  size_t piece = BATCH_PIECES / 2 * SEND_QUEUE_CHUNK_SIZE;
  self->capacity_bytes =
      options->hold_bytes > 4 * piece ? options->hold_bytes - piece : options->hold_bytes / 4 * 3;
  if (options->key_ttl_seconds > 0)
    (void)snprintf(self->ttl, sizeof self->ttl, "%llu", options->key_ttl_seconds);
  init_commands(self, options->events_maxlen);
  self->trim = loop_timer_new(base, on_trim, self);
  self->refresh = loop_timer_new(base, on_refresh, self);
  self->delivery = delivery_new(base, log, options, keys, &self->send_queue, handler, owner);
  return self;
}

void outbox_free(struct outbox *self) {
  delivery_free(self->delivery);
  event_free(self->refresh);
  event_free(self->trim);
  command_head_release(&self->event);
  command_head_release(&self->result);
  buffer_release(&self->deferred);
  send_queue_free(&self->send_queue);
  free(self);
}
