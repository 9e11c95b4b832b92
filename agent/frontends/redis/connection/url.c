#include "agent/frontends/redis/connection/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

/* StackExchange.Redis' default with ssl=true: EndPointCollection.SetDefaultPorts. */
#define SSL_PORT 6380

static bool begins_with(const char *text, const char *prefix) {
  return strncasecmp(text, prefix, strlen(prefix)) == 0;
}

/* Returns false unless the text is a decimal number up to `max`. */
static bool parse_number(const char *text, size_t length, unsigned max, unsigned *out) {
  unsigned long value = 0;
  if (length == 0 || length > 9)
    return false;
  for (size_t i = 0; i < length; i++) {
    if (!isdigit((unsigned char)text[i]))
      return false;
    value = value * 10 + (unsigned long)(text[i] - '0');
  }
  *out = (unsigned)value;
  return value <= max;
}

/* Frees a text that may be a password. */
static void wipe(char *text) {
  if (text != NULL)
    explicit_bzero(text, strlen(text));
  free(text);
}

static void drop_if_empty(char **text) {
  if (*text != NULL && **text == '\0') {
    free(*text);
    *text = NULL;
  }
}

/* Returns a copy with %XX decoded; NULL if one is malformed or a NUL. */
static char *decode(const char *text, size_t length) {
  char *decoded = memory_copy(text, length), *out = decoded;
  for (const char *at = decoded; *at != '\0'; at++) {
    unsigned char byte = (unsigned char)*at;
    if (byte == '%') {
      bool is_hex = isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2]);
      const char hex[] = {at[1], is_hex ? at[2] : '\0', '\0'};
      byte = is_hex ? (unsigned char)strtoul(hex, NULL, 16) : 0;
      if (byte == 0) {
        wipe(decoded);
        return NULL;
      }
      at += 2;
    }
    *out++ = (char)byte;
  }
  *out = '\0';
  return decoded;
}

/* Returns the offset of the option's value; 0 if the option has another name. */
static size_t option_value(const char *option, const char *name) {
  if (!begins_with(option, name))
    return 0;
  size_t equals = strlen(name) + strspn(option + strlen(name), " ");
  return option[equals] == '=' ? equals + 1 : 0;
}

/* --- addresses --- */

int redis_address_parse_port(const char *text, size_t length, unsigned *port) {
  return parse_number(text, length, 65535, port) && *port > 0 ? 0 : -1;
}

/* A host is logged, and text in the wrong place may be a password. */
static bool is_host(const char *text, const char *end) {
  for (const char *c = text; c < end; c++)
    if ((unsigned char)*c <= ' ' || strchr("@=/?#,", *c) != NULL)
      return false;
  return true;
}

/* Parses "host", "host:port" or "[v6]:port". On failure nothing is owned. */
static int parse_address(struct redis_address *self, const char *text, size_t length,
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
    return error_set(error, "redis url: expected a host first");
  self->port = default_port;
  if (rest < end && (*rest != ':' || redis_address_parse_port(rest + 1, (size_t)(end - rest - 1),
                                                              &self->port) != 0))
    return error_set(error, "redis url: the port must be a number from 1 to 65535");
  self->host = memory_copy(host, (size_t)(host_end - host));
  return 0;
}

