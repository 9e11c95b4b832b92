/*
 * The link is a state machine; every way out of a state but forwards is fall(), which closes what
 * there is, tells the owner and either pauses or gives up. Owners act on the link from inside their
 * callbacks (they may drop or stop it), so that the callback is the last that is done.
 */
#include "agent/redis/link.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/redis/connection.h"
#include "agent/redis/error_reply.h"
#include "agent/redis/login.h"
#include "agent/redis/retry.h"
#include "agent/redis/route.h"
#include "agent/redis/trouble.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"

/* From the connection to the end of the login. */
#define LOGIN_MS 5000

enum state { STOPPED, PAUSING, DIALING, LOGGING_IN, PREPARED, UP };

struct link {
  const struct log *log;
  struct link_options options;
  const struct link_handler *handler;
  void *owner;
  char server[256]; /* for people */
  char name[128];   /* for CLIENT LIST */
  enum state state;
  struct event *pause;
  struct route *route;          /* busy while DIALING */
  struct connection connection; /* open from LOGGING_IN on */
  struct login login;
  struct retry retry;
  bool preparing; /* nobody waits for it */
  struct trouble trouble;
};

static void disconnect(struct link *self) {
  route_cancel(self->route);
  connection_close(&self->connection);
  login_release(&self->login);
}

static void give_up(struct link *self, const struct error *error) {
  bool preparing = self->preparing;
  link_stop(self);
  if (!preparing)
    self->handler->failed(self->owner, error);
}

static void log_loss(struct link *self, const char *why, bool refused) {
  bool news = trouble_is_news(&self->trouble, why, refused, clock_monotonic_ms());
  log_line(self->log, news ? LOG_WARN : LOG_DEBUG, NULL,
           refused ? "redis %s: %s refuses for now: %s; trying again"
                   : "redis %s: lost the connection to %s: %s; trying again",
           self->options.role, self->server, why);
}

static void fall(struct link *self, const char *reason, bool refused) {
  if (self->preparing) {
    link_stop(self);
    return;
  }
  bool was_up = self->state == UP;
  char why[160]; /* of a long reason, as much as is told */
  (void)snprintf(why, sizeof why, "%s", reason);
  disconnect(self);
  if (was_up)
    log_loss(self, why, refused);
  else
    retry_failed(&self->retry);
  if (retry_is_over(&self->retry)) {
    struct error error;
    (void)error_set(&error, "cannot connect to redis at %.120s: %.80s (%u attempts)", self->server,
                    why, self->retry.attempts);
    give_up(self, &error);
    return;
  }
  self->state = PAUSING;
  int pause_ms = retry_pause(&self->retry, random_u64());
  if (!was_up)
    log_line(self->log, retry_is_booting(&self->retry) ? LOG_WARN : LOG_DEBUG, NULL,
             "redis %s: attempt %u: cannot connect to %s: %s; next one in %d ms",
             self->options.role, self->retry.attempts, self->server, why, pause_ms);
  loop_timer_start(self->pause, pause_ms);
  void (*tell)(void *owner) = was_up ? self->handler->down : self->handler->unreachable;
  if (tell != NULL)
    tell(self->owner);
}

static void lost(void *link, const char *reason) {
  fall(link, reason, false);
}

static void begin_anew(struct link *self) {
  bool was_up = self->state == UP;
  disconnect(self);
  self->state = PAUSING;
  loop_timer_start_now(self->pause);
  if (was_up && self->handler->down != NULL)
    self->handler->down(self->owner);
}

/* Where a node of a cluster says that the keys are: at once, unless they are said to be in a
 * circle. */
static bool follow(struct link *self, const char *text) {
  const char *target = error_reply_moved_to(text);
  if (target == NULL || !route_redirect(self->route, target))
    return false;
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: moved to %s", self->options.role, target);
  begin_anew(self);
  return true;
}

static void come_up(struct link *self) {
  self->state = UP;
  retry_succeeded(&self->retry);
}

static void logged_in(struct link *self, const redisReply *last) {
  log_line(self->log, LOG_DEBUG, NULL, "redis %s: connected to %s", self->options.role,
           self->server);
  login_release(&self->login);
  connection_expect(&self->connection, 0);
  if (self->options.terse)
    connection_be_terse(&self->connection);
  if (self->options.lazy)
    connection_be_lazy(&self->connection, true);
  if (self->preparing) {
    self->state = PREPARED;
    return;
  }
  come_up(self);
  self->handler->up(self->owner, last);
}

static void take_login_reply(struct link *self, const redisReply *reply) {
  struct login_refusal refusal;
  struct error error;
  switch (login_take(&self->login, reply, &refusal)) {
  case LOGIN_GOES_ON:
    return;
  case LOGIN_DONE:
    logged_in(self, reply);
    return;
  case LOGIN_LATER:
    if (!follow(self, refusal.text))
      lost(self, refusal.text);
    return;
  case LOGIN_REFUSED:
    (void)error_set(&error, "redis at %.60s refuses %.80s: %.120s", self->server, refusal.command,
                    error_reply_explain(refusal.text));
    give_up(self, &error);
  }
}

