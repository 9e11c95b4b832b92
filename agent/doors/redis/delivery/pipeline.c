#include "agent/doors/redis/delivery/pipeline.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/link/command.h"
#include "agent/doors/redis/link/error_reply.h"
#include "base/check.h"
#include "base/decimal.h"

#define PREFLIGHT_FIRST 7 /* up to MULTI, which is the last of them */
#define PROBE_COMMANDS 2

static const char multi[] = "*1\r\n$5\r\nMULTI\r\n";
static const char exec[] = "*1\r\n$4\r\nEXEC\r\n";
static const char discard[] = "*1\r\n$7\r\nDISCARD\r\n";

static_assert(sizeof((struct pipeline *)NULL)->ttl > DECIMAL_LENGTH_MAX, "any number of seconds");

/* A new command or key of the agent is added here. A read checks the type of its key. A command inside
   MULTI is checked for permission when it is queued, and DISCARD drops it. */
static char *make_preflight(const struct keys *keys, bool trims) {
  const char *const commands[PREFLIGHT_COMMANDS][COMMAND_LIST_WORDS] = {
      /* Checks that in a cluster all keys are in one slot. NOPERM is ignored here (`multi_key`), since
         it does not name the key; the commands below do. DISCARD ends this watch. */
      {"WATCH", keys->in, keys->events, keys->results, keys->inflight, keys->started,
       keys->committed, keys->heartbeat},
      {"LLEN", keys->in},
      {"XLEN", keys->events},
      {"LLEN", keys->results},
      {"LLEN", keys->inflight},
      {"GET", keys->started},
      {"MULTI"},
      {"XADD", keys->events, "*", "data", ""},
      {trims ? "XTRIM" : "XLEN", keys->events, trims ? "MAXLEN" : NULL, "0"},
      {"LPUSH", keys->results, ""},
      {"LREM", keys->inflight, "-1", ""},
      {"LTRIM", keys->inflight, "0", "-2"},
      {"RPUSH", keys->inflight, ""},
      {"LINDEX", keys->inflight, "-1"},
      {"XREVRANGE", keys->events, "+", "-", "COUNT", "1"},
      {"SET", keys->started, ""},
      {"DEL", keys->started},
      {"SET", keys->committed, ""},
      {"SET", keys->heartbeat, "", "EX", "1"},
      {"DEL", keys->heartbeat},
      {"EXPIRE", keys->in, "1"},
      {"EXPIRE", keys->results, "1"},
      {"PERSIST", keys->in},
      {"DISCARD"},
      {"WATCH", keys->committed},
      {"GET", keys->committed},
      {"MULTI"},
  };
  return command_list_new(commands, PREFLIGHT_COMMANDS);
}

void pipeline_init(struct pipeline *self, const struct keys *keys, bool trims,
                   unsigned long long key_ttl_seconds) {
  *self = (struct pipeline){.key = keys->committed, .preflight = make_preflight(keys, trims)};
  if (key_ttl_seconds > 0)
    (void)snprintf(self->ttl, sizeof self->ttl, "%llu", key_ttl_seconds);
  struct command_word word;
  const char *end = self->preflight + strlen(self->preflight);
  self->probe = self->preflight;
  for (int i = 0; i < PREFLIGHT_COMMANDS - PROBE_COMMANDS - 1; i++)
    (void)command_read(&self->probe, end, &word, 1);
  self->probe_bytes = (size_t)(end - self->probe) - (sizeof multi - 1);
}

struct handshake_probe pipeline_preflight(const struct pipeline *self) {
  return (struct handshake_probe){.text = self->preflight,
                                  .length = strlen(self->preflight),
                                  .count = PREFLIGHT_COMMANDS,
                                  .multi_key = 1,
                                  .first = PREFLIGHT_FIRST,
                                  .value = PREFLIGHT_COMMANDS - 2};
}

