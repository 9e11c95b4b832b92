#include "agent/doors/redis/net/url.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "agent/doors/redis/net/url_text.h"
#include "base/memory.h"

/* "user:password", "password" or ":password", as redis-cli reads them. */
static int read_login(struct redis_url *self, const char *text, size_t length,
                      struct error *error) {
  const char *colon = memchr(text, ':', length);
  const char *password = colon != NULL ? colon + 1 : text;
  if (colon != NULL && colon > text &&
      (self->user = url_text_decode(text, (size_t)(colon - text))) == NULL)
    return error_set(error, "redis url: the user is not percent-encoded as it should be");
  self->password = url_text_decode(password, (size_t)(text + length - password));
  if (self->password == NULL)
    return error_set(error, "redis url: the password is not percent-encoded as it should be");
  return 0;
}

static int read_address(struct redis_url *self, const char *text, size_t length,
                        struct error *error) {
  struct redis_address address;
  if (redis_address_parse(&address, text, length, REDIS_URL_DEFAULT_PORT, error) != 0)
    return -1;
  self->host = address.host;
  self->port = address.port;
  return 0;
}

static int read_database(struct redis_url *self, const char *text, size_t length,
                         struct error *error) {
  if (!url_text_number(text, length, 999999999, &self->database))
    return error_set(error, "redis url: the database must be a number");
  return 0;
}

/* Moves behind a login, if there is one. A password may hold a raw '/' or '@': the last '@' ends
 * it.
 */
static int pass_login(struct redis_url *self, const char **text, struct error *error) {
  const char *at = strrchr(*text, '@');
  if (at == NULL)
    return 0;
  if (read_login(self, *text, (size_t)(at - *text), error) != 0)
    return -1;
  *text = at + 1;
  return 0;
}

static int read_redis(struct redis_url *self, const char *text, struct error *error) {
  if (pass_login(self, &text, error) != 0)
    return -1;
  size_t authority = strcspn(text, "/?#");
  const char *rest = text + authority;
  if (read_address(self, text, authority, error) != 0)
    return -1;
  if (*rest == '/' && rest[1] != '\0' &&
      read_database(self, rest + 1, strlen(rest + 1), error) != 0)
    return -1;
  if (*rest == '?' || *rest == '#')
    return error_set(error, "redis url: expected /db behind host and port");
  return 0;
}

static int read_sentinels(struct redis_url *self, const char *text, size_t length,
                          struct error *error) {
  size_t most = 1;
  for (size_t i = 0; i < length; i++)
    most += text[i] == ',';
  self->sentinels = memory_allocate(most * sizeof *self->sentinels);
  for (const char *end = text + length; self->sentinel_count < most; self->sentinel_count++) {
    const char *comma = memchr(text, ',', (size_t)(end - text));
    size_t part = (size_t)((comma != NULL ? comma : end) - text);
    if (redis_address_parse(&self->sentinels[self->sentinel_count], text, part,
                            REDIS_URL_SENTINEL_PORT, error) != 0)
      return -1;
    text += part + 1;
  }
  return 0;
}

static int read_sentinel(struct redis_url *self, const char *text, struct error *error) {
  if (pass_login(self, &text, error) != 0)
    return -1;
  size_t authority = strcspn(text, "/?#");
  if (read_sentinels(self, text, authority, error) != 0)
    return -1;
  text += authority;
  size_t length = *text == '/' ? strcspn(text + 1, "/?#") : 0;
  for (size_t i = 1; i <= length; i++)
    if ((unsigned char)text[i] <= ' ')
      length = 0;
  if (length == 0)
    return error_set(error, "redis url: expected /master-name behind the sentinels");
  self->master = memory_copy(text + 1, length);
  text += 1 + length;
  if (*text == '/' && text[1] != '\0')
    return read_database(self, text + 1, strlen(text + 1), error);
  if (*text == '?' || *text == '#')
    return error_set(error, "redis url: expected /db behind the master's name");
  return 0;
}

static int read_unix(struct redis_url *self, const char *text, struct error *error) {
  if (text[0] != '/') {
    const char *at = strstr(text, "@/");
    if (at == NULL)
      return error_set(error, "redis url: expected unix:///path/to/socket");
    if (read_login(self, text, (size_t)(at - text), error) != 0)
      return -1;
    text = at + 1;
  }
  size_t length = strcspn(text, "?");
  if (length < 2)
    return error_set(error, "redis url: expected unix:///path/to/socket");
  self->path = memory_copy(text, length);
  if (text[length] == '?') {
    const char *query = text + length + 1;
    if (strncmp(query, "db=", 3) != 0)
      return error_set(error, "redis url: expected ?db=n behind the socket's path");
    return read_database(self, query + 3, strlen(query + 3), error);
  }
  return 0;
}

static void replace(char **text, const char *value, size_t length) {
  free(*text);
  *text = memory_copy(value, length);
}

