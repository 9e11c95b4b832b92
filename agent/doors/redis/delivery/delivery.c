/*
 * How everything is written to Redis exactly once.
 *
 * The difficulty: a transaction is sent, and the connection is lost before the reply to its EXEC
 * has come. Redis may have executed it or not. Sent again, its lines may be in the stream twice;
 * not sent again, they may be missing. Redis does not number what a client sends, so this is done
 * here:
 *
 * 1. What is queued leaves in batches, each of them one transaction (pipeline.h). Its last command
 *    sets the key `committed` to "<epoch>:<instance>:<sequence>", and each transaction has the next
 *    sequence. So the content and the number are written together, or neither is.
 * 2. A batch stays in the send queue, byte for byte, until it is known that it was executed.
 * 3. `committed` is read after every transaction and, in the handshake of every connection, before
 *    anything is sent. If it holds the sequence of the batch, that was executed and leaves the
 *    queue, whatever became of the reply. If it holds the sequence before, the batch was not
 *    executed: the same bytes are sent again, with the same sequence. Only a number that is there
 *    counts as delivered; so a Redis that comes back empty is never taken for one that has all.
 * 4. The lost connection's transaction may still be under way, in a buffer of the kernel or of a
 *    proxy, when the new connection reads the key. Hence each connection sends WATCH before it
 *    reads the key: EXEC does nothing if anyone has written the key since. Of the late transaction
 *    and its repetition, the one that is executed first writes the key and thereby disables the
 *    other. Each EXEC is followed by a GET, which says what happened.
 * 5. The same protects a job from two agents. An agent takes a job over by one transaction of a
 *    higher epoch that contains nothing from the send queue. From then on no transaction of the
 *    agent before is executed, however late it arrives; and that agent reads a foreign value and
 *    stops.
 *
 * Redis can also lose what it has acknowledged: restarted from an older snapshot, or replaced by a
 * replica that had not received it yet. Then `committed` holds an older value, or is missing. What
 * was acknowledged is not in the queue any more and cannot be repeated here: lost_data() reports
 * it, and the owner does what it can. The delivery goes on with the batch that is next.
 *
 * The order of the requests on a connection: the preflight, which ends with the first probe (WATCH
 * and GET) and the first MULTI; the ownership transaction, once; then a query, if there is one, else
 * the next batch, and after a query a batch that waits first. When there is nothing to send, the key is probed every PROBE_IDLE_MS.
 */
#include "agent/doors/redis/delivery/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "agent/doors/redis/delivery/ownership.h"
#include "agent/doors/redis/delivery/pipeline.h"
#include "agent/doors/redis/link/client.h"
#include "agent/payload_limit.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"

/* How long Redis may take for a reply, and after which silence the connection is probed. A Redis
   that is dead is noticed by the heartbeat within 4 s, and by the consumer; these two serve for a
   failure of this connection alone. The probe comes less often than the consumer's request, which
   blocks for CONSUMER_BLOCK_SECONDS. */
#define REPLY_MS 10900
#define PROBE_IDLE_MS 12000

/* So often in a row a connection is lost in the middle of the same request before that is told. */
#define LOSSES_TO_TELL 3

/* So often in a row EXEC may do nothing, though nobody has written the key, before the connection is
   dropped: that there are pauses in between. */
#define REFUSALS_TO_PAUSE 3

struct delivery {
  const struct log *log;
  const struct keys *keys;
  const struct delivery_handler *handler;
  void *owner;
  struct client *client;
  struct event *idle; /* for the probe of an idle connection */
  struct send_queue *send_queue;
  struct ownership ownership;
  bool probe_due;     /* `committed` is to be read before anything else */
  bool loss_reported; /* and nothing was delivered since */
  bool arrived;       /* a batch was executed, and the owner does not know it yet */
  struct pipeline pipeline;
  unsigned losses;   /* of connections in the middle of a request, since one was executed */
  unsigned refusals; /* of transactions by the watch, since one was executed */
  struct query query;
  bool queried;            /* the last request was a query */
  char *ownership_command; /* what the owner adds to the ownership transaction; NULL: nothing */
};

static void send_request(struct delivery *self) {
  (void)evtimer_del(self->idle);
  client_set_reply_timeout(self->client, REPLY_MS);
  pipeline_send(&self->pipeline, self->client);
}

static void send_probe(struct delivery *self, struct query *query) {
  pipeline_probe(&self->pipeline, query);
  send_request(self);
}

