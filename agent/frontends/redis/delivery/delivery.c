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
 *    is executed first writes the key and thereby disables the other. (EXEC and DISCARD end a
 *    watch, hence a new WATCH after each; inside MULTI it is not allowed.)
 * 5. The same protects a job from two agents. An agent takes a job over by one transaction of a
 *    higher epoch that contains nothing from the send queue. From then on no transaction of the
 *    agent before is executed, however late it arrives; and that agent reads a foreign value and
 *    stops.
 *
 * Redis can also lose what it has acknowledged: restarted from an older snapshot, or replaced by a
 * replica that had not received it yet. Then `committed` holds an older value, or is missing. What
 * was acknowledged is not in the queue any more and cannot be repeated here: DELIVERY_LOST_DATA
 * reports it, and the owner does what it can. The delivery goes on with the batch that is next.
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
 * the next batch. When there is nothing to send, the key is probed every PROBE_IDLE_MS.
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

#define PREFLIGHT_FIRST 8 /* up to MULTI, which is the last of them */

/* A batch, the SET, EXEC, WATCH, GET, MULTI; a query leaves only with a batch of one piece or
   none. */
#define EXCHANGE_PIECES (BATCH_PIECES + 5)

static const char multi[] = "*1\r\n$5\r\nMULTI\r\n";
static const char exec[] = "*1\r\n$4\r\nEXEC\r\n";
static const char discard[] = "*1\r\n$7\r\nDISCARD\r\n";

/* What Redis replies to a part of a request, in the order in which the parts may stand. */
enum expected {
  EXPECT_QUEUED,    /* to a command inside a transaction */
  EXPECT_EXECUTED,  /* to EXEC: those of the transaction; nil when the watched key was written */
  EXPECT_DISCARDED, /* to DISCARD, in the place of these two */
  EXPECT_WATCHED,
  EXPECT_COMMITTED, /* the key's value */
  EXPECT_QUERIED,   /* what a query is answered with is its owner's business */
  EXPECT_OPENED,    /* to MULTI */
  EXPECTED_KINDS
};

#define IS(type) (1U << REDIS_REPLY_##type)
static const unsigned expected_types[EXPECTED_KINDS] = {[EXPECT_QUEUED] = IS(STATUS),
                                                        [EXPECT_EXECUTED] = IS(ARRAY) | IS(NIL),
                                                        [EXPECT_DISCARDED] = IS(STATUS),
                                                        [EXPECT_WATCHED] = IS(STATUS),
                                                        [EXPECT_COMMITTED] = IS(STRING) | IS(NIL),
                                                        [EXPECT_QUERIED] = ~0U,
                                                        [EXPECT_OPENED] = IS(STATUS)};

/* Commands that leave together, and their replies. All texts are borrowed. */
struct exchange {
  struct iovec pieces[EXCHANGE_PIECES];
  size_t counts[EXCHANGE_PIECES]; /* of the commands that begin with a piece */
  int count;
  size_t length;                   /* bytes in all pieces */
  size_t sent;                     /* bytes */
  size_t commands;                 /* in all pieces; 0: no request is under way */
  size_t expected[EXPECTED_KINDS]; /* how many replies of each kind, */
  size_t ends[EXPECTED_KINDS];     /* and the bytes up to the end of its commands */
  size_t replied;                  /* number of replies that came */
  bool executed;                   /* EXEC was replied to with the replies of the transaction */
  char refusal[160];               /* the first error among the replies, cut; empty: none */
  size_t refused;                  /* index of the command that it is the reply to */
};

