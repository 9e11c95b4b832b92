#include "agent/frontends/http/connection/request_reader.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/memory.h"

/* The longest decimal Content-Length and hexadecimal chunk size whose value fits into 64 bits. */
enum { LENGTH_DIGITS_MAX = 18, CHUNK_DIGITS_MAX = 15 };

static bool reject(struct request_reader *self, int status, const char *word, const char *message) {
  self->state = REQUEST_REJECTED;
  self->rejection = (struct http_rejection){status, word, message};
  return false;
}

static bool reject_malformed(struct request_reader *self, const char *message) {
  return reject(self, 400, "malformed", message);
}

void request_reader_reset(struct request_reader *self) {
  if (self->header != NULL)
    explicit_bzero(self->header, self->length);
  free(self->header);
  buffer_release(&self->body);
  *self = (struct request_reader){0};
}

/* --- characters ------------------------------------------------------------------------------- */

static bool is_token(const char *text) {
  static const char specials[] = "!#$%&'*+-.^_`|~";
  if (*text == '\0')
    return false;
  for (; *text != '\0'; text++) {
    const bool is_letter = (*text | 0x20) >= 'a' && (*text | 0x20) <= 'z';
    const bool is_digit = *text >= '0' && *text <= '9';
    if (!is_letter && !is_digit && strchr(specials, *text) == NULL)
      return false;
  }
  return true;
}

