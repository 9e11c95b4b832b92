/*
 * Writes everything to Redis exactly once.
 *
 * The difficulty: a transaction is sent, and the connection is lost before the reply to its EXEC
 * arrives. Redis may have executed it or not. If it is sent again, its lines may be in the stream
 * twice; if it is not, they may be missing. Redis does not number the commands of a client, so the
 * agent numbers its transactions:
 *
 * 1. The send queue leaves in batches, one transaction each. The last command of a transaction sets
 *    the key `committed` to "<epoch>:<instance>:<sequence>", and each transaction has the next
 *    sequence. So content and number are written together, or neither is.
 * 2. A batch stays in the send queue, byte for byte, until its execution is confirmed.
 * 3. `committed` is read after every transaction and, in the handshake of every connection, before
 *    anything is sent. If it holds the sequence of the batch, the batch was executed and leaves the
 *    queue, even if the reply was lost. If it holds the previous sequence, the batch was not
 *    executed, and the same bytes are sent again with the same sequence. Only a number that Redis
 *    holds counts as delivered, so a Redis that comes back empty never seems to have everything.
 * 4. The transaction of the lost connection may still be in a buffer of the kernel or of a proxy
 *    when the new connection reads the key. Therefore WATCH precedes each GET: EXEC does nothing if
 *    anyone has written the key since. Whichever is executed first, the late transaction or its
 *    repetition, writes the key and thereby disables the other. (EXEC and DISCARD end a watch, so
 *    a new WATCH follows each of them; WATCH is not allowed inside MULTI.)
 * 5. The same mechanism protects a job from two agents. An agent takes a job over with one
 *    transaction of a higher epoch that contains nothing from the send queue. After that, no
 *    transaction of the previous agent is executed, however late it arrives; that agent reads a
 *    foreign value and stops.
 *
 * Redis can also lose data that it has acknowledged, if it restarts from an older snapshot or is
 * replaced by a replica that had not received the data. Then `committed` holds an older value or is
 * missing. Acknowledged batches are no longer in the queue and cannot be repeated here. The owner
 * gets DELIVERY_LOST_DATA and recovers what it can. The delivery continues with an empty batch,
 * because only a loss of a later value can be noticed. The same transaction number must not stand
 * for other commands, so this one stays empty until it is executed.
 *
 * A connection has one request under way at a time. Between two requests an empty transaction is
 * open: a request begins inside it, and the request's last command opens the next one.
 *
 *   … the batch's commands …   \
 *   SET committed <value>       > a request without a batch has DISCARD instead
 *   EXEC                       /
 *   WATCH committed            \  the ownership check
 *   GET committed              /
 *   … a query …
 *   MULTI
 *
 * Redis may reject MULTI: because of a proxy, of the user's permissions, which can change at any
 * time, or temporarily. The commands after it would then be executed one by one, maybe only some of
 * them, and even if another agent owns the job. So no command is sent before the reply to MULTI has
 * arrived. Since MULTI ends the previous request, this costs no round trip. The handshake, which
 * ends with the preflight, an ownership check and MULTI, opens the first transaction.
 *
 * If Redis rejects another command, nothing is executed that must not be. After a command of the
 * batch or EXEC, Redis drops the transaction. After DISCARD, the next commands are queued or
 * rejected. After WATCH, GET or MULTI, nothing more is sent on this connection.
 *
 * The ownership transaction is sent first, once. After that, a pending query precedes the next
 * batch. If there is nothing to send, an ownership check is sent every CHECK_IDLE_MS.
 */
#include "agent/frontends/redis/delivery/delivery.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/frontends/redis/connection/command.h"
#include "agent/frontends/redis/connection/error_reply.h"
#include "agent/frontends/redis/connection/redis_connection.h"
#include "agent/frontends/redis/delivery/ownership.h"
#include "agent/frontends/redis/delivery/preflight.h"
#include "agent/frontends/redis/delivery/reply_list.h"
#include "agent/frontends/redis/delivery/retention.h"
#include "agent/payload_limit.h"
#include "base/check.h"
#include "base/decimal.h"
#include "base/loop.h"
#include "base/memory.h"
#include "base/random.h"

