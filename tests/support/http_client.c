#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/test.h"

/* How the end of a body is found. */
enum body { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_UNTIL_CLOSE };

struct http_client {
  int fd;
  struct buffer in; /* bytes that were received; from `at` on not used yet */
  size_t at;
  bool has_ended; /* the agent has closed its side */
  enum body kind;
  bool is_whole; /* the body was received to its end */
  size_t left;   /* of the body, or of the chunk */
  bool in_chunk;
  struct buffer head, body, line; /* NUL-terminated behind their length */
  size_t taken;                   /* of the body, by http_client_line */
  struct http_response response;
};

static void terminate(struct buffer *text) {
  *buffer_space(text, 1) = '\0';
}

/* --- connection ------------------------------------------------------------------------------- */

static socklen_t read_address(const char *address, struct sockaddr_storage *result) {
  *result = (struct sockaddr_storage){.ss_family = AF_UNIX};
  if (strncmp(address, "unix:", 5) == 0) {
    struct sockaddr_un *name = (struct sockaddr_un *)result;
    assert_true(strlen(address + 5) < sizeof name->sun_path);
    strcpy(name->sun_path, address + 5);
    return sizeof *name;
  }
  const char *colon = strrchr(address, ':');
  char host[64];
  assert_non_null(colon);
  bool is_bracketed = *address == '[' && colon[-1] == ']';
  snprintf(host, sizeof host, "%.*s", (int)(colon - address) - 2 * is_bracketed,
           address + is_bracketed);
  in_port_t port = htons((in_port_t)atoi(colon + 1));
  if (is_bracketed) {
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)result;
    *six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
    assert_int_equal(inet_pton(AF_INET6, host, &six->sin6_addr), 1);
    return sizeof *six;
  }
  struct sockaddr_in *four = (struct sockaddr_in *)result;
  *four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
  assert_int_equal(inet_pton(AF_INET, host, &four->sin_addr), 1);
  return sizeof *four;
}

struct http_client *http_client_try(const char *address) {
  struct sockaddr_storage storage;
  socklen_t length = read_address(address, &storage);
  int fd = socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  (void)signal(SIGPIPE, SIG_IGN);
  if (connect(fd, (const struct sockaddr *)&storage, length) != 0) {
    close(fd);
    return NULL;
  }
  if (storage.ss_family != AF_UNIX)
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)), 0);
  struct http_client *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->fd = fd;
  return self;
}

struct http_client *http_client_connect(const char *address) {
  struct http_client *self = http_client_try(address);
  if (self == NULL)
    fail_msg("cannot connect to %s: %s", address, strerror(errno));
  return self;
}

void http_client_free(struct http_client *self) {
  if (self == NULL)
    return;
  close(self->fd);
  buffer_release(&self->in);
  buffer_release(&self->head);
  buffer_release(&self->body);
  buffer_release(&self->line);
  free(self);
}

int http_client_fd(const struct http_client *self) {
  return self->fd;
}

void http_client_end_input(struct http_client *self) {
  (void)shutdown(self->fd, SHUT_WR);
}

