#include "agent/redis/outbox.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/redis/error_reply.h"
#include "agent/redis/hold.h"
#include "agent/redis/link.h"
#include "wire/memory.h"

/* The longest that Redis may take for an answer that is due. */
#define ANSWER_MS 12000

#define PIECES 16

#define PROBES 4

/* Of an answer: ids and words; more than link reads at once (reply_reader.h). */
#define LARGEST_STRING ((size_t)256 * 1024)

struct outbox {
  const struct outbox_handler *handler;
  void *owner;
  struct link *link;
  struct hold hold;
  size_t hold_bytes;
  char *event_head;  /* the XADD up to the length of its value */
  char *result_head; /* the LPUSH likewise */
  size_t event_head_length;
  size_t result_head_length;
  const struct keys *keys;
  char *probe_text;
  char *probe_names[PROBES];
  bool ready;
  bool was_full;
};

/* Appends one bulk string of the Redis protocol. */
static char *put_bulk(char *out, const char *text) {
  return out + sprintf(out, "$%zu\r\n%s\r\n", strlen(text), text);
}

static char *make_event_head(const char *key, unsigned long long maxlen) {
  char *head = memory_allocate(strlen(key) + 160);
  char *out = head + sprintf(head, "*%d\r\n", maxlen > 0 ? 8 : 5);
  out = put_bulk(put_bulk(out, "XADD"), key);
  if (maxlen > 0) {
    char number[32];
    (void)snprintf(number, sizeof number, "%llu", maxlen);
    out = put_bulk(put_bulk(put_bulk(out, "MAXLEN"), "~"), number);
  }
  (void)sprintf(put_bulk(put_bulk(out, "*"), "data"), "$");
  return head;
}

static char *make_result_head(const char *key) {
  char *head = memory_allocate(strlen(key) + 64);
  char *out = head + sprintf(head, "*3\r\n");
  (void)sprintf(put_bulk(put_bulk(out, "LPUSH"), key), "$");
  return head;
}

/* Reserves a command that ends with a value of `length` bytes; returns where the value begins. */
static char *reserve(struct outbox *self, const char *head, size_t head_length, size_t length) {
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%zu\r\n", length);
  char *out = hold_reserve(&self->hold, head_length + (size_t)n + length + 2);
  memcpy(out, head, head_length);
  memcpy(out + head_length, digits, (size_t)n);
  return out + head_length + n;
}

static void commit(struct outbox *self, char *end) {
  end[0] = '\r';
  end[1] = '\n';
  hold_commit(&self->hold);
  self->was_full |= outbox_is_full(self);
}

void outbox_event(struct outbox *self, const struct step_event *event) {
  char *out = reserve(self, self->event_head, self->event_head_length, step_event_length(event));
  commit(self, step_event_write(event, out));
}

void outbox_result(struct outbox *self, const struct step_result *result) {
  char *out =
      reserve(self, self->result_head, self->result_head_length, step_result_length(result));
  commit(self, step_result_write(result, out));
}

static void pump(struct outbox *self) {
  struct iovec pieces[PIECES];
  for (;;) {
    int count = hold_unsent(&self->hold, pieces, PIECES);
    if (count == 0)
      break;
    size_t written = link_write(self->link, pieces, count);
    hold_sent(&self->hold, written);
    if (written == 0)
      break;
  }
  link_expect(self->link, self->hold.records > 0 ? ANSWER_MS : 0);
}

void outbox_flush(struct outbox *self) {
  hold_release_all(&self->hold);
  pump(self);
}

/*
 * Before anything is done in its name the server is asked whether it would be allowed: a command is
 * checked for permission when it is queued, and a discarded transaction does nothing.
 */
static void probe_init(struct outbox *self) {
  const char *names[PROBES] = {"MULTI", "XADD", "LPUSH", "DISCARD"};
  const char *keys[PROBES] = {NULL, self->keys->events, self->keys->results, NULL};
  for (int i = 0; i < PROBES; i++)
    if (asprintf(&self->probe_names[i], keys[i] != NULL ? "%s %s" : "%s", names[i], keys[i]) < 0)
      memory_exhausted("a name");
  if (asprintf(&self->probe_text,
               "*1\r\n$5\r\nMULTI\r\n%s0\r\n\r\n%s0\r\n\r\n*1\r\n$7\r\nDISCARD\r\n",
               self->event_head, self->result_head) < 0)
    memory_exhausted("a command");
}

