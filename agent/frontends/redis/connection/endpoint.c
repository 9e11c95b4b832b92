#include "agent/frontends/redis/connection/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/dialer.h"
#include "agent/frontends/redis/connection/error_reply.h"
#include "agent/frontends/redis/connection/redis_socket.h"
#include "base/loop.h"
#include "base/memory.h"

/* The longest string of a sentinel's reply: more than an address, and than the parser requires. */
#define LARGEST_STRING ((size_t)72 * 1024)

struct endpoint {
  struct event_base *base;
  const struct redis_url *url;
  transport_done *done;
  void *owner;
  size_t host;                 /* the index of the server, or sentinel, whose turn it is */
  size_t tried;                /* how many of several servers, in this round */
  struct redis_address target; /* a node or master; without a host, the URL's own address */
  struct redis_address at;     /* the address of the last dial; borrowed */
  struct dialer *dialer;       /* NULL unless one is at work */
  bool unproven;               /* nothing has worked since the last dial */
  unsigned redirects;          /* since something worked */
  /* The sentinel that is asked: */
  struct event *timer;
  struct redis_socket sentinel;
  enum { WITHOUT_PASSWORD, PASSWORD_SENT, PASSWORD_ACCEPTED } login;
  /* The sentinels that have failed in this dial: */
  size_t failed;  /* their number */
  char why[640];  /* the reason that is reported */
  int code;       /* of the reason */
  size_t witness; /* the index of the sentinel that gave the reason */
  bool unknown;   /* the reason is that it does not know the master */
};

void endpoint_cancel(struct endpoint *self) {
  (void)evtimer_del(self->timer);
  if (self->dialer != NULL)
    dialer_cancel(self->dialer);
  self->dialer = NULL;
  redis_socket_close(&self->sentinel);
}

static void on_dialed(void *owner, struct transport *transport, struct connection_error why) {
  struct endpoint *self = owner;
  self->dialer = NULL;
  self->done(self->owner, transport, why);
}

static void dial(struct endpoint *self) {
  self->at = self->target;
  if (self->at.host == NULL) {
    self->at = self->url->hosts[self->host];
    self->tried = self->tried < self->url->host_count ? self->tried + 1 : 1;
  }
  self->dialer = dialer_start(self->base, &self->at, self->url->tls, on_dialed, self);
}

static void ask_sentinel(struct endpoint *self);

/* Keeps the most useful reason: that a sentinel does not know the master, else that of the first
   sentinel. So the reason does not depend on which one is asked first. */
static void keep_reason(struct endpoint *self, struct connection_error why, bool unknown) {
  char name[80];
  if (unknown == self->unknown ? self->host > self->witness : self->unknown)
    return;
  self->unknown = unknown;
  self->witness = self->host;
  (void)redis_address_name(&self->url->hosts[self->host], name, sizeof name);
  (void)snprintf(self->why, sizeof self->why, "sentinel %s: %s", name, why.text);
  self->code = why.code;
}

static void fail(void *owner, struct connection_error why) {
  struct endpoint *self = owner;
  keep_reason(self, why, false); /* closing the socket frees it */
  endpoint_cancel(self);
  self->host = (self->host + 1) % self->url->host_count;
  if (++self->failed < self->url->host_count)
    ask_sentinel(self);
  else
    self->done(self->owner, NULL, (struct connection_error){self->why, self->code});
}

static void fail_because(struct endpoint *self, const char *text, int code) {
  fail(self, (struct connection_error){text, code});
}

/* Returns false if the socket does not take the command at once, as a new one does. During the TLS
   handshake it takes nothing, and on_writable() follows. */
static bool send_command(struct endpoint *self, const char *const *words, size_t count) {
  char *command = command_new(words, count);
  struct iovec piece = {.iov_base = command, .iov_len = strlen(command)};
  size_t sent = redis_socket_write(&self->sentinel, &piece, 1);
  explicit_bzero(command, piece.iov_len);
  free(command);
  return sent == piece.iov_len || self->sentinel.state == SOCKET_HANDSHAKING;
}