int redis_address_parse_redirect(struct redis_address *self, const char *text,
                                 const char *same_host) {
  const char *colon = strrchr(text, ':');
  unsigned port;
  if (colon == NULL || !is_host(text, colon) ||
      redis_address_parse_port(colon + 1, strlen(colon + 1), &port) != 0)
    return -1;
  /* A server that does not know its own name writes '?'. */
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

int redis_address_name(const struct redis_address *self, char *out, size_t size) {
  if (self->port == 0)
    return snprintf(out, size, "%s", self->host);
  return snprintf(out, size, strchr(self->host, ':') != NULL ? "[%s]:%u" : "%s:%u", self->host,
                  self->port);
}

/* --- connection strings --- */

/* Returns the '@' that ends the credentials, or NULL. A password may have a '/' or '@' in it: the
   last '@' ends it, or the first before the path of a socket. */
static const char *find_at(const char *text, bool of_socket) {
  if (!of_socket)
    return strrchr(text, '@');
  return text[0] != '/' ? strstr(text, "@/") : NULL;
}

/* Credentials are "user:password", "password" or ":password", as for redis-cli. */
static const char *find_password(const char *text, const char *at) {
  const char *colon = memchr(text, ':', (size_t)(at - text));
  return colon != NULL ? colon + 1 : text;
}

/* Moves past the credentials, if there are any. */
static int parse_credentials(struct redis_url *self, const char **text, bool of_socket,
                             struct error *error) {
  const char *at = find_at(*text, of_socket);
  if (at == NULL)
    return 0;
  const char *password = find_password(*text, at);
  if (password > *text + 1 && (self->user = decode(*text, (size_t)(password - 1 - *text))) == NULL)
    return error_set(error, "redis url: the user name has an invalid percent-encoding");
  if ((self->password = decode(password, (size_t)(at - password))) == NULL)
    return error_set(error, "redis url: the password has an invalid percent-encoding");
  *text = at + 1;
  return 0;
}

static int parse_database(struct redis_url *self, const char *text, size_t length,
                          struct error *error) {
  if (!parse_number(text, length, 999999999, &self->database))
    return error_set(error, "redis url: the database must be a number");
  return 0;
}

static int add_host(struct redis_url *self, const char *text, size_t length, unsigned default_port,
                    struct error *error) {
  self->hosts = memory_resize(self->hosts, (self->host_count + 1) * sizeof *self->hosts);
  if (parse_address(&self->hosts[self->host_count], text, length, default_port, error) != 0)
    return -1;
  self->host_count++;
  return 0;
}

/* Moves past the host, or several sentinels separated by commas. */
static int skip_hosts(struct redis_url *self, const char **text, bool sentinels,
                      struct error *error) {
  for (bool more = true; more; *text += more) {
    size_t length = strcspn(*text, sentinels ? ",/?#" : "/?#");
    unsigned port = sentinels ? REDIS_URL_SENTINEL_PORT : REDIS_URL_DEFAULT_PORT;
    if (add_host(self, *text, length, port, error) != 0)
      return -1;
    *text += length;
    more = **text == ',';
  }
  return 0;
}

/* Moves past "/master-name". */
static int skip_master(struct redis_url *self, const char **text, struct error *error) {
  size_t length = **text == '/' ? strcspn(*text + 1, "/?#") : 0;
  for (size_t i = 1; i <= length; i++)
    if ((unsigned char)(*text)[i] <= ' ')
      length = 0;
  if (length == 0)
    return error_set(error, "redis url: expected /master-name after the sentinels");
  self->master = memory_copy(*text + 1, length);
  *text += 1 + length;
  return 0;
}

/* Parses the text after redis:// or, with sentinels, redis+sentinel://. */
static int parse_redis(struct redis_url *self, const char *text, bool sentinels,
                       struct error *error) {
  if (parse_credentials(self, &text, false, error) != 0 ||
      skip_hosts(self, &text, sentinels, error) != 0 ||
      (sentinels && skip_master(self, &text, error) != 0))
    return -1;
  if (*text == '/' && text[1] != '\0')
    return parse_database(self, text + 1, strlen(text + 1), error);
  if (*text == '?' || *text == '#')
    return error_set(error, "redis url: expected /db after %s",
                     sentinels ? "the master's name" : "host and port");
  return 0;
}

static int parse_unix(struct redis_url *self, const char *text, struct error *error) {
  if (parse_credentials(self, &text, true, error) != 0)
    return -1;
  size_t length = strcspn(text, "?");
  if (text[0] != '/' || length < 2)
    return error_set(error, "redis url: expected unix:///path/to/socket");
  self->hosts = memory_allocate(sizeof *self->hosts);
  self->hosts[self->host_count++] = (struct redis_address){.host = memory_copy(text, length)};
  if (text[length] == '\0')
    return 0;
  const char *query = text + length + 1;
  if (strncmp(query, "db=", 3) != 0)
    return error_set(error, "redis url: expected ?db=n after the socket's path");
  return parse_database(self, query + 3, strlen(query + 3), error);
}

/* Notes the name only, because a value may be secret. */
static void ignore(struct redis_url *self, const char *name, size_t length) {
  size_t before = self->ignored != NULL ? strlen(self->ignored) : 0;
  self->ignored = memory_resize(self->ignored, before + length + sizeof ", ");
  (void)sprintf(self->ignored + before, "%s%.*s", before > 0 ? ", " : "", (int)length, name);
}

static int parse_ssl(struct redis_url *self, const char *text, size_t length, struct error *error) {
  static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strlen(words[i]) == length && begins_with(text, words[i])) {
      self->secure = i % 2 == 1;
      return 0;
    }
  return error_set(error, "redis url: ssl must be true or false");
}

/* Ignores spaces around a name and a value. */
static int parse_option(struct redis_url *self, const char *text, size_t length,
                        struct error *error) {
  const struct {
    const char *name;
    char **value;
  } texts[] = {{"password", &self->password},
               {"user", &self->user},
               {"sslHost", &self->tls_name},
               {"serviceName", &self->master}};
  const char *value = memchr(text, '=', length);
  const size_t name_length = (size_t)(value - text);
  const char *end = text + length;
  value += 1 + strspn(value + 1, " ");
  while (end > value && end[-1] == ' ')
    end--;
  length = end > value ? (size_t)(end - value) : 0;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (option_value(text, texts[i].name) > 0) {
      wipe(*texts[i].value);
      *texts[i].value = memory_copy(value, length);
      return 0;
    }
  if (option_value(text, "defaultDatabase") > 0)
    return parse_database(self, value, length, error);
  if (option_value(text, "ssl") > 0)
    return parse_ssl(self, value, length, error);
  ignore(self, text, name_length);
  return 0;
}

