/*
 * The addresses of a host name come from the C library: from /etc/hosts, then from the name servers
 * and search domains of /etc/resolv.conf. getaddrinfo(3) blocks, so it runs in a thread of its own.
 * There is no way to stop it: if the dialer does not wait for it anymore, the thread ends, and
 * frees its memory, when the C library returns. Nothing is cached, because the files of a container
 * may change.
 */
#include "agent/frontends/redis/connection/dialer.h"

#include <arpa/nameser.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <resolv.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/frontends/redis/connection/tls.h"
#include "base/loop.h"
#include "base/memory.h"

/* The C library keeps its packets on the stack: musl some 10 KiB, glibc up to 70 KiB. */
#define STACK_BYTES ((size_t)256 * 1024)

/* A bit of the third byte of a reply: RFC 1035, 4.1.1. */
#define TRUNCATED 2

/* The loop and the thread hold a reference each. The thread writes `addresses` and `why`, and then
   wakes the loop with `answered_fd`. */
struct lookup {
  atomic_int holders;
  char *host;
  char service[16];
  struct addrinfo *addresses;
  char why[256];
  int answered_fd;
};

/* --- the look-up, in a thread ----------------------------------------------------------------- */

static void release_lookup(struct lookup *self) {
  if (atomic_fetch_sub(&self->holders, 1) > 1)
    return;
  if (self->addresses != NULL)
    freeaddrinfo(self->addresses);
  if (self->answered_fd >= 0)
    close(self->answered_fd);
  free(self->host);
  free(self);
}

/* Writes the addresses in /etc/resolv.conf, separated by commas, as far as `size` allows. */
static void list_name_servers(char *out, size_t size) {
  char *line = NULL, *rest;
  size_t line_size = 0, length = 0;
  FILE *file = fopen("/etc/resolv.conf", "re");
  out[0] = '\0';
  while (file != NULL && getline(&line, &line_size, file) >= 0) {
    const char *key = strtok_r(line, " \t\n", &rest), *address = strtok_r(NULL, " \t\n", &rest);
    if (address == NULL || strcmp(key, "nameserver") != 0 ||
        length + strlen(address) + sizeof ", " > size)
      continue;
    length += (size_t)sprintf(out + length, "%s%s", length > 0 ? ", " : "", address);
  }
  free(line);
  if (file != NULL)
    (void)fclose(file);
}

/* Removes the dot at the end of a name that /etc/hosts has without it, in the file's spelling. */
static void strip_dot_if_in_hosts(char *name) {
  size_t length = strlen(name) - 1;
  char *line = NULL, *rest;
  size_t size = 0;
  bool found = false;
  FILE *file = fopen("/etc/hosts", "re");
  while (file != NULL && !found && getline(&line, &size, file) >= 0) {
    line[strcspn(line, "#\n")] = '\0';
    (void)strtok_r(line, " \t", &rest); /* the address */
    for (const char *word; !found && (word = strtok_r(NULL, " \t", &rest)) != NULL;) {
      found = strlen(word) == length && strncasecmp(word, name, length) == 0;
      if (found)
        memcpy(name, word, length + 1);
    }
  }
  free(line);
  if (file != NULL)
    (void)fclose(file);
}

/* musl asks over UDP only, so it finds no address if none fits into the reply. res_query leaves the
   reply in the buffer even if it fails because there is no record. */
static bool is_cut_short(const char *host) {
  unsigned char reply[512] = {0};
  (void)res_query(host, ns_c_in, ns_t_a, reply, sizeof reply);
  return (reply[2] & TRUNCATED) != 0;
}

/* Writes a reason that tells a person what to repair. */
static void explain(struct lookup *self, int error, int error_number) {
  static const char silent[] = "no answer from a name server of /etc/resolv.conf: ";
  if (error == EAI_AGAIN) {
    memcpy(self->why, silent, sizeof silent);
    list_name_servers(self->why + sizeof silent - 1, sizeof self->why - sizeof silent + 1);
  } else if (error == EAI_NONAME && is_cut_short(self->host)) {
    (void)snprintf(self->why, sizeof self->why,
                   "the answer does not fit into a packet of 512 bytes");
  } else if (error == EAI_SYSTEM) {
    (void)snprintf(self->why, sizeof self->why, "%s", strerror(error_number));
  } else {
    (void)snprintf(self->why, sizeof self->why, "%s", gai_strerror(error));
  }
}

