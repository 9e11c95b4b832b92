/* Any bytes as requests of HTTP, one behind the other, as a connection reads them. The reader finds
   the same requests however the bytes arrive. An accepted header has only complete lines without
   control characters, one Host and one length of the body; written in the simplest form it is the
   same request. After an error no byte is read. The seeds are the rows of the tests. */
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#include "agent/frontends/http/connection/request_reader.h"
#include "base/memory.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/http_rows.h"

int LLVMFuzzerInitialize(const int *count, char ***arguments);

/* --- what was read ---------------------------------------------------------------------------- */

static size_t count_fields(const struct http_request *request, const char *name) {
  size_t count = 0;
  for (size_t i = 0; i < request->field_count; i++)
    count += strcasecmp(request->fields[i].name, name) == 0;
  return count;
}

static void check_value(const char *text) {
  for (; *text != '\0'; text++)
    demand(((unsigned char)*text >= ' ' && *text != 0x7f) || *text == '\t');
}

static void check_path(const struct http_request *request) {
  const char *path = request->path;
  demand(path[0] == '/' && strlen(path) == request->path_length);
  demand(strchr(path, '\\') == NULL && strstr(path, "//") == NULL);
  demand(strstr(path, "/./") == NULL && strstr(path, "/../") == NULL);
  demand(path[1] == '\0' || path[request->path_length - 1] != '/');
  for (const char *at = request->query; *at != '\0'; at++)
    demand(*at > ' ' && *at <= '~');
}

static void check_header(const struct http_request *request) {
  const char *length = http_request_field(request, "Content-Length");
  size_t encodings = count_fields(request, "Transfer-Encoding");
  demand(request->field_count <= HTTP_FIELDS_MAX);
  check_path(request);
  for (size_t i = 0; i < request->field_count; i++) {
    demand(request->fields[i].name[0] != '\0' && strpbrk(request->fields[i].name, " \t:") == NULL);
    check_value(request->fields[i].value);
  }
  demand(count_fields(request, "Host") == 1 || request->is_http_1_0);
  demand(count_fields(request, "Host") <= 1 && count_fields(request, "Content-Length") <= 1);
  demand(encodings == 0 || (encodings == 1 && length == NULL && !request->is_http_1_0));
  demand((request->framing == HTTP_BODY_CHUNKED) == (encodings == 1));
  demand(length == NULL || request->content_length == strtoull(length, NULL, 10));
  demand((request->framing == HTTP_BODY_LENGTH) == (request->content_length > 0));
  demand(request->framing == HTTP_BODY_NONE || request->method == HTTP_PUT ||
         request->method == HTTP_POST || request->method == HTTP_OTHER);
}

static void check_rejection(struct request_reader *reader) {
  const struct http_rejection *rejection = &reader->rejection;
  int status = rejection->status;
  demand(status == 400 || status == 417 || status == 431 || status == 505);
  demand((status == 400) == (strcmp(rejection->word, "malformed") == 0));
  demand(rejection->message[0] != '\0');
  demand(request_reader_feed(reader, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27) == 0);
  demand(reader->state == REQUEST_REJECTED);
}