/* How long Redis may take for a reply, and how long the connection may be idle before an ownership
   check. The heartbeat notices a dead Redis within 4 s, and the consumer notices it, too; these two
   limits detect the failure of this connection alone. The check is less frequent than the
   consumer's request, which blocks for CONSUMER_BLOCK_SECONDS. */
#define REPLY_MS 10900
#define CHECK_IDLE_MS 12000

/* A warning is logged after this many successive losses of the connection during a request. */
#define LOSSES_BEFORE_WARNING 3

/* The connection is closed after this many successive EXECs that did nothing, although nobody had
   written the key. Reconnecting makes a pause between attempts. */
#define ABORTS_BEFORE_RECONNECT 3

/* The same after this many losses of data without an answer to a query in between. */
#define LOSSES_BEFORE_RECONNECT 3

/* The replies to the parts of a request, in the order in which the parts may occur. */
enum expected {
  EXPECT_QUEUED,   /* to a command inside a transaction */
  EXPECT_EXECUTED, /* to EXEC: all replies of the transaction; nil if the watched key was written */
  EXPECT_DISCARDED, /* to DISCARD, instead of the previous two */
  EXPECT_WATCHED,   /* to WATCH */
  EXPECT_COMMITTED, /* to GET: the key's value */
  EXPECT_QUERIED,   /* to a command of a query, of any type: the owner of the query checks it */
  EXPECT_OPENED,    /* to MULTI */
  EXPECTED_KINDS
};

#define IS(type) (1U << REPLY_##type)
static const unsigned expected_types[EXPECTED_KINDS] = {[EXPECT_QUEUED] = IS(STATUS),
                                                        [EXPECT_EXECUTED] = IS(ARRAY) | IS(NIL),
                                                        [EXPECT_DISCARDED] = IS(STATUS),
                                                        [EXPECT_WATCHED] = IS(STATUS),
                                                        [EXPECT_COMMITTED] = IS(STRING) | IS(NIL),
                                                        [EXPECT_QUERIED] = ~0U,
                                                        [EXPECT_OPENED] = IS(STATUS)};

/* Commands that are sent together, and their replies. */
struct delivery_request {
  struct batch batch;              /* borrowed; empty without a transaction */
  struct buffer tail;              /* the commands after the batch */
  size_t length;                   /* bytes of both */
  size_t sent;                     /* bytes that were sent */
  size_t commands;                 /* in both; 0: no request is under way */
  size_t expected[EXPECTED_KINDS]; /* the number of replies of each kind */
  size_t committed_end;            /* the offset after the GET of EXPECT_COMMITTED */
  size_t replied;                  /* the number of replies that have arrived */
  bool executed;                   /* EXEC was answered with the replies of the transaction */
  bool ignores_query;              /* the query is sent again; see on_committed */
  char rejection[160];             /* the first error reply, cut; empty: none */
  size_t rejected;                 /* the index of the command that has the error reply */
};

struct query {
  char *commands;         /* owned, encoded; NULL: there is no query */
  const char *unanswered; /* inside `commands`: the first command without a reply */
  query_answer *answer;
  void *owner;
};

struct delivery {
  const struct log *log;
  const struct keys *keys;
  const struct delivery_handler *handler;
  void *owner;
  struct redis_connection *connection;
  struct event *idle; /* triggers the ownership check of an idle connection */
  struct send_queue *send_queue;
  struct ownership ownership;
  unsigned long long ttl_seconds; /* of `committed`; 0: it does not expire */
  struct preflight preflight;
  struct delivery_request request; /* the request that is under way */
  bool check_due;                  /* `committed` has to be read before anything else */
  bool loss_reported; /* DELIVERY_LOST_DATA was recorded, and nothing was delivered since */
  bool write_due;     /* a transaction has to write `committed` before anything else */
  char newest[RETENTION_ID_SIZE]; /* the id of the newest entry that this agent knows; "": none */
  unsigned vain_losses;           /* notifications of losses since the last answer to a query */
  unsigned notifications; /* values of enum delivery_notification that the owner has not taken */
  struct error error;     /* of DELIVERY_FAILED */
  unsigned losses;        /* of connections during a request, since the last executed transaction */
  unsigned aborts;        /* transactions that the watch has aborted, since the last executed one */
  struct query query;
};