static void on_reply(void *owner, const redisReply *reply) {
  struct link *self = owner;
  if (self->state == PREPARED)
    lost(self, "an answer nobody asked for");
  else if (self->state == UP)
    self->handler->reply(self->owner, reply);
  else
    take_login_reply(self, reply);
}

static void send_login(struct link *self) {
  struct iovec rest[LOGIN_PIECES];
  login_rest(&self->login, rest);
  if (rest[0].iov_len + rest[1].iov_len > 0)
    self->login.sent += connection_write(&self->connection, rest, LOGIN_PIECES);
}

static void on_writable(void *owner) {
  struct link *self = owner;
  if (self->state == LOGGING_IN)
    send_login(self);
  else if (self->state == UP && self->handler->writable != NULL)
    self->handler->writable(self->owner);
}

static void on_dialed(void *owner, int fd, const char *why) {
  struct link *self = owner;
  route_name(self->route, self->server, sizeof self->server);
  if (fd < 0) {
    lost(self, why);
    return;
  }
  connection_open(&self->connection, fd);
  login_init(&self->login, self->options.url, self->name);
  login_add_probe(&self->login, &self->options.probe);
  self->state = LOGGING_IN;
  connection_expect(&self->connection, LOGIN_MS);
  send_login(self);
  if (self->handler->reached != NULL)
    self->handler->reached(self->owner);
}

static void dial(struct link *self) {
  self->state = DIALING;
  route_dial(self->route, on_dialed, self);
}

static void on_pause(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  dial(context);
}

struct link *link_new(struct event_base *base, const struct log *log,
                      const struct link_options *options, const struct link_handler *handler,
                      void *owner) {
  static const struct connection_handler connection_handler = {
      .reply = on_reply, .writable = on_writable, .lost = lost};
  struct link *self = memory_allocate(sizeof *self);
  *self = (struct link){.log = log,
                        .options = *options,
                        .handler = handler,
                        .owner = owner,
                        .route = route_new(base, options->url)};
  retry_init(&self->retry, options->patient);
  route_name(self->route, self->server, sizeof self->server);
  (void)snprintf(self->name, sizeof self->name, "%s", options->name);
  connection_init(&self->connection, base, options->largest_string, &connection_handler, self);
  self->pause = loop_timer_new(base, on_pause, self);
  return self;
}

void link_free(struct link *self) {
  link_stop(self);
  route_free(self->route);
  event_free(self->pause);
  free(self);
}

void link_prepare(struct link *self) {
  if (self->state != STOPPED)
    return;
  self->preparing = true;
  dial(self);
}

bool link_start(struct link *self) {
  self->preparing = false;
  if (self->state == STOPPED)
    dial(self);
  else if (self->state == PREPARED)
    come_up(self);
  return self->state == UP;
}

void link_stop(struct link *self) {
  self->state = STOPPED;
  self->preparing = false;
  (void)evtimer_del(self->pause);
  disconnect(self);
}

bool link_is_up(const struct link *self) {
  return self->state == UP;
}

bool link_is_gone(const struct link *self) {
  return self->state == STOPPED || (self->state != UP && self->retry.attempts > 0);
}

/* Before the login is answered the socket is not the owner's. */
size_t link_write(struct link *self, const struct iovec *pieces, int count) {
  return self->state == UP ? connection_write(&self->connection, pieces, count) : 0;
}

void link_expect(struct link *self, int milliseconds_from_now) {
  if (self->state == UP)
    connection_expect(&self->connection, milliseconds_from_now);
}

bool link_collect(struct link *self, const char *known, size_t known_length) {
  return self->state == UP && connection_collect(&self->connection, known, known_length);
}

void link_be_eager(struct link *self) {
  if (self->state == UP)
    connection_be_lazy(&self->connection, false);
}

void link_drop(struct link *self, const char *why) {
  if (self->state == UP)
    lost(self, why);
}

void link_renew(struct link *self) {
  if (self->state == UP)
    begin_anew(self);
}

bool link_overcomes(struct link *self, const char *text) {
  if (!error_reply_passes(text))
    return false;
  if (self->state == UP && !follow(self, text))
    fall(self, text, true);
  return true;
}

void link_works(struct link *self) {
  route_works(self->route);
  retry_works(&self->retry);
  if (!self->trouble.there)
    return;
  self->trouble.there = false;
  log_line(self->log, self->trouble.told ? LOG_INFO : LOG_DEBUG, NULL,
           "redis %s: connected to %s again after %.1f s", self->options.role, self->server,
           (double)(clock_monotonic_ms() - self->trouble.since_ms) / 1000);
}

bool link_reply_too_large(const struct link *self) {
  return connection_reply_too_large(&self->connection);
}
