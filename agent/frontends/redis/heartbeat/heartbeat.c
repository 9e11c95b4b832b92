/*
 * The connection does one round after another. A round is sent in one write:
 *
 *   BLMOVE control control RIGHT RIGHT 2     waits for a message and leaves it in its place
 *   LINDEX control -1                        reads the oldest message that is not known, or several
 *   SET heartbeat … XX EX 10                 at most once in HEARTBEAT_MS
 *   GET committed                            checks whether another agent owns the job
 *
 * If no message arrives, all replies arrive together when BLMOVE times out, so an idle agent wakes
 * up once in 2 s. The heartbeat does not remove messages: a batch does, because an agent that has
 * lost the job cannot send one. While the list has known messages, BLMOVE would not wait, so it is
 * left out and a timer paces the rounds. The same happens after BLMOVE has failed, for example
 * because Redis is out of memory.
 *
 * With XX, SET never creates the key, so the key does not reappear after the agent has deleted it
 * on another connection. If the key disappears while the agent serves the job, a batch creates it.
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

/* The delay before connecting, after the job was taken over: the first step comes first. */
#define CONNECT_MS 100

/* How often new messages are read while known ones are still in the list. */
#define POLL_MS 200

/* A BLMOVE that returns this much too early without a message did not wait. It is not sent again at
   once, because the rounds would follow each other without a pause. */
#define EARLY_MS 20

enum heartbeat_state {
  STOPPED,
  DELAYED, /* the job is owned; the connection is made after CONNECT_MS */
  RUNNING
};

/* The replies of a round, in their order. */
enum reply_kind { REPLY_WAIT, REPLY_MESSAGE, REPLY_SET, REPLY_COMMITTED, REPLY_KINDS };

struct heartbeat {
  const struct heartbeat_handler *handler;
  void *owner;
  const struct log *log;
  const struct keys *keys;
  struct outbox *outbox;
  struct control_messages *control;
  struct redis_connection *connection;
  struct event *tick;
  char *final_commands; /* GET committed */
  /* Reused for every round, because an idle agent does little else. */
  struct buffer value, command;
  bool step_in_flight;
  bool is_reported; /* it was logged that the key is not visible */
  enum heartbeat_state state;
  enum { WAIT_WITH_BLMOVE, WAIT_WITH_BRPOPLPUSH, WAIT_WITH_TIMER } wait;
  /* Whether Redis had memory for the key: SET succeeded, SET failed, or EXPIRE was sent instead. */
  enum { MEMORY_OK, MEMORY_FULL, MEMORY_WAS_FULL } memory;
  enum { REPLIES_IN_TIME, REPLIES_LATE } timeliness;
  unsigned expected[REPLY_KINDS]; /* the replies of the round that have not arrived */
  size_t page;                    /* how many LINDEX the last round had; 0: there was no round */
  int64_t round_ms;               /* when the round began */
  bool was_checked;               /* on this connection, messages were read to the end */
  size_t found;                   /* how many of them returned a message */
  int64_t set_due_ms;             /* when the next SET is to be executed; times are monotonic */
  int64_t wait_from_ms;           /* BLMOVE is not sent before; it has failed or did not wait */
  int64_t wait_until_ms;          /* when BLMOVE times out; 0: this round has none */
  int64_t visible_ms;             /* when Redis last confirmed that the key exists */
};

/* Redis has confirmed that the key exists. */
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
           self->memory != MEMORY_OK ? ": redis is out of memory" : "");
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

/* `only_existing`: the SET does not create the key. */
static void add_set(struct heartbeat *self, struct buffer *out, bool only_existing) {
  command_add(out, COMMAND("SET", self->keys->heartbeat, make_value(self), "EX", SECONDS_TEXT,
                           only_existing ? "XX" : NULL));
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
    due += self->expected[i];
  return due > 0;
}

/* BRPOPLPUSH is for Redis before 6.2, which may support whole seconds only. */
static void add_wait(struct heartbeat *self, int64_t milliseconds) {
  const char *control = self->keys->control;
  bool is_old = self->wait == WAIT_WITH_BRPOPLPUSH;
  char seconds[24];
  if (is_old)
    (void)snprintf(seconds, sizeof seconds, "%d", (int)((milliseconds + 999) / 1000));
  else
    (void)snprintf(seconds, sizeof seconds, "%d.%03d", (int)(milliseconds / 1000),
                   (int)(milliseconds % 1000));
  command_add(&self->command, is_old
                                  ? COMMAND("BRPOPLPUSH", control, control, seconds)
                                  : COMMAND("BLMOVE", control, control, "RIGHT", "RIGHT", seconds));
  self->expected[REPLY_WAIT] = 1;
}

