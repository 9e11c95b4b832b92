#include "agent/frontends/redis/connection/endpoint.h"

void endpoint_release(struct endpoint *self) {
  redis_address_release(&self->target);
}

const struct redis_address *endpoint_next(struct endpoint *self) {
  if (!self->is_redirected) {
    if (self->unproven || self->url->master != NULL)
      redis_address_release(&self->target);
    if (self->unproven)
      self->host = (self->host + 1) % self->url->host_count;
  }
  self->is_redirected = false;
  self->unproven = true;
  self->at = self->target;
  if (self->at.host == NULL) {
    self->at = self->url->hosts[self->host];
    self->tried = self->tried < self->url->host_count ? self->tried + 1 : 1;
  }
  return &self->at;
}

bool endpoint_is_sentinel(const struct endpoint *self) {
  return self->url->master != NULL && self->at.host != NULL && self->at.host != self->target.host;
}

void endpoint_name(const struct endpoint *self, char *out, size_t size) {
  if (self->at.host != NULL && !endpoint_is_sentinel(self))
    (void)redis_address_name(&self->at, out, size);
  else
    redis_url_name(self->url, out, size);
}

static void set_target(struct endpoint *self, struct redis_address target) {
  redis_address_release(&self->target);
  self->target = target;
  self->is_redirected = true;
}

bool endpoint_redirect(struct endpoint *self, const char *target) {
  struct redis_address address;
  const char *same_host = self->at.port > 0 ? self->at.host : NULL; /* not a path */
  if (self->url->master == NULL && self->redirects < ENDPOINT_REDIRECTS_MAX &&
      redis_address_parse_redirect(&address, target, same_host) == 0) {
    set_target(self, address);
    self->redirects++;
    return true;
  }
  self->redirects = 0;
  self->unproven = true;
  return false;
}

void endpoint_set_master(struct endpoint *self, struct redis_address master) {
  set_target(self, master);
  self->tried = 0;
}

bool endpoint_has_untried(const struct endpoint *self) {
  bool has_several = self->url->master != NULL ? endpoint_is_sentinel(self) : true;
  return has_several && self->tried < self->url->host_count && self->url->host_count > 1;
}

void endpoint_mark_healthy(struct endpoint *self) {
  self->unproven = false;
  self->tried = 0;
  self->redirects = 0;
}
