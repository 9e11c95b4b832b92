#include "agent/frontends/redis/delivery/outbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/command.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/swar.h"

/* How many times per time to live the keys' time to live is restarted; at least once an hour. */
#define REFRESHES 3
#define REFRESH_MAX_SECONDS 3600

/* The largest group, without event and result: outbox_refresh has 6 commands; a record has 3
   changes, the key `started`, the move of the result and at most 4 EXPIRE. BLMOVE has 6 words. */
#define GROUP_COMMANDS 9
#define GROUP_WORDS 6

/* Commands of one transaction before they are encoded. The words are borrowed. */
struct command_group {
  struct command_word words[GROUP_COMMANDS][GROUP_WORDS];
  size_t counts[GROUP_COMMANDS];
  size_t commands;
};

/* Adds a command with these words and, unless `value` is NULL, the value as its last word. */
#define ADD(group, value, ...) add(group, COMMAND(__VA_ARGS__), value)
static void add(struct command_group *group, const char *const *texts,
                const struct payload *value) {
  CHECK(group->commands < GROUP_COMMANDS);
  struct command_word *words = group->words[group->commands];
  size_t count = 0;
  for (; texts[count] != NULL; count++) {
    CHECK(count < GROUP_WORDS);
    words[count] = command_word(texts[count]);
  }
  CHECK(value == NULL || count < GROUP_WORDS);
  if (value != NULL)
    words[count++] = (struct command_word){.text = value->bytes, .length = value->length};
  group->counts[group->commands++] = count;
}

static void add_expire(const struct outbox *self, struct command_group *group, const char *key) {
  if (self->ttl[0] != '\0')
    ADD(group, NULL, "EXPIRE", key, self->ttl);
}

static void add_change(const struct outbox *self, struct command_group *group,
                       const struct outbox_change *change) {
  const char *const keys[] = {[OUTBOX_IN] = self->keys->in,
                              [OUTBOX_INFLIGHT] = self->keys->inflight,
                              [OUTBOX_CONTROL] = self->keys->control};
  const char *key = keys[change->list];
  if (change->kind == OUTBOX_REMOVE_OLDEST && change->value.is_truncated)
    ADD(group, NULL, "LTRIM", key, "0", "-2"); /* RPOP returns the payload */
  else if (change->kind == OUTBOX_REMOVE_OLDEST)
    ADD(group, &change->value, "LREM", key, "-1");
  else if (change->kind == OUTBOX_REMOVE_NEWEST)
    ADD(group, &change->value, "LREM", key, "1");
  else {
    ADD(group, &change->value, change->kind == OUTBOX_PUSH_OLDEST ? "RPUSH" : "LPUSH", key);
    add_expire(self, group, key);
  }
}

static size_t group_length(const struct command_group *group) {
  size_t length = 0;
  for (size_t i = 0; i < group->commands; i++)
    length += command_length(group->words[i], group->counts[i]);
  return length;
}

/* Writes the group to `out`, the end of the reserved bytes, and queues all reserved bytes.
   `commands` is the number of commands that the caller has written before the group. */
static void write_and_commit(struct outbox *self, const struct command_group *group, char *out,
                             size_t commands) {
  for (size_t i = 0; i < group->commands; i++)
    out = command_write(out, group->words[i], group->counts[i]);
  send_queue_commit(&self->send_queue, commands + group->commands);
}

static void enqueue(struct outbox *self, const struct command_group *group) {
  if (group->commands > 0)
    write_and_commit(self, group, send_queue_reserve(&self->send_queue, group_length(group)), 0);
}

/* Returns the number of bytes that were ever queued. */
static uint64_t queue_end(const struct outbox *self) {
  return self->send_queue.delivered + self->send_queue.bytes;
}

/* Returns true if the stream is ever trimmed by XTRIM, and Redis permits that. */
static bool may_trim(const struct outbox *self) {
  return retention_is_on(&self->retention) &&
         (self->retention.keep_bytes > 0 || delivery_offers(self->delivery, DELIVERY_FLOW_CONTROL));
}

