#include "agent/frontends/redis/connection/dialer.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/frontends/redis/connection/resolver.h"
#include "agent/frontends/redis/connection/tls.h"
#include "base/loop.h"
#include "base/memory.h"

struct dialer {
  struct event_base *base;
  const struct redis_address *to;
  struct tls *tls;
  transport_done *done;
  void *owner;
  struct resolver *resolver;  /* NULL while no name is looked up */
  struct addrinfo *addresses; /* of a host */
  struct sockaddr_un path;    /* of a Unix socket */
  struct addrinfo at_path;
  const struct addrinfo *next_address;
  struct event *connected; /* of the socket being connected, or NULL */
  struct event *timer;
  int fd;        /* or -1 */
  char why[128]; /* why the last address failed */
  int code;      /* of that reason */
};

static void fail_by_errno(struct dialer *self, int error) {
  (void)snprintf(self->why, sizeof self->why, "%s", strerror(error));
  self->code = error;
}

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

/* Reports the socket, or the reason why there is none, and frees the dialer. */
static void finish(struct dialer *self) {
  struct transport *transport = NULL;
  if (self->fd >= 0)
    transport = self->tls != NULL ? tls_transport_new(self->tls, self->fd, self->to->host)
                                  : plain_transport_new(self->fd);
  self->fd = -1;
  const struct connection_error why = {self->why, self->code}, none = {NULL, 0};
  self->done(self->owner, transport, transport != NULL ? none : why);
  dialer_cancel(self);
}

/* Makes the kernel detect a dead peer within about 15 s, even if no reply is due. */
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

LOOP_CALLBACK(on_connected, struct dialer *self) {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
    finish(self);
    return;
  }
  fail_by_errno(self, error != 0 ? error : errno);
  connect_next(self);
}

/* Begins to connect. Returns 0 or an errno. */
static int connect_to(struct dialer *self, const struct addrinfo *address) {
  close_socket(self);
  loop_timer_start(self->timer, DIALER_ADDRESS_MS);
  self->fd = socket(address->ai_addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (self->fd < 0)
    return errno;
  if (address->ai_addr->sa_family != AF_UNIX)
    set_tcp_options(self->fd);
  if (connect(self->fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS)
    return errno;
  self->connected = loop_event_new(self->base, self->fd, EV_WRITE, on_connected, self);
  return 0;
}

/* Tries the remaining addresses. After the last one the timer reports the failure. */
static void connect_next(struct dialer *self) {
  for (const struct addrinfo *address; (address = self->next_address) != NULL;) {
    self->next_address = address->ai_next;
    int error = connect_to(self, address);
    if (error == 0)
      return;
    fail_by_errno(self, error);
  }
  close_socket(self);
  loop_timer_start_now(self->timer);
}

static void on_resolved(void *owner, struct addrinfo *addresses, const char *why) {
  struct dialer *self = owner;
  self->resolver = NULL;
  self->addresses = addresses;
  self->next_address = addresses;
  (void)snprintf(self->why, sizeof self->why, "cannot resolve the name: %s",
                 why != NULL ? why : "it has no address");
  self->code = CONNECTION_ERROR_UNRESOLVED;
  connect_next(self);
}

/* A deadline is over: an address that drops packets must not delay the next one forever. */
LOOP_CALLBACK(on_timer, struct dialer *self) {
  if (self->resolver != NULL) {
    (void)snprintf(self->why, sizeof self->why, "the name servers do not answer");
    self->code = CONNECTION_ERROR_UNRESOLVED;
  } else if (self->fd >= 0) {
    (void)snprintf(self->why, sizeof self->why, "no answer in time");
    self->code = ETIMEDOUT;
    connect_next(self);
    return;
  }
  finish(self);
}

static void set_path(struct dialer *self) {
  size_t length = strlen(self->to->host);
  self->path.sun_family = AF_UNIX;
  self->at_path =
      (struct addrinfo){.ai_addr = (struct sockaddr *)&self->path, .ai_addrlen = sizeof self->path};
  if (length < sizeof self->path.sun_path) {
    memcpy(self->path.sun_path, self->to->host, length);
    self->next_address = &self->at_path;
  } else {
    (void)snprintf(self->why, sizeof self->why, "the path is too long for a socket");
    self->code = ENAMETOOLONG;
  }
}

/* Returns false if the host is a name, which a thread has to look up. */
static bool set_number(struct dialer *self) {
  const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                 .ai_socktype = SOCK_STREAM,
                                 .ai_protocol = IPPROTO_TCP};
  char port[16];
  (void)snprintf(port, sizeof port, "%u", self->to->port);
  if (getaddrinfo(self->to->host, port, &hints, &self->addresses) != 0)
    self->addresses = NULL;
  self->next_address = self->addresses;
  return self->addresses != NULL;
}

struct dialer *dialer_start(struct event_base *base, const struct redis_address *to,
                            struct tls *tls, transport_done *done, void *owner) {
  struct dialer *self = memory_allocate(sizeof *self);
  *self =
      (struct dialer){.base = base, .to = to, .tls = tls, .done = done, .owner = owner, .fd = -1};
  self->timer = loop_timer_new(base, on_timer, self);
  if (to->port == 0)
    set_path(self);
  if (to->port == 0 || set_number(self)) {
    connect_next(self);
  } else {
    loop_timer_start(self->timer, DIALER_RESOLVE_MS);
    self->resolver = resolver_start(base, to->host, to->port, on_resolved, self);
  }
  return self;
}