/* "localhost" is the loopback (RFC 6761), even without /etc/hosts. For no host at all, getaddrinfo
   gives the addresses of the loopback. */
static int ask(struct lookup *self, int family) {
  struct addrinfo hints = {
      .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP};
  bool is_local =
      strcasecmp(self->host, "localhost") == 0 || strcasecmp(self->host, "localhost.") == 0;
  return getaddrinfo(is_local ? NULL : self->host, self->service, &hints, &self->addresses);
}

/* musl compares the names of /etc/hosts case-sensitively. Returns true if the text has changed. */
static bool make_lower_case(char *text) {
  bool changed = false;
  for (; *text != '\0'; text++) {
    changed |= isupper((unsigned char)*text) != 0;
    *text = (char)tolower((unsigned char)*text);
  }
  return changed;
}

/* The thread. A name with a dot at its end gets no search domain, but the C libraries do not find
   it in /etc/hosts. Some name servers do not answer queries for IPv6 addresses, so a failure is
   followed by a query for IPv4 alone. */
static void *look_up(void *context) {
  struct lookup *self = context;
  size_t length = strlen(self->host);
  if (length > 1 && self->host[length - 1] == '.')
    strip_dot_if_in_hosts(self->host);
  int error = ask(self, AF_UNSPEC);
  if (error == EAI_NONAME && make_lower_case(self->host))
    error = ask(self, AF_UNSPEC);
  if (error == EAI_AGAIN)
    error = ask(self, AF_INET);
  if (error != 0) {
    self->addresses = NULL;
    explain(self, error, errno);
  }
  (void)eventfd_write(self->answered_fd, 1); /* cannot fail at 0 */
  release_lookup(self);
  return NULL;
}

/* The thread gets no signals, because the agent blocks them all (startup.c). Returns 0 or an
   errno. */
static int start_thread(struct lookup *self) {
  pthread_attr_t attributes;
  pthread_t thread;
  int error = pthread_attr_init(&attributes);
  if (error != 0)
    return error;
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
  error = pthread_create(&thread, &attributes, look_up, self);
  (void)pthread_attr_destroy(&attributes);
  return error;
}

/* --- the dialer ------------------------------------------------------------------------------- */

struct dialer {
  struct event_base *base;
  const struct redis_address *to;
  struct tls *tls;
  transport_done *done;
  void *owner;
  struct lookup *lookup;      /* NULL while no name is looked up */
  struct event *answered;     /* of the look-up, or NULL */
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

static void end_lookup(struct dialer *self) {
  if (self->lookup == NULL)
    return;
  if (self->answered != NULL)
    event_free(self->answered);
  self->answered = NULL;
  release_lookup(self->lookup);
  self->lookup = NULL;
}

void dialer_cancel(struct dialer *self) {
  close_socket(self);
  end_lookup(self);
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

static void use_lookup(struct dialer *self) {
  struct lookup *lookup = self->lookup;
  self->addresses = lookup->addresses;
  self->next_address = self->addresses;
  lookup->addresses = NULL;
  (void)snprintf(self->why, sizeof self->why, "cannot resolve the name: %.100s", lookup->why);
  self->code = CONNECTION_ERROR_UNRESOLVED;
  end_lookup(self);
  connect_next(self);
}

LOOP_CALLBACK(on_answered, struct dialer *self) {
  use_lookup(self);
}

static void look_up_name(struct dialer *self) {
  struct lookup *lookup = self->lookup = memory_allocate(sizeof *lookup);
  *lookup = (struct lookup){.host = memory_copy(self->to->host, strlen(self->to->host)),
                            .answered_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  (void)snprintf(lookup->service, sizeof lookup->service, "%u", self->to->port);
  atomic_init(&lookup->holders, 2);
  loop_timer_start(self->timer, DIALER_RESOLVE_MS);
  int error = lookup->answered_fd < 0 ? errno : start_thread(lookup);
  if (error == 0) {
    self->answered = loop_event_new(self->base, lookup->answered_fd, EV_READ, on_answered, self);
    return;
  }
  explain(lookup, EAI_SYSTEM, error);
  atomic_init(&lookup->holders, 1);
  use_lookup(self);
}

/* A deadline is over: an address that drops packets must not delay the next one forever. */
LOOP_CALLBACK(on_timer, struct dialer *self) {
  if (self->lookup != NULL) {
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
  if (to->port == 0 || set_number(self))
    connect_next(self);
  else
    look_up_name(self);
  return self;
}
