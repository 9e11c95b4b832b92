/*
 * What is held leaves in windows (pipeline.h), each of which writes "<generation>:<nonce>:<number>"
 * to the key `committed`. Every window, and each login (permissions.h), ends with WATCH and GET of
 * that key: the number tells whether a window whose answer was lost has arrived. It is the presence
 * of this number that counts, so that an emptied Redis is not taken for one that has everything.
 * And since the key is watched from before it is read, no transaction of an agent that has been
 * superseded is executed, however late it arrives.
 */
#include "agent/doors/redis/out/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/client/client.h"
#include "agent/doors/redis/out/ownership.h"
#include "agent/doors/redis/out/pipeline.h"
#include "agent/doors/redis/out/preflight.h"
#include "agent/doors/redis/out/query.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"
#include "wire/step.h"

/* The longest that Redis may take for an answer that is due, and how long nothing is asked at all.
   Of a Redis that is dead the heartbeat tells within 4 s; on its own this looks only for what has
   happened to this connection alone, and less often than the supply asks when nothing comes. */
#define ANSWER_MS 10900
#define QUIET_MS 12000

struct delivery {
  const struct keys *keys;
  const struct delivery_handler *handler;
  void *owner;
  struct client *client;
  struct preflight permissions;
  struct event *quiet;
  struct send_queue *send_queue;
  struct ownership ownership;
  bool looked;    /* on this connection: what has arrived is known */
  bool forgotten; /* said so, and nothing was delivered since */
  struct pipeline pipeline;
  struct query query;
  char *with_claim; /* what the owner does with the claim; NULL: nothing */
};

static void start(struct delivery *self) {
  (void)evtimer_del(self->quiet);
  client_set_reply_timeout(self->client, ANSWER_MS);
  pipeline_send(&self->pipeline, self->client);
}

static void send_probe(struct delivery *self, const struct query *query) {
  pipeline_probe(&self->pipeline, query);
  start(self);
}

static void open_window(struct delivery *self, const struct batch *batch, uint64_t number) {
  char value[OWNERSHIP_TEXT_SIZE];
  (void)ownership_text(&self->ownership, number, value);
  pipeline_open(&self->pipeline, batch, value);
}

static void send_window(struct delivery *self, const struct batch *batch) {
  if (!pipeline_is_open(&self->pipeline))
    open_window(self, batch, self->ownership.delivered + 1);
  pipeline_execute(&self->pipeline, NULL);
  start(self);
}

/* A window without what is held, which must not arrive in another's job. The question that waits
   for it goes with it. */
static void send_ownership(struct delivery *self) {
  struct batch batch = {0};
  free(self->with_claim);
  self->with_claim = self->handler->claiming != NULL ? self->handler->claiming(self->owner) : NULL;
  if (self->with_claim != NULL)
    batch = (struct batch){
        .pieces = {{.iov_base = self->with_claim, .iov_len = strlen(self->with_claim)}},
        .count = 1,
        .commands = 1};
  open_window(self, &batch, self->ownership.delivered + 1);
  pipeline_execute(&self->pipeline, &self->query);
  start(self);
}

/* When much is held. */
static void send_ahead(struct delivery *self) {
  const struct batch *batch;
  if (!pipeline_has_room(&self->pipeline) || !ownership_is_made(&self->ownership) ||
      self->query.commands != NULL || (batch = send_queue_next_batch(self->send_queue)) == NULL)
    return;
  open_window(self, batch, self->ownership.delivered + 2);
  pipeline_send(&self->pipeline, self->client);
}

/* Nothing is left that could be refused. */
static void be_quiet(struct delivery *self) {
  client_mark_healthy(self->client);
  loop_timer_start(self->quiet, QUIET_MS);
}

static void next_request(struct delivery *self) {
  if (!client_is_ready(self->client))
    return;
  const struct batch *batch = NULL;
  if (!self->pipeline.is_busy) {
    if (!self->looked)
      send_probe(self, NULL);
    else if (!ownership_is_made(&self->ownership))
      send_ownership(self);
    else if (self->query.commands != NULL && !pipeline_is_open(&self->pipeline))
      send_probe(self, &self->query);
    else if ((batch = send_queue_batch(self->send_queue)) != NULL)
      send_window(self, batch);
    else
      be_quiet(self);
  }
  send_ahead(self);
}

static void fail(struct delivery *self, const struct error *error) {
  client_stop(self->client);
  self->handler->failed(self->owner, error);
}

/* What was executed in part cannot be tried again, unlike the look behind it. */
static void on_refusal(struct delivery *self) {
  const struct exchange *request = &self->pipeline.now;
  bool in_part = request->executed && request->refused < request->exec;
  if (!in_part && client_recover(self->client, request->refusal))
    return;
  struct error error;
  exchange_explain_refusal(request, &error);
  fail(self, &error);
}

static void tell_taken(struct delivery *self) {
  struct error error;
  (void)error_set(&error, "another agent has taken over this job (%.150s)", self->keys->committed);
  fail(self, &error);
}

/* What was lost is told first: what depends on what has arrived may depend on that too. */
static void tell(struct delivery *self, const struct ownership_news *news) {
  if (news->forgotten && !self->forgotten) {
    self->forgotten = true;
    self->handler->forgotten(self->owner);
  }
  if (news->arrived) {
    next_request(self); /* Redis works on while the owner makes use of the room */
    self->handler->delivered(self->owner);
  }
}

/* What the key says when a window, or a look, has been answered; Redis may have gone back, or the
   job to another, with this connection still there. Whoever it names now owns the job, whatever
   arrived before: what the owner hears would make it send more. */
