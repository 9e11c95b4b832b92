/*
 * A state machine (client.h). Every failure goes through lose(), which closes the connection, calls
 * the owner and either pauses or gives up; a redirection through redial(). An owner may call any
 * function from inside a callback, so that a callback is the last thing that is done.
 */
#include "agent/doors/redis/link/client.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/link/backoff.h"
#include "agent/doors/redis/link/connection.h"
#include "agent/doors/redis/link/endpoint.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"

/* From the connected socket to the last reply of the handshake. */
#define HANDSHAKE_MS 5000

struct client {
  const struct log *log;
  struct client_options options;
  const struct client_handler *handler;
  void *owner;
  char server[256]; /* for people */
  char name[128];   /* for CLIENT LIST */
  enum client_state state;
  struct event *timer;          /* of the pause and the handshake */
  struct endpoint *endpoint;    /* busy while CLIENT_DIALING */
  struct connection connection; /* open from CLIENT_HANDSHAKING on */
  struct handshake handshake;
  struct backoff backoff;
  bool preparing; /* client_prepare was called, and client_start not yet */
  struct outage outage;
  struct {
    char server[256];
    char why[OUTAGE_REASON_SIZE];
  } obstacle; /* of several hosts, the first that failed in this round; "": none but replicas */
};

static void disconnect(struct client *self) {
  endpoint_cancel(self->endpoint);
  connection_close(&self->connection);
  handshake_release(&self->handshake);
}

/* For so long after a loss it is not news that the server is away: it may be starting again. */
#define RESTART_MS 3000

static void log_failed_attempt(struct client *self, const char *reason, int pause_ms) {
  int64_t now_ms = clock_monotonic_ms();
  bool is_early = self->backoff.succeeded && now_ms - self->outage.since_ms < RESTART_MS;
  bool news = !is_early && outage_is_news(&self->outage, reason, false, now_ms);
  log_line(self->log, news ? LOG_WARN : LOG_DEBUG, NULL,
           "redis %s: cannot connect to %s: %s; attempt %u follows in %d ms", self->options.role,
           self->server, reason, self->backoff.attempts + 1, pause_ms);
}

/* Of several hosts, one is the primary. */
static void try_next_host(struct client *self, const char *reason) {
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: cannot connect to %s: %s; the next host follows",
           self->options.role, self->server, reason);
  if (self->obstacle.why[0] == '\0' && strcmp(reason, HANDSHAKE_REPLICA) != 0) {
    memcpy(self->obstacle.server, self->server, sizeof self->server);
    (void)snprintf(self->obstacle.why, sizeof self->obstacle.why, "%s", reason);
  }
  self->state = CLIENT_PAUSING;
  loop_timer_start_now(self->timer);
}

/* Each host has failed: what hinders is rather what the first of them said than that the last one is
   a replica. */
static void name_obstacle(struct client *self, char *why, size_t size) {
  if (self->obstacle.why[0] == '\0')
    return;
  memcpy(self->server, self->obstacle.server, sizeof self->server);
  (void)snprintf(why, size, "%s", self->obstacle.why);
  self->obstacle.why[0] = '\0';
}

/* The connection, or the attempt to make one, has failed. */
static void lose(struct client *self, const char *reason, bool is_error_reply) {
  if (self->preparing) {
    client_stop(self);
    return;
  }
  bool was_ready = self->state == CLIENT_READY;
  char why[sizeof self->outage.reason]; /* a copy: the reason may lie in what is closed now */
  (void)snprintf(why, sizeof why, "%s", reason);
  disconnect(self);
  if (!was_ready && endpoint_has_untried(self->endpoint)) {
    try_next_host(self, why);
    return;
  }
  if (was_ready) {
    bool news = outage_is_news(&self->outage, why, is_error_reply, clock_monotonic_ms());
    log_line(self->log, news ? LOG_WARN : LOG_DEBUG, NULL,
             is_error_reply ? "redis %s: %s refuses for now: %s; reconnecting"
                            : "redis %s: connection to %s lost: %s; reconnecting",
             self->options.role, self->server, why);
  } else {
    name_obstacle(self, why, sizeof why);
    self->backoff.attempts++;
  }
  self->state = CLIENT_PAUSING;
  int pause_ms = backoff_pause(&self->backoff, random_u64());
  if (!was_ready)
    log_failed_attempt(self, why, pause_ms);
  loop_timer_start(self->timer, pause_ms);
  void (*callback)(void *owner) =
      was_ready ? self->handler->disconnected : self->handler->unreachable;
  if (callback != NULL)
    callback(self->owner);
}