static void send_batch(struct delivery *self, const struct batch *batch, struct query *query) {
  char value[OWNERSHIP_TEXT_SIZE];
  (void)ownership_text(&self->ownership, self->ownership.delivered + 1, value);
  pipeline_execute(&self->pipeline, batch, value, query);
  send_request(self);
}

/* Takes the job over: a transaction without anything from the send queue, since it is not known yet
   whether the job is another agent's. A query leaves with it. */
static void send_ownership(struct delivery *self) {
  struct batch batch = {0};
  free(self->ownership_command);
  self->ownership_command = self->handler->ownership_command != NULL
                                ? self->handler->ownership_command(self->owner)
                                : NULL;
  if (self->ownership_command != NULL)
    batch = (struct batch){.pieces = {{.iov_base = self->ownership_command,
                                       .iov_len = strlen(self->ownership_command)}},
                           .count = 1,
                           .commands = 1};
  send_batch(self, &batch, &self->query);
}

/* What a query asks for holds until the next batch is executed. Of two queries in a row the second
   lets a batch go first, so that many of them do not hold up the output. */
static bool is_query_next(const struct delivery *self) {
  return self->query.commands != NULL ||
         (self->query.ask != NULL && !(self->queried && self->send_queue->bytes > 0));
}

static void next_request(struct delivery *self) {
  const struct batch *batch = NULL;
  bool queried = false;
  if (!client_is_ready(self->client) || self->pipeline.is_busy)
    return;
  if (self->probe_due)
    send_probe(self, NULL);
  else if (!ownership_is_established(&self->ownership))
    send_ownership(self);
  else if ((queried = is_query_next(self)))
    send_probe(self, &self->query);
  else if ((batch = send_queue_batch(self->send_queue)) != NULL)
    send_batch(self, batch, NULL);
  else {
    client_mark_healthy(self->client); /* all that could be refused was accepted */
    loop_timer_start(self->idle, PROBE_IDLE_MS);
  }
  self->queried = queried;
}

/* No request is under way. */
static void go_on(struct delivery *self) {
  bool arrived = self->arrived;
  self->arrived = false;
  next_request(self); /* Redis works on while the owner uses the room */
  if (arrived)
    self->handler->delivered(self->owner);
}

static void fail(struct delivery *self, const struct error *error) {
  client_stop(self->client);
  self->handler->failed(self->owner, error);
}

/* An error reply that may pass is tried again on another connection. Not so when it is the reply to
   a command inside a transaction that was executed: the others have taken effect. */
static void on_refusal(struct delivery *self) {
  const struct exchange *request = &self->pipeline.now;
  bool in_part = request->executed && request->refused < request->exec;
  if (!in_part && client_recover(self->client, request->refusal))
    return;
  struct error error;
  pipeline_explain_refusal(&self->pipeline, client_explain(self->client, request->refusal).text,
                           &error);
  fail(self, &error);
}

/* It is not Redis that has closed it. */
static void drop_connection(struct delivery *self, const char *why) {
  pipeline_reset(&self->pipeline);
  client_reconnect(self->client, why);
}

/* The value of `committed` was read, after a transaction or by a probe. Also on a connection that
   never broke, Redis may have lost data, or another agent may have taken the job. The latter is
   checked before the owner hears of a delivery, which would make it send more; and of that it hears
   when no request is under way. A loss is reported first: what the owner does with a delivery may
   depend on it. */
static void on_committed(struct delivery *self, const redisReply *reply) {
  bool was_established = ownership_is_established(&self->ownership);
  struct ownership_change change =
      ownership_update(&self->ownership, self->pipeline.now.executed, reply->str, reply->len);
  self->probe_due = false;
  if (change.arrived) {
    self->losses = self->refusals = 0;
    self->loss_reported &= change.lost_data;
    client_mark_healthy(self->client);
    if (was_established)
      send_queue_delivered(self->send_queue);
  }
  if (change.taken) {
    struct error error;
    (void)error_set(&error, "another agent has taken over this job (%.150s)",
                    self->keys->committed);
    fail(self, &error);
    return;
  }
  if (change.lost_data && !self->loss_reported) {
    self->loss_reported = true;
    self->handler->lost_data(self->owner);
  }
  self->arrived = change.arrived && was_established;
  if (change.arrived && !was_established)
    self->handler->owned(self->owner);
  /* The watch has made EXEC do nothing: someone has written the key, if only the transaction of a lost
     connection; but not again and again. */
  if (!change.arrived && self->pipeline.now.exec > 0 && ++self->refusals >= REFUSALS_TO_PAUSE)
    drop_connection(self, "EXEC does nothing, though nobody has written the key");
}