void http_client_reset(struct http_client *self) {
  const struct linger at_once = {.l_onoff = 1};
  assert_int_equal(setsockopt(self->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  close(self->fd);
  self->fd = -1;
}

/* --- requests --------------------------------------------------------------------------------- */

bool http_client_offer(struct http_client *self, const char *bytes, size_t length) {
  while (length > 0) {
    struct pollfd socket = {.fd = self->fd, .events = POLLOUT};
    if (poll(&socket, 1, WAIT_BOUND_MS) != 1)
      fail_msg("the agent does not read: %zu bytes are left", length);
    ssize_t n = send(self->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN)
      return false;
    bytes += n > 0 ? n : 0;
    length -= n > 0 ? (size_t)n : 0;
  }
  return true;
}

/* Whether the agent has read everything that was sent. */
static bool is_read(void *context) {
  const struct http_client *self = context;
  int unread = 0;
  return ioctl(self->fd, SIOCOUTQ, &unread) != 0 || unread == 0;
}

bool http_client_offer_bytewise(struct http_client *self, const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) {
    if (!http_client_offer(self, bytes + i, 1))
      return false;
    for (int spins = 0; spins < 1000 && !is_read(self); spins++)
      sched_yield();
    if (!wait_until(is_read, self, WAIT_BOUND_MS))
      fail_msg("byte %zu is not read", i);
  }
  return true;
}

void http_client_send_bytes(struct http_client *self, const char *bytes, size_t length) {
  if (!http_client_offer(self, bytes, length))
    fail_msg("the agent has closed the connection: %s", strerror(errno));
}

void http_client_send(struct http_client *self, const char *text) {
  http_client_send_bytes(self, text, strlen(text));
}

void http_client_send_request(struct http_client *self, const char *method, const char *target,
                              const char *fields, const char *body) {
  struct buffer text = {0};
  buffer_add_format(&text, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s", method, target,
                    fields != NULL ? fields : "");
  if (body != NULL)
    buffer_add_format(&text, "Content-Length: %zu\r\n", strlen(body));
  buffer_add_format(&text, "\r\n%s", body != NULL ? body : "");
  http_client_send_bytes(self, text.bytes, text.length);
  buffer_release(&text);
}

/* --- responses -------------------------------------------------------------------------------- */

static void fail_response(const struct http_client *self, const char *why) {
  fail_msg("%s: %.*s%.*s", why, (int)self->head.length, self->head.bytes,
           (int)(self->in.length - self->at), self->in.bytes + self->at);
}

bool http_client_has_input(const struct http_client *self) {
  struct pollfd socket = {.fd = self->fd, .events = POLLIN};
  return self->at < self->in.length || poll(&socket, 1, 0) == 1;
}

/* Waits for more bytes; returns false at the end of the connection. */
static bool receive(struct http_client *self) {
  struct pollfd socket = {.fd = self->fd, .events = POLLIN};
  if (self->has_ended)
    return false;
  if (self->at == self->in.length)
    self->at = self->in.length = 0;
  if (poll(&socket, 1, WAIT_BOUND_MS) != 1)
    fail_response(self, "no more bytes arrive");
  ssize_t n = read(self->fd, buffer_space(&self->in, 65536), 65536);
  self->has_ended = n <= 0;
  self->in.length += n > 0 ? (size_t)n : 0;
  return n > 0;
}

/* Returns a line with its CRLF, which is then used; NULL: the connection ends before. */
static const char *take_line(struct http_client *self, size_t *length) {
  const char *end = NULL;
  while (self->in.length == self->at ||
         (end = memchr(self->in.bytes + self->at, '\n', self->in.length - self->at)) == NULL)
    if (!receive(self))
      return NULL;
  const char *line = self->in.bytes + self->at;
  *length = (size_t)(end - line) + 1;
  self->at += *length;
  if (*length < 2 || end[-1] != '\r' || memchr(line, '\0', *length) != NULL)
    fail_response(self, "a line does not end with CRLF");
  return line;
}

static bool is_field(const char *line, size_t length) {
  size_t name = 0;
  while (name < length && (isalnum((unsigned char)line[name]) || line[name] == '-'))
    name++;
  return name > 0 && name + 1 < length && line[name] == ':' && line[name + 1] == ' ';
}

static void read_status(struct http_client *self) {
  const char *head = self->head.bytes;
  bool is_valid =
      strncmp(head, "HTTP/1.1 ", 9) == 0 && strspn(head + 9, "0123456789") == 3 && head[12] == ' ';
  if (!is_valid)
    fail_response(self, "not a status line");
  self->response.status = atoi(head + 9);
}

static bool read_head(struct http_client *self) {
  size_t length = 0;
  const char *line;
  self->head.length = 0;
  do {
    line = take_line(self, &length);
    if (line == NULL && self->in.length == self->at && self->head.length == 0)
      return false;
    if (line == NULL)
      fail_response(self, "the connection ends in a header");
    if (self->head.length > 0 && length > 2 && !is_field(line, length))
      fail_response(self, "not a header field");
    buffer_add(&self->head, line, length);
  } while (length > 2);
  terminate(&self->head);
  return true;
}

static void choose_body(struct http_client *self, bool is_to_head) {
  const struct http_response *response = &self->response;
  const char *length = http_response_field(response, "Content-Length");
  const char *coding = http_response_field(response, "Transfer-Encoding");
  int status = response->status;
  if ((length != NULL && coding != NULL) || (coding != NULL && strcmp(coding, "chunked") != 0) ||
      (length != NULL && (*length == '\0' || length[strspn(length, "0123456789")] != '\0')))
    fail_response(self, "the length of the body is ambiguous");
  if (status < 200 || status == 204 || status == 304) {
    if (length != NULL || coding != NULL)
      fail_response(self, "the status has no body");
    self->kind = BODY_NONE;
  } else if (is_to_head) {
    self->kind = BODY_NONE;
  } else if (coding != NULL) {
    self->kind = BODY_CHUNKED;
  } else {
    self->kind = length != NULL ? BODY_LENGTH : BODY_UNTIL_CLOSE;
    self->left = length != NULL ? strtoul(length, NULL, 10) : SIZE_MAX;
  }
  self->is_whole = self->kind == BODY_NONE || self->left == 0;
}

static const struct http_response *begin(struct http_client *self, bool is_to_head) {
  self->response = (struct http_response){.head = "", .body = ""};
  self->left = self->taken = self->body.length = 0;
  self->in_chunk = self->is_whole = false;
  if (!read_head(self))
    return &self->response;
  read_status(self);
  self->response.head = self->head.bytes;
  self->left = SIZE_MAX;
  choose_body(self, is_to_head);
  self->response.is_chunked = self->kind == BODY_CHUNKED;
  return &self->response;
}

const struct http_response *http_client_begin_response(struct http_client *self) {
  return begin(self, false);
}

/* --- bodies ----------------------------------------------------------------------------------- */

/* Reads the size of the next chunk; false: the connection ends before. */
static bool begin_chunk(struct http_client *self) {
  size_t length;
  const char *line = take_line(self, &length);
  if (line == NULL)
    return false;
  if (length == 2 || strspn(line, "0123456789abcdefABCDEF") != length - 2)
    fail_response(self, "not the size of a chunk");
  self->left = strtoul(line, NULL, 16);
  self->in_chunk = true;
  return true;
}

/* Reads the empty line behind a chunk; false: the connection ends before. */
static bool end_chunk(struct http_client *self, bool is_last) {
  size_t length;
  if (take_line(self, &length) == NULL)
    return false;
  if (length != 2)
    fail_response(self, "a chunk is longer than its size");
  self->in_chunk = false;
  self->is_whole = is_last;
  return true;
}

/* Moves bytes that belong to the body. */
static bool take_bytes(struct http_client *self) {
  if (self->at == self->in.length && !receive(self)) {
    self->is_whole = self->kind == BODY_UNTIL_CLOSE;
    return false;
  }
  size_t there = self->in.length - self->at, length = there < self->left ? there : self->left;
  buffer_add(&self->body, self->in.bytes + self->at, length);
  terminate(&self->body);
  self->at += length;
  self->left -= self->kind == BODY_UNTIL_CLOSE ? 0 : length;
  self->response.body = self->body.bytes;
  self->response.body_length = self->body.length;
  return true;
}

bool http_client_read_body(struct http_client *self) {
  if (self->is_whole || self->response.status == 0)
    return false;
  if (self->kind == BODY_CHUNKED) {
    if (!self->in_chunk && !begin_chunk(self))
      return false;
    if (self->left == 0) {
      (void)end_chunk(self, true);
      return false;
    }
    return take_bytes(self) && (self->left > 0 || end_chunk(self, false));
  }
  if (!take_bytes(self))
    return false;
  self->is_whole = self->left == 0;
  return true;
}

static const struct http_response *read_response(struct http_client *self, bool is_to_head) {
  begin(self, is_to_head);
  while (http_client_read_body(self))
    continue;
  if (self->response.status != 0 && !self->is_whole)
    fail_response(self, "the connection ends in a body");
  return &self->response;
}

const struct http_response *http_client_response(struct http_client *self) {
  return read_response(self, false);
}

const struct http_response *http_client_response_to_head(struct http_client *self) {
  return read_response(self, true);
}

const struct http_response *http_client_request(struct http_client *self, const char *method,
                                                const char *target, const char *fields,
                                                const char *body) {
  http_client_send_request(self, method, target, fields, body);
  return read_response(self, strcmp(method, "HEAD") == 0);
}

const char *http_client_line(struct http_client *self) {
  size_t searched = self->taken;
  const char *end = NULL;
  for (;;) {
    if (self->body.length > searched)
      end = memchr(self->body.bytes + searched, '\n', self->body.length - searched);
    if (end != NULL)
      break;
    searched = self->body.length;
    if (!http_client_read_body(self) && self->body.length == searched)
      return NULL;
  }
  const char *start = self->body.bytes + self->taken;
  self->line.length = 0;
  buffer_add(&self->line, start, (size_t)(end - start));
  terminate(&self->line);
  self->taken += (size_t)(end - start) + 1;
  return self->line.bytes;
}

bool http_client_is_whole(const struct http_client *self) {
  return self->is_whole;
}

void http_client_expect_closed(struct http_client *self) {
  if (self->at < self->in.length || receive(self))
    fail_response(self, "bytes follow the response");
}

/* --- fields ----------------------------------------------------------------------------------- */

static const char *find_field(const char *head, const char *name) {
  for (const char *line = head; (line = strstr(line, "\r\n")) != NULL;) {
    line += 2;
    if (strncasecmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
      return line + strlen(name) + 1;
  }
  return NULL;
}

const char *http_response_field(const struct http_response *self, const char *name) {
  static char values[8][1024];
  static unsigned next;
  const char *value = find_field(self->head, name);
  if (value == NULL)
    return NULL;
  if (find_field(value, name) != NULL)
    fail_msg("%s appears twice: %s", name, self->head);
  value += strspn(value, " \t");
  size_t length = strcspn(value, "\r");
  while (length > 0 && (value[length - 1] == ' ' || value[length - 1] == '\t'))
    length--;
  assert_true(length < sizeof values[0]);
  char *copy = values[next++ % 8];
  memcpy(copy, value, length);
  copy[length] = '\0';
  return copy;
}
