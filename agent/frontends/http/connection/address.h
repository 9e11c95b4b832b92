#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/error.h"

/*
 * Parses the argument of --http: the address on which the agent listens. Pure. The forms are
 *
 *   10.0.0.7:28417   [::1]:28417   an IP address, which may be 0.0.0.0; [::] is also all of IPv4
 *   localhost:28417                127.0.0.1 and [::1], or the one that the machine has
 *   :28417                         0.0.0.0 and [::], or the one that the machine has
 *   unix:/run/agent.sock           a socket file
 *
 * listener.h binds what this module parsed.
 */
#define HTTP_SOCKETS_MAX 2

union http_socket_address {
  struct sockaddr any;
  struct sockaddr_in ipv4;
  struct sockaddr_in6 ipv6;
  struct sockaddr_un file;
};

struct http_address {
  char text[sizeof "unix:" + sizeof((struct sockaddr_un *)NULL)->sun_path]; /* as it was given */
  /* If there are two, those that the machine does not have are left out. */
  union http_socket_address sockets[HTTP_SOCKETS_MAX];
  size_t count; /* 0: no address */
};

/* Returns 0, or -1 with what is wrong. The address owns nothing. */
int http_address_parse(struct http_address *self, const char *text, struct error *error);

/* Whether it is a socket file. */
bool http_address_is_file(const struct http_address *self);

/* Whether only processes of this machine can connect: it is a loopback address or a socket file. */
bool http_address_is_local(const struct http_address *self);