static bool on_rejected(void *owner, int index, const char *text) {
  struct delivery *self = owner;
  return preflight_reject(&self->preflight, index, text,
                          redis_connection_explain(self->connection, text).text);
}

/* --- requests -------------------------------------------------------------------------------- */

static void forget_request(struct delivery *self) {
  buffer_release(&self->request.tail);
  self->request = (struct delivery_request){0};
}

static void record(struct delivery *self, enum delivery_notification notifications) {
  self->notifications |= notifications;
  self->handler->changed(self->owner);
}

/* Adds a command to the tail, and the kind of its reply. */
static void add(struct delivery_request *self, enum expected expected, const char *const *texts) {
  command_add(&self->tail, texts);
  self->expected[expected]++;
}

/* Adds encoded commands. */
static void add_encoded(struct delivery_request *self, enum expected expected,
                        const char *commands) {
  const char *at = commands, *end = commands + strlen(commands);
  struct command_word word;
  while (command_read(&at, end, &word, 1))
    self->expected[expected]++;
  buffer_add_string(&self->tail, commands);
}

static void add_transaction(struct delivery *self, const struct batch *batch) {
  struct delivery_request *request = &self->request;
  char value[OWNERSHIP_TEXT_SIZE], ttl[DECIMAL_LENGTH_MAX + 1];
  (void)ownership_text(&self->ownership, self->ownership.delivered + 1, value);
  (void)snprintf(ttl, sizeof ttl, "%llu", self->ttl_seconds);
  request->batch = *batch;
  request->expected[EXPECT_QUEUED] += batch->commands;
  add(request, EXPECT_QUEUED,
      COMMAND("SET", self->keys->committed, value, self->ttl_seconds > 0 ? "EX" : NULL, ttl));
  add(request, EXPECT_EXECUTED, COMMAND("EXEC"));
}

/* Sets `pieces` to the bytes of the request that were not sent yet. Returns their number. */
static int unsent_pieces(const struct delivery_request *self,
                         struct iovec pieces[BATCH_PIECES + 1]) {
  const struct iovec tail = {.iov_base = self->tail.bytes, .iov_len = self->tail.length};
  size_t skip = self->sent;
  int count = 0;
  for (int i = 0; i <= self->batch.count; i++) {
    const struct iovec piece = i < self->batch.count ? self->batch.pieces[i] : tail;
    size_t done = skip < piece.iov_len ? skip : piece.iov_len;
    if (done < piece.iov_len)
      pieces[count++] = (struct iovec){.iov_base = (char *)piece.iov_base + done,
                                       .iov_len = piece.iov_len - done};
    skip -= done;
  }
  return count;
}

/* Sends as many bytes of the request as the connection takes now. */
static void on_writable(void *owner) {
  struct delivery *self = owner;
  struct delivery_request *request = &self->request;
  size_t written = 1;
  while (written > 0 && request->sent < request->length) {
    struct iovec pieces[BATCH_PIECES + 1];
    int count = unsent_pieces(request, pieces);
    written = redis_connection_write(self->connection, pieces, count);
    request->sent += written;
  }
}

/* Completes the request and sends it. The bytes of its batch must stay in place until the request
   is answered. */
