#include "agent/doors/redis/net/address.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/net/url_text.h"
#include "base/memory.h"

static bool read_port(const char *text, const char *end, unsigned *port) {
  return url_text_number(text, (size_t)(end - text), 65535, port) && *port > 0;
}

/* What is out of its place may be a password, and a host is shown in the log. */
static bool is_host(const char *text, const char *end) {
  for (const char *c = text; c < end; c++)
    if ((unsigned char)*c <= ' ' || strchr("@=/?#,", *c) != NULL)
      return false;
  return true;
}

int redis_address_parse(struct redis_address *self, const char *text, size_t length,
                        unsigned default_port, struct error *error) {
  const char *end = text + length;
  const char *host = text;
  const char *host_end = memchr(text, ':', length);
  const char *rest;
  if (length > 0 && text[0] == '[') {
    host = text + 1;
    host_end = memchr(text, ']', length);
    if (host_end == NULL)
      return error_set(error, "redis url: '[' without ']' in the host");
    rest = host_end + 1;
  } else {
    rest = host_end = host_end != NULL ? host_end : end;
  }
  if (host == host_end)
    return error_set(error, "redis url: the host is missing");
  if (!is_host(host, host_end))
    return error_set(error, "redis url: expected a host first, got something else");
  self->port = default_port;
  if (rest < end && (*rest != ':' || !read_port(rest + 1, end, &self->port)))
    return error_set(error, "redis url: the port must be a number from 1 to 65535");
  self->host = memory_copy(host, (size_t)(host_end - host));
  return 0;
}

int redis_address_parse_redirect(struct redis_address *self, const char *text,
                                 const char *same_host) {
  const char *colon = strrchr(text, ':');
  unsigned port;
  if (colon == NULL || !is_host(text, colon) || !read_port(colon + 1, text + strlen(text), &port))
    return -1;
  /* A server that does not know its own name says '?'. */
  bool unknown = colon == text + 1 && *text == '?';
  if (unknown || (colon == text && same_host == NULL))
    return -1;
  *self = (struct redis_address){
      .host = colon == text ? memory_copy(same_host, strlen(same_host))
                            : memory_copy(text, (size_t)(colon - text)),
      .port = port,
  };
  return 0;
}

void redis_address_release(struct redis_address *self) {
  free(self->host);
  *self = (struct redis_address){0};
}

int redis_address_name(const char *host, unsigned port, char *out, size_t size) {
  return snprintf(out, size, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host, port);
}
