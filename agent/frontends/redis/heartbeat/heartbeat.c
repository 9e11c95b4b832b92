/*
 * What the connection does is one round after another, each sent in one write:
 *
 *   BLMOVE control control RIGHT RIGHT 2     waits for a message, which stays where it is
 *   LINDEX control -1                        the oldest message that is not known, or several
 *   SET heartbeat … XX EX 10                 not more often than every HEARTBEAT_MS
 *   GET committed                            the job may be another agent's
 *
 * When no message comes, all replies arrive together when BLMOVE gives up: one wake-up of the
 * process every 2 s. Messages that are known are not removed here but in a batch, which an agent
 * that has lost the job cannot send; as long as there are such, BLMOVE would not wait, and is left
 * out. So it is when it fails, as without memory; then a timer paces the rounds.
 *
 * With XX the SET never creates the key, so that it does not come back after the agent has deleted
 * it on another connection. Where the key is gone while the agent serves the job, a batch creates
 * it.
 */
#include "agent/frontends/redis/heartbeat/heartbeat.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"

#define SECONDS_TEXT "10" /* HEARTBEAT_SECONDS */

/* Waits so long after the job was taken over: what the start still has to do comes first. */
#define CONNECT_MS 100

/* How often messages are looked for while others are there that cannot be removed yet. */
#define POLL_MS 200

/* A BLMOVE that ends so much too soon, and no message is there, would be sent as fast as it is
   answered. */
#define EARLY_MS 20

enum state { STOPPED, REFUSED, STARTED, BEATING };

/* The replies of a round, in their order. */
enum reply_kind { REPLY_WAITED, REPLY_MESSAGE, REPLY_SET, REPLY_COMMITTED, REPLY_KINDS };

struct heartbeat {
  const struct heartbeat_handler *handler;
  void *owner;
  const struct log *log;
  const struct keys *keys;
  struct control_messages *control;
  struct redis_connection *connection;
  struct event *tick;
  char *final_commands; /* GET committed */
  /* An idle agent does little but this, of thousands: their memory is kept. */
  struct buffer value, command;
  bool step_in_flight;
  bool is_reported; /* the log says that the key is not there */
  enum state state;
  enum { WAITS_BY_BLMOVE, WAITS_BY_BRPOPLPUSH, WAITS_BY_NOTHING } waits;
  enum {
    HAS_CAPACITY,
    IS_FULL,
    HAD_NO_CAPACITY
  } capacity; /* of Redis, for the key: after the last SET or EXPIRE */
  enum { ANSWERS, IS_LATE } silence;
  unsigned due[REPLY_KINDS];
  size_t page;            /* messages in the last round; 0: none were read */
  size_t found;           /* of them that were there */
  int64_t due_ms;         /* monotonic: when the next SET is to be executed */
  int64_t wait_from_ms;   /* BLMOVE has failed, or did not wait: it is not sent before */
  int64_t waits_until_ms; /* it waits at most until then; 0: this round has none */
  int64_t visible_ms;     /* when the key was there last */
};

/* Redis has answered that the key is there. */
static void confirm_visible(struct heartbeat *self) {
  int64_t now_ms = clock_monotonic_ms();
  if (self->is_reported)
    log_line(self->log, LOG_INFO, NULL, "redis heartbeat: visible again after %.1f s",
             (double)(now_ms - self->visible_ms) / 1000);
  self->is_reported = false;
  self->visible_ms = now_ms;
}

static void check_visible(struct heartbeat *self) {
  if (self->is_reported || clock_monotonic_ms() - self->visible_ms < HEARTBEAT_SECONDS * 1000)
    return;
  self->is_reported = true;
  log_line(self->log, LOG_WARN, NULL, "redis heartbeat: not visible for %d s%s", HEARTBEAT_SECONDS,
           self->capacity != HAS_CAPACITY ? ": redis has no room for the key" : "");
}

static const char *make_value(struct heartbeat *self) {
  struct buffer *value = &self->value;
  value->length = 0;
  buffer_add_string(value, "{\"Ts\":");
  buffer_add_number(value, (unsigned long long)clock_unix_ms());
  buffer_add_string(value, ",\"Pid\":");
  buffer_add_number(value, (unsigned long long)getpid());
  buffer_add_string(value,
                    self->step_in_flight ? ",\"StepInFlight\":true" : ",\"StepInFlight\":false");
  self->handler->describe(self->owner, value);
  buffer_add(value, "}", sizeof "}");
  return value->bytes;
}

static void add_command(struct buffer *out, const struct command_word *words, size_t count) {
  const size_t length = command_length(words, count);
  (void)command_write(buffer_space(out, length), words, count);
  out->length += length;
}

