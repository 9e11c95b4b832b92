#include "agent/doors/redis/link/dialer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/doors/redis/link/resolver.h"
#include "agent/doors/redis/link/tls.h"
#include "base/loop.h"
#include "base/memory.h"

struct dialer {
  struct event_base *base;
  const struct redis_url *url;
  transport_done *done;
  void *owner;
  struct resolver *resolver; /* NULL when none is under way */
  struct addrinfo *addresses;
  const struct addrinfo *next_address;
  struct event *connected; /* of the socket being connected, or NULL */
  struct event *timer;
  struct sockaddr_storage at; /* of a path or a numeric host */
  socklen_t at_length;        /* 0: the host is a name to be resolved */
  int fd;                     /* -1 for none */
  char why[128];              /* why the last address failed */
};

static void close_socket(struct dialer *self) {
  if (self->connected != NULL)
    event_free(self->connected);
  self->connected = NULL;
  if (self->fd >= 0)
    close(self->fd);
  self->fd = -1;
}

void dialer_cancel(struct dialer *self) {
  close_socket(self);
  if (self->resolver != NULL)
    resolver_cancel(self->resolver);
  if (self->addresses != NULL)
    freeaddrinfo(self->addresses);
  event_free(self->timer);
  free(self);
}

/* Hands over the socket, if there is one, and frees the dialer. */
static void finish(struct dialer *self) {
  struct transport *transport = NULL;
  if (self->fd >= 0 && self->url->tls != NULL)
    transport = tls_transport_new(self->url->tls, self->fd, self->url->host);
  else if (self->fd >= 0)
    transport = plain_transport_new(self->fd);
  self->fd = -1;
  self->done(self->owner, transport, transport != NULL ? NULL : self->why);
  dialer_cancel(self);
}

static void fail(struct dialer *self, const char *why) {
  close_socket(self);
  (void)snprintf(self->why, sizeof self->why, "%s", why);
  finish(self);
}

/* The kernel finds a dead peer within about 15 s, also while no reply is due. */
static void set_tcp_options(int fd) {
  static const int options[][2] = {{TCP_NODELAY, 1},
                                   {TCP_KEEPIDLE, 6},
                                   {TCP_KEEPINTVL, 3},
                                   {TCP_KEEPCNT, 3},
                                   {TCP_USER_TIMEOUT, 15000}};
  int on = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    (void)setsockopt(fd, IPPROTO_TCP, options[i][0], &options[i][1], sizeof(int));
}

static void connect_next(struct dialer *self);

static void on_connected(evutil_socket_t fd, short what, void *context) {
  (void)what;
  struct dialer *self = context;
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
    finish(self);
    return;
  }
  (void)snprintf(self->why, sizeof self->why, "%s", strerror(error != 0 ? error : errno));
  connect_next(self);
}

/* Begins to connect; returns 0 or an errno. */
static int connect_to(struct dialer *self, const struct sockaddr *address, socklen_t length) {
  close_socket(self);
  loop_timer_start(self->timer, DIALER_ADDRESS_MS);
  self->fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (self->fd < 0)
    return errno;
  if (address->sa_family != AF_UNIX)
    set_tcp_options(self->fd);
  if (connect(self->fd, address, length) != 0 && errno != EINPROGRESS)
    return errno;
  self->connected = loop_event_new(self->base, self->fd, EV_WRITE, on_connected, self);
  return 0;
}

/* A name may have several addresses; the attempt fails when the last one has failed. */
static void connect_next(struct dialer *self) {
  while (self->next_address != NULL) {
    const struct addrinfo *address = self->next_address;
    self->next_address = address->ai_next;
    int error = connect_to(self, address->ai_addr, (socklen_t)address->ai_addrlen);
    if (error == 0)
      return;
    (void)snprintf(self->why, sizeof self->why, "%s", strerror(error));
  }
  close_socket(self);
  finish(self);
}

static void on_resolved(void *owner, struct addrinfo *addresses, const char *why) {
  struct dialer *self = owner;
  self->resolver = NULL;
  self->addresses = addresses;
  self->next_address = addresses;
  (void)snprintf(self->why, sizeof self->why, "cannot resolve the name: %s",
                 why != NULL ? why : "it has no address");
  connect_next(self);
}

/* False when the path is too long for an address. */
static bool set_path(struct dialer *self, const char *path) {
  struct sockaddr_un *address = (struct sockaddr_un *)&self->at;
  size_t length = strlen(path);
  if (length >= sizeof address->sun_path)
    return false;
  address->sun_family = AF_UNIX;
  memcpy(address->sun_path, path, length + 1);
  self->at_length = sizeof *address;
  return true;
}

/* False when the host is a name. One with a scope ("fe80::1%eth0") is left to the resolver. */
static bool set_number(struct dialer *self, const char *host, unsigned port) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
  if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
    self->at_length = sizeof v4;
    memcpy(&self->at, &v4, sizeof v4);
  } else if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
    self->at_length = sizeof v6;
    memcpy(&self->at, &v6, sizeof v6);
  }
  return self->at_length > 0;
}

/* The deadline: an address that drops packets must not keep the next one from being tried. */
LOOP_CALLBACK(on_timer, struct dialer *self) {
  if (self->fd < 0 && self->resolver == NULL) {
    finish(self); /* it failed inside dialer_start, which must not call `done` */
    return;
  }
  if (self->resolver != NULL) {
    fail(self, "the name servers do not answer");
    return;
  }
  (void)snprintf(self->why, sizeof self->why, "no answer in time");
  connect_next(self);
}

static void fail_later(struct dialer *self, const char *why) {
  close_socket(self);
  (void)snprintf(self->why, sizeof self->why, "%s", why);
  loop_timer_start_now(self->timer);
}

static void connect_at_once(struct dialer *self) {
  int error = connect_to(self, (const struct sockaddr *)&self->at, self->at_length);
  if (error != 0)
    fail_later(self, strerror(error));
}

struct dialer *dialer_start(struct event_base *base, const struct redis_url *url,
                            transport_done *done, void *owner) {
  struct dialer *self = memory_allocate(sizeof *self);
  *self = (struct dialer){.base = base, .url = url, .done = done, .owner = owner, .fd = -1};
  self->timer = loop_timer_new(base, on_timer, self);
  if (url->path != NULL && !set_path(self, url->path)) {
    fail_later(self, "the path is too long for a socket");
  } else if (url->path != NULL || set_number(self, url->host, url->port)) {
    connect_at_once(self);
  } else {
    loop_timer_start(self->timer, DIALER_RESOLVE_MS);
    self->resolver = resolver_start(base, url->host, url->port, on_resolved, self);
  }
  return self;
}