static void trim_stream(struct outbox *self, const struct retention_cut *cut) {
  char number[DECIMAL_LENGTH_MAX + 1];
  struct command_group group = {0};
  *decimal_write(number, cut->maxlen) = '\0';
  if (!may_trim(self))
    return;
  if (cut->minid != NULL)
    ADD(&group, NULL, "XTRIM", self->keys->events, "MINID", cut->minid);
  else if (cut->maxlen > 0)
    ADD(&group, NULL, "XTRIM", self->keys->events, "MAXLEN", number);
  enqueue(self, &group);
}

/* Returns true if each XADD trims the stream. */
static bool trims_by_xadd(const struct outbox *self) {
  return self->trimming_event.length > 0 &&
         flow_control_protected_from(&self->flow) == RETENTION_UNPROTECTED;
}

/* Returns the beginning of the next XADD. */
static const struct buffer *event_command(const struct outbox *self) {
  return trims_by_xadd(self) ? &self->trimming_event : &self->event;
}

/* Counts queued events, and trims the stream if that is due. */
static void count_events(struct outbox *self, size_t events, size_t bytes) {
  struct retention *retention = &self->retention;
  self->needed_end = queue_end(self);
  bool is_due = retention_add(retention, events, bytes, queue_end(self),
                              delivery_newest_entry(self->delivery));
  if (trims_by_xadd(self) && retention->length > retention->maxlen)
    retention->length = retention->maxlen;
  if (!is_due)
    return;
  flow_control_added(&self->flow);
  struct retention_cut cut = retention_trim(retention, flow_control_protected_from(&self->flow));
  trim_stream(self, &cut);
}

static char *write_event(const struct buffer *command, const struct step_event *event,
                         size_t length, char *out) {
  out = swar_copy(out, command->bytes, command->length);
  return command_close(step_event_write(event, command_last(out, length)));
}

void outbox_add_event(struct outbox *self, const struct step_event *event) {
  const struct buffer *command = event_command(self);
  size_t length = step_event_length(event), all = command->length + command_last_length(length);
  (void)write_event(command, event, length, send_queue_reserve(&self->send_queue, all));
  send_queue_commit(&self->send_queue, 1);
  if (event->kind == STEP_EVENT_STARTED) { /* after the XADD, which may create the stream */
    struct command_group group = {0};
    add_expire(self, &group, self->keys->events);
    enqueue(self, &group);
  }
  count_events(self, 1, length);
}

size_t outbox_defer_event(struct outbox *self, const struct step_event *event) {
  const struct buffer *command = event_command(self);
  size_t length = step_event_length(event), all = command->length + command_last_length(length);
  (void)write_event(command, event, length, buffer_space(&self->deferred, all));
  self->deferred.length += all;
  self->deferred_commands++;
  return self->deferred.length;
}

/* Writes the deferred events to `out`, and returns the end. */
static char *write_deferred(struct outbox *self, char *out) {
  if (self->deferred.length > 0)
    memcpy(out, self->deferred.bytes, self->deferred.length);
  out += self->deferred.length;
  buffer_release(&self->deferred);
  self->deferred_commands = 0;
  return out;
}

void outbox_add_deferred(struct outbox *self) {
  size_t commands = self->deferred_commands, bytes = self->deferred.length;
  if (commands > 0) {
    (void)write_deferred(self, send_queue_reserve(&self->send_queue, bytes));
    send_queue_commit(&self->send_queue, commands);
    count_events(self, commands, bytes);
  }
}

static void add_started(const struct outbox *self, struct command_group *group,
                        const char *step_id) {
  bool expires = self->ttl[0] != '\0';
  ADD(group, NULL, "SET", self->keys->started, step_id, expires ? "EX" : NULL, self->ttl);
  add_expire(self, group, self->keys->in);
  add_expire(self, group, self->keys->inflight);
}

/* Moves the newest result. In a transaction, BLMOVE does not wait, and its effect is that of
   LMOVE, which users of earlier versions have no right to use. */
