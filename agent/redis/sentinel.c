#include "agent/redis/sentinel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/loop_event.h"
#include "agent/redis/command.h"
#include "agent/redis/dialer.h"
#include "agent/redis/reply_reader.h"
#include "agent/redis/url_text.h"
#include "wire/memory.h"

#define READ_SIZE ((size_t)1024)

struct sentinel {
  struct event_base *base;
  const struct redis_url *url;
  void (*done)(void *owner, const struct redis_address *master, const char *why);
  void *owner;
  size_t first;  /* the one that is asked first */
  size_t failed; /* so many in this round */
  struct event *timer;
  struct redis_url at; /* the one being asked; its host is the url's */
  struct dialer *dialer;
  int fd; /* -1 for none; with it the event and the reader */
  struct event *readable;
  struct reply_reader reader;
  bool password_sent;
  bool password_taken; /* its answer came */
  bool answered;       /* one of this round has said that it knows no such master */
  char why[224];
};

static size_t current(const struct sentinel *self) {
  return (self->first + self->failed) % self->url->sentinel_count;
}

static void hang_up(struct sentinel *self) {
  (void)evtimer_del(self->timer);
  if (self->dialer != NULL)
    dialer_cancel(self->dialer);
  self->dialer = NULL;
  if (self->fd < 0)
    return;
  event_free(self->readable);
  reply_reader_release(&self->reader);
  close(self->fd);
  self->fd = -1;
}

static void ask_next(struct sentinel *self);

static void tell(struct sentinel *self, const char *why) {
  char name[80];
  (void)redis_address_name(self->at.host, self->at.port, name, sizeof name);
  (void)snprintf(self->why, sizeof self->why, "sentinel %s: %s", name, why);
}

static void refused(struct sentinel *self, const char *why) {
  hang_up(self);
  if (!self->answered)
    tell(self, why);
  self->failed++;
  if (self->failed < self->url->sentinel_count)
    ask_next(self);
  else
    self->done(self->owner, NULL, self->why);
}

static void refused_by_error(struct sentinel *self, const char *text) {
  char why[120];
  const char *arguments = strstr(text, ", with args"); /* the password may be one */
  int length = arguments != NULL ? (int)(arguments - text) : (int)strlen(text);
  (void)snprintf(why, sizeof why, "%.*s", length, text);
  refused(self, why);
}

static void found(struct sentinel *self, const struct redis_address *master) {
  self->first = current(self);
  hang_up(self);
  self->done(self->owner, master, NULL);
}

/* False when the socket does not take it at once, which a new one does. */
static bool send_command(const struct sentinel *self, const char *const *words, size_t count) {
  char *command = command_new(words, count);
  size_t length = strlen(command);
  ssize_t sent = send(self->fd, command, length, MSG_NOSIGNAL);
  explicit_bzero(command, length);
  free(command);
  return sent >= 0 && (size_t)sent == length;
}

static bool send_question(const struct sentinel *self) {
  const char *const words[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", self->url->master};
  return send_command(self, words, 3);
}

static bool send_password(struct sentinel *self) {
  const char *const words[] = {"AUTH", self->url->password};
  self->password_sent = true;
  return send_command(self, words, 2) && send_question(self);
}

static void take_address(struct sentinel *self, const redisReply *reply) {
  struct redis_address master;
  const redisReply *host = reply->elements == 2 ? reply->element[0] : NULL;
  const redisReply *port = reply->elements == 2 ? reply->element[1] : NULL;
  if (host == NULL || host->type != REDIS_REPLY_STRING || host->len == 0 ||
      port->type != REDIS_REPLY_STRING ||
      !url_text_number(port->str, port->len, 65535, &master.port) || master.port == 0) {
    refused(self, "its answer is not an address");
    return;
  }
  master.host = host->str;
  found(self, &master);
}

/* One reply; false when it was the last one. */
static bool take_reply(struct sentinel *self, const redisReply *reply) {
  bool of_password = self->password_sent && !self->password_taken;
  if (reply->type == REDIS_REPLY_ERROR) {
    bool wants_password = strncmp(reply->str, "NOAUTH", 6) == 0 && !self->password_sent;
    if (wants_password && self->url->password != NULL && send_password(self))
      return true;
    refused_by_error(self, reply->str);
  } else if (of_password) {
    self->password_taken = true;
    return true;
  } else if (reply->type == REDIS_REPLY_ARRAY) {
    take_address(self, reply);
  } else {
    /* More to the point than what the other ones may say. */
    char why[128];
    (void)snprintf(why, sizeof why, "it knows no master '%.80s'", self->url->master);
    tell(self, why);
    self->answered = true;
    refused(self, why);
  }
  return false;
}

static void on_readable(evutil_socket_t fd, short what, void *context) {
  (void)what;
  struct sentinel *self = context;
  char bytes[READ_SIZE];
  ssize_t length = recv((int)fd, bytes, sizeof bytes, 0);
  if (length < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (length <= 0) {
    refused(self, length == 0 ? "closed by the server" : strerror(errno));
    return;
  }
  reply_reader_feed(&self->reader, bytes, (size_t)length);
  for (bool there = true; there;) {
    redisReply *reply;
    enum reply_reader_result result = reply_reader_next(&self->reader, &reply);
    if (result == REPLY_READER_MORE)
      return;
    if (result == REPLY_READER_REPLY)
      there = take_reply(self, reply);
    reply_reader_free(reply);
    if (result != REPLY_READER_REPLY) {
      refused(self, "its answer is not the Redis protocol");
      return;
    }
  }
}

static void on_timer(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  refused(context, "no answer in time");
}

static void on_dialed(void *owner, int fd, const char *why) {
  struct sentinel *self = owner;
  self->dialer = NULL;
  if (fd < 0) {
    refused(self, why);
    return;
  }
  self->fd = fd;
  self->readable = loop_event_new(self->base, fd, EV_READ | EV_PERSIST, on_readable, self);
  reply_reader_init(&self->reader, READ_SIZE + REPLY_READER_BEGINNING);
  self->password_sent = self->password_taken = false;
  if (!send_question(self))
    refused(self, "the socket takes no more");
}

static void ask_next(struct sentinel *self) {
  const struct redis_address *address = &self->url->sentinels[current(self)];
  self->at = (struct redis_url){.host = address->host, .port = address->port};
  loop_timer_start(self->timer, SENTINEL_ANSWER_MS);
  self->dialer = dialer_start(self->base, &self->at, on_dialed, self);
}

struct sentinel *sentinel_new(struct event_base *base, const struct redis_url *url) {
  struct sentinel *self = memory_allocate(sizeof *self);
  *self = (struct sentinel){.base = base, .url = url, .fd = -1};
  self->timer = loop_timer_new(base, on_timer, self);
  return self;
}

void sentinel_free(struct sentinel *self) {
  hang_up(self);
  event_free(self->timer);
  free(self);
}

void sentinel_ask(struct sentinel *self,
                  void (*done)(void *owner, const struct redis_address *master, const char *why),
                  void *owner) {
  self->done = done;
  self->owner = owner;
  self->failed = 0;
  self->answered = false;
  ask_next(self);
}

void sentinel_cancel(struct sentinel *self) {
  hang_up(self);
}

void sentinel_doubt(struct sentinel *self) {
  self->first = (self->first + 1) % self->url->sentinel_count;
}
