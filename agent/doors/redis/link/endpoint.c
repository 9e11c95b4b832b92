#include "agent/doors/redis/link/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/link/command.h"
#include "agent/doors/redis/link/connection.h"
#include "agent/doors/redis/link/dialer.h"
#include "agent/doors/redis/link/error_reply.h"
#include "base/loop.h"
#include "base/memory.h"

/* --- sentinels ------------------------------------------------------------------------------- */

/* More than the longest address, and than the reply parser requires. */
#define LARGEST_STRING ((size_t)72 * 1024)

struct sentinel {
  struct event_base *base;
  const struct redis_url *url;
  sentinel_done *done;
  void *owner;
  size_t first;  /* the index of the one to ask first */
  size_t failed; /* how many have failed in this query */
  struct event *timer;
  struct redis_url at; /* the one that is asked; owns nothing */
  struct dialer *dialer;
  struct connection connection;
  bool is_connected; /* the transport's handshake is done */
  bool password_sent;
  bool password_accepted;
  char why[640];  /* the reason of this query, from here on */
  size_t witness; /* the index of the one whose it is */
  bool unknown;   /* that one has replied that it knows no such master */
};

static size_t current(const struct sentinel *self) {
  return (self->first + self->failed) % self->url->host_count;
}

static void disconnect(struct sentinel *self) {
  (void)evtimer_del(self->timer);
  if (self->dialer != NULL)
    dialer_cancel(self->dialer);
  self->dialer = NULL;
  connection_close(&self->connection);
}

static void ask_next(struct sentinel *self);

/* Best is that one knows no such master, then what the first of them says: queries that fail alike
   have the same reason, whichever is asked first. */
static void keep_reason(struct sentinel *self, const char *why, bool unknown) {
  char name[80];
  if (unknown == self->unknown ? current(self) > self->witness : self->unknown)
    return;
  self->unknown = unknown;
  self->witness = current(self);
  (void)redis_address_name(self->at.host, self->at.port, name, sizeof name);
  (void)snprintf(self->why, sizeof self->why, "sentinel %s: %s", name, why);
}

static void fail(struct sentinel *self, const char *why) {
  keep_reason(self, why, false); /* before it is gone with the connection */
  disconnect(self);
  self->failed++;
  if (self->failed < self->url->host_count)
    ask_next(self);
  else
    self->done(self->owner, NULL, self->why);
}

/* False when the socket does not take all of it at once, as a new one does. Before the transport's
   handshake is done it takes nothing, and on_writable() follows. */
static bool send_command(struct sentinel *self, const char *const *words, size_t count) {
  char *command = command_new(words, count);
  struct iovec piece = {.iov_base = command, .iov_len = strlen(command)};
  size_t sent = connection_write(&self->connection, &piece, 1);
  explicit_bzero(command, piece.iov_len);
  free(command);
  return sent == piece.iov_len || !self->is_connected;
}