static int hex_value(char digit) {
  if (digit >= '0' && digit <= '9')
    return digit - '0';
  const char lower = (char)(digit | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

static bool has_only_visible_ascii(const char *text) {
  for (; *text != '\0'; text++)
    if (*text <= ' ' || *text > '~')
      return false;
  return true;
}

/* --- the request line ------------------------------------------------------------------------- */

static bool is_rejected_byte(int byte) {
  return byte == '\0' || byte == '/' || byte == '\\';
}

/* Decodes %XX in place, once. Returns false for a wrong or forbidden sequence. */
static bool decode_path(char *path, size_t *length) {
  char *out = path;
  for (const char *at = path; *at != '\0'; at++) {
    int byte = (unsigned char)*at;
    if (byte == '\\' || byte == '#')
      return false;
    if (byte == '%') {
      const int high = hex_value(at[1]);
      const int low = high >= 0 ? hex_value(at[2]) : -1;
      byte = low >= 0 ? high * 16 + low : '\0';
      if (is_rejected_byte(byte))
        return false;
      at += 2;
    }
    *out++ = (char)byte;
  }
  *out = '\0';
  *length = (size_t)(out - path);
  return true;
}

/* "/" alone has no segment. */
static bool has_only_valid_segments(const char *path) {
  if (strcmp(path, "/") == 0)
    return true;
  while (*path == '/') {
    const size_t length = strcspn(++path, "/");
    if (length == 0 || (length <= 2 && strncmp(path, "..", length) == 0))
      return false;
    path += length;
  }
  return true;
}

static bool read_target(struct request_reader *self, char *target) {
  struct http_request *request = &self->request;
  if (target[0] != '/' || !has_only_visible_ascii(target))
    return reject_malformed(self, "the target is not a path of visible ASCII characters");
  char *question = strchr(target, '?');
  request->query = "";
  if (question != NULL) {
    *question = '\0';
    request->query = question + 1;
  }
  if (!decode_path(target, &request->path_length) || !has_only_valid_segments(target))
    return reject_malformed(self, "the path has an invalid escape sequence or segment");
  request->path = target;
  return true;
}

static bool read_version(struct request_reader *self, const char *version) {
  const bool is_version = strncmp(version, "HTTP/", 5) == 0 && version[5] >= '0' &&
                          version[5] <= '9' && version[6] == '.' && version[7] >= '0' &&
                          version[7] <= '9' && version[8] == '\0';
  if (!is_version)
    return reject_malformed(self, "the request line is not METHOD PATH HTTP/1.1");
  self->request.is_http_1_0 = strcmp(version + 5, "1.0") == 0;
  if (!self->request.is_http_1_0 && strcmp(version + 5, "1.1") != 0)
    return reject(self, 505, "version", "only HTTP/1.1 and HTTP/1.0 are supported");
  return true;
}

static enum http_method method_of(const char *name) {
  static const char *const names[] = {[HTTP_GET] = "GET",
                                      [HTTP_HEAD] = "HEAD",
                                      [HTTP_POST] = "POST",
                                      [HTTP_PUT] = "PUT",
                                      [HTTP_DELETE] = "DELETE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0)
      return (enum http_method)i;
  return HTTP_OTHER;
}

/* Exactly one space between the parts: a further one makes a part empty, or the version wrong. */
static bool read_request_line(struct request_reader *self, char *line) {
  char *target = strchr(line, ' ');
  char *version = target != NULL ? strchr(target + 1, ' ') : NULL;
  if (version == NULL)
    return reject_malformed(self, "the request line is not METHOD PATH HTTP/1.1");
  *target++ = '\0';
  *version++ = '\0';
  if (!is_token(line))
    return reject_malformed(self, "the method is not a token");
  self->request.method = method_of(line);
  self->request.method_name = line;
  self->has_request_line = true;
  return read_version(self, version) && read_target(self, target);
}

/* --- header fields ---------------------------------------------------------------------------- */

static bool has_control_character(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7F)
      return true;
  return false;
}

static bool read_field(struct request_reader *self, char *line, size_t length) {
  struct http_request *request = &self->request;
  char *colon = memchr(line, ':', length);
  if (colon == NULL)
    return reject_malformed(self, "a header line has no colon");
  *colon = '\0';
  if (!is_token(line))
    return reject_malformed(self, "the name of a header field is not a token");
  if (request->field_count == HTTP_FIELDS_MAX)
    return reject(self, 431, "too_large", "the request has more than 64 header fields");
  char *value = colon + 1 + strspn(colon + 1, " \t");
  char *end = line + length;
  while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
    end--;
  *end = '\0';
  request->fields[request->field_count++] = (struct http_field){line, value};
  return true;
}

/* One line without its CRLF, in place of which there is a NUL. */
static bool read_line(struct request_reader *self, char *line, size_t length) {
  if (has_control_character(line, length))
    return reject_malformed(self, "the header has a control character");
  return self->has_request_line ? read_field(self, line, length) : read_request_line(self, line);
}

/* --- the whole header ------------------------------------------------------------------------- */

/* Fields whose meaning would be ambiguous if they occurred twice. */
static bool are_single_fields_single(const struct http_request *request) {
  static const char *const names[] = {"Host",
                                      "Content-Length",
                                      "Transfer-Encoding",
                                      "Authorization",
                                      "X-Sandbox-Key",
                                      "Sandbox-Instance",
                                      "Origin",
                                      "Content-Type",
                                      "Last-Event-ID",
                                      "Mcp-Method",
                                      "Mcp-Name",
                                      "Mcp-Session-Id",
                                      "MCP-Protocol-Version"};
  for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
    unsigned count = 0;
    for (size_t i = 0; i < request->field_count; i++)
      count += strcasecmp(request->fields[i].name, names[n]) == 0;
    if (count > 1)
      return false;
  }
  return true;
}

static bool is_port(const char *text) {
  const size_t digits = strspn(text, "0123456789");
  return digits > 0 && digits <= 5 && text[digits] == '\0';
}

/* A name, an IPv4 address, or an IPv6 address in brackets, perhaps with a port. */
static bool is_valid_host(const char *host) {
  static const char of_name[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
  size_t length;
  if (host[0] == '[') {
    length = 1 + strspn(host + 1, "0123456789abcdefABCDEF:.");
    if (length < 3 || host[length++] != ']')
      return false;
  } else {
    length = strspn(host, of_name);
  }
  return length > 0 &&
         (host[length] == '\0' || (host[length] == ':' && is_port(host + length + 1)));
}

static bool check_host(struct request_reader *self) {
  const char *host = http_request_field(&self->request, "Host");
  if (host == NULL ? !self->request.is_http_1_0 : !is_valid_host(host))
    return reject_malformed(self, "the Host field is missing or is not host or host:port");
  return true;
}

static bool read_content_length(struct request_reader *self, const char *value) {
  const size_t digits = strspn(value, "0123456789");
  if (digits == 0 || digits > LENGTH_DIGITS_MAX || value[digits] != '\0')
    return reject_malformed(self, "Content-Length is not a number");
  self->request.content_length = strtoull(value, NULL, 10);
  if (self->request.content_length > 0)
    self->request.framing = HTTP_BODY_LENGTH;
  return true;
}

static bool check_framing(struct request_reader *self) {
  struct http_request *request = &self->request;
  const char *length = http_request_field(request, "Content-Length");
  const char *encoding = http_request_field(request, "Transfer-Encoding");
  if (encoding != NULL) {
    if (length != NULL || request->is_http_1_0 || strcasecmp(encoding, "chunked") != 0)
      return reject_malformed(self, "Transfer-Encoding is not chunked, or does not belong here");
    request->framing = HTTP_BODY_CHUNKED;
  } else if (length != NULL && !read_content_length(self, length)) {
    return false;
  }
  const bool may_have_body =
      request->method != HTTP_GET && request->method != HTTP_HEAD && request->method != HTTP_DELETE;
  if (!may_have_body && request->framing != HTTP_BODY_NONE)
    return reject_malformed(self, "this method has no body");
  return true;
}

static bool check_expectation(struct request_reader *self) {
  struct http_request *request = &self->request;
  for (size_t i = 0; i < request->field_count; i++) {
    if (strcasecmp(request->fields[i].name, "Expect") != 0)
      continue;
    if (strcasecmp(request->fields[i].value, "100-continue") != 0)
      return reject(self, 417, "expectation", "Expect has a value other than 100-continue");
    request->expects_continue = !request->is_http_1_0;
  }
  return true;
}

static void end_header(struct request_reader *self) {
  struct http_request *request = &self->request;
  if (!are_single_fields_single(request)) {
    (void)reject_malformed(self, "a header field occurs twice that may occur only once");
    return;
  }
  if (!check_host(self) || !check_framing(self) || !check_expectation(self))
    return;
  request->closes = request->is_http_1_0 || http_request_lists(request, "Connection", "close");
  self->state = REQUEST_HEADER_READ;
}

/* --- bytes of the header ---------------------------------------------------------------------- */

/* One empty line before the request line is skipped (RFC 9112, 2.2). */
static bool end_empty_line(struct request_reader *self) {
  if (self->has_request_line) {
    end_header(self);
    return true;
  }
  if (self->skipped_empty_line)
    return reject_malformed(self, "the request line is empty");
  self->skipped_empty_line = true;
  return true;
}

/* A line ends with CR and LF; neither may stand alone. */
static bool end_line(struct request_reader *self) {
  char *line = self->header + self->line;
  const size_t length = self->length - self->line - 2;
  self->line = self->length;
  line[length] = '\0';
  return length == 0 ? end_empty_line(self) : read_line(self, line, length);
}

static bool add_header_byte(struct request_reader *self, char byte) {
  const bool follows_cr = self->length > self->line && self->header[self->length - 1] == '\r';
  if ((byte == '\n') != follows_cr)
    return reject_malformed(self, "a line does not end with CR and LF");
  self->header[self->length++] = byte;
  if (byte == '\n' && !end_line(self))
    return false;
  if (self->state == REQUEST_READING_HEADER && self->length == HTTP_HEADER_MAX)
    return reject(self, 431, "too_large", "the header has more than 16 KiB");
  return true;
}

static size_t feed_header(struct request_reader *self, const char *bytes, size_t length) {
  if (self->header == NULL)
    self->header = memory_allocate(HTTP_HEADER_MAX);
  size_t used = 0;
  while (used < length && self->state == REQUEST_READING_HEADER)
    (void)add_header_byte(self, bytes[used++]);
  return used;
}

/* --- the body --------------------------------------------------------------------------------- */

void request_reader_read_body(struct request_reader *self) {
  CHECK(self->state == REQUEST_HEADER_READ);
  self->left = self->request.framing == HTTP_BODY_LENGTH ? self->request.content_length : 0;
  self->state = self->request.framing == HTTP_BODY_NONE ? REQUEST_DONE : REQUEST_READING_BODY;
}

/* Takes up to `left` bytes. */
static size_t take_data(struct request_reader *self, const char *bytes, size_t length) {
  const size_t taken = length < self->left ? length : (size_t)self->left;
  buffer_add(&self->body, bytes, taken);
  self->left -= taken;
  return taken;
}

static bool expect_byte(struct request_reader *self, char byte, char expected,
                        enum request_chunk_state next) {
  if (byte != expected)
    return reject_malformed(self, "a chunk does not end where its size says, or has an extension");
  self->chunk = next;
  return true;
}

static bool read_size_byte(struct request_reader *self, char byte) {
  const int value = hex_value(byte);
  if (value < 0 || self->digits == CHUNK_DIGITS_MAX)
    return self->digits > 0 && value < 0
               ? expect_byte(self, byte, '\r', CHUNK_SIZE_LF)
               : reject_malformed(self, "the size of a chunk is not 1 to 15 hexadecimal digits");
  self->digits++;
  self->left = self->left * 16 + (unsigned)value;
  return true;
}

static bool read_chunk_byte(struct request_reader *self, char byte) {
  switch (self->chunk) {
  case CHUNK_SIZE:
    return read_size_byte(self, byte);
  case CHUNK_SIZE_LF:
    self->digits = 0;
    return expect_byte(self, byte, '\n', self->left > 0 ? CHUNK_DATA : CHUNK_LAST_CR);
  case CHUNK_DATA_CR:
    return expect_byte(self, byte, '\r', CHUNK_DATA_LF);
  case CHUNK_DATA_LF:
    return expect_byte(self, byte, '\n', CHUNK_SIZE);
  case CHUNK_LAST_CR:
    return expect_byte(self, byte, '\r', CHUNK_LAST_LF);
  case CHUNK_LAST_LF:
    if (expect_byte(self, byte, '\n', CHUNK_SIZE))
      self->state = REQUEST_DONE;
    return true;
  case CHUNK_DATA:
    break;
  }
  return true;
}

static size_t feed_chunked(struct request_reader *self, const char *bytes, size_t length) {
  size_t used = 0;
  while (used < length && self->state == REQUEST_READING_BODY) {
    if (self->chunk == CHUNK_DATA) {
      used += take_data(self, bytes + used, length - used);
      if (self->left == 0)
        self->chunk = CHUNK_DATA_CR;
    } else {
      (void)read_chunk_byte(self, bytes[used++]);
    }
  }
  return used;
}

static size_t feed_body(struct request_reader *self, const char *bytes, size_t length) {
  if (self->request.framing == HTTP_BODY_CHUNKED)
    return feed_chunked(self, bytes, length);
  const size_t used = take_data(self, bytes, length);
  if (self->left == 0)
    self->state = REQUEST_DONE;
  return used;
}

size_t request_reader_feed(struct request_reader *self, const char *bytes, size_t length) {
  size_t used = 0;
  if (length > 0 && self->state == REQUEST_READING_HEADER)
    used = feed_header(self, bytes, length);
  else if (self->state == REQUEST_READING_BODY)
    used = feed_body(self, bytes, length);
  return used;
}
