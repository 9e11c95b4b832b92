#include "tests/support/fake_redis.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/test.h"

struct fake_redis {
  struct event_base *base;
  char directory[32];
  struct sockaddr_un path;
  struct sockaddr_in address;
  char host[16];
  bool tcp;
  struct redis_address at;
  int listener; /* -1 while it does not listen */
  struct event *incoming;
  int fd; /* -1: no connection */
  struct event *readable;
  redisReader *reader;
  const char *(*answer)(void *owner, const char *command);
  void *owner;
  char **commands;
  size_t count;
  int connections;
};

static char *join(const redisReply *command) {
  size_t length = 0;
  for (size_t i = 0; i < command->elements; i++)
    length += command->element[i]->len + 1;
  char *text = malloc(length + 1);
  assert_non_null(text);
  char *out = text;
  for (size_t i = 0; i < command->elements; i++) {
    memcpy(out, command->element[i]->str, command->element[i]->len);
    out += command->element[i]->len;
    *out++ = ' ';
  }
  out[out > text ? -1 : 0] = '\0';
  return text;
}

static void take_command(struct fake_redis *self, const redisReply *command) {
  assert_int_equal(command->type, REDIS_REPLY_ARRAY);
  self->commands = realloc(self->commands, (self->count + 1) * sizeof *self->commands);
  assert_non_null(self->commands);
  char *text = join(command);
  self->commands[self->count++] = text;
  const char *answer = self->answer == NULL ? "+OK\r\n" : self->answer(self->owner, text);
  if (answer != NULL && self->fd >= 0)
    fake_redis_send(self, answer);
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
  (void)what;
  struct fake_redis *self = context;
  char bytes[16384];
  ssize_t length = recv((int)fd, bytes, sizeof bytes, 0);
  if (length <= 0) {
    fake_redis_close_connection(self);
    return;
  }
  int connection = self->connections;
  assert_int_equal(redisReaderFeed(self->reader, bytes, (size_t)length), REDIS_OK);
  void *command = NULL;
  while (self->fd >= 0 && self->connections == connection &&
         redisReaderGetReply(self->reader, &command) == REDIS_OK && command != NULL) {
    take_command(self, command);
    freeReplyObject(command);
  }
}

static void on_incoming(evutil_socket_t listener, short what, void *context) {
  (void)what;
  struct fake_redis *self = context;
  int fd = accept4((int)listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0)
    return;
  fake_redis_close_connection(self);
  /* As Redis does. Virtual time does not wait for a delayed segment. */
  const int yes = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  self->fd = fd;
  self->connections++;
  self->reader = redisReaderCreate();
  self->readable = event_new(self->base, fd, EV_READ | EV_PERSIST, on_readable, self);
  assert_non_null(self->readable);
  event_add(self->readable, NULL);
}

void fake_redis_accept(struct fake_redis *self) {
  const struct sockaddr *address =
      self->tcp ? (const struct sockaddr *)&self->address : (const struct sockaddr *)&self->path;
  socklen_t size = self->tcp ? sizeof self->address : sizeof self->path;
  int on = 1;
  self->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  assert_true(self->listener >= 0);
  (void)setsockopt(self->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  assert_int_equal(bind(self->listener, address, size), 0);
  assert_int_equal(listen(self->listener, 8), 0);
  if (self->tcp)
    assert_int_equal(getsockname(self->listener, (struct sockaddr *)&self->address, &size), 0);
  self->incoming = event_new(self->base, self->listener, EV_READ | EV_PERSIST, on_incoming, self);
  assert_non_null(self->incoming);
  event_add(self->incoming, NULL);
}

void fake_redis_refuse(struct fake_redis *self) {
  event_free(self->incoming);
  close(self->listener);
  self->listener = -1;
  if (!self->tcp)
    unlink(self->path.sun_path);
}

struct fake_redis *fake_redis_new(struct event_base *base, bool tcp) {
  struct fake_redis *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->base = base;
  self->tcp = tcp;
  self->fd = -1;
  self->address.sin_family = AF_INET;
  self->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  strcpy(self->host, "127.0.0.1");
  strcpy(self->directory, "/tmp/fake-redis-XXXXXX");
  assert_non_null(mkdtemp(self->directory));
  self->path.sun_family = AF_UNIX;
  snprintf(self->path.sun_path, sizeof self->path.sun_path, "%s/socket", self->directory);
  fake_redis_accept(self);
  return self;
}

void fake_redis_free(struct fake_redis *self) {
  fake_redis_close_connection(self);
  if (self->listener >= 0)
    fake_redis_refuse(self);
  rmdir(self->directory);
  for (size_t i = 0; i < self->count; i++)
    free(self->commands[i]);
  free(self->commands);
  free(self);
}

struct redis_url fake_redis_url(struct fake_redis *self) {
  self->at = (struct redis_address){.host = self->tcp ? self->host : self->path.sun_path,
                                    .port = self->tcp ? ntohs(self->address.sin_port) : 0};
  return (struct redis_url){.hosts = &self->at, .host_count = 1};
}

void fake_redis_answer_with(struct fake_redis *self,
                            const char *(*answer)(void *owner, const char *command), void *owner) {
  self->answer = answer;
  self->owner = owner;
}

size_t fake_redis_commands(const struct fake_redis *self) {
  return self->count;
}

const char *fake_redis_command(const struct fake_redis *self, size_t number) {
  return number < self->count ? self->commands[number] : NULL;
}

int fake_redis_connections(const struct fake_redis *self) {
  return self->connections;
}

bool fake_redis_is_connected(const struct fake_redis *self) {
  return self->fd >= 0;
}

void fake_redis_send(struct fake_redis *self, const char *bytes) {
  size_t length = strlen(bytes);
  for (ssize_t n; self->fd >= 0 && length > 0; length -= (size_t)n, bytes += n)
    if ((n = send(self->fd, bytes, length, MSG_NOSIGNAL)) < 0) {
      assert_true(errno == EPIPE || errno == ECONNRESET); /* the peer has closed */
      return;
    }
}

void fake_redis_close_connection(struct fake_redis *self) {
  if (self->fd < 0)
    return;
  event_free(self->readable);
  redisReaderFree(self->reader);
  close(self->fd);
  self->fd = -1;
}
