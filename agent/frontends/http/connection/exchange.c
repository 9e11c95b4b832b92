/* Writes responses into the buffers of a connection, which sends them in its next turn. */
#include "agent/frontends/http/connection/exchange.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/frontends/http/connection/server_state.h"
#include "base/check.h"
#include "base/clock.h"

const struct http_request *http_exchange_request(const struct http_exchange *self) {
  return &self->reader.request;
}

const char *http_exchange_segment(const struct http_exchange *self) {
  return self->segment != NULL ? self->segment : "";
}

struct buffer *http_exchange_body(struct http_exchange *self) {
  return &self->reader.body;
}

void http_exchange_set_user_data(struct http_exchange *self, void *user_data) {
  self->user_data = user_data;
}

void *http_exchange_user_data(const struct http_exchange *self) {
  return self->user_data;
}

static void set_long(struct http_exchange *self, bool is_long) {
  self->server->long_count += is_long;
  self->server->long_count -= self->is_long;
  self->is_long = is_long;
}

/* A client that has only closed its sending side still gets its response, unless others need its
   place: over TCP it cannot be told from one that has left. */
static bool abort_gone(const struct http_server *server) {
  struct http_exchange *gone = http_server_oldest_gone(server, false);
  if (gone != NULL)
    http_exchange_abort(gone);
  return gone != NULL;
}

bool http_exchange_admit_long(struct http_exchange *self) {
  if (!self->is_long && self->server->long_count == HTTP_LONG_MAX && !abort_gone(self->server)) {
    http_respond_error_with(self, 503, "busy", "too many long requests are open; try again",
                            HTTP_RETRY_AFTER);
    return false;
  }
  set_long(self, true);
  return true;
}

bool http_exchange_admit_output(struct http_exchange *self) {
  if (http_server_unsent(self->server) < HTTP_ALL_UNSENT_MAX)
    return true;
  http_respond_error_with(self, 503, "busy", "other clients do not read their responses; try again",
                          HTTP_RETRY_AFTER);
  return false;
}

void http_exchange_abort(struct http_exchange *self) {
  set_long(self, false);
  self->is_broken = true;
  connection_wake(self);
}

/* --- the header ------------------------------------------------------------------------------- */

