#include "agent/frontends/http/connection/routes.h"

#include <string.h>

bool http_pattern_matches(const char *pattern, const char *path, const char **segment,
                          size_t *length) {
  const char *hole = strstr(pattern, "{}");
  const size_t before = hole != NULL ? (size_t)(hole - pattern) : strlen(pattern);
  *segment = NULL;
  if (strncmp(pattern, path, before) != 0)
    return false;
  if (hole == NULL)
    return path[before] == '\0';
  *segment = path + before;
  *length = strcspn(*segment, "/");
  return *length > 0 && strcmp(*segment + *length, hole + 2) == 0;
}

static const char *name_of(enum http_method method) {
  static const char *const names[] = {[HTTP_GET] = "GET",
                                      [HTTP_HEAD] = "HEAD",
                                      [HTTP_POST] = "POST",
                                      [HTTP_PUT] = "PUT",
                                      [HTTP_DELETE] = "DELETE"};
  return names[method];
}

const struct http_route *http_routes_find(const struct http_route *routes,
                                          const struct http_request *request,
                                          struct buffer *allowed) {
  const char *segment;
  size_t length;
  for (const struct http_route *route = routes; route->pattern != NULL; route++) {
    if (!http_pattern_matches(route->pattern, request->path, &segment, &length))
      continue;
    if (route->method == request->method)
      return route;
    buffer_add_string(allowed, allowed->length > 0 ? ", " : "");
    buffer_add_string(allowed, name_of(route->method));
  }
  return NULL;
}