static void on_lost(void *owner, const char *reason) {
  lose(owner, reason, false);
}

/* Reconnects at once; this is no failure. */
static void redial(struct client *self) {
  bool was_ready = self->state == CLIENT_READY;
  disconnect(self);
  self->obstacle.why[0] = '\0';
  self->state = CLIENT_PAUSING;
  loop_timer_start_now(self->timer);
  if (was_ready && self->handler->disconnected != NULL)
    self->handler->disconnected(self->owner);
}

/* Follows a redirection to another node of a cluster. False when the error reply is none, or when
   there were too many in a row. */
static bool follow_redirect(struct client *self, const char *text) {
  const char *target = error_reply_redirect(text);
  if (target == NULL || !endpoint_redirect(self->endpoint, target))
    return false;
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: redirected to %s", self->options.role, target);
  redial(self);
  return true;
}

static void become_ready(struct client *self) {
  self->obstacle.why[0] = '\0';
  self->state = CLIENT_READY;
  backoff_succeeded(&self->backoff);
}

static void end_handshake(struct client *self) {
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: connected to %s", self->options.role,
           self->server);
  redisReply value = handshake_take_value(&self->handshake);
  handshake_release(&self->handshake);
  (void)evtimer_del(self->timer);
  if (self->options.discard_values)
    reply_parser_discard_values(&self->connection.parser);
  if (self->options.poll_replies)
    connection_poll_replies(&self->connection, true);
  if (self->preparing) {
    self->state = CLIENT_PREPARED;
  } else {
    become_ready(self);
    self->handler->ready(self->owner, &value);
  }
  free(value.str);
}

static void send_handshake(struct client *self) {
  struct iovec rest = handshake_unsent(&self->handshake);
  if (rest.iov_len > 0)
    self->handshake.sent += connection_write(&self->connection, &rest, 1);
}

static void take_handshake_reply(struct client *self, const redisReply *reply) {
  struct handshake_refusal refusal;
  struct error error;
  bool preparing = self->preparing;
  switch (handshake_take_reply(&self->handshake, reply, &refusal)) {
  case HANDSHAKE_MORE:
    send_handshake(self);
    return;
  case HANDSHAKE_DONE:
    if (self->handshake.sent == self->handshake.length)
      end_handshake(self);
    else
      lose(self, "a reply to no request", false);
    return;
  case HANDSHAKE_RETRY:
    if (reply->type != REDIS_REPLY_ERROR || !follow_redirect(self, reply->str))
      lose(self, refusal.text, false);
    return;
  case HANDSHAKE_REFUSED:
    (void)error_set(&error, "redis at %.60s refuses %.80s: %.120s", self->server, refusal.command,
                    refusal.text);
    client_stop(self);
    if (!preparing)
      self->handler->failed(self->owner, &error);
  }
}

static void on_reply(void *owner, const redisReply *reply) {
  struct client *self = owner;
  if (self->state == CLIENT_PREPARED)
    lose(self, "unexpected reply", false);
  else if (self->state == CLIENT_READY)
    self->handler->reply(self->owner, reply);
  else
    take_handshake_reply(self, reply);
}

static void on_writable(void *owner) {
  struct client *self = owner;
  if (self->state == CLIENT_HANDSHAKING)
    send_handshake(self);
  else if (self->state == CLIENT_READY && self->handler->writable != NULL)
    self->handler->writable(self->owner);
}

static void on_dialed(void *owner, struct transport *transport, const char *why) {
  struct client *self = owner;
  endpoint_name(self->endpoint, self->server, sizeof self->server);
  if (transport == NULL) {
    lose(self, why, false);
    return;
  }
  connection_open(&self->connection, transport);
  handshake_init(&self->handshake, self->options.url, self->name, &self->options.probe);
  self->state = CLIENT_HANDSHAKING;
  loop_timer_start(self->timer, HANDSHAKE_MS);
  send_handshake(self);
  if (self->handler->connected != NULL)
    self->handler->connected(self->owner);
}