void pipeline_shorten_ttl(struct pipeline *self, unsigned long long seconds) {
  if (self->ttl[0] == '\0' || strtoull(self->ttl, NULL, 10) > seconds)
    (void)snprintf(self->ttl, sizeof self->ttl, "%llu", seconds);
}

void pipeline_release(struct pipeline *self) {
  pipeline_reset(self);
  free(self->preflight);
}

void query_put(struct query *self, query_ask *ask, query_answer *answer, void *owner) {
  query_release(self);
  *self = (struct query){.ask = ask, .answer = answer, .owner = owner};
}

void query_release(struct query *self) {
  free(self->commands);
  *self = (struct query){0};
}

void query_take(struct query *self, const redisReply *reply, bool whole) {
  CHECK(self->commands != NULL);
  struct command_word word;
  char *answered = NULL;
  (void)command_read(&self->unanswered, self->unanswered + strlen(self->unanswered), &word, 1);
  if (self->unanswered[0] == '\0') {
    answered = self->commands;
    self->commands = NULL;
    self->ask = NULL;
  }
  self->answer(self->owner, reply, whole);
  free(answered);
}

/* Appends whole commands; where they go on in the pieces after it, those are appended with 0. */
static void add(struct exchange *self, const char *text, size_t length, size_t commands) {
  CHECK(self->count < EXCHANGE_PIECES);
  self->counts[self->count] = commands;
  self->pieces[self->count++] =
      (struct iovec){.iov_base = (char *)(uintptr_t)text, .iov_len = length};
  self->length += length;
  self->commands += commands;
}

/* Adds what is not replied to. */
static void add_query(struct exchange *self, struct query *query) {
  if (query->commands == NULL)
    query->unanswered = query->commands = query->ask(query->owner);
  size_t length = strlen(query->unanswered), commands = 0;
  struct command_word word;
  for (const char *at = query->unanswered; command_read(&at, query->unanswered + length, &word, 1);)
    commands++;
  add(self, query->unanswered, length, commands);
}

/* The end of the request that begins. */
static void add_end(struct pipeline *self, struct query *query) {
  add(&self->now, self->probe, self->probe_bytes, PROBE_COMMANDS);
  self->now.probe_end = self->now.commands;
  self->now.probe_length = self->now.length;
  if (query != NULL && query->ask != NULL)
    add_query(&self->now, query);
  add(&self->now, multi, sizeof multi - 1, 1);
  self->is_busy = true;
}

void pipeline_execute(struct pipeline *self, const struct batch *batch, const char *value,
                      struct query *query) {
  CHECK(!self->is_busy);
  pipeline_reset(self);
  self->set = command_new((const char *[]){"SET", self->key, value, "EX", self->ttl},
                          self->ttl[0] != '\0' ? 5 : 3);
  for (int i = 0; i < batch->count; i++)
    add(&self->now, batch->pieces[i].iov_base, batch->pieces[i].iov_len,
        i == 0 ? batch->commands : 0);
  add(&self->now, self->set, strlen(self->set), 1);
  self->now.exec = self->now.commands;
  add(&self->now, exec, sizeof exec - 1, 1);
  add_end(self, query);
}

void pipeline_probe(struct pipeline *self, struct query *query) {
  CHECK(!self->is_busy);
  pipeline_reset(self);
  add(&self->now, discard, sizeof discard - 1, 1);
  add_end(self, query);
}

/* Fills in what is not sent yet; returns the number of pieces. */
static int rest_of(const struct exchange *self, struct iovec rest[EXCHANGE_PIECES]) {
  int count = 0;
  size_t skip = self->sent;
  for (int i = 0; i < self->count; i++) {
    size_t length = self->pieces[i].iov_len;
    if (skip < length)
      rest[count++] = (struct iovec){.iov_base = (char *)self->pieces[i].iov_base + skip,
                                     .iov_len = length - skip};
    skip -= skip < length ? skip : length;
  }
  return count;
}