/* Reads the messages after the known ones: more of them while all exist. */
static void add_page(struct heartbeat *self) {
  self->page = self->page > 0 && self->found == self->page ? 16 * self->page : 1;
  if (self->page > CONTROL_PAGE_MAX)
    self->page = CONTROL_PAGE_MAX;
  for (size_t i = 1; i <= self->page; i++) {
    char position[24];
    (void)snprintf(position, sizeof position, "-%zu", self->control->count + i);
    command_add(&self->command, COMMAND("LINDEX", self->keys->control, position));
  }
  self->expected[REPLY_MESSAGE] = (unsigned)self->page;
  self->control->activity = CONTROL_READING;
}

static int64_t until_set_ms(const struct heartbeat *self, int64_t now_ms) {
  return self->set_due_ms > now_ms ? self->set_due_ms - now_ms : 0;
}

/* Returns whether the next round may wait for a message. The first round of a connection does not,
   because the key may be about to expire. */
static bool may_wait(const struct heartbeat *self, int64_t now_ms) {
  return self->control->count == 0 && control_messages_may_read(self->control) &&
         self->wait != WAIT_WITH_TIMER && now_ms >= self->wait_from_ms && self->page > 0 &&
         self->found < self->page;
}

/* BLMOVE waits until SET is due, and SET follows it. If SET is not due within HEARTBEAT_MS, because
   the last SET was early, BLMOVE waits for less time and the next round has the SET. */
static void send_round(struct heartbeat *self) {
  int64_t now_ms = clock_monotonic_ms(), until_ms = until_set_ms(self, now_ms), wait_ms = 0;
  bool with_set = until_ms == 0;
  self->command.length = 0;
  self->round_ms = now_ms;
  if (!with_set && may_wait(self, now_ms)) {
    with_set = until_ms <= HEARTBEAT_MS;
    wait_ms = with_set ? until_ms : until_ms - HEARTBEAT_MS;
    if (wait_ms < 2 * EARLY_MS)
      wait_ms = 2 * EARLY_MS;
    add_wait(self, wait_ms);
  }
  self->wait_until_ms = wait_ms > 0 ? now_ms + wait_ms : 0;
  if (control_messages_may_read(self->control))
    add_page(self);
  if (with_set) {
    if (self->memory == MEMORY_FULL) /* SET is rejected, but EXPIRE keeps an existing key */
      command_add(&self->command, COMMAND("EXPIRE", self->keys->heartbeat, SECONDS_TEXT));
    else
      add_set(self, &self->command, true);
    buffer_add_string(&self->command, self->final_commands);
    self->expected[REPLY_SET] = self->expected[REPLY_COMMITTED] = 1;
  }
  self->timeliness = REPLIES_IN_TIME;
  loop_timer_start(self->tick, is_under_way(self) ? wait_ms + HEARTBEAT_MS : until_ms);
  if (!is_under_way(self))
    return;
  buffer_add(&self->command, "", 1);
  redis_connection_send(self->connection, self->command.bytes);
}

/* Lets a batch write the key. Redis may be reachable, and only this connection fails: because of
   the name server, or because Redis has reached its limit of clients. Otherwise the write would
   only arrive late. The outbox accepts a value only after it has delivered the previous one. */
static void write_fallback(struct heartbeat *self) {
  bool wrote_before = self->outbox->heartbeat_end > 0;
  if (delivery_is_unreachable(self->outbox->delivery) ||
      !outbox_set_heartbeat(self->outbox, make_value(self), SECONDS_TEXT))
    return;
  self->handler->changed(self->owner);
  if (wrote_before)
    confirm_visible(self);
}

/* Sends the next round: at once if it will wait or if there may be more messages, otherwise when
   SET is due or after POLL_MS. While a removal is under way, the positions of the messages after
   the known ones are uncertain: a read would skip messages, and each later removal would have to
   pass them. So they are read at once only after the removal, which takes long if output waits. */