static void send_request(struct delivery *self, bool with_query) {
  struct delivery_request *request = &self->request;
  request->ignores_query = false; /* which a handshake may have set */
  if (request->expected[EXPECT_EXECUTED] == 0)
    add(request, EXPECT_DISCARDED, COMMAND("DISCARD"));
  add(request, EXPECT_WATCHED, COMMAND("WATCH", self->keys->committed));
  add(request, EXPECT_COMMITTED, COMMAND("GET", self->keys->committed));
  request->committed_end = request->batch.length + request->tail.length;
  if (with_query && self->query.commands != NULL)
    add_encoded(request, EXPECT_QUERIED, self->query.unanswered);
  add(request, EXPECT_OPENED, COMMAND("MULTI"));
  request->length = request->batch.length + request->tail.length;
  for (int kind = 0; kind < EXPECTED_KINDS; kind++)
    request->commands += request->expected[kind];
  (void)evtimer_del(self->idle);
  redis_connection_set_reply_timeout(self->connection, REPLY_MS);
  on_writable(self);
}

/* Takes the job over. The transaction contains nothing from the send queue, because another agent
   may still win the job. The pending query leaves with it. */
static void send_ownership(struct delivery *self) {
  if (self->handler->ownership_command != NULL) {
    char *command = self->handler->ownership_command(self->owner);
    add_encoded(&self->request, EXPECT_QUEUED, command);
    free(command);
  }
  add_transaction(self, &(struct batch){0});
  send_request(self, true);
}

void delivery_flush(struct delivery *self) {
  const struct batch *batch = NULL;
  if (!redis_connection_is_ready(self->connection) || self->request.commands > 0)
    return;
  if (self->check_due) {
    send_request(self, false);
  } else if (!delivery_is_owner(self)) {
    send_ownership(self);
  } else if (self->write_due && self->send_queue->batch.count == 0) {
    add_transaction(self, &(struct batch){0});
    send_request(self, false);
  } else if (self->query.commands != NULL && !self->write_due) {
    send_request(self, true);
  } else if ((batch = send_queue_batch(self->send_queue)) != NULL) {
    add_transaction(self, batch);
    send_request(self, false);
  } else if (!evtimer_pending(self->idle, NULL)) {
    /* Redis has accepted every command that it could reject. */
    redis_connection_mark_healthy(self->connection);
    loop_timer_start(self->idle, CHECK_IDLE_MS);
  }
}

/* --- replies --------------------------------------------------------------------------------- */

static void on_failed(void *owner, const struct error *error) {
  struct delivery *self = owner;
  self->error = *error;
  record(self, DELIVERY_FAILED);
}

static void fail(struct delivery *self, const struct error *error) {
  redis_connection_stop(self->connection);
  on_failed(self, error);
}

/* Reads the beginning of a command of the request. If the command is in the tail, the batch must
   not be read, because it may have been freed already. */
static void find_command(const struct delivery_request *self, size_t index,
                         struct command_word words[3]) {
  if (index < self->batch.commands) {
    batch_find(&self->batch, index, words, 3);
    return;
  }
  const char *at = self->tail.bytes, *end = at + self->tail.length;
  for (size_t i = self->batch.commands; i <= index; i++)
    (void)command_read(&at, end, words, 3);
}

/* Handles the error of a command of the batch. Returns false unless it is about a list of replyTo:
   the result then stays in `results`. */
static bool refuse_reply(struct delivery *self, size_t index, const char *text) {
  struct command_name name;
  if (!reply_list_find(self->keys, &self->request.batch, index, &name))
    return false;
  preflight_warn(&self->preflight, &name, redis_connection_explain(self->connection, text).text);
  if (!self->request.executed)
    reply_list_leave_out(self->keys, self->send_queue, index);
  return true;
}

/* Handles the first error reply of the request. After a transient error, another connection sends
   the request again. That is impossible if the command was part of a transaction that was executed,
   because the other commands have taken effect. A permanent error names the command, except if that
   moves a result: the batch is sent again without it. */