static const char *reason_of(int status) {
  static const struct {
    int status;
    const char *reason;
  } reasons[] = {{200, "OK"},
                 {202, "Accepted"},
                 {204, "No Content"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {409, "Conflict"},
                 {410, "Gone"},
                 {412, "Precondition Failed"},
                 {413, "Content Too Large"},
                 {415, "Unsupported Media Type"},
                 {417, "Expectation Failed"},
                 {421, "Misdirected Request"},
                 {422, "Unprocessable Content"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {503, "Service Unavailable"},
                 {505, "HTTP Version Not Supported"}};
  for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
    if (reasons[i].status == status)
      return reasons[i].reason;
  return "Unknown";
}

/* Writes "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 5.6.7). strftime(3) would be 8 KiB. */
static void write_date(char *out, size_t size) {
  static const char days[] = "SunMonTueWedThuFriSat";
  static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const time_t now = (time_t)(clock_unix_ms() / 1000);
  struct tm utc;
  (void)gmtime_r(&now, &utc);
  (void)snprintf(out, size, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * utc.tm_wday,
                 utc.tm_mday, months + 3 * utc.tm_mon, utc.tm_year + 1900, utc.tm_hour, utc.tm_min,
                 utc.tm_sec);
}

/* Whether the next byte of the connection begins another request. */
static bool is_request_read(const struct http_exchange *self) {
  const bool has_body = self->reader.request.framing != HTTP_BODY_NONE;
  return self->reader.state == REQUEST_DONE ||
         (self->reader.state == REQUEST_HEADER_READ && !has_body);
}

static void begin_response(struct http_exchange *self, int status) {
  CHECK(self->response == RESPONSE_NONE);
  self->closes |= !is_request_read(self) || self->reader.request.closes;
  self->state = CONNECTION_SERVING;
  self->since_ms = clock_monotonic_ms();
  self->status = status;
}

static void write_header(struct http_exchange *self, const char *type, const char *fields) {
  char date[40];
  write_date(date, sizeof date);
  buffer_add_format(&self->output,
                    "HTTP/1.1 %d %s\r\nDate: %s\r\nSandbox-Instance: %s\r\n"
                    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
                    self->status, reason_of(self->status), date, self->server->instance);
  if (type != NULL)
    buffer_add_format(&self->output, "Content-Type: %s\r\n", type);
  if (fields != NULL)
    buffer_add_string(&self->output, fields);
  if (self->closes)
    buffer_add_string(&self->output, "Connection: close\r\n");
}

static void write_length(struct http_exchange *self, uint64_t length) {
  if (self->status != 204)
    buffer_add_format(&self->output, "Content-Length: %llu\r\n", (unsigned long long)length);
  buffer_add_string(&self->output, "\r\n");
}

/* --- whole responses -------------------------------------------------------------------------- */

void http_respond(struct http_exchange *self, int status, const char *type, const char *fields,
                  struct buffer *body) {
  struct buffer none = {0};
  struct buffer *content = body != NULL ? body : &none;
  begin_response(self, status);
  write_header(self, type, fields);
  write_length(self, content->length);
  if (self->reader.request.method == HTTP_HEAD)
    buffer_release(content);
  self->body = *content;
  *content = (struct buffer){0};
  self->response = RESPONSE_COMPLETE;
  connection_wake(self);
}

void http_respond_error_with(struct http_exchange *self, int status, const char *word,
                             const char *message, const char *fields) {
  struct buffer body = {0};
  buffer_add_string(&body, "{\"error\":");
  buffer_add_json(&body, word, strlen(word));
  buffer_add_string(&body, ",\"message\":");
  buffer_add_json(&body, message, strlen(message));
  buffer_add_string(&body, "}\n");
  self->error = word;
  http_respond(self, status, "application/json", fields, &body);
}

void http_respond_error(struct http_exchange *self, int status, const char *word,
                        const char *message) {
  http_respond_error_with(self, status, word, message, NULL);
}

/* --- streams ---------------------------------------------------------------------------------- */

/* HTTP/1.0 has no chunks: there a stream ends with the connection. */
void http_stream_begin(struct http_exchange *self, int status, const char *type, const char *fields,
                       uint64_t length) {
  begin_response(self, status);
  self->is_open_stream = length == HTTP_STREAM_OPEN;
  self->is_chunked = self->is_open_stream && !self->reader.request.is_http_1_0;
  write_header(self, type, fields);
  if (!self->is_open_stream)
    write_length(self, length);
  else
    buffer_add_string(&self->output,
                      self->is_chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n");
  self->response = RESPONSE_STREAMING;
  connection_wake(self);
}

size_t http_stream_capacity(const struct http_exchange *self) {
  const size_t unsent = self->output.length - self->written;
  return unsent < HTTP_UNSENT_MAX ? HTTP_UNSENT_MAX - unsent : 0;
}

static void remove_sent_output(struct http_exchange *self) {
  if (self->written == 0)
    return;
  self->output.length -= self->written;
  memmove(self->output.bytes, self->output.bytes + self->written, self->output.length);
  self->written = 0;
}

void http_stream_write(struct http_exchange *self, const char *bytes, size_t length) {
  CHECK(self->response == RESPONSE_STREAMING);
  if (length == 0)
    return;
  if (self->written == self->output.length)
    self->since_ms = clock_monotonic_ms(); /* the client has this long to accept a byte */
  remove_sent_output(self);
  if (self->is_chunked)
    buffer_add_format(&self->output, "%zx\r\n", length);
  buffer_add(&self->output, bytes, length);
  if (self->is_chunked)
    buffer_add_string(&self->output, "\r\n");
  connection_wake(self);
}

void http_stream_wake(struct http_exchange *self) {
  connection_wake(self);
}

void http_stream_end(struct http_exchange *self) {
  CHECK(self->response == RESPONSE_STREAMING);
  if (self->is_chunked)
    buffer_add_string(&self->output, "0\r\n\r\n");
  self->response = RESPONSE_COMPLETE;
  connection_wake(self);
}