static void add_reply(const struct outbox *self, struct command_group *group, const char *reply) {
  ADD(group, NULL, "BLMOVE", self->keys->results, reply, "LEFT", "LEFT", "0");
  ADD(group, NULL, "EXPIRE", reply, self->reply_ttl);
}

/* Makes the commands that follow the event and the result. `reply` is the key of `reply_to`. */
static struct command_group make_group(const struct outbox *self,
                                       const struct outbox_record *record, const char *reply) {
  struct command_group group = {0};
  if (reply != NULL)
    add_reply(self, &group, reply);
  for (size_t i = 0; i < record->change_count; i++)
    add_change(self, &group, &record->changes[i]);
  if (record->started != NULL)
    add_started(self, &group, record->started);
  else if (record->ends_started)
    ADD(&group, NULL, "DEL", self->keys->started);
  if (record->result != NULL) {
    add_expire(self, &group, self->keys->results);
    add_expire(self, &group, self->keys->events);
  }
  return group;
}

/* Encodes the event and the result directly into the send queue, followed by `rest`. */
static void enqueue_result(struct outbox *self, const struct outbox_record *record,
                           const struct command_group *rest) {
  const struct step_event *completed = record->completed;
  const struct buffer *command = event_command(self);
  size_t result_length = step_result_length(record->result), event_length = 0, events = 0,
         bytes = 0;
  size_t length = self->result.length + command_last_length(result_length) + group_length(rest);
  if (completed != NULL) {
    event_length = step_event_length(completed);
    events = self->deferred_commands + 1;
    bytes = self->deferred.length + event_length;
    length += self->deferred.length + command->length + command_last_length(event_length);
  }
  char *out = send_queue_reserve(&self->send_queue, length);
  if (completed != NULL)
    out = write_event(command, completed, event_length, write_deferred(self, out));
  out = command_last(swar_copy(out, self->result.bytes, self->result.length), result_length);
  write_and_commit(self, rest, command_close(step_result_write(record->result, out)), events + 1);
  count_events(self, events, bytes);
}

uint64_t outbox_write(struct outbox *self, const struct outbox_record *record) {
  bool has_reply = record->result != NULL && record->reply_to != NULL &&
                   delivery_offers(self->delivery, DELIVERY_REPLY_TO);
  char *reply = has_reply ? keys_reply(self->keys, record->reply_to) : NULL;
  struct command_group rest = make_group(self, record, reply);
  if (record->result != NULL)
    enqueue_result(self, record, &rest);
  else
    enqueue(self, &rest);
  free(reply);
  self->needed_end = queue_end(self);
  return self->needed_end;
}

void outbox_for_each(const struct outbox *self, const char *command, const char *key,
                     outbox_visitor *visit, void *owner) {
  struct iovec piece;
  for (size_t i = 0; send_queue_piece(&self->send_queue, i, &piece); i++) {
    struct command_word words[4];
    const char *at = piece.iov_base, *end = at + piece.iov_len;
    while (command_read(&at, end, words, 4)) {
      const struct command_word *last = &words[words[3].text != NULL ? 3 : 2];
      if (command_word_is(&words[0], command) && command_word_is(&words[1], key))
        visit(owner, last->text, last->length);
    }
  }
}

static void refresh_keys(struct outbox *self) {
  const struct keys *keys = self->keys;
  const char *all[] = {keys->in,       keys->events,  keys->results,
                       keys->inflight, keys->started, keys->control};
  struct command_group group = {0};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (self->ttl[0] != '\0')
      add_expire(self, &group, all[i]);
    else
      ADD(&group, NULL, "PERSIST", all[i]);
  enqueue(self, &group);
}

static bool has_queued_heartbeat(const struct outbox *self) {
  return self->send_queue.delivered < self->heartbeat_end;
}

/* The delivery does not report each batch here: a delay of some milliseconds does not matter. */
static void update_retention(struct outbox *self) {
  struct retention *retention = &self->retention;
  retention_delivered(retention, self->send_queue.delivered, clock_monotonic_ms());
  if (!retention_is_trimmed(retention) && !evtimer_pending(self->trim, NULL))
    loop_timer_start(self->trim, RETENTION_TICK_MS);
}