void pipeline_send(struct pipeline *self, struct client *client) {
  struct iovec rest[EXCHANGE_PIECES];
  int count;
  while ((count = rest_of(&self->now, rest)) > 0) {
    size_t written = client_write(client, rest, count);
    self->now.sent += written;
    if (written == 0)
      return;
  }
}

static void keep_refusal(struct exchange *self, const redisReply *reply, size_t index) {
  if (reply == NULL || reply->type != REDIS_REPLY_ERROR || self->refusal[0] != '\0')
    return;
  (void)snprintf(self->refusal, sizeof self->refusal, "%s", reply->str);
  self->refused = index;
}

/* Whatever answers "+OK" to everything is no Redis: its EXEC executes nothing, and would be sent again
   at once. After an error nothing is as it should be. What a query is answered with is its owner's; the
   last command opens the next transaction. */
static bool is_odd(const struct exchange *self, const redisReply *reply, size_t index) {
  if (reply->type == REDIS_REPLY_ERROR || self->refusal[0] != '\0')
    return false;
  if (self->exec > 0 && index == self->exec)
    return reply->type != REDIS_REPLY_ARRAY && reply->type != REDIS_REPLY_NIL;
  if (index + 1 == self->probe_end)
    return reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_NIL;
  bool of_query = index >= self->probe_end && index + 1 < self->commands;
  return !of_query && reply->type != REDIS_REPLY_STATUS;
}

/* EXEC's reply is an array with the replies of all queued commands; an error among them does not undo
   the others. It is nil, and nothing was executed, when another client wrote the watched key. */
static void take_reply(struct exchange *self, const redisReply *reply) {
  size_t index = self->replied++;
  self->is_odd |= is_odd(self, reply, index);
  keep_refusal(self, reply, index);
  self->executed |= self->exec > 0 && index == self->exec && reply->type == REDIS_REPLY_ARRAY;
  for (size_t i = 0; index == self->exec && self->executed && i < reply->elements; i++)
    keep_refusal(self, reply->element[i], i);
}

enum pipeline_reply pipeline_take(struct pipeline *self, const redisReply *reply) {
  struct exchange *now = &self->now;
  if (!self->is_busy)
    return PIPELINE_UNEXPECTED;
  take_reply(now, reply);
  if (error_reply_is_last(now->refusal))
    return PIPELINE_REFUSED;
  bool last = now->replied == now->commands, of_probe = now->replied == now->probe_end;
  if (now->is_odd || (last && now->sent < now->length) ||
      (of_probe && now->sent < now->probe_length))
    return PIPELINE_UNEXPECTED;
  if (now->refusal[0] != '\0')
    return last ? PIPELINE_REFUSED : PIPELINE_PROGRESS;
  self->is_busy = !last;
  if (last)
    return PIPELINE_DONE;
  if (now->replied > now->probe_end)
    return PIPELINE_QUERY;
  return of_probe ? PIPELINE_COMMITTED : PIPELINE_PROGRESS;
}

void pipeline_explain_refusal(const struct pipeline *self, const char *why, struct error *error) {
  const struct exchange *now = &self->now;
  struct command_word words[2] = {{.text = ""}};
  size_t read = 0;
  bool found = false;
  for (int i = 0; i < now->count; i++) {
    found = found || read + now->counts[i] > now->refused;
    if (!found) {
      read += now->counts[i];
      continue;
    }
    const char *at = now->pieces[i].iov_base, *end = at + now->pieces[i].iov_len;
    while (read <= now->refused && command_read(&at, end, words, 2))
      read++;
  }
  size_t key = words[1].length < 120 ? words[1].length : 120;
  (void)error_set(error, "redis refuses %.*s%s%.*s: %.100s", (int)words[0].length, words[0].text,
                  key > 0 ? " " : "", (int)key, words[1].text, why);
}

void pipeline_reset(struct pipeline *self) {
  free(self->set);
  self->set = NULL;
  self->now = (struct exchange){0};
  self->is_busy = false;
}