static bool send_query(struct endpoint *self) {
  const char *const words[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", self->url->master};
  return send_command(self, words, 3);
}

static bool send_password(struct endpoint *self) {
  const char *const words[] = {"AUTH", self->url->password};
  self->login = PASSWORD_SENT;
  return send_command(self, words, 2) && send_query(self);
}

static void use_master(struct endpoint *self, const struct reply *reply) {
  unsigned number;
  const struct reply *host = reply->elements == 2 ? reply->element[0] : NULL;
  const struct reply *port = reply->elements == 2 ? reply->element[1] : NULL;
  if (host == NULL || host->type != REPLY_STRING || host->len == 0 || port->type != REPLY_STRING ||
      redis_address_parse_port(port->str, port->len, &number) != 0) {
    fail_because(self, "its answer is not an address", CONNECTION_ERROR_NOT_REDIS);
    return;
  }
  self->target =
      (struct redis_address){.host = memory_copy(host->str, strlen(host->str)), .port = number};
  endpoint_cancel(self);
  dial(self);
}

static void on_reply(void *owner, const struct reply *reply) {
  struct endpoint *self = owner;
  if (self->sentinel.is_truncated) {
    fail_because(self, "its answer is too large", CONNECTION_ERROR_NOT_REDIS);
  } else if (reply->type == REPLY_ERROR) {
    bool wants_password = strncmp(reply->str, "NOAUTH", 6) == 0 && self->login == WITHOUT_PASSWORD;
    if (!wants_password || self->url->password == NULL || !send_password(self))
      fail_because(self, error_reply_explain(reply->str, self->url).text,
                   error_reply_code(reply->str));
  } else if (self->login == PASSWORD_SENT) {
    self->login = PASSWORD_ACCEPTED;
  } else if (reply->type == REPLY_ARRAY) {
    use_master(self, reply);
  } else {
    char text[128];
    const struct connection_error why = {text, CONNECTION_ERROR_NO_MASTER};
    (void)snprintf(text, sizeof text, "it knows no master '%.80s'", self->url->master);
    keep_reason(self, why, true);
    fail(self, why);
  }
}

LOOP_CALLBACK(on_timer, struct endpoint *self) {
  fail(self, redis_socket_timeout(&self->sentinel));
}

static void on_sentinel_dialed(void *owner, struct transport *transport,
                               struct connection_error why) {
  struct endpoint *self = owner;
  self->dialer = NULL;
  if (transport == NULL) {
    fail(self, why);
    return;
  }
  redis_socket_open(&self->sentinel, transport);
  self->login = WITHOUT_PASSWORD;
  if (!send_query(self))
    fail_because(self, "the socket buffer is full", 0);
}

/* The TLS handshake is done. */
static void on_writable(void *owner) {
  struct endpoint *self = owner;
  if (!send_query(self))
    fail_because(self, "the socket buffer is full", 0);
}

static void ask_sentinel(struct endpoint *self) {
  loop_timer_start(self->timer, ENDPOINT_SENTINEL_MS);
  self->dialer = dialer_start(self->base, &self->url->hosts[self->host], self->url->tls,
                              on_sentinel_dialed, self);
}

static size_t largest_string(void) {
  return LARGEST_STRING;
}

struct endpoint *endpoint_new(struct event_base *base, const struct redis_url *url) {
  static const struct redis_socket_handler handler = {
      .reply = on_reply, .writable = on_writable, .lost = fail};
  struct endpoint *self = memory_allocate(sizeof *self);
  *self = (struct endpoint){.base = base, .url = url};
  redis_socket_init(&self->sentinel, base, largest_string, &handler, self);
  self->timer = loop_timer_new(base, on_timer, self);
  return self;
}

void endpoint_free(struct endpoint *self) {
  endpoint_cancel(self);
  event_free(self->timer);
  redis_address_release(&self->target);
  free(self);
}

void endpoint_dial(struct endpoint *self, transport_done *done, void *owner) {
  self->done = done;
  self->owner = owner;
  self->at = (struct redis_address){0};
  if (self->unproven || self->url->master != NULL)
    redis_address_release(&self->target);
  if (self->unproven)
    self->host = (self->host + 1) % self->url->host_count;
  self->unproven = true;
  if (self->url->master == NULL) {
    dial(self);
    return;
  }
  self->failed = 0;
  self->witness = self->url->host_count;
  self->unknown = false;
  ask_sentinel(self);
}

void endpoint_name(const struct endpoint *self, char *out, size_t size) {
  if (self->at.host != NULL)
    (void)redis_address_name(&self->at, out, size);
  else
    redis_url_name(self->url, out, size);
}

bool endpoint_redirect(struct endpoint *self, const char *target) {
  struct redis_address address;
  const char *same_host = self->at.port > 0 ? self->at.host : NULL; /* not a path */
  if (self->url->master == NULL && self->redirects < ENDPOINT_REDIRECTS_MAX &&
      redis_address_parse_redirect(&address, target, same_host) == 0) {
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
  return self->url->master == NULL && self->url->host_count > 1 &&
         self->tried < self->url->host_count;
}

void endpoint_mark_healthy(struct endpoint *self) {
  self->unproven = false;
  self->tried = 0;
  self->redirects = 0;
}