struct query {
  char *commands;         /* owned, encoded; NULL: there is no query */
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
  char *watch;         /* the probe: WATCH committed */
  char *get;           /* and GET committed */
  char *set;           /* of the transaction that was sent last; NULL: none was */
  struct exchange now; /* whose replies are due, or one of them was a refusal */
  bool check_due;      /* `committed` is to be read before anything else */
  bool loss_reported;  /* and nothing was delivered since */
  unsigned news;       /* values of enum delivery_news that the owner has not taken yet */
  struct error error;  /* of DELIVERY_FAILED */
  unsigned losses;     /* of connections in the middle of a request, since one was executed */
  unsigned refusals;   /* of transactions by the watch, since one was executed */
  struct query query;
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
      {"LLEN", keys->control},
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
      {"LREM", keys->control, "-1", ""},
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

static void record(struct delivery *self, enum delivery_news news) {
  self->news |= news;
  self->handler->changed(self->owner);
}

/* Whole commands that are replied to like this; where they go on in the pieces after it, those are
   added with 0. */
static void add(struct exchange *self, const char *text, size_t length, enum expected expected,
                size_t commands) {
  CHECK(self->count < EXCHANGE_PIECES);
  self->counts[self->count] = commands;
  self->pieces[self->count++] =
      (struct iovec){.iov_base = (char *)(uintptr_t)text, .iov_len = length};
  self->length += length;
  self->commands += commands;
  self->expected[expected] += commands;
  self->ends[expected] = self->length;
}

/* Adds what is not replied to. */
static void add_query(struct exchange *self, const struct query *query) {
  size_t length = strlen(query->unanswered), commands = 0;
  struct command_word word;
  for (const char *at = query->unanswered; command_read(&at, query->unanswered + length, &word, 1);)
    commands++;
  add(self, query->unanswered, length, EXPECT_QUERIED, commands);
}

static void add_transaction(struct delivery *self, const struct batch *batch) {
  struct exchange *now = &self->now;
  char value[OWNERSHIP_TEXT_SIZE], ttl[DECIMAL_LENGTH_MAX + 1];
  (void)ownership_text(&self->ownership, self->ownership.delivered + 1, value);
  (void)snprintf(ttl, sizeof ttl, "%llu", self->ttl_seconds);
  self->set = command_new((const char *[]){"SET", self->keys->committed, value, "EX", ttl},
                          self->ttl_seconds > 0 ? 5 : 3);
  for (int i = 0; i < batch->count; i++)
    add(now, batch->pieces[i].iov_base, batch->pieces[i].iov_len, EXPECT_QUEUED,
        i == 0 ? batch->commands : 0);
  add(now, self->set, strlen(self->set), EXPECT_QUEUED, 1);
  add(now, exec, sizeof exec - 1, EXPECT_EXECUTED, 1);
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
   with the query if there is one and `asks` says so. */
static void send_request(struct delivery *self, const struct batch *batch, bool asks) {
  struct exchange *now = &self->now;
  CHECK(now->commands == 0);
  if (batch != NULL)
    add_transaction(self, batch);
  else
    add(now, discard, sizeof discard - 1, EXPECT_DISCARDED, 1);
  add(now, self->watch, strlen(self->watch), EXPECT_WATCHED, 1);
  add(now, self->get, strlen(self->get), EXPECT_COMMITTED, 1);
  if (asks && self->query.commands != NULL)
    add_query(now, &self->query);
  add(now, multi, sizeof multi - 1, EXPECT_OPENED, 1);
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
  send_request(self, &batch, true);
}

void delivery_flush(struct delivery *self) {
  const struct batch *batch = NULL;
  if (!redis_connection_is_ready(self->connection) || self->now.commands > 0)
    return;
  if (self->check_due)
    send_request(self, NULL, false);
  else if (!delivery_is_owner(self))
    send_ownership(self);
  else if (self->query.commands != NULL)
    send_request(self, NULL, true);
  else if ((batch = send_queue_batch(self->send_queue)) != NULL)
    send_request(self, batch, false);
  else if (!evtimer_pending(self->idle, NULL)) {
    redis_connection_mark_healthy(self->connection); /* all that could be refused was accepted */
    loop_timer_start(self->idle, PROBE_IDLE_MS);
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

/* An error reply that may pass is tried again on another connection. Not so when it is the reply to
   a command inside a transaction that was executed: the others have taken effect. Then the command
   is named; the pieces in front of it may be gone, with what was delivered or answered. */
static void on_refusal(struct delivery *self) {
  const struct exchange *now = &self->now;
  bool in_part = now->executed && now->refused < now->expected[EXPECT_QUEUED];
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
   never broke, Redis may have lost data, or another agent may have taken the job. */
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
    record(self, DELIVERY_LOST_DATA);
  }
  if (arrived)
    record(self, was_owner ? DELIVERY_DELIVERED : DELIVERY_OWNED);
  /* The watch has made EXEC do nothing: someone has written the key, if only the transaction of a
     lost connection; but not again and again. */
  if (!arrived && self->now.expected[EXPECT_EXECUTED] > 0 && ++self->refusals >= REFUSALS_TO_PAUSE)
    drop_connection(self, "EXEC does nothing, though nobody has written the key");
}

/* A query that left with an ownership transaction that was not executed is sent again. */
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

/* Of the reply that comes next; EXPECTED_KINDS: none does. */
static enum expected expected_kind(const struct exchange *self) {
  size_t end = 0;
  int kind = 0;
  while (kind < EXPECTED_KINDS && (end += self->expected[kind]) <= self->replied)
    kind++;
  return (enum expected)kind;
}

/* Whether Redis gives this reply to what was sent. Whatever answers "+OK" to everything is no
   Redis: its EXEC executes nothing, and would be sent again at once. An error may come in place of
   each reply, and after one nothing is as it should be. EXEC's is an array with the replies of all
   queued commands; an error among them does not undo the others. */
static bool take_reply(struct exchange *self, const redisReply *reply, enum expected kind) {
  size_t index = self->replied++;
  bool is_refused = reply->type == REDIS_REPLY_ERROR || self->refusal[0] != '\0';
  keep_refusal(self, reply, index);
  self->executed |= kind == EXPECT_EXECUTED && reply->type == REDIS_REPLY_ARRAY;
  for (size_t i = 0; kind == EXPECT_EXECUTED && self->executed && i < reply->elements; i++)
    keep_refusal(self, reply->element[i], i);
  bool was_sent =
      self->sent >=
      (kind == EXPECT_COMMITTED || self->replied == self->commands ? self->ends[kind] : 0);
  return was_sent && (is_refused || (expected_types[kind] & 1U << reply->type) != 0);
}

/* Behind a refusal the other replies are waited for; but not where no more come. */
static void on_reply(void *owner, const redisReply *reply) {
  struct delivery *self = owner;
  struct exchange *now = &self->now;
  enum expected kind = expected_kind(now);
  bool fits = kind != EXPECTED_KINDS && take_reply(now, reply, kind);
  bool last = now->replied == now->commands;
  if (error_reply_is_last(now->refusal) || (fits && last && now->refusal[0] != '\0')) {
    on_refusal(self);
  } else if (!fits) {
    drop_connection(self, "a reply that redis does not give to what was asked");
  } else if (last) {
    forget_request(self);
    redis_connection_set_reply_timeout(self->connection, 0);
    self->handler->changed(self->owner);
  } else if (now->refusal[0] == '\0' && kind == EXPECT_COMMITTED) {
    on_committed(self, reply);
  } else if (now->refusal[0] == '\0' && kind == EXPECT_QUERIED) {
    on_query_reply(self, reply);
  }
}

static void on_connected(void *owner) {
  record(owner, DELIVERY_CONNECTED);
}

static void on_ready(void *owner, const redisReply *committed) {
  struct delivery *self = owner;
  on_committed(self, committed);
  self->handler->changed(self->owner);
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
}

static void on_unreachable(void *owner) {
  record(owner, DELIVERY_UNREACHABLE);
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
  self->handler->changed(self->owner);
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
                              const struct delivery_options *options, const struct keys *keys,
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
  self->watch = command_new((const char *[]){"WATCH", keys->committed}, 2);
  self->get = command_new((const char *[]){"GET", keys->committed}, 2);
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
  free(self->watch);
  free(self->get);
  free(self->query.commands);
  free(self->ownership_command);
  free(self);
}

void delivery_start(struct delivery *self) {
  (void)redis_connection_start(self->connection);
}

unsigned delivery_take_news(struct delivery *self) {
  unsigned news = self->news;
  self->news = 0;
  return news;
}

const struct error *delivery_error(const struct delivery *self) {
  return self->error.text[0] != '\0' ? &self->error : NULL;
}

void delivery_query(struct delivery *self, char *commands, query_answer *answer, void *owner) {
  CHECK(self->query.commands == NULL);
  self->query = (struct query){
      .commands = commands, .unanswered = commands, .answer = answer, .owner = owner};
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