/* `only_if_there`: it does not create the key. */
static void add_set(struct heartbeat *self, struct buffer *out, bool only_if_there) {
  const char *value = make_value(self);
  const struct command_word words[] = {command_word("SET"),
                                       command_word(self->keys->heartbeat),
                                       {.text = value, .length = self->value.length - 1},
                                       command_word("EX"),
                                       command_word(SECONDS_TEXT),
                                       command_word("XX")};
  add_command(out, words, only_if_there ? 6 : 5);
}

/* A full Redis rejects a SET, but an EXPIRE keeps the existing key. */
static void add_expire(const struct heartbeat *self, struct buffer *out) {
  const struct command_word words[] = {command_word("EXPIRE"), command_word(self->keys->heartbeat),
                                       command_word(SECONDS_TEXT)};
  add_command(out, words, sizeof words / sizeof *words);
}

char *heartbeat_command(struct heartbeat *self) {
  struct buffer command = {0};
  add_set(self, &command, false);
  buffer_add(&command, "", 1);
  return command.bytes;
}

void heartbeat_set_in_flight(struct heartbeat *self, bool step_in_flight) {
  self->step_in_flight = step_in_flight;
}

/* --- a round ---------------------------------------------------------------------------------- */

static bool is_under_way(const struct heartbeat *self) {
  unsigned due = 0;
  for (size_t i = 0; i < REPLY_KINDS; i++)
    due += self->due[i];
  return due > 0;
}

/* Whole seconds where Redis may not know fractions. */
static void add_wait(struct heartbeat *self, int64_t milliseconds) {
  const char *control = self->keys->control;
  bool is_old = self->waits == WAITS_BY_BRPOPLPUSH;
  char seconds[24];
  if (is_old)
    (void)snprintf(seconds, sizeof seconds, "%d", (int)((milliseconds + 999) / 1000));
  else
    (void)snprintf(seconds, sizeof seconds, "%d.%03d", (int)(milliseconds / 1000),
                   (int)(milliseconds % 1000));
  const struct command_word words[] = {command_word("BLMOVE"), command_word(control),
                                       command_word(control),  command_word("RIGHT"),
                                       command_word("RIGHT"),  command_word(seconds)};
  const struct command_word old_words[] = {command_word("BRPOPLPUSH"), command_word(control),
                                           command_word(control), command_word(seconds)};
  add_command(&self->command, is_old ? old_words : words, is_old ? 4 : 6);
  self->due[REPLY_WAITED] = 1;
}

/* Those that are known are the oldest. */
static void add_page(struct heartbeat *self) {
  self->page = self->page > 0 && self->found == self->page ? 2 * self->page : 1;
  if (self->page > CONTROL_PAGE_MAX)
    self->page = CONTROL_PAGE_MAX;
  for (size_t i = 1; i <= self->page; i++) {
    char position[24];
    (void)snprintf(position, sizeof position, "-%zu", self->control->count + i);
    const struct command_word words[] = {command_word("LINDEX"), command_word(self->keys->control),
                                         command_word(position)};
    add_command(&self->command, words, 3);
  }
  self->due[REPLY_MESSAGE] = (unsigned)self->page;
  self->control->user = CONTROL_OF_READER;
}

static int64_t until_due_ms(const struct heartbeat *self, int64_t now_ms) {
  return self->due_ms > now_ms ? self->due_ms - now_ms : 0;
}

/* The first round on a connection does not wait: the key may be about to expire. */
static bool may_wait(const struct heartbeat *self, int64_t now_ms) {
  return self->control->count == 0 && control_messages_may_read(self->control) &&
         self->waits != WAITS_BY_NOTHING && now_ms >= self->wait_from_ms && self->page > 0 &&
         self->found < self->page;
}

/* BLMOVE waits until SET is due, and SET then follows it; where that is not due for longer than
   HEARTBEAT_MS, a message was there early, and the next round has the SET. */
static void send_round(struct heartbeat *self) {
  int64_t now_ms = clock_monotonic_ms(), until_ms = until_due_ms(self, now_ms), wait_ms = 0;
  bool sets = until_ms == 0;
  self->command.length = 0;
  if (!sets && may_wait(self, now_ms)) {
    sets = until_ms <= HEARTBEAT_MS;
    wait_ms = sets ? until_ms : until_ms - HEARTBEAT_MS;
    if (wait_ms < 2 * EARLY_MS)
      wait_ms = 2 * EARLY_MS;
    add_wait(self, wait_ms);
  }
  self->waits_until_ms = wait_ms > 0 ? now_ms + wait_ms : 0;
  if (control_messages_may_read(self->control))
    add_page(self);
  if (sets) {
    if (self->capacity == IS_FULL)
      add_expire(self, &self->command);
    else
      add_set(self, &self->command, true);
    buffer_add_string(&self->command, self->final_commands);
    self->due[REPLY_SET] = self->due[REPLY_COMMITTED] = 1;
  }
  self->silence = ANSWERS;
  loop_timer_start(self->tick, is_under_way(self) ? wait_ms + HEARTBEAT_MS : until_ms);
  if (!is_under_way(self))
    return;
  buffer_add(&self->command, "", 1);
  redis_connection_send(self->connection, self->command.bytes);
}

