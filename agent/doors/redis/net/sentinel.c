#include "agent/doors/redis/net/sentinel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/net/connection.h"
#include "agent/doors/redis/net/dialer.h"
#include "base/loop.h"
#include "base/memory.h"

/* No address is longer. */
#define LARGEST_STRING ((size_t)72 * 1024)

struct sentinel {
  struct event_base *base;
  const struct redis_url *url;
  void (*done)(void *owner, const struct redis_address *master, const char *why);
  void *owner;
  size_t first;  /* the one that is asked first */
  size_t failed; /* so many in this round */
  struct event *timer;
  struct redis_url at; /* the one being asked; its host is the url's */
  struct dialer *dialer;
  struct connection connection;
  bool password_sent;
  bool password_taken; /* its answer came */
  bool answered;       /* one of this round has said that it knows no such master */
  char why[224];
};

static size_t current(const struct sentinel *self) {
  return (self->first + self->failed) % self->url->sentinel_count;
}

static void hang_up(struct sentinel *self) {
  (void)evtimer_del(self->timer);
  if (self->dialer != NULL)
    dialer_cancel(self->dialer);
  self->dialer = NULL;
  connection_close(&self->connection);
}

static void ask_next(struct sentinel *self);

static void tell(struct sentinel *self, const char *why) {
  char name[80];
  (void)redis_address_name(self->at.host, self->at.port, name, sizeof name);
  (void)snprintf(self->why, sizeof self->why, "sentinel %s: %s", name, why);
}

static void refused(struct sentinel *self, const char *why) {
  hang_up(self);
  if (!self->answered)
    tell(self, why);
  self->failed++;
  if (self->failed < self->url->sentinel_count)
    ask_next(self);
  else
    self->done(self->owner, NULL, self->why);
}

static void refused_by_error(struct sentinel *self, const char *text) {
  char why[120];
  const char *arguments = strstr(text, ", with args"); /* the password may be one */
  int length = arguments != NULL ? (int)(arguments - text) : (int)strlen(text);
  (void)snprintf(why, sizeof why, "%.*s", length, text);
  refused(self, why);
}

static void found(struct sentinel *self, const struct redis_address *master) {
  self->first = current(self);
  hang_up(self);
  self->done(self->owner, master, NULL);
}

/* False when the socket does not take it at once, which a new one does. */
static bool send_command(struct sentinel *self, const char *const *words, size_t count) {
  char *command = command_new(words, count);
  struct iovec piece = {.iov_base = command, .iov_len = strlen(command)};
  size_t sent = connection_write(&self->connection, &piece, 1);
  explicit_bzero(command, piece.iov_len);
  free(command);
  return sent == piece.iov_len;
}

static bool send_question(struct sentinel *self) {
  const char *const words[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", self->url->master};
  return send_command(self, words, 3);
}

static bool send_password(struct sentinel *self) {
  const char *const words[] = {"AUTH", self->url->password};
  self->password_sent = true;
  return send_command(self, words, 2) && send_question(self);
}

static void take_address(struct sentinel *self, const redisReply *reply) {
  struct redis_address master;
  const redisReply *host = reply->elements == 2 ? reply->element[0] : NULL;
  const redisReply *port = reply->elements == 2 ? reply->element[1] : NULL;
  if (host == NULL || host->type != REDIS_REPLY_STRING || host->len == 0 ||
      port->type != REDIS_REPLY_STRING ||
      redis_address_parse_port(port->str, port->len, &master.port) != 0) {
    refused(self, "its answer is not an address");
    return;
  }
  master.host = host->str;
  found(self, &master);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct sentinel *self = owner;
  bool of_password = self->password_sent && !self->password_taken;
  if (connection_reply_too_large(&self->connection)) {
    refused(self, "its answer is too large");
  } else if (reply->type == REDIS_REPLY_ERROR) {
    bool wants_password = strncmp(reply->str, "NOAUTH", 6) == 0 && !self->password_sent;
    if (!wants_password || self->url->password == NULL || !send_password(self))
      refused_by_error(self, reply->str);
  } else if (of_password) {
    self->password_taken = true;
  } else if (reply->type == REDIS_REPLY_ARRAY) {
    take_address(self, reply);
  } else {
    /* More to the point than what the other ones may say. */
    char why[128];
    (void)snprintf(why, sizeof why, "it knows no master '%.80s'", self->url->master);
    tell(self, why);
    self->answered = true;
    refused(self, why);
  }
}

static void on_lost(void *owner, const char *why) {
  refused(owner, why);
}

static void on_timer(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  refused(context, "no answer in time");
}

static void on_dialed(void *owner, int fd, const char *why) {
  struct sentinel *self = owner;
  self->dialer = NULL;
  if (fd < 0) {
    refused(self, why);
    return;
  }
  connection_open(&self->connection, fd);
  self->password_sent = self->password_taken = false;
  if (!send_question(self))
    refused(self, "the socket takes no more");
}

static void ask_next(struct sentinel *self) {
  const struct redis_address *address = &self->url->sentinels[current(self)];
  self->at = (struct redis_url){.host = address->host, .port = address->port};
  loop_timer_start(self->timer, SENTINEL_ANSWER_MS);
  self->dialer = dialer_start(self->base, &self->at, on_dialed, self);
}

struct sentinel *sentinel_new(struct event_base *base, const struct redis_url *url) {
  static const struct connection_handler handler = {.reply = on_reply, .lost = on_lost};
  struct sentinel *self = memory_allocate(sizeof *self);
  *self = (struct sentinel){.base = base, .url = url};
  connection_init(&self->connection, base, LARGEST_STRING, &handler, self);
  self->timer = loop_timer_new(base, on_timer, self);
  return self;
}

void sentinel_free(struct sentinel *self) {
  hang_up(self);
  event_free(self->timer);
  free(self);
}

void sentinel_ask(struct sentinel *self,
                  void (*done)(void *owner, const struct redis_address *master, const char *why),
                  void *owner) {
  self->done = done;
  self->owner = owner;
  self->failed = 0;
  self->answered = false;
  ask_next(self);
}

void sentinel_cancel(struct sentinel *self) {
  hang_up(self);
}

void sentinel_doubt(struct sentinel *self) {
  self->first = (self->first + 1) % self->url->sentinel_count;
}
