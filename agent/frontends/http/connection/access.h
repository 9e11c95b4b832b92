#pragma once

#include <stdbool.h>

#include "base/error.h"

/*
 * Decides who may send requests: checks the key, and the header fields by which the requests of a
 * web page differ from those of a client. Pure. The hard part is that the key must not leak by the
 * time that a comparison takes.
 */
struct http_access {
  const char *key;            /* NULL: none */
  const char *names;          /* of this host, separated by commas, beside localhost; NULL: none */
  bool accepts_local_origins; /* pages of this machine may send requests, as MCP requires */
};

enum http_access_result {
  HTTP_ACCESS_ALLOWED,
  HTTP_ACCESS_ORIGIN,      /* 403: a web page sent the request */
  HTTP_ACCESS_HOST,        /* 421: it is for another host (DNS rebinding) */
  HTTP_ACCESS_NO_KEY_SENT, /* 401, except for health */
  HTTP_ACCESS_UNAUTHORIZED /* 401: the key is wrong */
};

/* The values of the header fields, without whitespace around them. NULL: the request does not have
   the field, which only a request of HTTP/1.0 may do with Host. A field that was sent twice is not
   for this module. */
struct http_access_fields {
  const char *host, *origin, *authorization, *sandbox_key;
};

/* Checks the origin, then the host, then the key. `is_tcp`: not a connection to a socket file. */
enum http_access_result http_access_check(const struct http_access *self, bool is_tcp,
                                          const struct http_access_fields *fields);

/* Returns 0, or -1 with what is wrong: these are host names, separated by commas. */
int http_access_check_names(const char *names, struct error *error);
