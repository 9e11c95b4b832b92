#include "agent/frontends/redis/connection/resolver.h"

#include <arpa/nameser.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
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
#include <unistd.h>

#include "base/loop.h"
#include "base/memory.h"

/* The C library keeps its packets on the stack: musl some 10 KiB, glibc up to 70 KiB. */
#define STACK_BYTES ((size_t)256 * 1024)

/* A bit of the third byte of a reply: RFC 1035, 4.1.1. */
#define TRUNCATED 2

/* The loop and the thread hold a reference each. The thread writes `addresses` and `why`, and then
   wakes the loop with `answered_fd`; only the loop uses the other members. */
struct resolver {
  atomic_int holders;
  char *host;
  char service[16];
  struct addrinfo *addresses;
  char why[256];
  int answered_fd;
  struct event *answered;
  resolver_done *done;
  void *owner;
};

static void let_go(struct resolver *self) {
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
  static const char key[] = "nameserver";
  char line[256];
  FILE *file = fopen("/etc/resolv.conf", "re");
  size_t length = 0;
  out[0] = '\0';
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, key, sizeof key - 1) != 0)
      continue;
    char *address = line + sizeof key - 1 + strspn(line + sizeof key - 1, " \t");
    address[strspn(address, "0123456789ABCDEF.:%abcdefghijklmnopqrstuvwxyz")] = '\0';
    if (address[0] == '\0')
      continue;
    int added = snprintf(out + length, size - length, "%s%s", length > 0 ? ", " : "", address);
    if (added < 0 || (size_t)added >= size - length) {
      out[length] = '\0';
      break;
    }
    length += (size_t)added;
  }
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
static void explain(struct resolver *self, int error, int error_number) {
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
static int ask(struct resolver *self, int family) {
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
  struct resolver *self = context;
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
  let_go(self);
  return NULL;
}

LOOP_CALLBACK(on_answered, struct resolver *self) {
  struct addrinfo *addresses = self->addresses;
  self->addresses = NULL;
  event_free(self->answered);
  self->done(self->owner, addresses, addresses != NULL ? NULL : self->why);
  let_go(self);
}

/* The thread gets no signals, because the agent blocks them all (startup.c). Returns 0 or an
   errno. */
static int start_thread(struct resolver *self) {
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

struct resolver *resolver_start(struct event_base *base, const char *host, unsigned port,
                                resolver_done *done, void *owner) {
  struct resolver *self = memory_allocate(sizeof *self);
  *self = (struct resolver){.done = done, .owner = owner};
  self->host = memory_copy(host, strlen(host));
  (void)snprintf(self->service, sizeof self->service, "%u", port);
  atomic_init(&self->holders, 2);
  self->answered_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int error = self->answered_fd < 0 ? errno : start_thread(self);
  if (error == 0) {
    self->answered = loop_event_new(base, self->answered_fd, EV_READ, on_answered, self);
    return self;
  }
  explain(self, EAI_SYSTEM, error);
  atomic_init(&self->holders, 1);
  self->answered = loop_timer_new(base, on_answered, self);
  loop_timer_start_now(self->answered);
  return self;
}

void resolver_cancel(struct resolver *self) {
  event_free(self->answered);
  let_go(self);
}
