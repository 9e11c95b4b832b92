/*
 * How everything is written to Redis exactly once.
 *
 * The difficulty: a transaction is sent, and the connection is lost before the reply to its EXEC
 * has come. Redis may have executed it or not. Sent again, its lines may be in the stream twice;
 * not sent again, they may be missing. Redis does not number what a client sends, so this is done
 * here:
 *
 * 1. What is queued leaves in batches, each of them one transaction. Its last command
 *    sets the key `committed` to "<epoch>:<instance>:<sequence>", and each transaction has the next
 *    sequence. So the content and the number are written together, or neither is.
 * 2. A batch stays in the send queue, byte for byte, until it is known that it was executed.
 * 3. `committed` is read after every transaction and, in the handshake of every connection, before
 *    anything is sent. If it holds the sequence of the batch, that was executed and leaves the
 *    queue, whatever became of the reply. If it holds the sequence before, the batch was not
 *    executed: the same bytes are sent again, with the same sequence. Only a number that is there
 *    counts as delivered; so a Redis that comes back empty is never taken for one that has all.
 * 4. The lost connection's transaction may still be under way, in a buffer of the kernel or of a
 *    proxy, when the new connection reads the key. Hence WATCH precedes each GET: EXEC does nothing
 *    if anyone has written the key since. Of the late transaction and its repetition, the one that
 *    is executed first writes the key and thereby disables the other. (EXEC and DISCARD end a watch,
 *    hence a new WATCH after each; inside MULTI it is not allowed.)
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
 * The requests of a connection, one at a time. Between two of them a transaction is open, and
 * nothing is in it: a request begins inside it, and its last command opens the next one.
 *
 *   … the batch's commands …   \
 *   SET committed <value>       > in its place DISCARD: a request without a batch
 *   EXEC                       /
 *   WATCH committed            \  the probe
 *   GET committed              /
 *   … a query …
 *   MULTI
 *
 * MULTI may be refused: by a proxy, by a user's rights, which can change while the connection is in
 * use, or for a moment. Commands that follow it would then be executed one by one: in part, and
 * also when the job is another agent's. So none leaves before MULTI is replied to. Sent at the end
 * of the request before, it costs no round trip. What opens the first transaction is the handshake,
 * which ends with the preflight, a probe and MULTI.
 *
 * Whatever else is refused, nothing of a request is executed that must not be. A command of the
 * batch, or EXEC: Redis drops the transaction. DISCARD: what follows is queued or refused. WATCH,
 * GET or MULTI: the request is refused, and nothing is sent after it on this connection.
 *
 * The order of the requests: the ownership transaction, once; then a query, if there is one, else
 * the next batch, and after a query a batch that waits first. When there is nothing to send, the
 * key is probed every PROBE_IDLE_MS.
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
#include "agent/frontends/redis/frontend.h"
#include "agent/payload_limit.h"
#include "base/check.h"
#include "base/decimal.h"
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

/* So often in a row EXEC may do nothing, though nobody has written the key, before the connection
   is dropped: that there are pauses in between. */
#define REFUSALS_TO_PAUSE 3

#define PREFLIGHT_FIRST 7 /* up to MULTI, which is the last of them */

/* A batch, the SET, EXEC, the probe, MULTI; a query leaves only with a batch of one piece or
   none. */
#define EXCHANGE_PIECES (BATCH_PIECES + 4)

static const char multi[] = "*1\r\n$5\r\nMULTI\r\n";
static const char exec[] = "*1\r\n$4\r\nEXEC\r\n";
static const char discard[] = "*1\r\n$7\r\nDISCARD\r\n";

/* Commands that leave together, and their replies. All texts are borrowed. */
struct exchange {
  struct iovec pieces[EXCHANGE_PIECES];
  size_t counts[EXCHANGE_PIECES]; /* of the commands that begin with a piece */
  int count;
  size_t length;       /* bytes in all pieces */
  size_t sent;         /* bytes */
  size_t commands;     /* in all pieces; 0: no request is under way */
  size_t exec;         /* index of EXEC among the commands; 0: there is none */
  size_t check_end;    /* number of commands up to the end of the probe */
  size_t check_length; /* bytes up to there */
  size_t replied;      /* number of replies that came */
  bool executed;       /* EXEC was replied to with the replies of the transaction */
  char refusal[160];   /* the first error among the replies, cut; empty: none */
  size_t refused;      /* index of the command that it is the reply to */
};