static void dial(struct client *self) {
  self->state = CLIENT_DIALING;
  endpoint_dial(self->endpoint, on_dialed, self);
}

LOOP_CALLBACK(on_timer, struct client *self) {
  if (self->state == CLIENT_PAUSING)
    dial(self);
  else
    lose(self, connection_timeout_text(&self->connection), false);
}

struct client *client_new(struct event_base *base, const struct log *log,
                          const struct client_options *options,
                          const struct client_handler *handler, void *owner) {
  static const struct connection_handler connection_handler = {
      .reply = on_reply, .writable = on_writable, .lost = on_lost};
  struct client *self = memory_allocate(sizeof *self);
  *self = (struct client){.log = log,
                          .options = *options,
                          .handler = handler,
                          .owner = owner,
                          .endpoint = endpoint_new(base, options->url)};
  endpoint_name(self->endpoint, self->server, sizeof self->server);
  (void)snprintf(self->name, sizeof self->name, "%s", options->name);
  size_t largest = options->largest_string > 0 ? options->largest_string : REPLY_PARSER_BEGINNING;
  connection_init(&self->connection, base, largest, &connection_handler, self);
  self->timer = loop_timer_new(base, on_timer, self);
  return self;
}

void client_free(struct client *self) {
  client_stop(self);
  endpoint_free(self->endpoint);
  event_free(self->timer);
  free(self);
}

void client_prepare(struct client *self) {
  if (self->state != CLIENT_STOPPED)
    return;
  self->preparing = true;
  dial(self);
}

bool client_start(struct client *self) {
  self->preparing = false;
  if (self->state == CLIENT_STOPPED)
    dial(self);
  else if (self->state == CLIENT_PREPARED)
    become_ready(self);
  return self->state == CLIENT_READY;
}

void client_stop(struct client *self) {
  self->obstacle.why[0] = '\0';
  self->state = CLIENT_STOPPED;
  self->preparing = false;
  (void)evtimer_del(self->timer);
  disconnect(self);
}

bool client_is_ready(const struct client *self) {
  return self->state == CLIENT_READY;
}

bool client_is_unreachable(const struct client *self) {
  return self->state == CLIENT_STOPPED ||
         (self->state != CLIENT_READY && self->backoff.attempts > 0);
}

/* During the handshake the socket is not the owner's. */
size_t client_write(struct client *self, const struct iovec *pieces, int count) {
  return self->state == CLIENT_READY ? connection_write(&self->connection, pieces, count) : 0;
}

void client_send(struct client *self, const char *commands) {
  struct iovec piece = {.iov_base = (char *)(uintptr_t)commands, .iov_len = strlen(commands)};
  if (client_write(self, &piece, 1) < piece.iov_len)
    client_reconnect(self, "the socket takes no more");
}

void client_set_reply_timeout(struct client *self, int milliseconds_from_now) {
  if (self->state == CLIENT_READY)
    connection_set_reply_timeout(&self->connection, milliseconds_from_now);
}

void client_take_replies(struct client *self) {
  if (self->state == CLIENT_READY)
    connection_take_replies(&self->connection);
}

void client_stop_polling(struct client *self) {
  if (self->state == CLIENT_READY)
    connection_poll_replies(&self->connection, false);
}

void client_reconnect(struct client *self, const char *why) {
  if (self->state == CLIENT_READY)
    lose(self, why, false);
}

struct error_reply_text client_explain(const struct client *self, const char *text) {
  return error_reply_explain(text, self->options.url);
}

bool client_recover(struct client *self, const char *text) {
  if (!error_reply_is_transient(text))
    return false;
  if (self->state == CLIENT_READY && !follow_redirect(self, text))
    lose(self, client_explain(self, text).text, true);
  return true;
}

void client_mark_healthy(struct client *self) {
  endpoint_mark_healthy(self->endpoint);
  self->backoff.pause_ms = 0;
  if (!self->outage.ongoing)
    return;
  self->outage.ongoing = false;
  log_line(self->log, self->outage.was_news ? LOG_INFO : LOG_DEBUG, NULL,
           "redis %s: connected to %s again after %.1f s", self->options.role, self->server,
           (double)(clock_monotonic_ms() - self->outage.since_ms) / 1000);
}

bool client_reply_is_truncated(const struct client *self) {
  return self->connection.is_truncated;
}