static void handle_rejection(struct delivery *self) {
  const struct delivery_request *request = &self->request;
  bool in_part = request->executed && request->rejected < request->expected[EXPECT_QUEUED];
  if (!in_part && error_reply_is_transient(request->rejection))
    self->write_due = false; /* Redis may be out of memory: a query works, and the end needs it */
  if (!in_part && redis_connection_recover(self->connection, request->rejection))
    return;
  if (!request->executed && refuse_reply(self, request->rejected, request->rejection)) {
    self->check_due = true; /* another agent may own the job: its GET was not looked at */
    forget_request(self);
    redis_connection_set_reply_timeout(self->connection, 0);
    self->handler->changed(self->owner);
    return;
  }
  struct command_word words[3] = {{.text = ""}};
  find_command(request, request->rejected, words);
  struct error error;
  (void)error_set(&error, "redis refuses %s: %.100s", command_name(&words[0], &words[1]).text,
                  redis_connection_explain(self->connection, request->rejection).text);
  fail(self, &error);
}

/* Closes the connection from this side, and reconnects after a pause. */
static void drop_connection(struct delivery *self, const char *why) {
  forget_request(self);
  redis_connection_reconnect(self->connection, why);
}

/* Handles a value of `committed`, which was read after a transaction or by an ownership check.
   Redis may have lost data, or another agent may have taken the job, even if the connection was
   never lost. The query of this request is sent again, and its replies are ignored, if the agent
   does not own the job yet, or if this value shows a loss: the owner must learn of the loss before
   it gets an answer. */
static void on_committed(struct delivery *self, const struct reply *reply) {
  bool was_owner = delivery_is_owner(self);
  bool executed = self->request.executed;
  enum ownership_state state = ownership_update(&self->ownership, executed, reply->str, reply->len);
  bool delivered = executed || state == OWNERSHIP_DELIVERED;
  self->check_due = false;
  if (delivered) {
    self->losses = self->aborts = 0;
    self->loss_reported &= state == OWNERSHIP_LOST_DATA;
    self->write_due = false;
    if (self->vain_losses == 0)
      redis_connection_mark_healthy(self->connection);
    if (was_owner)
      send_queue_remove_batch(self->send_queue);
  }
  if (state == OWNERSHIP_TAKEN) {
    struct error error;
    (void)error_set(&error, "another agent has taken over this job (%.150s)",
                    self->keys->committed);
    fail(self, &error);
    return;
  }
  if (state == OWNERSHIP_LOST_DATA && !self->loss_reported) {
    self->loss_reported = self->write_due = self->request.ignores_query = true;
    self->newest[0] = '\0';
    self->vain_losses++;
    record(self, DELIVERY_LOST_DATA);
  }
  self->request.ignores_query |= !delivery_is_owner(self);
  if (delivered)
    record(self, was_owner ? DELIVERY_DELIVERED : DELIVERY_OWNED);
  /* The watch has aborted the transaction, so someone has written the key. The late transaction of
     a lost connection may do that once, but not several times. */
  if (!delivered && self->request.expected[EXPECT_EXECUTED] > 0 &&
      ++self->aborts >= ABORTS_BEFORE_RECONNECT)
    drop_connection(self, "EXEC was aborted, although nobody has written the watched key");
  else if (self->request.ignores_query && self->request.commands > 0 &&
           self->vain_losses >= LOSSES_BEFORE_RECONNECT)
    drop_connection(self, "it repeatedly loses acknowledged data");
}

static void on_query_reply(struct delivery *self, const struct reply *reply) {
  struct query *query = &self->query;
  if (self->request.ignores_query)
    return;
  self->vain_losses = 0;
  redis_connection_mark_healthy(self->connection);
  CHECK(query->commands != NULL);
  struct command_word word;
  char *answered = NULL;
  (void)command_read(&query->unanswered, query->unanswered + strlen(query->unanswered), &word, 1);
  if (query->unanswered[0] == '\0') {
    answered = query->commands;
    query->commands = NULL;
  }
  query->answer(query->owner, reply);
  free(answered);
}

static bool is_error(const struct reply *reply) {
  return reply != NULL && reply->type == REPLY_ERROR;
}

/* Keeps the id of the last entry that the transaction has added. */
static void keep_newest(struct delivery *self, const struct reply *executed) {
  const char *id = executed->str;
  size_t number = strspn(id, "0123456789");
  if (number > 0 && id[number] == '-' && strlen(id) < sizeof self->newest)
    memcpy(self->newest, id, strlen(id) + 1);
}

