#include "agent/doors/redis/delivery/pipeline.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/net/error_reply.h"
#include "base/check.h"
#include "base/decimal.h"

#define PROBE_COMMANDS 2

static const char multi[] = "*1\r\n$5\r\nMULTI\r\n";
static const char discard[] = "*1\r\n$7\r\nDISCARD\r\n";

static_assert(sizeof((struct pipeline *)NULL)->ttl > DECIMAL_LENGTH_MAX, "any number of seconds");

void pipeline_init(struct pipeline *self, const struct keys *keys,
                   unsigned long long key_ttl_seconds) {
  *self = (struct pipeline){.key = keys->committed};
  if (key_ttl_seconds > 0)
    (void)snprintf(self->ttl, sizeof self->ttl, "%llu", key_ttl_seconds);
  const char *const probe[PROBE_COMMANDS][COMMAND_LIST_WORDS] = {{"WATCH", self->key},
                                                                 {"GET", self->key}};
  self->probe = command_list_new(probe, PROBE_COMMANDS);
}

void pipeline_shorten_ttl(struct pipeline *self, unsigned long long seconds) {
  if (self->ttl[0] == '\0' || strtoull(self->ttl, NULL, 10) > seconds)
    (void)snprintf(self->ttl, sizeof self->ttl, "%llu", seconds);
}

void pipeline_release(struct pipeline *self) {
  pipeline_reset(self);
  free(self->probe);
}

/* The end of the request that begins. */
static void add_end(struct pipeline *self, struct query *query) {
  exchange_add(&self->now, self->probe, strlen(self->probe), PROBE_COMMANDS);
  self->now.probe_end = self->now.commands;
  self->now.probe_length = self->now.length;
  if (query != NULL && query->ask != NULL)
    query_add(query, &self->now);
  exchange_add(&self->now, multi, sizeof multi - 1, 1);
  self->is_busy = true;
}

void pipeline_execute(struct pipeline *self, const struct batch *batch,
                      const char value[OWNERSHIP_TEXT_SIZE], struct query *query) {
  CHECK(!self->is_busy);
  pipeline_reset(self);
  const char *words[] = {"SET", self->key, value, "EX", self->ttl};
  self->set = command_new(words, self->ttl[0] != '\0' ? 5 : 3);
  for (int i = 0; i < batch->count; i++)
    exchange_add(&self->now, batch->pieces[i].iov_base, batch->pieces[i].iov_len,
                 i == 0 ? batch->commands : 0);
  exchange_add(&self->now, self->set, strlen(self->set), 1);
  exchange_add_exec(&self->now);
  add_end(self, query);
}

void pipeline_probe(struct pipeline *self, struct query *query) {
  CHECK(!self->is_busy);
  pipeline_reset(self);
  exchange_add(&self->now, discard, sizeof discard - 1, 1);
  add_end(self, query);
}

void pipeline_send(struct pipeline *self, struct client *client) {
  exchange_send(&self->now, client);
}

enum pipeline_reply pipeline_take(struct pipeline *self, const redisReply *reply) {
  if (!self->is_busy)
    return PIPELINE_UNEXPECTED;
  bool last = exchange_take(&self->now, reply);
  if (last && error_reply_is_last(self->now.refusal))
    return PIPELINE_REFUSED;
  bool of_probe = self->now.replied == self->now.probe_end;
  if (self->now.is_odd || (last && !exchange_is_sent(&self->now)) ||
      (of_probe && self->now.sent < self->now.probe_length))
    return PIPELINE_UNEXPECTED;
  if (self->now.refusal[0] != '\0')
    return last ? PIPELINE_REFUSED : PIPELINE_PROGRESS;
  self->is_busy = !last;
  if (last)
    return PIPELINE_DONE;
  if (self->now.replied > self->now.probe_end)
    return PIPELINE_QUERY;
  return of_probe ? PIPELINE_COMMITTED : PIPELINE_PROGRESS;
}

void pipeline_reset(struct pipeline *self) {
  free(self->set);
  self->set = NULL;
  exchange_init(&self->now);
  self->is_busy = false;
}
