#include "agent/doors/redis/out/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/net/command.h"

#define LOOK_COMMANDS 2

static const char multi[] = "*1\r\n$5\r\nMULTI\r\n";
static const char exec[] = "*1\r\n$4\r\nEXEC\r\n";

void pipeline_init(struct pipeline *self, const struct keys *keys,
                   unsigned long long key_ttl_seconds) {
  *self = (struct pipeline){.key = keys->committed};
  if (key_ttl_seconds > 0)
    (void)snprintf(self->ttl, sizeof self->ttl, "%llu", key_ttl_seconds);
  const char *const look[LOOK_COMMANDS][COMMAND_LIST_WORDS] = {{"WATCH", self->key},
                                                               {"GET", self->key}};
  self->look = command_list_new(look, LOOK_COMMANDS);
}

void pipeline_release(struct pipeline *self) {
  pipeline_lose(self);
  free(self->look);
}

static void clear(struct exchange *request, char **set) {
  free(*set);
  *set = NULL;
  exchange_init(request);
}

bool pipeline_has_room(const struct pipeline *self) {
  return self->is_busy && self->now.exec > 0 && self->now.answered < self->now.look &&
         !pipeline_is_open(self);
}

void pipeline_open(struct pipeline *self, const struct batch *batch,
                   const char value[OWNERSHIP_TEXT_SIZE]) {
  const char *words[] = {"SET", self->key, value, "EX", self->ttl};
  self->next_set = command_new(words, self->ttl[0] != '\0' ? 5 : 3);
  exchange_add(&self->next, multi, sizeof multi - 1, 1);
  for (int i = 0; i < batch->count; i++)
    exchange_add(&self->next, batch->pieces[i].iov_base, batch->pieces[i].iov_len,
                 i == 0 ? batch->commands : 0);
  exchange_add(&self->next, self->next_set, strlen(self->next_set), 1);
}

bool pipeline_is_open(const struct pipeline *self) {
  return self->next.count > 0;
}

/* The end of what is `now`. */
static void begin(struct pipeline *self, const struct query *query) {
  exchange_add(&self->now, self->look, strlen(self->look), LOOK_COMMANDS);
  self->now.look = self->now.commands;
  if (query != NULL && query->commands != NULL)
    query_add(query, &self->now);
  self->is_busy = true;
}

void pipeline_execute(struct pipeline *self, const struct query *query) {
  clear(&self->now, &self->now_set);
  self->now = self->next;
  self->now_set = self->next_set;
  self->next_set = NULL;
  exchange_init(&self->next);
  exchange_add_exec(&self->now, exec, sizeof exec - 1, 1);
  begin(self, query);
}

void pipeline_probe(struct pipeline *self, const struct query *query) {
  clear(&self->now, &self->now_set);
  begin(self, query);
}

void pipeline_send(struct pipeline *self, struct client *client) {
  exchange_send(&self->now, client);
  if (exchange_is_sent(&self->now))
    exchange_send(&self->next, client);
}

enum pipeline_answer pipeline_take(struct pipeline *self, const redisReply *reply, bool *last) {
  *last = self->is_busy && exchange_take(&self->now, reply);
  if (!self->is_busy || (*last && !exchange_is_sent(&self->now)))
    return PIPELINE_UNASKED;
  if (self->now.refusal[0] != '\0')
    return *last ? PIPELINE_REFUSED : PIPELINE_STEP;
  if (self->now.answered < self->now.look)
    return PIPELINE_STEP;
  return self->now.answered == self->now.look ? PIPELINE_COMMITTED : PIPELINE_ANSWER;
}

void pipeline_settle(struct pipeline *self) {
  self->is_busy = self->now.answered < self->now.commands;
}

void pipeline_lose(struct pipeline *self) {
  clear(&self->now, &self->now_set);
  clear(&self->next, &self->next_set);
  self->is_busy = false;
}
