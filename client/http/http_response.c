#include "client/http/http_response.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The most bytes of a line, and of all lines of the header. */
#define HEAD_MAX ((size_t)16 * 1024)

void http_response_reset(struct http_response *self) {
  buffer_release(&self->line);
  *self = (struct http_response){0};
}

static enum response_part parse_status(struct http_response *self, const char *line) {
  unsigned minor;
  int status;
  if (sscanf(line, "HTTP/1.%1u %3d", &minor, &status) != 2 || status < 100)
    return RESPONSE_BROKEN;
  self->status = status;
  self->closes = minor == 0;
  return RESPONSE_HEAD;
}

/* Returns the number, or UINT64_MAX if the text is none. */
static uint64_t parse_number(const char *text, int base) {
  char *end;
  const uint64_t number = strtoull(text, &end, base);
  const bool is_number = end != text && text[0] != '-' && text[0] != '+' && text[0] != ' ';
  return is_number && (*end == '\0' || (base == 16 && (*end == ';' || *end == ' '))) ? number
                                                                                     : UINT64_MAX;
}

static enum response_part parse_field(struct http_response *self, char *line) {
  char *value = strchr(line, ':');
  if (value == NULL)
    return RESPONSE_BROKEN;
  *value++ = '\0';
  value += strspn(value, " \t");
  if (strcasecmp(line, "Content-Length") == 0) {
    self->left = parse_number(value, 10);
    self->has_length = true;
    return self->left != UINT64_MAX ? RESPONSE_HEAD : RESPONSE_BROKEN;
  }
  if (strcasecmp(line, "Transfer-Encoding") == 0) {
    self->is_chunked = true;
    return strcasecmp(value, "chunked") == 0 ? RESPONSE_HEAD : RESPONSE_BROKEN;
  }
  if (strcasecmp(line, "Connection") == 0)
    self->closes |= strcasecmp(value, "close") == 0;
  if (strcasecmp(line, "Sandbox-Instance") == 0 && strlen(value) < sizeof self->instance)
    (void)snprintf(self->instance, sizeof self->instance, "%s", value);
  return RESPONSE_HEAD;
}

static enum response_part begin_body(struct http_response *self) {
  const bool is_empty = self->status == 204 || self->status == 304;
  if (self->status == 0)
    return RESPONSE_BROKEN;
  if (self->status < 200) { /* another header follows */
    self->status = 0;
    return RESPONSE_HEAD;
  }
  if (is_empty || (self->has_length && self->left == 0 && !self->is_chunked))
    return RESPONSE_WHOLE;
  self->closes |= !self->is_chunked && !self->has_length;
  return self->is_chunked ? RESPONSE_CHUNK_SIZE : self->has_length ? RESPONSE_BODY : RESPONSE_REST;
}

static enum response_part end_line(struct http_response *self, char *line) {
  switch (self->part) {
  case RESPONSE_CHUNK_SIZE:
    self->left = parse_number(line, 16);
    return self->left == UINT64_MAX ? RESPONSE_BROKEN
           : self->left == 0        ? RESPONSE_TRAILER
                                    : RESPONSE_CHUNK;
  case RESPONSE_CHUNK_END:
    return line[0] == '\0' ? RESPONSE_CHUNK_SIZE : RESPONSE_BROKEN;
  case RESPONSE_TRAILER:
    return line[0] == '\0' ? RESPONSE_WHOLE : RESPONSE_TRAILER;
  default:
    return line[0] == '\0'     ? begin_body(self)
           : self->status == 0 ? parse_status(self, line)
                               : parse_field(self, line);
  }
}

static size_t parse_line(struct http_response *self, const char *bytes, size_t length) {
  const char *feed = memchr(bytes, '\n', length);
  const size_t count = feed != NULL ? (size_t)(feed - bytes) + 1 : length;
  struct buffer *line = &self->line;
  self->head_size += self->part == RESPONSE_HEAD ? count : 0;
  buffer_add(line, bytes, count);
  if (line->length > HEAD_MAX || self->head_size > HEAD_MAX || memchr(bytes, '\0', count) != NULL) {
    self->part = RESPONSE_BROKEN;
  } else if (feed != NULL) {
    line->length -= line->length > 1 && line->bytes[line->length - 2] == '\r' ? 2 : 1;
    line->bytes[line->length] = '\0';
    line->length = 0;
    self->part = end_line(self, line->bytes);
  }
  return count;
}

size_t http_response_parse(struct http_response *self, const char *bytes, size_t length,
                           const char **body, size_t *body_length) {
  *body = bytes;
  *body_length = 0;
  if (self->part != RESPONSE_BODY && self->part != RESPONSE_CHUNK && self->part != RESPONSE_REST)
    return parse_line(self, bytes, length);
  const bool has_end = self->part != RESPONSE_REST;
  *body_length = has_end && self->left < length ? (size_t)self->left : length;
  self->left -= has_end ? *body_length : 0;
  if (has_end && self->left == 0)
    self->part = self->part == RESPONSE_BODY ? RESPONSE_WHOLE : RESPONSE_CHUNK_END;
  return *body_length;
}
