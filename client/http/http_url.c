#include "client/http/http_url.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const char of_host[] = "http://", of_path[] = "http+unix://";

static bool has_prefix(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool http_url_is_http(const char *text) {
  return has_prefix(text, of_host) || has_prefix(text, of_path) || has_prefix(text, "https://");
}

/* Parses HOST:PORT or [ADDRESS]:PORT. Nothing else may become part of a request. */
static int parse_host(struct http_url *self, const char *text, size_t length) {
  char *host = memory_copy(text, length);
  const bool has_brackets = host[0] == '[';
  char *end = has_brackets ? strstr(host, "]:") : NULL;
  bool is_valid = length > 0 && !has_brackets == (memchr(host, ':', length) == strrchr(host, ':'));
  for (size_t i = 0; i < length; i++)
    is_valid &= host[i] > ' ' && host[i] <= '~' && strchr("/?#@", host[i]) == NULL;
  if (end != NULL)
    memmove(end, end + 1, strlen(end));
  is_valid &= has_brackets == (end != NULL) &&
              redis_address_parse_redirect(&self->address, host + has_brackets, "") == 0;
  self->name = memory_copy(text, length);
  free(host);
  return is_valid && self->address.host[0] != '\0' ? 0 : -1;
}

int http_url_parse(struct http_url *self, const char *text, struct error *error) {
  *self = (struct http_url){0};
  if (has_prefix(text, "https://"))
    return error_set(error, "https is not supported: use http:// through a tunnel or a proxy");
  if (has_prefix(text, of_path)) {
    const char *path = text + sizeof of_path - 1;
    self->address.host = memory_copy(path, strlen(path));
    self->name = memory_copy(path, strlen(path));
    return path[0] == '/' ? 0 : error_set(error, "http url: not http+unix:///PATH");
  }
  const char *host = text + sizeof of_host - 1;
  const size_t length = strlen(host);
  const bool has_slash = length > 0 && host[length - 1] == '/';
  return parse_host(self, host, length - has_slash) == 0
             ? 0
             : error_set(error, "http url: not http://HOST:PORT; the key is SANDBOX_HTTP_KEY");
}

void http_url_release(struct http_url *self) {
  redis_address_release(&self->address);
  free(self->name);
  *self = (struct http_url){0};
}
