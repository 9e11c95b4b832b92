#include "agent/frontends/http/connection/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/frontends/http/connection/server.h"
#include "base/descriptor.h"
#include "base/memory.h"
#include "wire/http_key.h"

static void put_text(const char **place, const char *value) {
  free((char *)(uintptr_t)*place);
  *place = value != NULL ? memory_copy(value, strlen(value)) : NULL;
}

int http_options_parse_open(struct http_options *self, const char *value, struct error *error) {
  bool is_on = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
  bool is_off = strcmp(value, "0") == 0 || strcmp(value, "false") == 0;
  if (!is_on && !is_off && http_access_check_names(value, error) != 0)
    return -1;
  self->is_open = !is_off;
  put_text(&self->names, is_on || is_off ? NULL : value);
  return 0;
}

/* The path of a request is compared after it was decoded, and has no such segments. Braces would
   make it a pattern (http_route). */
static bool is_path(const char *value) {
  if (value[0] != '/')
    return false;
  for (const char *at = value; *at != '\0'; at += 1 + strcspn(at + 1, "/")) {
    size_t length = strcspn(at + 1, "/");
    if (length == 0 || (at[1] == '.' && (length == 1 || (length == 2 && at[2] == '.'))))
      return false;
  }
  for (const char *at = value; *at != '\0'; at++)
    if (*at <= ' ' || *at > '~' || strchr("?#%\\{}", *at) != NULL)
      return false;
  return true;
}

int http_options_parse_path(struct http_options *self, const char *value, struct error *error) {
  if (!is_path(value))
    return error_set(error, "expected a path such as /predict, got '%.99s'", value);
  if (http_server_has_path(value))
    return error_set(error, "%s is another route", value);
  put_text(&self->path, value);
  return 0;
}

void http_options_set_key(struct http_options *self, const char *key) {
  self->key = key != NULL ? memory_copy(key, strlen(key)) : NULL;
  put_text(&self->key_source, key != NULL ? HTTP_KEY_VARIABLE : NULL);
}

static int fail_to_read(const char *path, int reason, struct error *error) {
  (void)error_set(error, "cannot read the key file %s: %s", path, strerror(reason));
  error->code = reason;
  return -1;
}

/* A longer file is no key, so it need not be read to its end. Returns the length, or -1 with
   errno. */
static ssize_t read_file(const char *path, char *bytes, size_t size) {
  size_t length = 0;
  ssize_t count = 1;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  while (fd >= 0 && count > 0 && length < size) {
    count = read(fd, bytes + length, size - length);
    length += count > 0 ? (size_t)count : 0;
    if (count < 0 && errno == EINTR)
      count = 1;
  }
  descriptor_close(fd);
  return fd < 0 || count < 0 ? -1 : (ssize_t)length;
}

static int read_key_file(struct http_options *self, struct error *error) {
  char bytes[HTTP_KEY_MAX + sizeof "\r\n"];
  ssize_t length = read_file(self->key_file, bytes, sizeof bytes);
  if (length < 0)
    return fail_to_read(self->key_file, errno, error);
  if (length > 0 && bytes[length - 1] == '\n')
    length -= length > 1 && bytes[length - 2] == '\r' ? 2 : 1;
  for (ssize_t i = 0; i < length; i++)
    bytes[i] = (char)(bytes[i] == '\0' ? ' ' : bytes[i]); /* which is no character of a key, too */
  self->key = memory_copy(bytes, (size_t)length);
  explicit_bzero(bytes, sizeof bytes);
  put_text(&self->key_source, self->key_file);
  return 0;
}

int http_options_complete(struct http_options *self, struct error *error) {
  struct error reason;
  if (self->key_file != NULL && self->key != NULL)
    return error_set(error, "--http-key-file cannot be used with " HTTP_KEY_VARIABLE);
  if (self->key_file != NULL && read_key_file(self, error) != 0)
    return -1;
  if (self->key != NULL && http_key_check(self->key, &reason) != 0)
    return error_set(error, "%s: %s", self->key_source, reason.text);
  if (self->key != NULL && self->is_open)
    return error_set(error, "--http-open cannot be used with a key (%s)", self->key_source);
  if (self->key == NULL && !self->is_open && !http_address_is_local(&self->address))
    return error_set(error,
                     "--http %s: others can reach this address. Set " HTTP_KEY_VARIABLE
                     " (%d characters or more), or use --http-open",
                     self->address.text, HTTP_KEY_MIN);
  self->access.key = self->key;
  self->access.names = self->names;
  return 0;
}

void http_options_release(struct http_options *self) {
  if (self->key != NULL)
    explicit_bzero(self->key, strlen(self->key));
  free(self->key);
  put_text(&self->key_source, NULL);
  put_text(&self->key_file, NULL);
  put_text(&self->names, NULL);
  put_text(&self->path, NULL);
}
