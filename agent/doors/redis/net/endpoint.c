#include "agent/doors/redis/net/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/net/dialer.h"
#include "agent/doors/redis/net/sentinel.h"
#include "base/memory.h"

struct endpoint {
  struct event_base *base;
  const struct redis_url *url;
  void (*done)(void *owner, struct transport *transport, const char *why);
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

static void begin_host(struct endpoint *self) {
  const struct redis_address *host = &self->url->hosts[self->host];
  self->at = (struct redis_url){.host = host->host, .port = host->port, .tls = self->url->tls};
  self->tried = self->tried < self->url->host_count ? self->tried + 1 : 1;
}

static void dial(struct endpoint *self) {
  if (self->target.host != NULL)
    self->at = (struct redis_url){
        .host = self->target.host, .port = self->target.port, .tls = self->url->tls};
  else if (self->url->hosts != NULL)
    begin_host(self);
  else
    self->at = *self->url;
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

void endpoint_dial(struct endpoint *self,
                   void (*done)(void *owner, struct transport *transport, const char *why),
                   void *owner) {
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