struct query {
  query_ask *ask;         /* NULL: there is no query */
  char *commands;         /* owned, encoded; NULL: it was not sent yet */
  const char *unanswered; /* inside `commands`: the first command that is not replied to */
  query_answer *answer;
  void *owner;
};

struct delivery {
  const struct log *log;
  const struct keys *keys;
  const struct delivery_handler *handler;
  void *owner;
  struct redis_connection *connection;
  struct event *idle; /* for the probe of an idle connection */
  struct send_queue *send_queue;
  struct ownership ownership;
  unsigned long long ttl_seconds; /* of `committed`; 0: it does not expire */
  char *preflight;
  char *ownership_check; /* WATCH and GET */
  char *set;             /* of the transaction that was sent last; NULL: none was */
  struct exchange now;   /* whose replies are due, or one of them was a refusal */
  bool check_due;        /* `committed` is to be read before anything else */
  bool loss_reported;    /* and nothing was delivered since */
  bool arrived;          /* a batch was executed, and the owner does not know it yet */
  unsigned losses;       /* of connections in the middle of a request, since one was executed */
  unsigned refusals;     /* of transactions by the watch, since one was executed */
  struct query query;
  bool queried;            /* the last request was a query */
  char *ownership_command; /* what the owner adds to the ownership transaction; NULL: nothing */
};

/* A new command or key of the agent is added here. A read checks the type of its key. A command
   inside MULTI is checked for permission when it is queued, and DISCARD drops it. What would write
   leaves when the MULTI before it is accepted: where MULTI is refused it would be executed. */