/* Redis may be there and only this connection impossible: no name server, no room for one client
   more. */
static void take_fallback(struct heartbeat *self) {
  if (self->handler->fallback(self->owner, make_value(self), SECONDS_TEXT))
    confirm_visible(self);
}

/* The next round: at once when it waits by itself or more messages are there, else when SET is due
   or it is time to look for messages. */
void heartbeat_advance(struct heartbeat *self) {
  if (self->state != BEATING || !redis_connection_is_ready(self->connection) || is_under_way(self))
    return;
  int64_t now_ms = clock_monotonic_ms(), until_ms = until_due_ms(self, now_ms);
  bool has_more = self->page == 0 || self->found == self->page;
  if (until_ms == 0 || may_wait(self, now_ms) ||
      (has_more && control_messages_may_read(self->control)))
    send_round(self);
  else
    loop_timer_start(self->tick,
                     self->control->count > 0 && until_ms > POLL_MS ? POLL_MS : until_ms);
}

LOOP_CALLBACK(on_tick, struct heartbeat *self) {
  if (self->state == STARTED) {
    self->state = BEATING;
    (void)redis_connection_start(self->connection);
    loop_timer_start(self->tick, HEARTBEAT_MS);
    return;
  }
  if (!redis_connection_is_ready(self->connection)) {
    loop_timer_start(self->tick, HEARTBEAT_MS);
    take_fallback(self);
  } else if (!is_under_way(self)) {
    send_round(self);
  } else if (self->silence == IS_LATE) {
    redis_connection_reconnect(self->connection, "no answer in time");
  } else {
    self->silence = IS_LATE;
    loop_timer_start(self->tick, HEARTBEAT_MS);
    self->handler->silent(self->owner);
  }
  check_visible(self);
}

/* --- replies ---------------------------------------------------------------------------------- */

static void take_committed(struct heartbeat *self, const redisReply *reply) {
  if (!self->handler->committed(self->owner, reply->str, reply->len))
    heartbeat_stop(self);
}

static void forget_round(struct heartbeat *self) {
  memset(self->due, 0, sizeof self->due);
  if (self->control->user == CONTROL_OF_READER)
    self->control->user = CONTROL_OF_NOBODY;
}

/* After an outage `committed` is read before the key is set: another agent may own the job now. */
static void on_ready(void *owner, const redisReply *committed) {
  struct heartbeat *self = owner;
  self->page = 0;
  self->due_ms = 0;
  take_committed(self, committed);
  if (self->state == BEATING)
    send_round(self);
}

static void on_failed(void *owner, const struct error *error) {
  struct heartbeat *self = owner;
  heartbeat_stop(self);
  self->state = REFUSED;
  self->handler->failed(self->owner, error);
}

static void take_refusal(struct heartbeat *self, const char *text) {
  if (redis_connection_recover(self->connection, text))
    return;
  struct error error;
  (void)error_set(&error, "redis refuses the heartbeat %.80s: %.120s", self->keys->heartbeat,
                  redis_connection_explain(self->connection, text).text);
  on_failed(self, &error);
}

