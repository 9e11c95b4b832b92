#pragma once

#include <stdbool.h>

#include "agent/frontends/redis/connection/url.h"

/* Where an agent listens: http://HOST:PORT or http+unix:///PATH. */
struct http_url {
  struct redis_address address;
  char *name; /* for people and the field Host: "10.0.0.7:28417", or the path */
};

/* Whether the text is a URL of HTTP, also one that cannot be used, such as https://. */
bool http_url_is_http(const char *text);

/* Returns 0, or -1 with an error that does not repeat the text, which may have a secret. */
int http_url_parse(struct http_url *self, const char *text, struct error *error);

void http_url_release(struct http_url *self);