char *delivery_preflight(const struct keys *keys, bool trims) {
  const char *const commands[PREFLIGHT_COMMANDS][COMMAND_LIST_WORDS] = {
      /* Checks that in a cluster all keys are in one slot. NOPERM is ignored here (`multi_key`),
         since it does not name the key; the commands below do. DISCARD ends this watch. */
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

/* --- requests -------------------------------------------------------------------------------- */

static void forget_request(struct delivery *self) {
  free(self->set);
  self->set = NULL;
  self->now = (struct exchange){0};
}

/* Whole commands; where they go on in the pieces after it, those are added with 0. */
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

static void add_transaction(struct delivery *self, const struct batch *batch) {
  struct exchange *now = &self->now;
  char value[OWNERSHIP_TEXT_SIZE], ttl[DECIMAL_LENGTH_MAX + 1];
  (void)ownership_text(&self->ownership, self->ownership.delivered + 1, value);
  (void)snprintf(ttl, sizeof ttl, "%llu", self->ttl_seconds);
  self->set = command_new((const char *[]){"SET", self->keys->committed, value, "EX", ttl},
                          self->ttl_seconds > 0 ? 5 : 3);
  for (int i = 0; i < batch->count; i++)
    add(now, batch->pieces[i].iov_base, batch->pieces[i].iov_len, i == 0 ? batch->commands : 0);
  add(now, self->set, strlen(self->set), 1);
  now->exec = now->commands;
  add(now, exec, sizeof exec - 1, 1);
}

/* Sends what the client takes now. */
static void on_writable(void *owner) {
  struct delivery *self = owner;
  struct exchange *now = &self->now;
  for (size_t written = 1; written > 0 && now->sent < now->length; now->sent += written) {
    struct iovec rest[EXCHANGE_PIECES];
    int count = 0;
    size_t skip = now->sent;
    for (int i = 0; i < now->count; i++) {
      size_t length = now->pieces[i].iov_len, gone = skip < length ? skip : length;
      if (gone < length)
        rest[count++] = (struct iovec){.iov_base = (char *)now->pieces[i].iov_base + gone,
                                       .iov_len = length - gone};
      skip -= gone;
    }
    written = redis_connection_write(self->connection, rest, count);
  }
}

/* Of a batch (NULL: without a transaction), whose bytes stay in place until it is replied to, and
   with the query (NULL: without). */
static void send_request(struct delivery *self, const struct batch *batch, struct query *query) {
  struct exchange *now = &self->now;
  CHECK(now->commands == 0);
  if (batch != NULL)
    add_transaction(self, batch);
  else
    add(now, discard, sizeof discard - 1, 1);
  add(now, self->ownership_check, strlen(self->ownership_check), 2);
  now->check_end = now->commands;
  now->check_length = now->length;
  if (query != NULL && query->ask != NULL)
    add_query(now, query);
  add(now, multi, sizeof multi - 1, 1);
  (void)evtimer_del(self->idle);
  redis_connection_set_reply_timeout(self->connection, REPLY_MS);
  on_writable(self);
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
  send_request(self, &batch, &self->query);
}

/* What a query asks for holds until the next batch is executed. Of two queries in a row the second
   lets a batch go first, so that many of them do not hold up the output. */
static bool is_query_next(const struct delivery *self) {
  return self->query.commands != NULL ||
         (self->query.ask != NULL && !(self->queried && self->send_queue->bytes > 0));
}

void delivery_flush(struct delivery *self) {
  const struct batch *batch = NULL;
  bool queried = false;
  if (!redis_connection_is_ready(self->connection) || self->now.commands > 0)
    return;
  if (self->check_due)
    send_request(self, NULL, NULL);
  else if (!delivery_is_owner(self))
    send_ownership(self);
  else if ((queried = is_query_next(self)))
    send_request(self, NULL, &self->query);
  else if ((batch = send_queue_batch(self->send_queue)) != NULL)
    send_request(self, batch, NULL);
  else {
    redis_connection_mark_healthy(self->connection); /* all that could be refused was accepted */
    loop_timer_start(self->idle, PROBE_IDLE_MS);
  }
  self->queried = queried;
}

/* No request is under way. */
static void go_on(struct delivery *self) {
  bool arrived = self->arrived;
  self->arrived = false;
  delivery_flush(self); /* Redis works on while the owner uses the room */
  if (arrived)
    self->handler->delivered(self->owner);
}

/* --- replies --------------------------------------------------------------------------------- */

static void fail(struct delivery *self, const struct error *error) {
  redis_connection_stop(self->connection);
  self->handler->failed(self->owner, error);
}

/* An error reply that may pass is tried again on another connection. Not so when it is the reply to
   a command inside a transaction that was executed: the others have taken effect. Then the command
   is named; the pieces in front of it may be gone, with what was delivered or answered. */
static void on_refusal(struct delivery *self) {
  const struct exchange *now = &self->now;
  bool in_part = now->executed && now->refused < now->exec;
  if (!in_part && redis_connection_recover(self->connection, now->refusal))
    return;
  struct command_word words[2] = {{.text = ""}};
  size_t read = 0;
  int i = 0;
  for (; i < now->count && read + now->counts[i] <= now->refused; i++)
    read += now->counts[i];
  for (; i < now->count; i++) {
    const char *at = now->pieces[i].iov_base, *end = at + now->pieces[i].iov_len;
    while (read <= now->refused && command_read(&at, end, words, 2))
      read++;
  }
  size_t key = words[1].length < 120 ? words[1].length : 120;
  struct error error;
  (void)error_set(&error, "redis refuses %.*s%s%.*s: %.100s", (int)words[0].length, words[0].text,
                  key > 0 ? " " : "", (int)key, words[1].text,
                  redis_connection_explain(self->connection, now->refusal).text);
  fail(self, &error);
}

/* It is not Redis that has closed it. */
static void drop_connection(struct delivery *self, const char *why) {
  forget_request(self);
  redis_connection_reconnect(self->connection, why);
}

/* The value of `committed` was read, after a transaction or by a probe. Also on a connection that
   never broke, Redis may have lost data, or another agent may have taken the job. The latter is
   checked before the owner hears of a delivery, which would make it send more; and of that it hears
   when no request is under way. A loss is reported first: what the owner does with a delivery may
   depend on it. */
static void on_committed(struct delivery *self, const redisReply *reply) {
  bool was_owner = delivery_is_owner(self);
  bool executed = self->now.executed;
  enum ownership_state state = ownership_update(&self->ownership, executed, reply->str, reply->len);
  bool arrived = executed || state == OWNERSHIP_DELIVERED;
  self->check_due = false;
  if (arrived) {
    self->losses = self->refusals = 0;
    self->loss_reported &= state == OWNERSHIP_LOST_DATA;
    redis_connection_mark_healthy(self->connection);
    if (was_owner)
      send_queue_delivered(self->send_queue);
  }
  if (state == OWNERSHIP_TAKEN) {
    struct error error;
    (void)error_set(&error, "another agent has taken over this job (%.150s)",
                    self->keys->committed);
    fail(self, &error);
    return;
  }
  if (state == OWNERSHIP_LOST_DATA && !self->loss_reported) {
    self->loss_reported = true;
    self->handler->lost_data(self->owner);
  }
  self->arrived = arrived && was_owner;
  if (arrived && !was_owner)
    self->handler->owned(self->owner);
  /* The watch has made EXEC do nothing: someone has written the key, if only the transaction of a
     lost connection; but not again and again. */
  if (!arrived && self->now.exec > 0 && ++self->refusals >= REFUSALS_TO_PAUSE)
    drop_connection(self, "EXEC does nothing, though nobody has written the key");
}

/* The request is still under way: so the query that the owner puts from inside its last answer is
   sent next, before a batch. A query that left with an ownership transaction that was not executed
   is sent again. */
static void on_query_reply(struct delivery *self, const redisReply *reply) {
  struct query *query = &self->query;
  if (!delivery_is_owner(self))
    return;
  redis_connection_mark_healthy(self->connection);
  CHECK(query->commands != NULL);
  struct command_word word;
  char *answered = NULL;
  (void)command_read(&query->unanswered, query->unanswered + strlen(query->unanswered), &word, 1);
  if (query->unanswered[0] == '\0') {
    answered = query->commands;
    query->commands = NULL;
    query->ask = NULL;
  }
  query->answer(query->owner, reply, !redis_connection_reply_is_truncated(self->connection));
  free(answered);
}

static void keep_refusal(struct exchange *self, const redisReply *reply, size_t index) {
  if (reply == NULL || reply->type != REDIS_REPLY_ERROR || self->refusal[0] != '\0')
    return;
  (void)snprintf(self->refusal, sizeof self->refusal, "%s", reply->str);
  self->refused = index;
}

/* Whatever answers "+OK" to everything is no Redis: its EXEC executes nothing, and would be sent
   again at once. After an error nothing is as it should be. What a query is answered with is its
   owner's; the last command opens the next transaction. */
static bool is_odd(const struct exchange *self, const redisReply *reply, size_t index) {
  if (reply->type == REDIS_REPLY_ERROR || self->refusal[0] != '\0')
    return false;
  if (self->exec > 0 && index == self->exec)
    return reply->type != REDIS_REPLY_ARRAY && reply->type != REDIS_REPLY_NIL;
  if (index + 1 == self->check_end)
    return reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_NIL;
  bool of_query = index >= self->check_end && index + 1 < self->commands;
  return !of_query && reply->type != REDIS_REPLY_STATUS;
}

/* Whether Redis gives this reply to what was sent. EXEC's is an array with the replies of all
   queued commands; an error among them does not undo the others. It is nil, and nothing was
   executed, when another client wrote the watched key. */
static bool take_reply(struct exchange *self, const redisReply *reply) {
  size_t index = self->replied++;
  bool odd = is_odd(self, reply, index);
  keep_refusal(self, reply, index);
  self->executed |= self->exec > 0 && index == self->exec && reply->type == REDIS_REPLY_ARRAY;
  for (size_t i = 0; index == self->exec && self->executed && i < reply->elements; i++)
    keep_refusal(self, reply->element[i], i);
  return !odd && (self->replied < self->commands || self->sent == self->length) &&
         (self->replied != self->check_end || self->sent >= self->check_length);
}

/* Behind a refusal the other replies are waited for; but not where no more come. */
static void on_reply(void *owner, const redisReply *reply) {
  struct delivery *self = owner;
  struct exchange *now = &self->now;
  bool fits = now->commands > 0 && take_reply(now, reply), last = now->replied == now->commands;
  if (error_reply_is_last(now->refusal) || (fits && last && now->refusal[0] != '\0')) {
    on_refusal(self);
  } else if (!fits) {
    drop_connection(self, "a reply that redis does not give to what was asked");
  } else if (last) {
    forget_request(self);
    redis_connection_set_reply_timeout(self->connection, 0);
    go_on(self);
  } else if (now->refusal[0] == '\0' && now->replied == now->check_end) {
    on_committed(self, reply);
  } else if (now->refusal[0] == '\0' && now->replied > now->check_end) {
    on_query_reply(self, reply);
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
  if (self->now.commands > 0 && ++self->losses == LOSSES_TO_TELL)
    log_line(
        self->log, LOG_WARN, NULL,
        "redis has closed the connection %u times in the middle of the same request; where its "
        "own log names a limit (client-query-buffer-limit, client-output-buffer-limit, "
        "maxmemory-clients), that must be raised",
        self->losses);
  forget_request(self);
  (void)evtimer_del(self->idle);
  go_on(self); /* what has arrived is told, whatever became of the MULTI behind it */
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
  if (self->ttl_seconds == 0 || self->ttl_seconds > DELIVERY_LAST_SECONDS)
    self->ttl_seconds = DELIVERY_LAST_SECONDS;
}

/* Every request ends with a probe, so one that is under way is enough. */
void delivery_check_ownership(struct delivery *self) {
  if (self->now.commands > 0)
    return;
  self->check_due = true;
  delivery_flush(self);
}

bool delivery_check_owner(struct delivery *self, const char *committed, size_t length) {
  enum ownership_state state = ownership_compare(&self->ownership, committed, length);
  if (state != OWNERSHIP_PENDING)
    delivery_check_ownership(self);
  return state != OWNERSHIP_TAKEN;
}

LOOP_CALLBACK(on_idle, struct delivery *self) {
  delivery_check_ownership(self);
}

struct delivery *delivery_new(struct event_base *base, const struct log *log,
                              const struct redis_frontend_options *options, const struct keys *keys,
                              struct send_queue *send_queue, const struct delivery_handler *handler,
                              void *owner) {
  static const struct redis_connection_handler redis_connection_handler = {
      .connected = on_connected,
      .ready = on_ready,
      .reply = on_reply,
      .writable = on_writable,
      .disconnected = on_down,
      .unreachable = on_unreachable,
      .failed = on_failed};
  const char *const ownership_check[][COMMAND_LIST_WORDS] = {{"WATCH", keys->committed},
                                                             {"GET", keys->committed}};
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
  self->preflight =
      delivery_preflight(keys, options->events_maxlen > 0 && options->events_keep_bytes > 0);
  self->ownership_check = command_list_new(ownership_check, 2);
  struct redis_connection_options redis_connection_options = {
      .url = options->url,
      .role = "outbox",
      .name = name.text,
      .final_commands = {.text = self->preflight,
                         .length = strlen(self->preflight),
                         .count = PREFLIGHT_COMMANDS,
                         .multi_key = 1,
                         .first = PREFLIGHT_FIRST,
                         .value = PREFLIGHT_COMMANDS - 2},
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
  free(self->preflight);
  free(self->ownership_check);
  free(self->query.commands);
  free(self->ownership_command);
  free(self);
}

void delivery_start(struct delivery *self) {
  (void)redis_connection_start(self->connection);
}

void delivery_query(struct delivery *self, query_ask *ask, query_answer *answer, void *owner) {
  free(self->query.commands);
  self->query = (struct query){.ask = ask, .answer = answer, .owner = owner};
  delivery_flush(self);
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

uint64_t delivery_reconnections(const struct delivery *self) {
  return redis_connection_reconnections(self->connection);
}

bool delivery_is_unreachable(const struct delivery *self) {
  return redis_connection_is_unreachable(self->connection);
}