void heartbeat_advance(struct heartbeat *self) {
  if (self->state != RUNNING || !redis_connection_is_ready(self->connection) || is_under_way(self))
    return;
  int64_t now_ms = clock_monotonic_ms(), until_ms = until_set_ms(self, now_ms);
  bool has_more = self->page == 0 || self->found == self->page;
  if (until_ms == 0 || may_wait(self, now_ms) ||
      (has_more && control_messages_may_read(self->control) && self->control->removal_end == 0))
    send_round(self);
  else
    loop_timer_start(self->tick,
                     self->control->count > 0 && until_ms > POLL_MS ? POLL_MS : until_ms);
}

LOOP_CALLBACK(on_tick, struct heartbeat *self) {
  if (self->state == DELAYED) {
    self->state = RUNNING;
    (void)redis_connection_start(self->connection);
    loop_timer_start(self->tick, HEARTBEAT_MS);
    return;
  }
  if (!redis_connection_is_ready(self->connection)) {
    loop_timer_start(self->tick, HEARTBEAT_MS);
    write_fallback(self);
  } else if (!is_under_way(self)) {
    send_round(self);
  } else if (self->timeliness == REPLIES_LATE) {
    redis_connection_reconnect(self->connection, "no answer in time");
  } else {
    self->timeliness = REPLIES_LATE;
    loop_timer_start(self->tick, HEARTBEAT_MS);
    delivery_check_ownership(self->outbox->delivery); /* its connection may be dead, too */
  }
  check_visible(self);
}

/* --- replies ---------------------------------------------------------------------------------- */

/* Another agent may own the job. */
static void check_committed(struct heartbeat *self, const struct reply *reply) {
  if (!delivery_compare_committed(self->outbox->delivery, reply->str, reply->len))
    heartbeat_stop(self);
}

static void end_round(struct heartbeat *self) {
  memset(self->expected, 0, sizeof self->expected);
  if (self->control->activity == CONTROL_READING)
    self->control->activity = CONTROL_IDLE;
}

/* After an outage, `committed` is read before the key is set, because another agent may own the
   job. */
static void on_ready(void *owner, const struct reply *committed) {
  struct heartbeat *self = owner;
  self->page = 0;
  self->set_due_ms = 0;
  check_committed(self, committed);
  if (self->state == RUNNING)
    send_round(self);
}

static void on_failed(void *owner, const struct error *error) {
  struct heartbeat *self = owner;
  heartbeat_stop(self);
  self->handler->failed(self->owner, error);
}

static void handle_rejection(struct heartbeat *self, const char *what, const char *key,
                             const char *text) {
  if (redis_connection_recover(self->connection, text))
    return;
  struct error error;
  (void)error_set(&error, "redis refuses %s %.80s: %.120s", what, key,
                  redis_connection_explain(self->connection, text).text);
  on_failed(self, &error);
}

