/*
 * The link is a state machine; every way out of a state but forwards is fall(), which closes what
 * there is, tells the owner and either pauses or gives up. Owners act on the link from inside their
 * callbacks (they may drop or stop it), so that the callback is the last that is done.
 */
#include "agent/doors/redis/client/client.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/doors/redis/client/backoff.h"
#include "agent/doors/redis/client/handshake.h"
#include "agent/doors/redis/client/outage.h"
#include "agent/doors/redis/net/connection.h"
#include "agent/doors/redis/net/endpoint.h"
#include "agent/doors/redis/net/error_reply.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"

/* From the connection to the end of the login. */
#define HANDSHAKE_MS 5000

enum state { STOPPED, PAUSING, DIALING, LOGGING_IN, PREPARED, UP };

struct client {
  const struct log *log;
  struct client_options options;
  const struct client_handler *handler;
  void *owner;
  char server[256]; /* for people */
  char name[128];   /* for CLIENT LIST */
  enum state state;
  struct event *pause;
  struct endpoint *endpoint;    /* busy while DIALING */
  struct connection connection; /* open from LOGGING_IN on */
  struct handshake handshake;
  struct backoff backoff;
  bool preparing; /* nobody waits for it */
  struct outage outage;
};

static void disconnect(struct client *self) {
  endpoint_cancel(self->endpoint);
  connection_close(&self->connection);
  handshake_release(&self->handshake);
}

static void give_up(struct client *self, const struct error *error) {
  bool preparing = self->preparing;
  client_stop(self);
  if (!preparing)
    self->handler->failed(self->owner, error);
}

static void log_loss(struct client *self, const char *why, bool refused) {
  bool news = outage_is_news(&self->outage, why, refused, clock_monotonic_ms());
  log_line(self->log, news ? LOG_WARN : LOG_DEBUG, NULL,
           refused ? "redis %s: %s refuses for now: %s; trying again"
                   : "redis %s: lost the connection to %s: %s; trying again",
           self->options.role, self->server, why);
}

static void fall(struct client *self, const char *reason, bool refused) {
  if (self->preparing) {
    client_stop(self);
    return;
  }
  bool was_ready = self->state == UP;
  char why[160]; /* of a long reason, as much as is told */
  (void)snprintf(why, sizeof why, "%s", reason);
  disconnect(self);
  if (was_ready)
    log_loss(self, why, refused);
  else
    backoff_failed(&self->backoff);
  if (backoff_is_over(&self->backoff)) {
    struct error error;
    (void)error_set(&error, "cannot connect to redis at %.120s: %.80s (%u attempts)", self->server,
                    why, self->backoff.attempts);
    give_up(self, &error);
    return;
  }
  self->state = PAUSING;
  int pause_ms = backoff_pause(&self->backoff, random_u64());
  if (!was_ready)
    log_line(self->log, backoff_is_booting(&self->backoff) ? LOG_WARN : LOG_DEBUG, NULL,
             "redis %s: attempt %u: cannot connect to %s: %s; next one in %d ms",
             self->options.role, self->backoff.attempts, self->server, why, pause_ms);
  loop_timer_start(self->pause, pause_ms);
  void (*tell)(void *owner) = was_ready ? self->handler->down : self->handler->unreachable;
  if (tell != NULL)
    tell(self->owner);
}

static void lost(void *client, const char *reason) {
  fall(client, reason, false);
}

static void begin_anew(struct client *self) {
  bool was_ready = self->state == UP;
  disconnect(self);
  self->state = PAUSING;
  loop_timer_start_now(self->pause);
  if (was_ready && self->handler->down != NULL)
    self->handler->down(self->owner);
}

/* Where a node of a cluster says that the keys are: at once, unless they are said to be in a
 * circle. */
static bool follow(struct client *self, const char *text) {
  const char *target = error_reply_moved_to(text);
  if (target == NULL || !endpoint_redirect(self->endpoint, target))
    return false;
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: moved to %s", self->options.role, target);
  begin_anew(self);
  return true;
}

static void come_up(struct client *self) {
  self->state = UP;
  backoff_succeeded(&self->backoff);
}

static void logged_in(struct client *self, const redisReply *last) {
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: connected to %s", self->options.role,
           self->server);
  handshake_release(&self->handshake);
  connection_expect(&self->connection, 0);
  if (self->options.discard_values)
    connection_discard_values(&self->connection);
  if (self->options.poll_replies)
    connection_poll_replies(&self->connection, true);
  if (self->preparing) {
    self->state = PREPARED;
    return;
  }
  come_up(self);
  self->handler->ready(self->owner, last);
}

static void take_login_reply(struct client *self, const redisReply *reply) {
  struct handshake_refusal refusal;
  struct error error;
  switch (handshake_take(&self->handshake, reply, &refusal)) {
  case HANDSHAKE_GOES_ON:
    return;
  case HANDSHAKE_DONE:
    logged_in(self, reply);
    return;
  case HANDSHAKE_LATER:
    if (!follow(self, refusal.text))
      lost(self, refusal.text);
    return;
  case HANDSHAKE_REFUSED:
    (void)error_set(&error, "redis at %.60s refuses %.80s: %.120s", self->server, refusal.command,
                    error_reply_explain(refusal.text));
    give_up(self, &error);
  }
}