/* Everything of a request that a frontend sees. */
static void record(struct buffer *trace, const struct http_request *request,
                   const struct buffer *body) {
  buffer_add_format(trace, "%s %s %s %d %d %d\n", request->method_name, request->path,
                    request->query, request->is_http_1_0, request->closes,
                    request->expects_continue);
  for (size_t i = 0; i < request->field_count; i++)
    if (strcasecmp(request->fields[i].name, "Transfer-Encoding") != 0 &&
        strcasecmp(request->fields[i].name, "Content-Length") != 0)
      buffer_add_format(trace, "%s: %s\n", request->fields[i].name, request->fields[i].value);
  buffer_add_format(trace, "%zu ", body->length);
  if (body->length > 0)
    buffer_add(trace, body->bytes, body->length);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Reads one request from the bytes, `piece` of them at a time. Returns the number that was used. */
static size_t read_request(struct request_reader *reader, const char *bytes, size_t length,
                           size_t piece) {
  size_t used = 0;
  while (reader->state != REQUEST_DONE && reader->state != REQUEST_REJECTED) {
    if (reader->state == REQUEST_HEADER_READ) {
      check_header(&reader->request);
      request_reader_read_body(reader);
      continue;
    }
    if (used == length)
      break;
    size_t given = length - used < piece ? length - used : piece;
    size_t taken = request_reader_feed(reader, bytes + used, given);
    demand(taken <= given && taken > 0);
    demand(taken == given ||
           (reader->state != REQUEST_READING_HEADER && reader->state != REQUEST_READING_BODY));
    used += taken;
  }
  return used;
}

/* Returns the number of bytes up to the end of the last request, or to the first error. */
static size_t read_all(struct buffer *trace, const char *bytes, size_t length, size_t piece) {
  struct request_reader reader = {0};
  size_t used = 0;
  enum request_reader_state state;
  do {
    used += read_request(&reader, bytes + used, length - used, piece);
    state = reader.state;
    if (state == REQUEST_DONE) {
      const struct http_request *request = &reader.request;
      demand(request->framing != HTTP_BODY_LENGTH || reader.body.length == request->content_length);
      record(trace, request, &reader.body);
    } else {
      if (state == REQUEST_REJECTED)
        check_rejection(&reader);
      buffer_add_format(trace, "%d %d", state, reader.rejection.status);
    }
    request_reader_reset(&reader);
  } while (state == REQUEST_DONE && used < length);
  return used;
}

/* Writes the request in the simplest form, and reads it again. */
static void check_simplest(const struct request_reader *read) {
  const struct http_request *request = &read->request;
  struct buffer text = {0}, before = {0}, after = {0};
  struct request_reader reader = {0};
  buffer_add_format(&text, "%s ", request->method_name);
  for (const char *at = request->path; *at != '\0'; at++)
    buffer_add_format(&text, *at == '/' ? "/" : "%%%02X", (unsigned char)*at);
  buffer_add_format(&text, "?%s HTTP/1.%d\r\n", request->query, !request->is_http_1_0);
  for (size_t i = 0; i < request->field_count; i++)
    if (strcasecmp(request->fields[i].name, "Transfer-Encoding") != 0 &&
        strcasecmp(request->fields[i].name, "Content-Length") != 0)
      buffer_add_format(&text, "%s:%s\r\n", request->fields[i].name, request->fields[i].value);
  if (request->framing != HTTP_BODY_NONE)
    buffer_add_format(&text, "Content-Length: %zu\r\n", read->body.length);
  buffer_add_string(&text, "\r\n");
  if (text.length <= HTTP_HEADER_MAX && request->field_count < HTTP_FIELDS_MAX) {
    if (read->body.length > 0)
      buffer_add(&text, read->body.bytes, read->body.length);
    demand(read_request(&reader, text.bytes, text.length, text.length) == text.length);
    demand(reader.state == REQUEST_DONE);
    record(&before, request, &read->body);
    record(&after, &reader.request, &reader.body);
    demand(before.length == after.length && memcmp(before.bytes, after.bytes, before.length) == 0);
  }
  request_reader_reset(&reader);
  buffer_release(&text);
  buffer_release(&before);
  buffer_release(&after);
}

/* Returns the length of the header with its empty line. */
static size_t check_lines(const char *bytes, size_t length) {
  size_t skipped = length >= 2 && memcmp(bytes, "\r\n", 2) == 0 ? 2 : 0;
  const char *end = memmem(bytes + skipped, length - skipped, "\r\n\r\n", 4);
  demand(end != NULL);
  size_t header = (size_t)(end - bytes) + 4;
  for (size_t i = 0; i < header; i++) {
    unsigned char byte = (unsigned char)bytes[i];
    demand((byte >= ' ' && byte != 0x7f) || byte == '\t' || byte == '\r' || byte == '\n');
    demand(byte != '\r' || bytes[i + 1] == '\n');
    demand(byte != '\n' || (i > 0 && bytes[i - 1] == '\r'));
  }
  return header;
}

/* Decodes chunks in the way of the specification, without anything that it leaves to a server. */
static void check_chunks(const char *at, const char *end, const struct buffer *body) {
  size_t decoded = 0, size;
  do {
    size_t digits = 0;
    size = 0;
    for (; at < end && strchr("0123456789abcdefABCDEF", *at) != NULL && *at != '\0'; digits++) {
      const char digit[] = {*at++, '\0'};
      size = size * 16 + strtoul(digit, NULL, 16);
    }
    demand(digits >= 1 && digits <= 15 && end - at >= 2 && memcmp(at, "\r\n", 2) == 0);
    at += 2;
    demand((size_t)(end - at) >= size + 2 && body->length - decoded >= size);
    demand(size == 0 || memcmp(at, body->bytes + decoded, size) == 0);
    decoded += size;
    demand(memcmp(at + size, "\r\n", 2) == 0);
    at += size + 2;
  } while (size > 0);
  demand(at == end && decoded == body->length);
}

/* Reads the request again in another way. */
static void check_bytes(const struct request_reader *reader, const char *bytes, size_t length) {
  size_t header = check_lines(bytes, length);
  const struct buffer *body = &reader->body;
  if (reader->request.framing == HTTP_BODY_CHUNKED)
    check_chunks(bytes + header, bytes + length, body);
  else
    demand(length - header == body->length &&
           (body->length == 0 || memcmp(bytes + header, body->bytes, body->length) == 0));
}

static void check_first(const char *bytes, size_t length) {
  struct request_reader reader = {0};
  size_t used = read_request(&reader, bytes, length, length);
  if (reader.state == REQUEST_DONE) {
    check_bytes(&reader, bytes, used);
    check_simplest(&reader);
  }
  request_reader_reset(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const size_t pieces[] = {1, 2, 7, 61};
  const char *bytes = (const char *)data;
  struct buffer whole = {0};
  if (size == 0)
    return 0;
  size_t used = read_all(&whole, bytes, size, size);
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    struct buffer split = {0};
    demand(read_all(&split, bytes, size, pieces[i]) == used);
    demand(whole.length == split.length && memcmp(whole.bytes, split.bytes, whole.length) == 0);
    buffer_release(&split);
  }
  buffer_release(&whole);
  check_first(bytes, size);
  return 0;
}

/* --- seeds ------------------------------------------------------------------------------------ */

static void write_seeds(const char *directory, const char *name, const struct http_row *rows,
                        size_t count) {
  for (size_t i = 0; i < count; i++) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s-%zu", directory, name, i);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
      return;
    (void)(write(fd, rows[i].bytes, rows[i].length) +
           write(fd, HTTP_ROW_FOLLOWER, strlen(HTTP_ROW_FOLLOWER)));
    close(fd);
  }
}

/* The first directory is the one for new inputs: tests/fuzz/run makes it. */
int LLVMFuzzerInitialize(const int *count, char ***arguments) {
  for (int i = 1; i < *count; i++)
    if ((*arguments)[i][0] != '-') {
      write_seeds((*arguments)[i], "rejected", http_rejected_rows, http_rejected_row_count);
      write_seeds((*arguments)[i], "accepted", http_accepted_rows, http_accepted_row_count);
      break;
    }
  return 0;
}
