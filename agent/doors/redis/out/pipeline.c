#include "agent/doors/redis/out/pipeline.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/net/error_reply.h"
#include "base/check.h"
#include "base/decimal.h"

#define PROBE_COMMANDS 2

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

static void clear(struct exchange *request, char **set) {
  free(*set);
  *set = NULL;
  exchange_init(request);
}

bool pipeline_has_room(const struct pipeline *self) {
  return self->is_busy && self->now.exec > 0 && self->now.replied < self->now.probe_end &&
         !pipeline_is_open(self);
}

void pipeline_open(struct pipeline *self, const struct batch *batch,
                   const char value[OWNERSHIP_TEXT_SIZE]) {
  CHECK(!pipeline_is_open(self));
  const char *words[] = {"SET", self->key, value, "EX", self->ttl};
  self->next_set = command_new(words, self->ttl[0] != '\0' ? 5 : 3);
  exchange_add_multi(&self->next);
  for (int i = 0; i < batch->count; i++)
    exchange_add(&self->next, batch->pieces[i].iov_base, batch->pieces[i].iov_len,
                 i == 0 ? batch->commands : 0);
  exchange_add(&self->next, self->next_set, strlen(self->next_set), 1);
}

bool pipeline_is_open(const struct pipeline *self) {
  return self->next.count > 0;
}

/* Ends the request that begins. */
static void add_probe(struct pipeline *self, const struct query *query) {
  exchange_add(&self->now, self->probe, strlen(self->probe), PROBE_COMMANDS);
  self->now.probe_end = self->now.commands;
  if (query != NULL && query->commands != NULL)
    query_add(query, &self->now);
  self->is_busy = true;
}

void pipeline_execute(struct pipeline *self, const struct query *query) {
  CHECK(!self->is_busy && pipeline_is_open(self));
  clear(&self->now, &self->now_set);
  self->now = self->next;
  self->now_set = self->next_set;
  self->next_set = NULL;
  exchange_init(&self->next);
  exchange_add_exec(&self->now);
  add_probe(self, query);
}

void pipeline_probe(struct pipeline *self, const struct query *query) {
  CHECK(!self->is_busy && !pipeline_is_open(self));
  clear(&self->now, &self->now_set);
  add_probe(self, query);
}

void pipeline_send(struct pipeline *self, struct client *client) {
  exchange_send(&self->now, client);
  if (exchange_is_sent(&self->now))
    exchange_send(&self->next, client);
}

enum pipeline_reply pipeline_take(struct pipeline *self, const redisReply *reply, bool *last) {
  *last = self->is_busy && exchange_take(&self->now, reply);
  if (*last && error_reply_is_last(self->now.refusal))
    return PIPELINE_REFUSED;
  if (!self->is_busy || (*last && !exchange_is_sent(&self->now)))
    return PIPELINE_UNEXPECTED;
  if (self->now.refusal[0] != '\0')
    return *last ? PIPELINE_REFUSED : PIPELINE_PROGRESS;
  if (self->now.replied < self->now.probe_end)
    return PIPELINE_PROGRESS;
  return self->now.replied == self->now.probe_end ? PIPELINE_COMMITTED : PIPELINE_QUERY;
}

void pipeline_settle(struct pipeline *self) {
  self->is_busy = self->now.replied < self->now.commands;
}

void pipeline_reset(struct pipeline *self) {
  clear(&self->now, &self->now_set);
  clear(&self->next, &self->next_set);
  self->is_busy = false;
}
