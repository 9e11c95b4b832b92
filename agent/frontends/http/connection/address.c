#include "agent/frontends/http/connection/address.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define UNIX_PREFIX "unix:"

static int parse_file(struct http_address *self, const char *path, struct error *error) {
  struct sockaddr_un *file = &self->sockets[0].file;
  if (path[0] != '/')
    return error_set(error, "expected an absolute path after unix:, got '%.99s'", path);
  if (strlen(path) >= sizeof file->sun_path)
    return error_set(error, "the path of a socket has at most %zu bytes, got '%.99s'",
                     sizeof file->sun_path - 1, path);
  file->sun_family = AF_UNIX;
  memcpy(file->sun_path, path, strlen(path));
  self->count = 1;
  return 0;
}

static int parse_port(const char *text, in_port_t *port, struct error *error) {
  size_t digits = strspn(text, "0123456789");
  unsigned long number = digits <= 5 ? strtoul(text, NULL, 10) : 0;
  if (text[digits] != '\0' || number < 1 || number > 65535)
    return error_set(error, "expected a port from 1 to 65535, got '%.40s'", text);
  *port = htons((in_port_t)number);
  return 0;
}

static void add_ipv4(struct http_address *self, struct in_addr address, in_port_t port) {
  self->sockets[self->count++].ipv4 =
      (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port, .sin_addr = address};
}

/* A mapped address is one of IPv4. */
static void add_ipv6(struct http_address *self, struct in6_addr address, in_port_t port) {
  struct in_addr ipv4;
  memcpy(&ipv4, &address.s6_addr[12], sizeof ipv4);
  if (IN6_IS_ADDR_V4MAPPED(&address))
    add_ipv4(self, ipv4, port);
  else
    self->sockets[self->count++].ipv6 =
        (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = address};
}

/* `host` is the text before the last colon. */
static int parse_host(struct http_address *self, const char *host, in_port_t port,
                      struct error *error) {
  struct in_addr ipv4;
  struct in6_addr ipv6;
  char inner[INET6_ADDRSTRLEN] = "";
  size_t length = strlen(host);
  if (length > 2 && length < sizeof inner + 2 && host[0] == '[' && host[length - 1] == ']')
    memcpy(inner, host + 1, length - 2);
  if (length == 0) {
    add_ipv4(self, (struct in_addr){htonl(INADDR_ANY)}, port);
    add_ipv6(self, in6addr_any, port);
  } else if (strcasecmp(host, "localhost") == 0) {
    add_ipv4(self, (struct in_addr){htonl(INADDR_LOOPBACK)}, port);
    add_ipv6(self, in6addr_loopback, port);
  } else if (inet_pton(AF_INET6, inner, &ipv6) == 1) {
    add_ipv6(self, ipv6, port);
  } else if (inet_pton(AF_INET, host, &ipv4) == 1) {
    add_ipv4(self, ipv4, port);
  } else if (inet_pton(AF_INET6, host, &ipv6) == 1) {
    return error_set(error, "an IPv6 address needs brackets: '[%s]'", host);
  } else {
    return error_set(error, "expected an IP address or localhost before the port, got '%.99s'",
                     host);
  }
  return 0;
}

int http_address_parse(struct http_address *self, const char *text, struct error *error) {
  const char *colon = strrchr(text, ':');
  in_port_t port = 0;
  *self = (struct http_address){.count = 0};
  if (strncmp(text, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0) {
    if (parse_file(self, text + strlen(UNIX_PREFIX), error) != 0)
      return -1;
  } else {
    if (colon == NULL || text[strlen(text) - 1] == ']' || strlen(text) >= sizeof self->text)
      return error_set(error, "expected IP:PORT, localhost:PORT, :PORT or unix:/PATH, got '%.99s'",
                       text);
    char host[sizeof self->text] = "";
    memcpy(host, text, (size_t)(colon - text));
    if (parse_port(colon + 1, &port, error) != 0 || parse_host(self, host, port, error) != 0)
      return -1;
  }
  memcpy(self->text, text, strlen(text));
  return 0;
}

bool http_address_is_file(const struct http_address *self) {
  return self->sockets[0].any.sa_family == AF_UNIX;
}

static bool is_loopback(const union http_socket_address *address) {
  if (address->any.sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&address->ipv6.sin6_addr);
  return address->any.sa_family == AF_INET &&
         ntohl(address->ipv4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool http_address_is_local(const struct http_address *self) {
  bool is_local = true;
  for (size_t i = 0; i < self->count; i++)
    is_local = is_local && is_loopback(&self->sockets[i]);
  return is_local || http_address_is_file(self);
}