static void on_reply(void *owner, const redisReply *reply) {
  struct client *self = owner;
  if (self->state == PREPARED)
    lost(self, "an answer nobody asked for");
  else if (self->state == UP)
    self->handler->reply(self->owner, reply);
  else
    take_login_reply(self, reply);
}

static void send_login(struct client *self) {
  struct iovec rest[HANDSHAKE_PIECES];
  handshake_rest(&self->handshake, rest);
  if (rest[0].iov_len + rest[1].iov_len > 0)
    self->handshake.sent += connection_write(&self->connection, rest, HANDSHAKE_PIECES);
}

static void on_writable(void *owner) {
  struct client *self = owner;
  if (self->state == LOGGING_IN)
    send_login(self);
  else if (self->state == UP && self->handler->writable != NULL)
    self->handler->writable(self->owner);
}

static void on_dialed(void *owner, int fd, const char *why) {
  struct client *self = owner;
  endpoint_name(self->endpoint, self->server, sizeof self->server);
  if (fd < 0) {
    lost(self, why);
    return;
  }
  connection_open(&self->connection, fd);
  handshake_init(&self->handshake, self->options.url, self->name);
  handshake_add_probe(&self->handshake, &self->options.probe);
  self->state = LOGGING_IN;
  connection_expect(&self->connection, HANDSHAKE_MS);
  send_login(self);
  if (self->handler->connected != NULL)
    self->handler->connected(self->owner);
}

static void dial(struct client *self) {
  self->state = DIALING;
  endpoint_dial(self->endpoint, on_dialed, self);
}

static void on_pause(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  dial(context);
}

struct client *client_new(struct event_base *base, const struct log *log,
                          const struct client_options *options,
                          const struct client_handler *handler, void *owner) {
  static const struct connection_handler connection_handler = {
      .reply = on_reply, .writable = on_writable, .lost = lost};
  struct client *self = memory_allocate(sizeof *self);
  *self = (struct client){.log = log,
                          .options = *options,
                          .handler = handler,
                          .owner = owner,
                          .endpoint = endpoint_new(base, options->url)};
  backoff_init(&self->backoff, options->patient);
  endpoint_name(self->endpoint, self->server, sizeof self->server);
  (void)snprintf(self->name, sizeof self->name, "%s", options->name);
  connection_init(&self->connection, base, options->largest_string, &connection_handler, self);
  self->pause = loop_timer_new(base, on_pause, self);
  return self;
}

void client_free(struct client *self) {
  client_stop(self);
  endpoint_free(self->endpoint);
  event_free(self->pause);
  free(self);
}

void client_prepare(struct client *self) {
  if (self->state != STOPPED)
    return;
  self->preparing = true;
  dial(self);
}

bool client_start(struct client *self) {
  self->preparing = false;
  if (self->state == STOPPED)
    dial(self);
  else if (self->state == PREPARED)
    come_up(self);
  return self->state == UP;
}

void client_stop(struct client *self) {
  self->state = STOPPED;
  self->preparing = false;
  (void)evtimer_del(self->pause);
  disconnect(self);
}

bool client_is_ready(const struct client *self) {
  return self->state == UP;
}

bool client_is_gone(const struct client *self) {
  return self->state == STOPPED || (self->state != UP && self->backoff.attempts > 0);
}

/* Before the login is answered the socket is not the owner's. */
size_t client_write(struct client *self, const struct iovec *pieces, int count) {
  return self->state == UP ? connection_write(&self->connection, pieces, count) : 0;
}

void client_expect(struct client *self, int milliseconds_from_now) {
  if (self->state == UP)
    connection_expect(&self->connection, milliseconds_from_now);
}

bool client_collect(struct client *self, const char *known, size_t known_length) {
  return self->state == UP && connection_collect(&self->connection, known, known_length);
}

void client_be_eager(struct client *self) {
  if (self->state == UP)
    connection_poll_replies(&self->connection, false);
}

void client_drop(struct client *self, const char *why) {
  if (self->state == UP)
    lost(self, why);
}

void client_renew(struct client *self) {
  if (self->state == UP)
    begin_anew(self);
}

bool client_overcomes(struct client *self, const char *text) {
  if (!error_reply_passes(text))
    return false;
  if (self->state == UP && !follow(self, text))
    fall(self, text, true);
  return true;
}

void client_works(struct client *self) {
  endpoint_works(self->endpoint);
  backoff_works(&self->backoff);
  if (!self->outage.there)
    return;
  self->outage.there = false;
  log_line(self->log, self->outage.told ? LOG_INFO : LOG_DEBUG, NULL,
           "redis %s: connected to %s again after %.1f s", self->options.role, self->server,
           (double)(clock_monotonic_ms() - self->outage.since_ms) / 1000);
}

bool client_reply_too_large(const struct client *self) {
  return connection_reply_too_large(&self->connection);
}