static void keep_rejection(struct delivery_request *self, const struct reply *reply, size_t index) {
  if (!is_error(reply) || self->rejection[0] != '\0')
    return;
  (void)snprintf(self->rejection, sizeof self->rejection, "%s", reply->str);
  self->rejected = index;
}

/* Returns the kind of the next reply; EXPECTED_KINDS if none is due. */
static enum expected expected_kind(const struct delivery_request *self) {
  size_t end = 0;
  int kind = 0;
  while (kind < EXPECTED_KINDS && (end += self->expected[kind]) <= self->replied)
    kind++;
  return (enum expected)kind;
}

/* Records a reply. Returns false if Redis cannot give this reply to the command: a server that
   answers "+OK" to everything is not Redis, and its EXEC would be sent again at once. Any reply may
   be an error, and the replies after an error may be of any type. The reply to EXEC is an array
   with the replies of all queued commands; an error among them does not undo the other commands. */
static bool record_reply(struct delivery *delivery, const struct reply *reply, enum expected kind) {
  struct delivery_request *self = &delivery->request;
  size_t index = self->replied++;
  bool is_rejected = reply->type == REPLY_ERROR || self->rejection[0] != '\0';
  keep_rejection(self, reply, index);
  self->executed |= kind == EXPECT_EXECUTED && reply->type == REPLY_ARRAY;
  if (kind == EXPECT_EXECUTED && self->executed)
    keep_newest(delivery, reply);
  for (size_t i = 0; kind == EXPECT_EXECUTED && self->executed && i < reply->elements; i++)
    if (is_error(reply->element[i]) && !refuse_reply(delivery, i, reply->element[i]->str))
      keep_rejection(self, reply->element[i], i);
  size_t sent_before = kind == EXPECT_COMMITTED ? self->committed_end : 0;
  if (self->replied == self->commands)
    sent_before = self->length;
  return self->sent >= sent_before &&
         (is_rejected || (expected_types[kind] & 1U << reply->type) != 0);
}

/* After an error reply, the other replies of the request are awaited, unless none will come. */
static void on_reply(void *owner, const struct reply *reply) {
  struct delivery *self = owner;
  struct delivery_request *request = &self->request;
  enum expected kind = expected_kind(request);
  bool fits = kind != EXPECTED_KINDS && record_reply(self, reply, kind);
  bool last = request->replied == request->commands;
  if (error_reply_is_last(request->rejection) || (fits && last && request->rejection[0] != '\0')) {
    handle_rejection(self);
  } else if (!fits) {
    drop_connection(self, "the reply does not fit the request");
  } else if (last) {
    forget_request(self);
    redis_connection_set_reply_timeout(self->connection, 0);
    self->handler->changed(self->owner);
  } else if (request->rejection[0] == '\0' && kind == EXPECT_COMMITTED) {
    on_committed(self, reply);
  } else if (request->rejection[0] == '\0' && kind == EXPECT_QUERIED) {
    on_query_reply(self, reply);
  }
}

static void on_ready(void *owner, const struct reply *committed) {
  struct delivery *self = owner;
  preflight_end(&self->preflight);
  on_committed(self, committed);
  record(self, DELIVERY_CONNECTED);
}

static void on_down(void *owner) {
  struct delivery *self = owner;
  if (self->request.commands > 0 && ++self->losses == LOSSES_BEFORE_WARNING)
    log_line(
        self->log, LOG_WARN, NULL,
        "redis has closed the connection %u times in the middle of the same request; if its own "
        "log names a limit (client-query-buffer-limit, client-output-buffer-limit, "
        "maxmemory-clients), raise that limit",
        self->losses);
  forget_request(self);
  (void)evtimer_del(self->idle);
}

static void on_unreachable(void *owner) {
  struct delivery *self = owner;
  self->preflight.refused_now = 0;
  record(self, DELIVERY_UNREACHABLE);
}

void delivery_end(struct delivery *self) {
  if (self->ttl_seconds == 0 || self->ttl_seconds > DELIVERY_LAST_SECONDS)
    self->ttl_seconds = DELIVERY_LAST_SECONDS;
}