static bool begins_with(const char *text, const char *beginning) {
  return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* The heartbeat continues without BLMOVE, and without control messages if LINDEX is rejected, too.
   A Redis before 6.2 does not know BLMOVE; one without memory may have some later. */
static void handle_control_rejection(struct heartbeat *self, const char *text) {
  if (begins_with(text, "ERR unknown command") && self->wait == WAIT_WITH_BLMOVE) {
    self->wait = WAIT_WITH_BRPOPLPUSH;
  } else if (begins_with(text, "OOM ")) {
    self->wait_from_ms = clock_monotonic_ms() + HEARTBEAT_MS;
  } else if (!redis_connection_recover(self->connection, text) && self->wait != WAIT_WITH_TIMER) {
    self->wait = WAIT_WITH_TIMER;
    log_line(self->log, LOG_WARN, NULL,
             "control messages are read late or not at all: redis refuses %.120s: %.120s",
             self->keys->control, redis_connection_explain(self->connection, text).text);
  }
}

/* Replies to LINDEX count. The value that BLMOVE returns is ignored, because LINDEX reads it
   again. */
static void record_message(struct heartbeat *self, const struct reply *reply) {
  if (reply->type != REPLY_STRING)
    return;
  struct payload payload = payload_of(reply);
  self->found++;
  self->handler->message(self->owner, &payload);
}

/* Handles the reply to SET, which is nil if the key does not exist, or to EXPIRE, which is 0
   then. */
static void handle_set_reply(struct heartbeat *self, const struct reply *reply) {
  int64_t now_ms = clock_monotonic_ms();
  self->set_due_ms = (now_ms < self->set_due_ms ? self->set_due_ms : now_ms) + HEARTBEAT_MS;
  bool is_full = reply->type == REPLY_ERROR && begins_with(reply->str, "OOM ");
  bool was_set = reply->type == REPLY_STATUS;
  if (reply->type == REPLY_ERROR && !is_full) {
    handle_rejection(self, "the heartbeat", self->keys->heartbeat, reply->str);
    return;
  }
  self->memory = is_full ? MEMORY_FULL : reply->type == REPLY_INTEGER ? MEMORY_WAS_FULL : MEMORY_OK;
  if (was_set || (reply->type == REPLY_INTEGER && reply->integer == 1))
    confirm_visible(self);
  else if (reply->type == REPLY_NIL)
    write_fallback(self);
}

static void handle_reply(struct heartbeat *self, const struct reply *reply, enum reply_kind kind) {
  bool is_rejected = reply->type == REPLY_ERROR;
  if (kind == REPLY_SET)
    handle_set_reply(self, reply);
  else if (is_rejected && kind == REPLY_COMMITTED)
    handle_rejection(self, "GET", self->keys->committed, reply->str);
  else if (is_rejected)
    handle_control_rejection(self, reply->str);
  else if (kind == REPLY_COMMITTED)
    check_committed(self, reply);
  else if (kind == REPLY_MESSAGE)
    record_message(self, reply);
}

static void on_reply(void *owner, const struct reply *reply) {
  struct heartbeat *self = owner;
  int kind = 0;
  while (kind < REPLY_KINDS && self->expected[kind] == 0)
    kind++;
  if (kind == REPLY_KINDS) {
    redis_connection_reconnect(self->connection, "an unexpected reply");
    return;
  }
  if (kind == REPLY_MESSAGE && self->expected[kind] == self->page)
    self->found = 0;
  self->expected[kind]--;
  handle_reply(self, reply, (enum reply_kind)kind);
  if (self->state != RUNNING || is_under_way(self))
    return;
  int64_t now_ms = clock_monotonic_ms();
  if (now_ms + EARLY_MS < self->wait_until_ms && self->found == 0)
    self->wait_from_ms = now_ms + HEARTBEAT_MS;
  if (self->control->activity == CONTROL_READING && self->found < self->page) {
    self->handler->checked(self->owner, self->round_ms, !self->was_checked);
    self->was_checked = true;
  }
  end_round(self);
  /* The first round has no BLMOVE, whose reply may be the fault, unless there are messages. */
  if (self->wait_until_ms > 0 || self->found > 0 || !may_wait(self, now_ms))
    redis_connection_mark_healthy(self->connection);
  check_visible(self);
  self->handler->changed(self->owner);
}

static void on_down(void *owner) {
  struct heartbeat *self = owner;
  end_round(self);
  self->was_checked = false;
  self->memory = MEMORY_OK;
  if (self->state == RUNNING)
    loop_timer_start(self->tick, HEARTBEAT_MS);
}

static size_t largest_message(void) {
  return CONTROL_MESSAGE_BYTES;
}

struct heartbeat *heartbeat_new(struct event_base *base, const struct log *log,
                                const struct redis_url *url, const struct keys *keys,
                                const char *name, struct outbox *outbox,
                                struct control_messages *control,
                                const struct heartbeat_handler *handler, void *owner) {
  static const struct redis_connection_handler redis_connection_handler = {
      .ready = on_ready, .reply = on_reply, .disconnected = on_down, .failed = on_failed};
  struct heartbeat *self = memory_allocate(sizeof *self);
  *self = (struct heartbeat){.handler = handler,
                             .owner = owner,
                             .log = log,
                             .keys = keys,
                             .outbox = outbox,
                             .control = control};
  self->final_commands = command_new(COMMAND("GET", keys->committed));
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
  self->state = DELAYED;
  self->visible_ms = clock_monotonic_ms();
  loop_timer_start(self->tick, CONNECT_MS);
}

void heartbeat_stop(struct heartbeat *self) {
  self->state = STOPPED;
  (void)evtimer_del(self->tick);
  redis_connection_stop(self->connection);
  end_round(self);
}