static bool begins_with(const char *text, const char *beginning) {
  return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* The heartbeat goes on without control messages. What waits is not asked for again; what it would
   have returned is read with LINDEX, unless that is refused, too. */
static void take_control_refusal(struct heartbeat *self, const char *text) {
  if (begins_with(text, "ERR unknown command") && self->waits == WAITS_BY_BLMOVE) {
    self->waits = WAITS_BY_BRPOPLPUSH;
  } else if (begins_with(text, "OOM ")) {
    self->wait_from_ms = clock_monotonic_ms() + HEARTBEAT_MS;
  } else if (!redis_connection_recover(self->connection, text) && self->waits != WAITS_BY_NOTHING) {
    self->waits = WAITS_BY_NOTHING;
    log_line(self->log, LOG_WARN, NULL,
             "control messages are late or not read: redis refuses %.120s: %.120s",
             self->keys->control, redis_connection_explain(self->connection, text).text);
  }
}

/* What BLMOVE returns is read again. */
static void take_message(struct heartbeat *self, const redisReply *reply) {
  if (reply->type != REDIS_REPLY_STRING)
    return;
  struct payload payload = {.bytes = reply->str,
                            .length = reply->len,
                            .is_truncated = redis_connection_reply_is_truncated(self->connection)};
  self->found++;
  self->handler->message(self->owner, &payload);
}

/* To SET: nil when the key is gone. To EXPIRE: 0 then. */
static void take_set(struct heartbeat *self, const redisReply *reply) {
  int64_t now_ms = clock_monotonic_ms();
  self->due_ms = (now_ms < self->due_ms ? self->due_ms : now_ms) + HEARTBEAT_MS;
  bool is_full = reply->type == REDIS_REPLY_ERROR && begins_with(reply->str, "OOM ");
  bool was_set = reply->type == REDIS_REPLY_STATUS;
  if (reply->type == REDIS_REPLY_ERROR && !is_full) {
    take_refusal(self, reply->str);
    return;
  }
  self->capacity = is_full                              ? IS_FULL
                   : reply->type == REDIS_REPLY_INTEGER ? HAD_NO_CAPACITY
                                                        : HAS_CAPACITY;
  if (was_set || (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1))
    confirm_visible(self);
  else if (reply->type == REDIS_REPLY_NIL)
    take_fallback(self);
}

static void take(struct heartbeat *self, const redisReply *reply, enum reply_kind kind) {
  bool is_refused = reply->type == REDIS_REPLY_ERROR;
  if (kind == REPLY_SET)
    take_set(self, reply);
  else if (is_refused && kind == REPLY_COMMITTED)
    take_refusal(self, reply->str);
  else if (is_refused)
    take_control_refusal(self, reply->str);
  else if (kind == REPLY_COMMITTED)
    take_committed(self, reply);
  else if (kind == REPLY_MESSAGE)
    take_message(self, reply);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct heartbeat *self = owner;
  int kind = 0;
  while (kind < REPLY_KINDS && self->due[kind] == 0)
    kind++;
  if (kind == REPLY_KINDS) {
    redis_connection_reconnect(self->connection, "an answer nobody asked for");
    return;
  }
  if (kind == REPLY_MESSAGE && self->due[kind] == self->page)
    self->found = 0;
  self->due[kind]--;
  take(self, reply, (enum reply_kind)kind);
  if (self->state != BEATING || is_under_way(self))
    return;
  int64_t now_ms = clock_monotonic_ms();
  if (now_ms + EARLY_MS < self->waits_until_ms && self->found == 0)
    self->wait_from_ms = now_ms + HEARTBEAT_MS;
  forget_round(self);
  /* The first round has no BLMOVE, whose reply may be the fault. */
  if (self->waits_until_ms > 0 || !may_wait(self, now_ms))
    redis_connection_mark_healthy(self->connection);
  check_visible(self);
  self->handler->changed(self->owner);
}

static void on_down(void *owner) {
  struct heartbeat *self = owner;
  forget_round(self);
  self->capacity = HAS_CAPACITY;
  if (self->state == BEATING)
    loop_timer_start(self->tick, HEARTBEAT_MS);
}

static size_t largest_message(void) {
  return CONTROL_MESSAGE_BYTES;
}

struct heartbeat *heartbeat_new(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const struct keys *keys,
                                const char *name, struct control_messages *control,
                                const struct heartbeat_handler *handler, void *owner) {
  static const struct redis_connection_handler redis_connection_handler = {
      .ready = on_ready, .reply = on_reply, .disconnected = on_down, .failed = on_failed};
  struct heartbeat *self = memory_allocate(sizeof *self);
  *self = (struct heartbeat){
      .handler = handler, .owner = owner, .log = log, .keys = keys, .control = control};
  self->final_commands = command_new((const char *[]){"GET", keys->committed}, 2);
  struct redis_connection_options options = {
      .url = url,
      .role = "heartbeat",
      .name = name,
      .final_commands = {.text = self->final_commands,
                         .length = strlen(self->final_commands),
                         .count = 1},
      .discard_values = true,
      .largest_string = largest_message};
  self->connection = redis_connection_new(base, log, &options, &redis_connection_handler, self);
  self->tick = loop_timer_new(base, on_tick, self);
  return self;
}

void heartbeat_free(struct heartbeat *self) {
  redis_connection_free(self->connection);
  event_free(self->tick);
  free(self->final_commands);
  buffer_release(&self->value);
  buffer_release(&self->command);
  free(self);
}

uint64_t heartbeat_reconnections(const struct heartbeat *self) {
  return redis_connection_reconnections(self->connection);
}

void heartbeat_start(struct heartbeat *self) {
  self->state = STARTED;
  self->visible_ms = clock_monotonic_ms();
  loop_timer_start(self->tick, CONNECT_MS);
}

void heartbeat_stop(struct heartbeat *self) {
  self->state = STOPPED;
  (void)evtimer_del(self->tick);
  redis_connection_stop(self->connection);
  forget_round(self);
}

bool heartbeat_is_refused(const struct heartbeat *self) {
  return self->state == REFUSED;
}
