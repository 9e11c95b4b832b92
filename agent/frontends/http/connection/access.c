#include "agent/frontends/http/connection/access.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "wire/http_key.h"

/* --- hosts ------------------------------------------------------------------------------------ */

#define DIGITS "0123456789"
#define NAME_BYTES DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-._"

/* A DNS name, or an IPv6 address with its brackets. */
enum { HOST_MAX = 255 };

/* Copies the host of "host" or "host:port". Returns false if the text is neither. */
static bool split_host(const char *text, char host[HOST_MAX + 1]) {
  const char *bracket = text[0] == '[' ? strchr(text, ']') : NULL;
  size_t length = bracket != NULL ? (size_t)(bracket + 1 - text) : strcspn(text, ":");
  const char *port = text[length] == ':' ? text + length + 1 : text + length;
  if (length == 0 || length > HOST_MAX || port[strspn(port, DIGITS)] != '\0' ||
      (text[length] != ':' && text[length] != '\0'))
    return false;
  memcpy(host, text, length);
  host[length] = '\0';
  return true;
}

static bool is_ip_address(const char *host) {
  unsigned char address[sizeof(struct in6_addr)];
  char inner[INET6_ADDRSTRLEN];
  size_t length = strlen(host);
  if (host[0] != '[')
    return inet_pton(AF_INET, host, address) == 1;
  if (length < 2 || length - 2 >= sizeof inner)
    return false;
  memcpy(inner, host + 1, length - 2);
  inner[length - 2] = '\0';
  return inet_pton(AF_INET6, inner, address) == 1;
}

static bool is_listed(const char *names, const char *host) {
  const size_t length = strlen(host);
  for (const char *at = names; at != NULL; at = strchr(at, ',')) {
    at += *at == ',';
    if (strcspn(at, ",") == length && strncasecmp(at, host, length) == 0)
      return true;
  }
  return false;
}

/* The name of a page that rebinds DNS is none of these. Browsers always send Host. */
static bool is_own_host(const struct http_access *self, const char *value) {
  char host[HOST_MAX + 1];
  if (value == NULL)
    return true;
  return split_host(value, host) && (is_ip_address(host) || strcasecmp(host, "localhost") == 0 ||
                                     is_listed(self->names, host));
}

int http_access_check_names(const char *names, struct error *error) {
  const char *at = names;
  while (true) {
    size_t length = strspn(at, NAME_BYTES);
    if (length == 0 || length > HOST_MAX || (at[length] != ',' && at[length] != '\0'))
      return error_set(error, "expected host names, separated by commas, got '%.99s'", names);
    if (at[length] == '\0')
      return 0;
    at += length + 1;
  }
}

/* --- origins ---------------------------------------------------------------------------------- */

static bool is_local_origin(const char *origin) {
  char host[HOST_MAX + 1];
  size_t scheme = strncasecmp(origin, "http://", 7) == 0    ? 7
                  : strncasecmp(origin, "https://", 8) == 0 ? 8
                                                            : 0;
  return scheme > 0 && split_host(origin + scheme, host) &&
         (strcasecmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
          strcmp(host, "[::1]") == 0);
}

/* --- the key ---------------------------------------------------------------------------------- */

/* Compares up to the longest key whatever the texts are, and always reads both. The bytes behind
   the end of a text count as NUL, which no key contains. */
static bool is_same_key(const char *key, const char *sent) {
  const size_t key_length = strlen(key), sent_length = strlen(sent);
  volatile unsigned char difference = 0;
  for (size_t i = 0; i <= HTTP_KEY_MAX; i++) {
    unsigned char a = (unsigned char)key[i < key_length ? i : key_length];
    unsigned char b = (unsigned char)sent[i < sent_length ? i : sent_length];
    difference |= a ^ b;
  }
  return difference == 0;
}

/* Returns the key in the value of Authorization, or "" if it has another scheme. */
static const char *bearer(const char *authorization) {
  static const char scheme[] = "Bearer ";
  if (strncasecmp(authorization, scheme, sizeof scheme - 1) != 0)
    return "";
  authorization += sizeof scheme - 1;
  return authorization + strspn(authorization, " ");
}

/* The API server of Kubernetes removes Authorization, and other proxies send their own, so it does
   not count beside the second field. */
static enum http_access_result check_key(const char *key, const struct http_access_fields *fields) {
  const char *sent = fields->sandbox_key;
  if (key == NULL)
    return HTTP_ACCESS_ALLOWED;
  if (sent == NULL && fields->authorization == NULL)
    return HTTP_ACCESS_NO_KEY_SENT;
  if (sent == NULL)
    sent = bearer(fields->authorization);
  return is_same_key(key, sent) ? HTTP_ACCESS_ALLOWED : HTTP_ACCESS_UNAUTHORIZED;
}

enum http_access_result http_access_check(const struct http_access *self, bool is_tcp,
                                          const struct http_access_fields *fields) {
  if (fields->origin != NULL && !(self->accepts_local_origins && is_local_origin(fields->origin)))
    return HTTP_ACCESS_ORIGIN;
  if (self->key == NULL && is_tcp && !is_own_host(self, fields->host))
    return HTTP_ACCESS_HOST;
  return check_key(self->key, fields);
}