/* The request is still under way: so the query that the owner puts now is sent next, before a batch.
   A query that left with an ownership transaction that was not executed is sent again. */
static void on_query_reply(struct delivery *self, const redisReply *reply) {
  if (ownership_is_established(&self->ownership)) {
    client_mark_healthy(self->client);
    query_take(&self->query, reply, !client_reply_is_truncated(self->client));
  }
}

static void on_reply(void *owner, const redisReply *reply) {
  struct delivery *self = owner;
  switch (pipeline_take(&self->pipeline, reply)) {
  case PIPELINE_PROGRESS:
    return;
  case PIPELINE_COMMITTED:
    on_committed(self, reply);
    return;
  case PIPELINE_QUERY:
    on_query_reply(self, reply);
    return;
  case PIPELINE_DONE:
    client_set_reply_timeout(self->client, 0);
    go_on(self);
    return;
  case PIPELINE_REFUSED:
    on_refusal(self);
    return;
  case PIPELINE_UNEXPECTED:
    drop_connection(self, "a reply that redis does not give to what was asked");
  }
}

static void on_connected(void *owner) {
  struct delivery *self = owner;
  self->handler->connected(self->owner);
}

static void on_ready(void *owner, const redisReply *committed) {
  struct delivery *self = owner;
  on_committed(self, committed);
  go_on(self);
}

static void on_down(void *owner) {
  struct delivery *self = owner;
  if (self->pipeline.is_busy && ++self->losses == LOSSES_TO_TELL)
    log_line(
        self->log, LOG_WARN, NULL,
        "redis has closed the connection %u times in the middle of the same request; where its "
        "own log names a limit (client-query-buffer-limit, client-output-buffer-limit, "
        "maxmemory-clients), that must be raised",
        self->losses);
  pipeline_reset(&self->pipeline);
  (void)evtimer_del(self->idle);
  go_on(self); /* what has arrived is told, whatever became of the MULTI behind it */
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

void delivery_end(struct delivery *self) {
  pipeline_shorten_ttl(&self->pipeline, DELIVERY_LAST_SECONDS);
}

/* Every request ends with a probe, so one that is under way is enough. */
void delivery_probe(struct delivery *self) {
  if (self->pipeline.is_busy)
    return;
  self->probe_due = true;
  next_request(self);
}

bool delivery_check_owner(struct delivery *self, const char *committed, size_t length) {
  enum ownership_state state = ownership_compare(&self->ownership, committed, length);
  if (state != OWNERSHIP_PENDING)
    delivery_probe(self);
  return state != OWNERSHIP_TAKEN;
}

LOOP_CALLBACK(on_idle, struct delivery *self) {
  delivery_probe(self);
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
  *self = (struct delivery){.log = log,
                            .keys = options->keys,
                            .handler = handler,
                            .owner = owner,
                            .send_queue = send_queue,
                            .probe_due = true};
  ownership_init(&self->ownership, random_u64());
  pipeline_init(&self->pipeline, options->keys,
                options->events_maxlen > 0 && options->events_keep_bytes > 0,
                options->key_ttl_seconds);
  struct client_options client_options = {.url = options->url,
                                          .role = "outbox",
                                          .name = options->name,
                                          .probe = pipeline_preflight(&self->pipeline),
                                          .discard_values = true,
                                          .largest_string = payload_limit()};
  self->client = client_new(base, log, &client_options, &client_handler, self);
  self->idle = loop_timer_new(base, on_idle, self);
  return self;
}

void delivery_free(struct delivery *self) {
  client_free(self->client);
  event_free(self->idle);
  pipeline_release(&self->pipeline);
  query_release(&self->query);
  free(self->ownership_command);
  free(self);
}

void delivery_start(struct delivery *self) {
  (void)client_start(self->client);
}

void delivery_flush(struct delivery *self) {
  next_request(self);
}

void delivery_query(struct delivery *self, query_ask *ask, query_answer *answer, void *owner) {
  query_put(&self->query, ask, answer, owner);
  next_request(self);
}

bool delivery_is_owner(const struct delivery *self) {
  return ownership_is_established(&self->ownership);
}

bool delivery_had_owner(const struct delivery *self) {
  return self->ownership.epoch > 1;
}

bool delivery_has_lost_data(const struct delivery *self) {
  return self->loss_reported;
}

bool delivery_is_unreachable(const struct delivery *self) {
  return client_is_unreachable(self->client);
}