/* Every request includes an ownership check, so a request that is under way is enough. */
void delivery_check_ownership(struct delivery *self) {
  if (self->request.commands > 0)
    return;
  self->check_due = true;
  self->handler->changed(self->owner);
}

bool delivery_compare_committed(struct delivery *self, const char *committed, size_t length) {
  enum ownership_state state = ownership_compare(&self->ownership, committed, length);
  if (state != OWNERSHIP_PENDING)
    delivery_check_ownership(self);
  return state != OWNERSHIP_TAKEN;
}

LOOP_CALLBACK(on_idle, struct delivery *self) {
  delivery_check_ownership(self);
}

struct delivery *delivery_new(struct event_base *base, const struct log *log,
                              const struct delivery_options *options, const struct keys *keys,
                              struct send_queue *send_queue, const struct delivery_handler *handler,
                              void *owner) {
  static const struct redis_connection_handler redis_connection_handler = {.ready = on_ready,
                                                                           .reply = on_reply,
                                                                           .writable = on_writable,
                                                                           .rejected = on_rejected,
                                                                           .disconnected = on_down,
                                                                           .unreachable =
                                                                               on_unreachable,
                                                                           .failed = on_failed};
  struct client_name name = keys_client_name(keys, "out");
  struct delivery *self = memory_allocate(sizeof *self);
  *self = (struct delivery){.log = log,
                            .keys = keys,
                            .handler = handler,
                            .owner = owner,
                            .send_queue = send_queue,
                            .ownership = {.instance = random_u64()},
                            .ttl_seconds = options->key_ttl_seconds,
                            .check_due = true};
  preflight_init(&self->preflight, log, keys,
                 options->events_maxlen > 0 && options->events_keep_bytes > 0);
  struct redis_connection_options redis_connection_options = {
      .url = options->url,
      .role = "outbox",
      .name = name.text,
      .final_commands = {.text = self->preflight.commands,
                         .length = strlen(self->preflight.commands),
                         .count = PREFLIGHT_COMMANDS,
                         .first = PREFLIGHT_FIRST,
                         .value = PREFLIGHT_VALUE},
      .discard_values = true,
      .largest_string = payload_limit};
  self->connection =
      redis_connection_new(base, log, &redis_connection_options, &redis_connection_handler, self);
  self->idle = loop_timer_new(base, on_idle, self);
  return self;
}

void delivery_free(struct delivery *self) {
  redis_connection_free(self->connection);
  event_free(self->idle);
  forget_request(self);
  free(self->preflight.commands);
  free(self->query.commands);
  free(self);
}

void delivery_start(struct delivery *self) {
  (void)redis_connection_start(self->connection);
}

unsigned delivery_take_notifications(struct delivery *self) {
  unsigned notifications = self->notifications;
  self->notifications = 0;
  return notifications;
}

const struct error *delivery_error(const struct delivery *self) {
  return self->error.text[0] != '\0' ? &self->error : NULL;
}

void delivery_query(struct delivery *self, char *commands, query_answer *answer, void *owner) {
  CHECK(self->query.commands == NULL);
  self->query = (struct query){.unanswered = commands, .answer = answer, .owner = owner};
  self->query.commands = commands;
}

bool delivery_is_owner(const struct delivery *self) {
  return self->ownership.delivered > 0;
}

bool delivery_had_owner(const struct delivery *self) {
  return self->ownership.epoch > 1;
}

bool delivery_has_lost_data(const struct delivery *self) {
  return self->loss_reported;
}

bool delivery_offers(const struct delivery *self, enum delivery_feature feature) {
  return (self->preflight.refused & feature) == 0;
}

const char *delivery_newest_entry(const struct delivery *self) {
  return self->newest;
}

uint64_t delivery_reconnections(const struct delivery *self) {
  return redis_connection_reconnections(self->connection);
}

bool delivery_is_unreachable(const struct delivery *self) {
  return redis_connection_is_unreachable(self->connection);
}
