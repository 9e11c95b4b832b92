#include "agent/redis/url.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/memory.h"

static bool begins_with(const char *text, const char *prefix) {
  return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

/* A decimal number of at most `most`; false for anything else. */
static bool read_number(const char *text, size_t length, unsigned most, unsigned *out) {
  unsigned long value = 0;
  if (length == 0 || length > 9)
    return false;
  for (size_t i = 0; i < length; i++) {
    if (!isdigit((unsigned char)text[i]))
      return false;
    value = value * 10 + (unsigned long)(text[i] - '0');
  }
  *out = (unsigned)value;
  return value <= most;
}

static int hex_digit(char c) {
  static const char digits[] = "0123456789abcdef";
  const char *at = c == '\0' ? NULL : strchr(digits, tolower((unsigned char)c));
  return at == NULL ? -1 : (int)(at - digits);
}

/* A copy with %XX decoded; NULL when one is malformed or is a NUL. */
static char *percent_decode(const char *text, size_t length) {
  char *out = memory_copy(text, length);
  size_t n = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] != '%') {
      out[n++] = text[i];
      continue;
    }
    int high = i + 2 < length ? hex_digit(text[i + 1]) : -1;
    int low = i + 2 < length ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0 || high + low == 0) {
      free(out);
      return NULL;
    }
    out[n++] = (char)(high * 16 + low);
    i += 2;
  }
  out[n] = '\0';
  return out;
}

/* "user:password", "password" or ":password", as redis-cli reads them. */
static int read_login(struct redis_url *self, const char *text, size_t length,
                      struct error *error) {
  const char *colon = memchr(text, ':', length);
  const char *password = colon != NULL ? colon + 1 : text;
  if (colon != NULL && colon > text &&
      (self->user = percent_decode(text, (size_t)(colon - text))) == NULL)
    return error_set(error, "redis url: the user is not percent-encoded as it should be");
  self->password = percent_decode(password, (size_t)(text + length - password));
  if (self->password == NULL)
    return error_set(error, "redis url: the password is not percent-encoded as it should be");
  return 0;
}

/* "host", "host:port", "[v6]:port"; `length` bytes, all of them. */
static int read_address(struct redis_url *self, const char *text, size_t length,
                        struct error *error) {
  const char *end = text + length;
  const char *host = text;
  const char *host_end = memchr(text, ':', length);
  if (length > 0 && text[0] == '[') {
    host = text + 1;
    host_end = memchr(text, ']', length);
    if (host_end == NULL)
      return error_set(error, "redis url: '[' without ']' in the host");
  }
  if (host_end == NULL)
    host_end = end;
  const char *rest = host_end + (text < end && text[0] == '[' ? 1 : 0);
  if (host == host_end)
    return error_set(error, "redis url: the host is missing");
  /* What is out of its place may be a password, and a host is shown in the log. */
  for (const char *c = host; c < host_end; c++)
    if ((unsigned char)*c <= ' ' || strchr("@=/?#", *c) != NULL)
      return error_set(error, "redis url: expected a host first, got something else");
  self->port = REDIS_URL_DEFAULT_PORT;
  if (rest < end &&
      (*rest != ':' || !read_number(rest + 1, (size_t)(end - rest - 1), 65535, &self->port) ||
       self->port == 0))
    return error_set(error, "redis url: the port must be a number from 1 to 65535");
  self->host = memory_copy(host, (size_t)(host_end - host));
  return 0;
}

static int read_database(struct redis_url *self, const char *text, size_t length,
                         struct error *error) {
  if (!read_number(text, length, 999999999, &self->database))
    return error_set(error, "redis url: the database must be a number");
  return 0;
}

static int read_redis(struct redis_url *self, const char *text, struct error *error) {
  /* A password may hold a raw '/' or '@': the last '@' ends it. */
  const char *at = strrchr(text, '@');
  if (at != NULL) {
    if (read_login(self, text, (size_t)(at - text), error) != 0)
      return -1;
    text = at + 1;
  }
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

/* Where the value of an option of this name begins; 0 when it is another one. */
static size_t value_offset(const char *option, const char *name) {
  if (!begins_with(option, name))
    return 0;
  size_t equals = strlen(name) + strspn(option + strlen(name), " ");
  return option[equals] == '=' ? equals + 1 : 0;
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
  if (value_offset(text, "password") > 0) {
    replace(&self->password, value, length);
  } else if (value_offset(text, "user") > 0) {
    replace(&self->user, value, length);
  } else if (value_offset(text, "defaultDatabase") > 0) {
    return read_database(self, value, length, error);
  } else if (value_offset(text, "ssl") > 0) {
    bool off =
        length == 0 || begins_with(value, "false") || begins_with(value, "no") || *value == '0';
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
  if (begins_with(text, "redis://"))
    result = read_redis(self, text + strlen("redis://"), error);
  else if (begins_with(text, "unix://"))
    result = read_unix(self, text + strlen("unix://"), error);
  else if (begins_with(text, "rediss://"))
    result = error_set(error, "redis url: TLS (rediss://) is not supported");
  else if (strstr(text, "://") != NULL && strchr(text, ',') == NULL)
    result = error_set(error, "redis url: expected redis://, unix:// or host:port");
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
  free(self->user);
  if (self->password != NULL)
    explicit_bzero(self->password, strlen(self->password));
  free(self->password);
  *self = (struct redis_url){0};
}

void redis_url_name(const struct redis_url *self, char *out, size_t size) {
  if (self->path != NULL)
    (void)snprintf(out, size, "%s", self->path);
  else
    (void)snprintf(out, size, strchr(self->host, ':') != NULL ? "[%s]:%u" : "%s:%u", self->host,
                   self->port);
}

/* The password of a login in front of '@'; NULL when there is none. */
static char *find_login_password(char *text, char **end) {
  char *scheme = strstr(text, "://");
  if (scheme == NULL)
    return NULL;
  char *login = scheme + 3;
  if (scheme - text < 4 || !begins_with(scheme - 4, "unix"))
    *end = strrchr(login, '@');
  else
    *end = login[0] != '/' ? strstr(login, "@/") : NULL;
  if (*end == NULL)
    return NULL;
  char *colon = memchr(login, ':', (size_t)(*end - login));
  return colon != NULL ? colon + 1 : login;
}

void redis_url_redact(char *text) {
  /* Both are looked for in the text as it was: a password may look like the other form. */
  char *end;
  char *password = find_login_password(text, &end);
  for (char *option = text; (option = strcasestr(option, "password")) != NULL; option++) {
    size_t value = value_offset(option, "password");
    memset(option + value, '*', value > 0 ? strcspn(option + value, ",") : 0);
  }
  if (password != NULL)
    memset(password, '*', (size_t)(end - password));
}