/* Drops empty names and sets the ports that were not given. */
static void set_defaults(struct redis_url *self) {
  drop_if_empty(&self->master);
  drop_if_empty(&self->tls_name);
  unsigned port = self->secure ? SSL_PORT : REDIS_URL_DEFAULT_PORT;
  if (self->master != NULL)
    port = REDIS_URL_SENTINEL_PORT;
  for (size_t i = 0; i < self->host_count; i++)
    if (self->hosts[i].port == 0)
      self->hosts[i].port = port;
}

/* Hosts come before options, because text after a password may be the rest of it. A port is 0 until
   the options have told whether the host is a sentinel. */
static int parse_options(struct redis_url *self, const char *text, struct error *error) {
  bool had_option = false;
  for (bool first = true; first || *text == ',';) {
    text += !first;
    text += strspn(text, " ");
    size_t length = strcspn(text, ","), host_length = length;
    while (host_length > 0 && text[host_length - 1] == ' ')
      host_length--;
    bool is_option = memchr(text, '=', length) != NULL && !first;
    bool is_host = first || (!is_option && length > 0);
    if (is_host && had_option)
      return error_set(error, "redis url: expected name=value after the first option; a password "
                              "with a comma needs redis:// or rediss://");
    if ((is_option && parse_option(self, text, length, error) != 0) ||
        (is_host && add_host(self, text, host_length, 0, error) != 0))
      return -1;
    had_option |= is_option;
    text += length;
    first = false;
  }
  set_defaults(self);
  return 0;
}

/* A template may have nothing to fill in, so an empty user or password is none; but a user always
   has a password. */
static void normalize_credentials(struct redis_url *self) {
  drop_if_empty(&self->user);
  if (self->user == NULL)
    drop_if_empty(&self->password);
  else if (self->password == NULL)
    self->password = memory_copy("", 0);
}

int redis_url_parse(struct redis_url *self, const char *text, struct error *error) {
  *self = (struct redis_url){0};
  int result;
  self->secure = begins_with(text, "rediss://") || begins_with(text, "rediss+sentinel://");
  bool sentinels =
      begins_with(text, "redis+sentinel://") || begins_with(text, "rediss+sentinel://");
  if (sentinels || begins_with(text, "redis://") || begins_with(text, "rediss://"))
    result = parse_redis(self, strstr(text, "://") + 3, sentinels, error);
  else if (begins_with(text, "unix://"))
    result = parse_unix(self, text + strlen("unix://"), error);
  else if (strstr(text, "://") != NULL && strchr(text, ',') == NULL)
    result = error_set(error, "redis url: expected redis://, rediss://, redis+sentinel://, "
                              "rediss+sentinel://, unix:// or host:port");
  else
    result = parse_options(self, text, error);
  if (result != 0)
    redis_url_release(self);
  else
    normalize_credentials(self);
  return result;
}

void redis_url_release(struct redis_url *self) {
  free(self->master);
  for (size_t i = 0; i < self->host_count; i++)
    redis_address_release(&self->hosts[i]);
  free(self->hosts);
  free(self->tls_name);
  free(self->ignored);
  free(self->user);
  wipe(self->password);
  *self = (struct redis_url){0};
}

void redis_url_name(const struct redis_url *self, char *out, size_t size) {
  int length = self->master != NULL ? snprintf(out, size, "%s at ", self->master) : 0;
  for (size_t i = 0; i < self->host_count && (size_t)length < size; i++) {
    if (i > 0)
      length += snprintf(out + length, size - (size_t)length, ",");
    if ((size_t)length < size)
      length += redis_address_name(&self->hosts[i], out + length, size - (size_t)length);
  }
}

/* Text after a comma may be the rest of the password. */
void redis_url_redact(char *text) {
  /* Both forms are searched before either is overwritten: a password may look like the other. */
  const char *scheme = strstr(text, "://"), *at = NULL, *password = NULL;
  if (scheme != NULL)
    at = find_at(scheme + 3, scheme - text >= 4 && begins_with(scheme - 4, "unix"));
  if (at != NULL)
    password = find_password(scheme + 3, at);
  for (char *option = text; (option = strcasestr(option, "password")) != NULL; option++) {
    size_t value = option_value(option, "password");
    memset(option + value, '*', value > 0 ? strlen(option + value) : 0);
  }
  if (at != NULL)
    memset(text + (password - text), '*', (size_t)(at - password));
}