LOOP_CALLBACK(on_trim, struct outbox *self) {
  uint64_t protected_from = flow_control_protected_from(&self->flow);
  update_retention(self);
  if (protected_from == RETENTION_UNPROTECTED && retention_has_young(&self->retention))
    return;
  struct retention_cut cut = retention_trim(&self->retention, protected_from);
  if (retention_is_trimmed(&self->retention))
    (void)evtimer_del(self->trim);
  trim_stream(self, &cut);
  delivery_flush(self->delivery);
}

bool outbox_set_heartbeat(struct outbox *self, const char *value, const char *seconds) {
  if (has_queued_heartbeat(self))
    return false;
  struct command_group group = {0};
  ADD(&group, NULL, "SET", self->keys->heartbeat, value, "EX", seconds);
  enqueue(self, &group);
  self->heartbeat_end = queue_end(self);
  return true;
}

void outbox_end(struct outbox *self) {
  struct command_group group = {0};
  ADD(&group, NULL, "DEL", self->keys->heartbeat);
  enqueue(self, &group);
  self->needed_end = queue_end(self);
  delivery_end(self->delivery);
}

void outbox_lose_data(struct outbox *self) {
  retention_forget_ids(&self->retention);
}

void outbox_flush(struct outbox *self) {
  if (retention_is_on(&self->retention))
    update_retention(self);
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
  return self->send_queue.delivered >= self->needed_end;
}

static void start_refresh(struct outbox *self) {
  if (self->refresh_ms > 0)
    loop_timer_start(self->refresh, self->refresh_ms);
}

LOOP_CALLBACK(on_refresh, struct outbox *self) {
  /* While Redis is unreachable, one queued refresh is enough: it leaves with the first batch. */
  if (!delivery_is_unreachable(self->delivery)) {
    refresh_keys(self);
    delivery_flush(self->delivery);
  }
  start_refresh(self);
}

void outbox_refresh(struct outbox *self) {
  if (delivery_had_owner(self->delivery) && may_trim(self)) {
    retention_resume(&self->retention);
    flow_control_protect_earlier(&self->flow, clock_monotonic_ms());
    update_retention(self);
  }
  refresh_keys(self);
  start_refresh(self);
}

static void init_commands(struct outbox *self, unsigned long long maxlen) {
  const struct keys *keys = self->keys;
  char number[DECIMAL_LENGTH_MAX + 1];
  (void)snprintf(number, sizeof number, "%llu", maxlen);
  command_begin(&self->event, COMMAND("XADD", keys->events, "*", "data"));
  if (maxlen > 0 && self->retention.keep_bytes == 0)
    command_begin(&self->trimming_event,
                  COMMAND("XADD", keys->events, "MAXLEN", "~", number, "*", "data"));
  command_begin(&self->result, COMMAND("LPUSH", keys->results));
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
  self->flow.retention = &self->retention;
  /* Executions are woken when half a batch is free: they fill it while the next batch is under
     way. */
  size_t half = BATCH_PIECES / 2 * SEND_QUEUE_CHUNK_SIZE;
  self->capacity_bytes =
      options->hold_bytes > 4 * half ? options->hold_bytes - half : options->hold_bytes / 4 * 3;
  if (options->key_ttl_seconds > 0)
    (void)snprintf(self->ttl, sizeof self->ttl, "%llu", options->key_ttl_seconds);
  bool is_short = options->key_ttl_seconds > 0 && options->key_ttl_seconds < REPLY_SECONDS_MAX;
  (void)snprintf(self->reply_ttl, sizeof self->reply_ttl, "%llu",
                 is_short ? options->key_ttl_seconds : REPLY_SECONDS_MAX);
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
  flow_control_release(&self->flow);
  buffer_release(&self->event);
  buffer_release(&self->trimming_event);
  buffer_release(&self->result);
  buffer_release(&self->deferred);
  send_queue_free(&self->send_queue);
  free(self);
}