static bool send_query(struct sentinel *self) {
  const char *const words[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", self->url->master};
  return send_command(self, words, 3);
}

static bool send_password(struct sentinel *self) {
  const char *const words[] = {"AUTH", self->url->password};
  self->password_sent = true;
  return send_command(self, words, 2) && send_query(self);
}

static void take_reply(struct sentinel *self, const redisReply *reply) {
  struct redis_address master;
  const redisReply *host = reply->elements == 2 ? reply->element[0] : NULL;
  const redisReply *port = reply->elements == 2 ? reply->element[1] : NULL;
  if (host == NULL || host->type != REDIS_REPLY_STRING || host->len == 0 ||
      port->type != REDIS_REPLY_STRING ||
      redis_address_parse_port(port->str, port->len, &master.port) != 0) {
    fail(self, "its answer is not an address");
    return;
  }
  master.host = host->str;
  self->first = current(self);
  disconnect(self);
  self->done(self->owner, &master, NULL);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct sentinel *self = owner;
  bool of_password = self->password_sent && !self->password_accepted;
  if (self->connection.is_truncated) {
    fail(self, "its answer is too large");
  } else if (reply->type == REDIS_REPLY_ERROR) {
    bool wants_password = strncmp(reply->str, "NOAUTH", 6) == 0 && !self->password_sent;
    if (!wants_password || self->url->password == NULL || !send_password(self))
      fail(self, error_reply_explain(reply->str, self->url).text);
  } else if (of_password) {
    self->password_accepted = true;
  } else if (reply->type == REDIS_REPLY_ARRAY) {
    take_reply(self, reply);
  } else {
    char why[128];
    (void)snprintf(why, sizeof why, "it knows no master '%.80s'", self->url->master);
    keep_reason(self, why, true);
    fail(self, why);
  }
}

static void on_lost(void *owner, const char *why) {
  fail(owner, why);
}

LOOP_CALLBACK(on_timer, struct sentinel *self) {
  fail(self, connection_timeout_text(&self->connection));
}

static void on_sentinel_dialed(void *owner, struct transport *transport, const char *why) {
  struct sentinel *self = owner;
  self->dialer = NULL;
  if (transport == NULL) {
    fail(self, why);
    return;
  }
  self->is_connected = transport->type->is_plain;
  connection_open(&self->connection, transport);
  self->password_sent = self->password_accepted = false;
  if (!send_query(self))
    fail(self, "the socket buffer is full");
}

/* The handshake of the transport is done: what could not be sent before it can be sent now. */
static void on_writable(void *owner) {
  struct sentinel *self = owner;
  bool was_connected = self->is_connected;
  self->is_connected = true;
  if (was_connected || !send_query(self))
    fail(self, "the socket buffer is full");
}

static void ask_next(struct sentinel *self) {
  const struct redis_address *address = &self->url->hosts[current(self)];
  self->at =
      (struct redis_url){.host = address->host, .port = address->port, .tls = self->url->tls};
  loop_timer_start(self->timer, SENTINEL_ANSWER_MS);
  self->dialer = dialer_start(self->base, &self->at, on_sentinel_dialed, self);
}

struct sentinel *sentinel_new(struct event_base *base, const struct redis_url *url) {
  static const struct connection_handler handler = {
      .reply = on_reply, .writable = on_writable, .lost = on_lost};
  struct sentinel *self = memory_allocate(sizeof *self);
  *self = (struct sentinel){.base = base, .url = url};
  connection_init(&self->connection, base, LARGEST_STRING, &handler, self);
  self->timer = loop_timer_new(base, on_timer, self);
  return self;
}

void sentinel_free(struct sentinel *self) {
  disconnect(self);
  event_free(self->timer);
  free(self);
}

void sentinel_query(struct sentinel *self, sentinel_done *done, void *owner) {
  self->done = done;
  self->owner = owner;
  self->failed = 0;
  self->witness = self->url->host_count;
  self->unknown = false;
  ask_next(self);
}

void sentinel_cancel(struct sentinel *self) {
  disconnect(self);
}

void sentinel_rotate(struct sentinel *self) {
  self->first = (self->first + 1) % self->url->host_count;
}

/* --- the endpoint ---------------------------------------------------------------------------- */

struct endpoint {
  struct event_base *base;
  const struct redis_url *url;
  transport_done *done;
  void *owner;
  struct sentinel *sentinel;   /* NULL when the url has none */
  size_t host;                 /* the index of the one of several servers that is dialed */
  size_t tried;                /* of them, in this round */
  struct redis_address target; /* a node or master; without a host: the url's own address */
  struct redis_url at;         /* what the dialer is given; owns nothing */
  struct dialer *dialer;       /* NULL when none is under way */
  bool unproven;               /* dialed, and nothing has worked since */
  unsigned redirects;          /* since something worked */
};

struct endpoint *endpoint_new(struct event_base *base, const struct redis_url *url) {
  struct endpoint *self = memory_allocate(sizeof *self);
  *self = (struct endpoint){.base = base, .url = url};
  if (url->master != NULL)
    self->sentinel = sentinel_new(base, url);
  return self;
}

void endpoint_free(struct endpoint *self) {
  endpoint_cancel(self);
  if (self->sentinel != NULL)
    sentinel_free(self->sentinel);
  redis_address_release(&self->target);
  free(self);
}

void endpoint_cancel(struct endpoint *self) {
  if (self->dialer != NULL)
    dialer_cancel(self->dialer);
  self->dialer = NULL;
  if (self->sentinel != NULL)
    sentinel_cancel(self->sentinel);
}

static void on_dialed(void *owner, struct transport *transport, const char *why) {
  struct endpoint *self = owner;
  self->dialer = NULL;
  self->done(self->owner, transport, why);
}

static void dial(struct endpoint *self) {
  const struct redis_address *to = &self->target;
  if (to->host == NULL && self->url->hosts != NULL) {
    to = &self->url->hosts[self->host];
    self->tried = self->tried < self->url->host_count ? self->tried + 1 : 1;
  }
  self->at = *self->url;
  if (to->host != NULL)
    self->at = (struct redis_url){.host = to->host, .port = to->port, .tls = self->url->tls};
  self->dialer = dialer_start(self->base, &self->at, on_dialed, self);
}

static void on_master(void *owner, const struct redis_address *master, const char *why) {
  struct endpoint *self = owner;
  if (master == NULL) {
    self->done(self->owner, NULL, why);
    return;
  }
  self->target = (struct redis_address){.host = memory_copy(master->host, strlen(master->host)),
                                        .port = master->port};
  dial(self);
}

void endpoint_dial(struct endpoint *self, transport_done *done, void *owner) {
  self->done = done;
  self->owner = owner;
  self->at = (struct redis_url){0};
  if (self->unproven || self->sentinel != NULL)
    redis_address_release(&self->target);
  if (self->unproven && self->sentinel != NULL)
    sentinel_rotate(self->sentinel);
  else if (self->unproven && self->url->hosts != NULL)
    self->host = (self->host + 1) % self->url->host_count;
  self->unproven = true;
  if (self->sentinel != NULL)
    sentinel_query(self->sentinel, on_master, self);
  else
    dial(self);
}

void endpoint_name(const struct endpoint *self, char *out, size_t size) {
  if (self->at.host != NULL)
    (void)redis_address_name(self->at.host, self->at.port, out, size);
  else
    redis_url_name(self->url, out, size);
}

bool endpoint_redirect(struct endpoint *self, const char *target) {
  struct redis_address address;
  if (self->sentinel == NULL && self->redirects < ENDPOINT_REDIRECTS_MAX &&
      redis_address_parse_redirect(&address, target, self->at.host) == 0) {
    redis_address_release(&self->target);
    self->target = address;
    self->unproven = false;
    self->redirects++;
    return true;
  }
  self->redirects = 0;
  self->unproven = true;
  return false;
}

bool endpoint_has_untried(const struct endpoint *self) {
  return self->sentinel == NULL && self->url->hosts != NULL && self->tried < self->url->host_count;
}

void endpoint_mark_healthy(struct endpoint *self) {
  self->unproven = false;
  self->tried = 0;
  self->redirects = 0;
}