static void on_committed(struct delivery *self, const redisReply *reply) {
  bool was_claimed = ownership_is_made(&self->ownership);
  struct ownership_news news =
      ownership_see(&self->ownership, self->pipeline.now.executed, reply->str, reply->len);
  pipeline_settle(&self->pipeline);
  self->looked = true;
  if (news.arrived) {
    self->forgotten = false;
    client_mark_healthy(self->client);
    if (was_claimed)
      send_queue_delivered(self->send_queue);
  }
  if (news.taken) {
    tell_taken(self);
    return;
  }
  if (!news.arrived && pipeline_is_open(&self->pipeline))
    client_reconnect_now(self->client); /* without what stands open on it */
  if (news.arrived && !was_claimed)
    self->handler->claimed(self->owner);
  else
    tell(self, &news);
}

/* Until the owner has returned this is still the request: the next question follows this one, with
   no window between them. What was asked together with a claim that failed is asked again. */
static void on_answer(struct delivery *self, const redisReply *reply) {
  if (ownership_is_made(&self->ownership)) {
    client_mark_healthy(self->client);
    query_take(&self->query, reply, !client_reply_is_truncated(self->client));
  }
  pipeline_settle(&self->pipeline);
}

static void on_reply(void *owner, const redisReply *reply) {
  struct delivery *self = owner;
  bool last;
  enum pipeline_answer answer = pipeline_take(&self->pipeline, reply, &last);
  if (answer == PIPELINE_UNASKED) {
    client_reconnect(self->client, "an answer nobody asked for");
    return;
  }
  if (last)
    client_set_reply_timeout(self->client, 0);
  if (answer == PIPELINE_COMMITTED)
    on_committed(self, reply);
  else if (answer == PIPELINE_ANSWER)
    on_answer(self, reply);
  else if (answer == PIPELINE_REFUSED)
    on_refusal(self);
  if (last)
    next_request(self);
}

static void on_connected(void *owner) {
  struct delivery *self = owner;
  self->handler->connected(self->owner);
}

static void on_ready(void *owner, const redisReply *committed) {
  struct delivery *self = owner;
  on_committed(self, committed);
  next_request(self);
}

static void on_down(void *owner) {
  struct delivery *self = owner;
  pipeline_lose(&self->pipeline);
  (void)evtimer_del(self->quiet);
}

static void on_writable(void *owner) {
  struct delivery *self = owner;
  pipeline_send(&self->pipeline, self->client);
}

static void on_unreachable(void *owner) {
  struct delivery *self = owner;
  self->handler->unreachable(self->owner);
}

static void on_failed(void *owner, const struct error *error) {
  struct delivery *self = owner;
  self->handler->failed(self->owner, error);
}

void delivery_probe(struct delivery *self) {
  if (self->pipeline.is_busy)
    return;
  self->looked = false;
  next_request(self);
}

bool delivery_is_ours(struct delivery *self, const char *committed, size_t length) {
  if (ownership_is_unchanged(&self->ownership, committed, length))
    return true;
  enum ownership_verdict outcome_result = ownership_judge(&self->ownership, committed, length);
  if (outcome_result != OWNERSHIP_PENDING)
    delivery_probe(self);
  return outcome_result != OWNERSHIP_TAKEN;
}

static void on_quiet(evutil_socket_t fd, short what, void *context) {
  (void)fd;
  (void)what;
  delivery_probe(context);
}

struct delivery *delivery_new(struct event_base *base, const struct log *log,
                              const struct delivery_options *options, struct send_queue *send_queue,
                              const struct delivery_handler *handler, void *owner) {
  static const struct client_handler client_handler = {.connected = on_connected,
                                                       .ready = on_ready,
                                                       .reply = on_reply,
                                                       .writable = on_writable,
                                                       .disconnected = on_down,
                                                       .unreachable = on_unreachable,
                                                       .failed = on_failed};
  struct delivery *self = memory_allocate(sizeof *self);
  *self = (struct delivery){
      .keys = options->keys, .handler = handler, .owner = owner, .send_queue = send_queue};
  ownership_init(&self->ownership, random_u64());
  pipeline_init(&self->pipeline, options->keys, options->key_ttl_seconds);
  preflight_init(&self->permissions, options->keys);
  struct client_options client_options = {.url = options->url,
                                          .role = "outbox",
                                          .name = options->name,
                                          .probe = preflight_probe(&self->permissions),
                                          .discard_values = true,
                                          .largest_string = STEP_PAYLOAD_MAX};
  self->client = client_new(base, log, &client_options, &client_handler, self);
  self->quiet = loop_timer_new(base, on_quiet, self);
  return self;
}

void delivery_free(struct delivery *self) {
  client_free(self->client);
  event_free(self->quiet);
  preflight_release(&self->permissions);
  pipeline_release(&self->pipeline);
  query_release(&self->query);
  free(self->with_claim);
  free(self);
}

void delivery_start(struct delivery *self) {
  (void)client_start(self->client);
}

void delivery_go(struct delivery *self) {
  next_request(self);
}

void delivery_ask(struct delivery *self, char *commands,
                  void (*answer)(void *owner, const redisReply *reply, bool whole), void *owner) {
  query_put(&self->query, commands, answer, owner);
  next_request(self);
}

bool delivery_is_claimed(const struct delivery *self) {
  return ownership_is_made(&self->ownership);
}

bool delivery_had_owner(const struct delivery *self) {
  return self->ownership.epoch > 1;
}

bool delivery_is_gone(const struct delivery *self) {
  return client_is_unreachable(self->client);
}
