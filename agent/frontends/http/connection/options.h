#pragma once

#include "agent/frontends/http/connection/access.h"
#include "agent/frontends/http/connection/address.h"

/*
 * The settings of the HTTP server, which the modes over HTTP share. agent/options.c reads them.
 */
struct http_options {
  struct http_address address; /* without sockets: the mode is not over HTTP */
  struct http_access access;
  const char *key_source; /* for people: a variable or a file; NULL: there is no key */
  const char *path;       /* of the route for calls; NULL: the default of the mode */
  const char *job_id;     /* NULL: none */
};
