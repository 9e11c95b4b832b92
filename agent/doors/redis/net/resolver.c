#include "agent/doors/redis/net/resolver.h"

#include <event2/dns.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/loop.h"
#include "base/memory.h"

struct resolver {
  struct event_base *base;
  struct evdns_base *dns;
  struct evdns_getaddrinfo_request *request; /* NULL when it has ended */
  struct event *finish; /* reports and frees, outside of any callback of evdns */
  struct evutil_addrinfo *addresses;
  int error;
  void (*done)(void *owner, struct evutil_addrinfo *addresses, const char *why);
  void *owner; /* NULL: cancelled */
};

static void on_finish(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  struct resolver *self = context;
  evdns_base_free(self->dns, 0);
  event_free(self->finish);
  if (self->owner != NULL)
    self->done(self->owner, self->addresses,
               self->error == 0 ? NULL : evutil_gai_strerror(self->error));
  else if (self->addresses != NULL)
    evutil_freeaddrinfo(self->addresses);
  free(self);
}

/* May be called from inside evdns_getaddrinfo. */
static void on_answer(int error, struct evutil_addrinfo *addresses, void *context) {
  struct resolver *self = context;
  self->request = NULL;
  self->error = error;
  self->addresses = addresses;
  loop_timer_start_now(self->finish);
}

struct resolver *resolver_start(struct event_base *base, const char *host, unsigned port,
                                void (*done)(void *owner, struct evutil_addrinfo *addresses,
                                             const char *why),
                                void *owner) {
  struct resolver *self = memory_allocate(sizeof *self);
  *self = (struct resolver){.base = base, .done = done, .owner = owner};
  self->finish = loop_timer_new(base, on_finish, self);
  self->dns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
  if (self->dns == NULL)
    memory_exhausted("a resolver");
  /* Without the file (a scratch image) the defaults apply. Some servers refuse the mixed-case
     queries with which evdns defends against forged replies. */
  (void)evdns_base_resolv_conf_parse(self->dns, DNS_OPTIONS_ALL, "/etc/resolv.conf");
  (void)evdns_base_set_option(self->dns, "randomize-case:", "0");
  (void)evdns_base_set_option(self->dns, "timeout:", "2");
  char service[16];
  (void)snprintf(service, sizeof service, "%u", port);
  struct evutil_addrinfo hints = {
      .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP};
  /* NULL when on_answer was called at once: an address, or a name in /etc/hosts. */
  self->request = evdns_getaddrinfo(self->dns, host, service, &hints, on_answer, self);
  return self;
}

void resolver_cancel(struct resolver *self) {
  self->owner = NULL;
  if (self->request != NULL)
    evdns_getaddrinfo_cancel(self->request);
}
