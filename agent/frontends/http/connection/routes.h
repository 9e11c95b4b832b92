#pragma once

#include <stdbool.h>

#include "agent/frontends/http/connection/server.h"
#include "base/buffer.h"

/* Finds the route of a request in a table. Pure. */

/* Whether the path has the form of the pattern. If so and the pattern has a "{}", `*segment` and
   `*length` are the part of the path in its place; else `*segment` is NULL. */
bool http_pattern_matches(const char *pattern, const char *path, const char **segment,
                          size_t *length);

/* Returns the route with this method and path; NULL if there is none. For each route that has only
   the path, the name of its method is added to `allowed`, separated by commas. */
const struct http_route *http_routes_find(const struct http_route *routes,
                                          const struct http_request *request,
                                          struct buffer *allowed);