/* Spaces around a name and a value do not count. */
static int read_option(struct redis_url *self, const char *text, size_t length,
                       struct error *error) {
  const char *value = memchr(text, '=', length);
  if (value == NULL)
    return error_set(error, "redis url: expected name=value behind a comma (one server only)");
  const char *end = text + length;
  value += 1 + strspn(value + 1, " ");
  while (end > value && end[-1] == ' ')
    end--;
  length = end > value ? (size_t)(end - value) : 0;
  if (url_text_value(text, "password") > 0) {
    replace(&self->password, value, length);
  } else if (url_text_value(text, "user") > 0) {
    replace(&self->user, value, length);
  } else if (url_text_value(text, "defaultDatabase") > 0) {
    return read_database(self, value, length, error);
  } else if (url_text_value(text, "ssl") > 0) {
    bool off = length == 0 || url_text_begins(value, "false") || url_text_begins(value, "no") ||
               *value == '0';
    return off ? 0 : error_set(error, "redis url: TLS is not supported");
  }
  return 0;
}

static int read_options(struct redis_url *self, const char *text, struct error *error) {
  text += strspn(text, " ");
  size_t length = strcspn(text, ",");
  size_t address = length;
  while (address > 0 && text[address - 1] == ' ')
    address--;
  if (read_address(self, text, address, error) != 0)
    return -1;
  for (text += length; *text == ','; text += length) {
    text += 1 + strspn(text + 1, " ");
    length = strcspn(text, ",");
    if (length > 0 && read_option(self, text, length, error) != 0)
      return -1;
  }
  return 0;
}

/* An empty password is none, as where a template had nothing to fill in, unless it is a user's. */
static void settle_login(struct redis_url *self) {
  if (self->user != NULL && self->user[0] == '\0') {
    free(self->user);
    self->user = NULL;
  }
  if (self->user != NULL && self->password == NULL) {
    self->password = memory_copy("", 0);
  } else if (self->user == NULL && self->password != NULL && self->password[0] == '\0') {
    free(self->password);
    self->password = NULL;
  }
}

int redis_url_parse(struct redis_url *self, const char *text, struct error *error) {
  *self = (struct redis_url){0};
  int result;
  if (url_text_begins(text, "redis://"))
    result = read_redis(self, text + strlen("redis://"), error);
  else if (url_text_begins(text, "redis+sentinel://"))
    result = read_sentinel(self, text + strlen("redis+sentinel://"), error);
  else if (url_text_begins(text, "unix://"))
    result = read_unix(self, text + strlen("unix://"), error);
  else if (url_text_begins(text, "rediss://"))
    result = error_set(error, "redis url: TLS (rediss://) is not supported");
  else if (strstr(text, "://") != NULL && strchr(text, ',') == NULL)
    result =
        error_set(error, "redis url: expected redis://, redis+sentinel://, unix:// or host:port");
  else
    result = read_options(self, text, error);
  if (result != 0)
    redis_url_release(self);
  else
    settle_login(self);
  return result;
}

void redis_url_release(struct redis_url *self) {
  free(self->host);
  free(self->path);
  free(self->master);
  for (size_t i = 0; i < self->sentinel_count; i++)
    redis_address_release(&self->sentinels[i]);
  free(self->sentinels);
  free(self->user);
  if (self->password != NULL)
    explicit_bzero(self->password, strlen(self->password));
  free(self->password);
  *self = (struct redis_url){0};
}

void redis_url_name(const struct redis_url *self, char *out, size_t size) {
  if (self->path != NULL) {
    (void)snprintf(out, size, "%s", self->path);
    return;
  }
  if (self->master == NULL) {
    (void)redis_address_name(self->host, self->port, out, size);
    return;
  }
  int length = snprintf(out, size, "%s at ", self->master);
  for (size_t i = 0; i < self->sentinel_count && (size_t)length < size; i++) {
    const struct redis_address *sentinel = &self->sentinels[i];
    if (i > 0)
      length += snprintf(out + length, size - (size_t)length, ",");
    if ((size_t)length < size)
      length +=
          redis_address_name(sentinel->host, sentinel->port, out + length, size - (size_t)length);
  }
}

/* The password of a login in front of '@'; NULL when there is none. */
static char *find_login_password(char *text, char **end) {
  char *scheme = strstr(text, "://");
  if (scheme == NULL)
    return NULL;
  char *handshake = scheme + 3;
  if (scheme - text < 4 || !url_text_begins(scheme - 4, "unix"))
    *end = strrchr(handshake, '@');
  else
    *end = handshake[0] != '/' ? strstr(handshake, "@/") : NULL;
  if (*end == NULL)
    return NULL;
  char *colon = memchr(handshake, ':', (size_t)(*end - handshake));
  return colon != NULL ? colon + 1 : handshake;
}

void redis_url_redact(char *text) {
  /* Both are looked for in the text as it was: a password may look like the other form. */
  char *end;
  char *password = find_login_password(text, &end);
  for (char *option = text; (option = strcasestr(option, "password")) != NULL; option++) {
    size_t value = url_text_value(option, "password");
    memset(option + value, '*', value > 0 ? strcspn(option + value, ",") : 0);
  }
  if (password != NULL)
    memset(password, '*', (size_t)(end - password));
}