static void on_up(void *owner) {
  struct outbox *self = owner;
  hold_rewind(&self->hold);
  if (!self->ready) {
    self->ready = true;
    self->handler->ready(self->owner);
  }
  pump(self);
}

static void on_error(struct outbox *self, const char *command, const char *key, const char *text) {
  if (error_reply_passes(text)) {
    link_drop(self->link, text);
    return;
  }
  struct error error;
  (void)error_set(&error, "redis refuses %s %.120s: %.100s", command, key, text);
  link_stop(self->link);
  self->handler->failed(self->owner, &error);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct outbox *self = owner;
  size_t length;
  const char *oldest = hold_oldest(&self->hold, &length);
  if (oldest == NULL) {
    link_drop(self->link, "an answer nobody asked for");
    return;
  }
  if (reply->type == REDIS_REPLY_ERROR) {
    bool is_event = length > self->event_head_length &&
                    memcmp(oldest, self->event_head, self->event_head_length) == 0;
    on_error(self, is_event ? "XADD" : "LPUSH", is_event ? self->keys->events : self->keys->results,
             reply->str);
    return;
  }
  hold_acknowledged(&self->hold);
  if (self->hold.records == 0) {
    link_expect(self->link, 0);
    self->handler->empty(self->owner);
  }
  if (self->was_full && self->hold.bytes <= self->hold_bytes / 4 * 3) {
    self->was_full = false;
    self->handler->room(self->owner);
  }
}

static void on_writable(void *owner) {
  pump(owner);
}

static void on_unreachable(void *owner) {
  struct outbox *self = owner;
  self->handler->gone(self->owner);
}

static void on_failed(void *owner, const struct error *error) {
  struct outbox *self = owner;
  self->handler->failed(self->owner, error);
}

struct outbox *outbox_new(struct event_base *base, const struct log *log,
                          const struct outbox_options *options,
                          const struct outbox_handler *handler, void *owner) {
  static const struct link_handler link_handler = {.up = on_up,
                                                   .reply = on_reply,
                                                   .writable = on_writable,
                                                   .unreachable = on_unreachable,
                                                   .failed = on_failed};
  struct outbox *self = memory_allocate(sizeof *self);
  *self =
      (struct outbox){.handler = handler,
                      .owner = owner,
                      .keys = options->keys,
                      .hold_bytes = options->hold_bytes,
                      .event_head = make_event_head(options->keys->events, options->events_maxlen),
                      .result_head = make_result_head(options->keys->results)};
  self->event_head_length = strlen(self->event_head);
  self->result_head_length = strlen(self->result_head);
  hold_init(&self->hold);
  probe_init(self);
  struct link_options link_options = {.url = options->url,
                                      .role = "outbox",
                                      .name = options->name,
                                      .probe = {.text = self->probe_text,
                                                .length = strlen(self->probe_text),
                                                .names = (const char *const *)self->probe_names,
                                                .count = PROBES},
                                      .largest_string = LARGEST_STRING};
  self->link = link_new(base, log, &link_options, &link_handler, self);
  return self;
}

void outbox_free(struct outbox *self) {
  link_free(self->link);
  hold_free(&self->hold);
  for (int i = 0; i < PROBES; i++)
    free(self->probe_names[i]);
  free(self->probe_text);
  free(self->event_head);
  free(self->result_head);
  free(self);
}

void outbox_start(struct outbox *self) {
  link_start(self->link);
}

bool outbox_is_full(const struct outbox *self) {
  return self->hold.bytes >= self->hold_bytes;
}

size_t outbox_unacknowledged(const struct outbox *self) {
  return self->hold.records;
}

bool outbox_is_gone(const struct outbox *self) {
  return link_is_gone(self->link);
}
