/* Runs intake with random schedules against a model of Redis, which stands in for the outbox, its
   delivery and the consumer. Whatever happens, every step is answered exactly once, runs at most
   once, and starts in the order in which it was pushed, and a cancel ends its step if that waits. A
   failure prints the number of its schedule. INTAKE_SCHEDULES=<n> runs this many schedules,
   INTAKE_SCHEDULE=<number> runs one, and INTAKE_TRACE=1 prints every event. */
#include "agent/frontends/redis/intake/intake.h"

#include "agent/frontends/redis/connection/command.h"
#include "base/loop.h"
#include "base/memory.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

enum { STEPS_MAX = 200, VALUES_MAX = 600, WRITES_MAX = 4000, BLOCK_MS = 10000, LEARN_MS = 4000 };
enum { IN = OUTBOX_IN, INFLIGHT = OUTBOX_INFLIGHT, CONTROL = OUTBOX_CONTROL, LISTS };

/* --- the model -------------------------------------------------------------------------------- */

/* A list of Redis, the newest value first. */
struct list {
  char *values[VALUES_MAX];
  size_t count;
};

/* The data of Redis. */
struct redis {
  struct list lists[LISTS];
  char *started; /* NULL: the key does not exist */
  int epoch;
  uint64_t sequence;      /* of `committed`: the number of writes in this epoch */
  int results[STEPS_MAX]; /* the number of results of each step */
};

static int list_of(const char *key) {
  static const char *const names[] = {
      [IN] = ":in", [INFLIGHT] = ":inflight", [CONTROL] = ":control"};
  int list = IN;
  while (list < LISTS - 1 && strcmp(strrchr(key, ':'), names[list]) != 0)
    list++;
  return list;
}

static void insert(struct list *list, size_t at, const char *value, size_t length) {
  assert_true(list->count < VALUES_MAX);
  memmove(list->values + at + 1, list->values + at, (list->count - at) * sizeof *list->values);
  list->values[at] = memory_copy(value, length);
  list->count++;
}

static char *take_at(struct list *list, size_t at) {
  char *value = list->values[at];
  list->count--;
  memmove(list->values + at, list->values + at + 1, (list->count - at) * sizeof *list->values);
  return value;
}

/* LREM with the count 1 or -1. */
static void remove_value(struct list *list, const char *value, size_t length, bool newest) {
  for (size_t i = 0; i < list->count; i++) {
    size_t at = newest ? i : list->count - 1 - i;
    if (strlen(list->values[at]) == length && memcmp(list->values[at], value, length) == 0) {
      free(take_at(list, at));
      return;
    }
  }
}

static void copy_redis(struct redis *to, const struct redis *from) {
  *to = *from;
  for (size_t i = 0; i < LISTS; i++)
    for (size_t j = 0; j < from->lists[i].count; j++)
      to->lists[i].values[j] = strdup(from->lists[i].values[j]);
  to->started = from->started != NULL ? strdup(from->started) : NULL;
}

static void release_redis(struct redis *self) {
  for (size_t i = 0; i < LISTS; i++)
    while (self->lists[i].count > 0)
      free(take_at(&self->lists[i], 0));
  free(self->started);
  *self = (struct redis){0};
}

#define CANCEL_OF(id) "{\"kind\":\"cancel\",\"stepId\":\"" id "\"}"

/* --- an agent around intake ------------------------------------------------------------------- */

struct write {
  struct outbox_change changes[OUTBOX_CHANGES_MAX]; /* the values are owned */
  size_t count;
  int result; /* the number of the answered step; -1: none */
  char *started;
  bool ends_started;
};

/* Positions in the send queue are numbers of writes. */
struct agent {
  struct outbox outbox; /* first */
  struct intake *intake;
  const struct consumer_handler *consumer;
  int epoch;
  struct write *writes;
  uint64_t queued, sent;  /* numbers of writes; Redis has executed the sent ones */
  uint64_t reconnections; /* of the outbox */
  bool has_lost_data;
  char *query;            /* the commands; NULL: there is no query */
  const char *unanswered; /* inside `query` */
  query_answer *answer;
  bool has_taken; /* BLMOVE has moved the step `taken`, and the reply has not arrived */
  char *taken;
  size_t skip, page;
  bool reads;     /* a read of `control` is under way */
  bool waits;     /* processes of earlier agents are still running */
  uint64_t start; /* the position of the write of the running step's start; 0: acknowledged */
  int runs;       /* the number of the running step; -1: none */
  bool cancelled;
  int64_t leaves_ms;           /* when a superseded agent reads the new fencing token */
  bool must_cancel[STEPS_MAX]; /* a cancel was in `control` before the agent started */
};

struct consumer {
  struct agent *agent;
};

struct delivery {
  struct agent *agent;
};

static struct agent *starting; /* the owner of the next consumer */
static struct event_base *event_base;
static struct keys job_keys;

static struct world {
  struct redis redis, snapshot;
  bool has_snapshot;
  struct agent *agents[2];   /* the owner, and a superseded agent; NULL: there is none */
  int64_t stale_until_ms[4]; /* until when stale BLMOVEs may take a step */
  int pushed, runs[STEPS_MAX], answers[STEPS_MAX], last_started;
  int rollbacks, pushed_before;   /* steps that the snapshot, or its past, may have */
  bool may_be_unknown[STEPS_MAX]; /* pushed after a snapshot to which Redis went back */
  bool lost_memory;               /* an agent has ended after a rollback */
  bool is_interrupted[STEPS_MAX]; /* Redis knows that an earlier agent has started the step, which
                                     has no answer */
  bool is_vague[STEPS_MAX];       /* a cancel was pushed before the step, which it need not end */
  uint64_t seed;
  long schedule;
} world;

#define TRACE(...)                                                                                 \
  (getenv("INTAKE_TRACE") != NULL                                                                  \
       ? (void)(printf("%6lld ", (long long)virtual_time_ms), printf(__VA_ARGS__))                 \
       : (void)0)

static unsigned dice(unsigned sides) {
  world.seed = world.seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(world.seed >> 33) % sides;
}

#define FAIL(...)                                                                                  \
  do {                                                                                             \
    print_message("schedule %ld: ", world.schedule);                                               \
    fail_msg(__VA_ARGS__);                                                                         \
  } while (0)

static int number_of(const char *step_id) {
  return atoi(step_id + 1);
}

/* Returns the number of the step that this value cancels; -1: it is no cancel. */
static int cancelled_by(const char *value) {
  const char *id = strstr(value, "\"cancel\",\"stepId\":\"");
  return id != NULL ? number_of(id + strlen("\"cancel\",\"stepId\":\"")) : -1;
}

struct consumer *consumer_new(struct event_base *base, const struct log *log,
                              const struct redis_url *url, const struct keys *keys,
                              const struct consumer_handler *handler, void *owner) {
  struct consumer *self = memory_allocate(sizeof *self);
  self->agent = starting;
  starting->consumer = handler;
  (void)base, (void)log, (void)url, (void)keys, (void)owner;
  return self;
}

void consumer_free(struct consumer *self) {
  free(self);
}

void consumer_stop(struct consumer *self) {
  (void)self;
}

void consumer_take(struct consumer *self) {
  assert_false(self->agent->has_taken);
}

void consumer_search(struct consumer *self, size_t skip, size_t count) {
  self->agent->skip = skip;
  self->agent->page = count;
}

void delivery_query(struct delivery *self, char *commands, query_answer *answer, void *owner) {
  assert_ptr_equal(owner, self->agent->intake);
  assert_null(self->agent->query);
  self->agent->query = commands;
  self->agent->unanswered = commands;
  self->agent->answer = answer;
}

uint64_t delivery_reconnections(const struct delivery *self) {
  return self->agent->reconnections;
}

bool delivery_had_owner(const struct delivery *self) {
  return self->agent->epoch > 1;
}

bool delivery_has_lost_data(const struct delivery *self) {
  return self->agent->has_lost_data;
}

size_t outbox_capacity(const struct outbox *self) {
  (void)self;
  return 1;
}

bool outbox_is_empty(const struct outbox *self) {
  return self->send_queue.delivered == ((const struct agent *)self)->queued;
}

uint64_t outbox_write(struct outbox *outbox, const struct outbox_record *record) {
  struct agent *self = (struct agent *)outbox;
  assert_true(self->queued < WRITES_MAX);
  struct write *write = &self->writes[self->queued++];
  *write =
      (struct write){.count = record->change_count,
                     .result = record->result != NULL ? number_of(record->result->step_id) : -1,
                     .ends_started = record->ends_started};
  if (write->result >= 0 && write->result == self->runs)
    FAIL("step %d is answered while it runs", self->runs);
  if (record->started != NULL)
    write->started = strdup(record->started);
  for (size_t i = 0; i < write->count; i++) {
    write->changes[i] = record->changes[i];
    write->changes[i].value.bytes =
        memory_copy(record->changes[i].value.bytes, record->changes[i].value.length);
  }
  return self->queued;
}

/* Visits the results, or the removals from a list. */
void outbox_for_each(const struct outbox *outbox, const char *command, const char *key,
                     outbox_visitor *visit, void *owner) {
  const struct agent *self = (const struct agent *)outbox;
  for (uint64_t i = self->outbox.send_queue.delivered, end = self->queued; i < end; i++) {
    const struct write *write = &self->writes[i];
    char result[32];
    snprintf(result, sizeof result, "{\"stepId\":\"s%d\"}", write->result);
    if (strcmp(command, "LPUSH") == 0 && write->result >= 0)
      visit(owner, result, strlen(result));
    for (size_t j = 0; strcmp(command, "LREM") == 0 && j < write->count; j++) {
      const struct outbox_change *change = &write->changes[j];
      bool removes = change->kind == OUTBOX_REMOVE_NEWEST || change->kind == OUTBOX_REMOVE_OLDEST;
      if (removes && list_of(key) == (int)change->list)
        visit(owner, change->value.bytes, change->value.length);
    }
  }
}

static void on_changed(void *owner) {
  (void)owner;
}

static void on_arrived(void *owner) {
  (void)owner;
}

static void on_cancel(void *owner, const char *step_id) {
  struct agent *self = owner;
  assert_int_equal(number_of(step_id), self->runs);
  self->cancelled = true;
}

static bool on_interrupted(void *owner) {
  struct agent *self = owner;
  self->waits = dice(2) == 0;
  return !self->waits;
}

static void on_answered(void *owner, const struct step_result *result) {
  (void)owner;
  (void)result;
}

static void advance(struct agent *self) {
  struct queued_step *step;
  do {
    intake_advance(self->intake);
    step = intake_next_step(self->intake);
    if (step == NULL)
      return;
    self->runs = number_of(step->step_id);
    TRACE("epoch %d gives %d\n", self->epoch, self->runs);
    if (self->must_cancel[self->runs] && world.rollbacks == 0)
      FAIL("step %d starts, although it was cancelled before the agent started", self->runs);
    self->cancelled = false;
    intake_start_step(self->intake, true);
    self->start = self->queued;
  } while (true);
}

static struct agent *start_agent(void) {
  static const struct intake_handler handler = {.changed = on_changed,
                                                .arrived = on_arrived,
                                                .cancel = on_cancel,
                                                .interrupted = on_interrupted,
                                                .answered = on_answered};
  static const struct log log = {.fd = -1, .least = LOG_ERROR};
  struct agent *self = memory_allocate(sizeof *self);
  *self = (struct agent){.epoch = ++world.redis.epoch, .runs = -1};
  self->outbox.delivery = memory_allocate(sizeof *self->outbox.delivery);
  self->outbox.delivery->agent = starting = self;
  self->writes = memory_zeros(WRITES_MAX * sizeof *self->writes);
  world.redis.sequence = 0;
  TRACE("agent %d starts\n", self->epoch);
  for (size_t i = 0; i < world.redis.lists[CONTROL].count; i++) {
    int number = cancelled_by(world.redis.lists[CONTROL].values[i]);
    if (number >= 0 && number < world.pushed && !world.is_vague[number])
      self->must_cancel[number] = true;
  }
  self->intake = intake_new(event_base, &log, NULL, &job_keys, &self->outbox, &handler, self);
  advance(self);
  return self;
}

static void end_agent(struct agent **agent) {
  struct agent *self = *agent;
  *agent = NULL;
  if (self == NULL)
    return;
  for (uint64_t i = 0; i < self->queued; i++) {
    for (size_t j = 0; j < self->writes[i].count; j++)
      free((char *)(uintptr_t)self->writes[i].changes[j].value.bytes);
    free(self->writes[i].started);
  }
  free(self->writes);
  free(self->taken);
  intake_free(self->intake);
  free(self->outbox.delivery);
  free(self->query);
  free(self);
}

/* --- events ----------------------------------------------------------------------------------- */

/* Fails if a cancel leaves `control` without effect, although its step waits. */
static void check_cancel(const struct write *write, const struct outbox_change *change) {
  char value[64];
  snprintf(value, sizeof value, "%.*s", (int)change->value.length, change->value.bytes);
  int number = change->list == OUTBOX_CONTROL ? cancelled_by(value) : -1;
  if (number < 0 || number >= world.pushed || world.is_vague[number] || world.rollbacks > 0 ||
      write->result == number || world.answers[number] > 0 || world.runs[number] > 0)
    return;
  for (size_t i = 0; i < 2; i++)
    if (world.agents[i] != NULL && world.agents[i]->runs == number)
      return;
  if (world.redis.started == NULL || number_of(world.redis.started) != number)
    FAIL("the cancel of step %d has no effect", number);
}

static void execute(const struct write *write) {
  for (size_t i = 0; i < write->count; i++) {
    const struct outbox_change *change = &write->changes[i];
    struct list *list = &world.redis.lists[change->list];
    if (change->kind == OUTBOX_PUSH_NEWEST || change->kind == OUTBOX_PUSH_OLDEST)
      insert(list, change->kind == OUTBOX_PUSH_NEWEST ? 0 : list->count, change->value.bytes,
             change->value.length);
    else
      remove_value(list, change->value.bytes, change->value.length,
                   change->kind == OUTBOX_REMOVE_NEWEST);
    if (change->kind == OUTBOX_REMOVE_OLDEST)
      check_cancel(write, change);
  }
  if (write->started != NULL || write->ends_started) {
    free(world.redis.started);
    world.redis.started = write->started != NULL ? strdup(write->started) : NULL;
  }
  if (write->result >= 0) {
    world.is_interrupted[write->result] = false;
    world.redis.results[write->result]++;
    world.answers[write->result]++;
  }
  TRACE("write: %zu changes, %s to %d of %s, result %d, started %s %d\n", write->count,
        write->count > 1 ? "move" : "one",
        write->count > 0 ? (int)write->changes[write->count - 1].list : -1,
        write->count > 0 ? write->changes[0].value.bytes : "", write->result, write->started,
        write->ends_started);
  world.redis.sequence++;
}

static void run_if_acknowledged(struct agent *self) {
  if (self->start == 0 || self->outbox.send_queue.delivered < self->start)
    return;
  self->start = 0;
  if (++world.runs[self->runs] > 1 && !world.lost_memory)
    FAIL("step %d runs twice", self->runs);
  if (world.is_interrupted[self->runs])
    FAIL("step %d runs, although redis knows that an earlier agent has started it", self->runs);
  if (self->runs <= world.last_started && world.rollbacks == 0)
    FAIL("step %d runs after step %d", self->runs, world.last_started);
  world.last_started = self->runs;
}

/* Lets the agent notice that Redis has lost acknowledged writes. The next notification follows only
   after Redis has acknowledged a write, which sets `committed` again. */
static void detect_loss(struct agent *self) {
  if (world.redis.epoch > self->epoch ||
      (world.redis.epoch == self->epoch &&
       world.redis.sequence >= self->outbox.send_queue.delivered))
    return;
  self->sent = self->outbox.send_queue.delivered;
  if (self->has_lost_data)
    return;
  self->has_lost_data = true;
  bool again = intake_lose_data(self->intake);
  assert_false(again && self->start == 0 && world.rollbacks == 0);
}

/* Redis executes a batch, unless it has answered a part of a query. The acknowledgement is a
   separate event. */
static void send_batch(struct agent *self) {
  detect_loss(self);
  if (world.redis.epoch > self->epoch || (self->query != NULL && self->unanswered != self->query))
    return;
  if (!self->has_lost_data && world.redis.sequence > self->sent)
    self->sent = world.redis.sequence;
  for (unsigned most = 1 + dice(5); most > 0 && self->sent < self->queued; most--) {
    world.redis.epoch = self->epoch;
    world.redis.sequence = self->sent;
    execute(&self->writes[self->sent++]);
  }
}

static void acknowledge(struct agent *self) {
  detect_loss(self);
  if (world.redis.epoch > self->epoch)
    return;
  self->has_lost_data &= self->outbox.send_queue.delivered == self->sent;
  self->outbox.send_queue.delivered = self->sent;
  run_if_acknowledged(self);
}

static struct payload text_payload(const char *value) {
  return (struct payload){.bytes = value, .length = strlen(value)};
}

/* The message, or step, that is at this position; the oldest one has position 1. NULL: none. */
static char *value_at(int list, size_t position) {
  const struct list *values = &world.redis.lists[list];
  return position <= values->count ? values->values[values->count - position] : NULL;
}

static void read_control(struct agent *self, size_t count) {
  size_t known = self->intake->control.count;
  for (size_t i = 1; i <= count && value_at(CONTROL, known + i) != NULL; i++) {
    struct payload payload = text_payload(value_at(CONTROL, known + i));
    intake_message(self->intake, &payload);
  }
}

static void answer_command(struct agent *self, const struct command_word *words) {
  char *text = NULL, key[64], number[24];
  snprintf(key, sizeof key, "%.*s", (int)words[1].length, words[1].text);
  snprintf(number, sizeof number, "%.*s", (int)words[2].length, words[2].text);
  struct reply reply = {.type = REPLY_NIL};
  if (words[0].text[0] == 'G')
    text = world.redis.started;
  else if (words[0].text[0] == 'X')
    reply.type = REPLY_ARRAY;
  else if (words[0].text[1] == 'L')
    reply = (struct reply){.type = REPLY_INTEGER,
                           .integer = (long long)world.redis.lists[list_of(key)].count};
  else
    text = value_at(list_of(key), (size_t)-atoi(number));
  if (text != NULL)
    reply = (struct reply){.type = REPLY_STRING, .str = text, .len = strlen(text)};
  self->answer(self->intake, &reply);
}

/* The query is executed between two batches. Its answers arrive together or in two parts, and a
   lost connection may execute the rest again. */
static void answer_query(struct agent *self) {
  char *commands = self->query;
  if (commands == NULL || self->sent != self->outbox.send_queue.delivered)
    return;
  detect_loss(self);
  if (world.redis.epoch > self->epoch)
    return;
  if (self->has_lost_data) { /* a transaction has written `committed` */
    world.redis.epoch = self->epoch;
    world.redis.sequence = self->sent;
    self->has_lost_data = false;
  }
  const char *end = commands + strlen(commands);
  struct command_word words[3];
  for (unsigned most = dice(2) == 0 ? 1 + dice(6) : 1000; most > 0; most--) {
    if (!command_read(&self->unanswered, end, words, 3))
      break;
    if (self->unanswered == end)
      self->query = NULL;
    answer_command(self, words);
  }
  if (self->query != commands)
    free(commands);
}

static char *move_one(void) {
  struct list *in = &world.redis.lists[IN];
  if (in->count == 0)
    return NULL;
  char *value = take_at(in, in->count - 1);
  TRACE("moved %s\n", value);
  insert(&world.redis.lists[INFLIGHT], 0, value, strlen(value));
  return value;
}

static bool takes(const struct agent *self) {
  return self->intake->activity == INTAKE_TAKING || self->intake->activity == INTAKE_ARRIVING;
}

/* LRANGE returns the newest step first. */
static void answer_search(struct agent *self) {
  struct reply steps[VALUES_MAX], *elements[VALUES_MAX];
  struct reply page = {.type = REPLY_ARRAY, .element = elements};
  for (size_t i = self->page; i-- > 0;) {
    char *text = value_at(IN, self->skip + i + 1);
    if (text == NULL)
      continue;
    elements[page.elements] = &steps[page.elements];
    steps[page.elements++] = (struct reply){.type = REPLY_STRING, .str = text, .len = strlen(text)};
  }
  self->consumer->page(self->intake, world.redis.lists[IN].count, &page);
}

static void use_consumer(struct agent *self) {
  if (takes(self) && !self->has_taken) {
    self->taken = move_one();
    self->has_taken = self->taken != NULL;
  } else if (self->has_taken) {
    struct payload payload = text_payload(self->taken);
    self->has_taken = false;
    self->consumer->step(self->intake, &payload);
    free(self->taken);
    self->taken = NULL;
  } else if (self->intake->activity == INTAKE_SEARCHING) {
    answer_search(self);
  }
}

/* The BLMOVE of the lost connection becomes stale. */
static void lose_consumer(struct agent *self) {
  TRACE("epoch %d loses its consumer\n", self->epoch);
  if (takes(self) && !self->has_taken)
    world.stale_until_ms[dice(4)] = virtual_time_ms + BLOCK_MS;
  free(self->taken);
  self->taken = NULL;
  self->has_taken = false;
  self->consumer->reconnected(self->intake);
}

static void lose_outbox(struct agent *self) {
  TRACE("epoch %d loses its outbox\n", self->epoch);
  self->reconnections++;
}

static void use_heartbeat(struct agent *self) {
  if (self->waits)
    intake_interrupted_ended(self->intake);
  self->waits = false;
  if (!self->reads && control_messages_may_read(&self->intake->control)) {
    self->reads = true;
    self->intake->control.activity = CONTROL_READING;
  } else if (self->reads) {
    read_control(self, 1 + dice(3));
    self->reads = false;
    self->intake->control.activity = CONTROL_IDLE;
  }
}

static void finish_run(struct agent *self) {
  if (self->runs < 0 || self->start > 0)
    return;
  char id[16];
  snprintf(id, sizeof id, "s%d", self->runs);
  struct step_result result = step_result_of_agent(1, id, STEP_CAUSE_EXITED, "");
  self->runs = -1;
  intake_finish_step(self->intake, NULL, &result);
}

static void push_step(void) {
  char value[64];
  if (world.pushed == STEPS_MAX)
    return;
  snprintf(value, sizeof value, "{\"stepId\":\"s%d\",\"command\":\"true\"}", world.pushed++);
  insert(&world.redis.lists[IN], 0, value, strlen(value));
}

static void push_cancel(void) {
  char value[64];
  int number = (int)dice((unsigned)world.pushed + 2);
  if (number >= world.pushed && number < STEPS_MAX)
    world.is_vague[number] = true;
  if (dice(8) == 0)
    snprintf(value, sizeof value, "garbage");
  else
    snprintf(value, sizeof value, CANCEL_OF("s%d"), number);
  struct list *list = &world.redis.lists[dice(4) == 0 ? IN : CONTROL];
  if (list == &world.redis.lists[CONTROL] || value[0] == '{')
    insert(list, 0, value, strlen(value));
}

/* The agent is killed, or superseded. A superseded agent may take steps until it reads the new
   fencing token. */
static void take_over(bool is_killed) {
  struct agent *before = world.agents[0];
  if (before->runs >= 0 && before->start == 0 && outbox_is_empty(&before->outbox) &&
      world.redis.epoch == before->epoch && world.redis.sequence == before->queued)
    world.is_interrupted[before->runs] = true;
  if (world.redis.started != NULL)
    world.is_interrupted[number_of(world.redis.started)] = true;
  world.lost_memory |= world.rollbacks > 0;
  world.redis.epoch = before->epoch;
  end_agent(&world.agents[1]);
  before->leaves_ms = virtual_time_ms + LEARN_MS;
  world.agents[1] = before;
  if (is_killed) {
    if (takes(before) && !before->has_taken && dice(2) == 0)
      world.stale_until_ms[dice(4)] = virtual_time_ms + BLOCK_MS;
    end_agent(&world.agents[1]);
  }
  world.agents[0] = start_agent();
}

static void take_snapshot(void) {
  release_redis(&world.snapshot);
  copy_redis(&world.snapshot, &world.redis);
  world.has_snapshot = true;
  world.pushed_before = world.pushed;
  TRACE("snapshot of %d\n", (int)world.redis.sequence);
}

static bool has_step(const struct redis *redis, int number) {
  for (size_t list = IN; list <= INFLIGHT; list++)
    for (size_t i = 0; i < redis->lists[list].count; i++) {
      const char *id = strstr(redis->lists[list].values[i], "{\"stepId\":\"s");
      if (id != NULL && number_of(id + strlen("{\"stepId\":\"")) == number)
        return true;
    }
  return redis->results[number] > 0;
}

/* Redis comes back with older data. In a snapshot that was taken after two losses, a step may be
   removed, and its answer still on the way. */
static void roll_back(void) {
  struct agent *self = world.agents[0];
  bool is_earlier = world.snapshot.epoch != self->epoch;
  if (!world.has_snapshot || (is_earlier && dice(4) > 0))
    return;
  world.rollbacks++;
  world.lost_memory |= is_earlier;
  memset(world.is_interrupted, 0, sizeof world.is_interrupted);
  if (is_earlier && world.snapshot.started != NULL && self->runs < 0 &&
      outbox_is_empty(&self->outbox))
    world.is_interrupted[number_of(world.snapshot.started)] = true;
  for (int i = 0; i < world.pushed; i++)
    world.may_be_unknown[i] |= i >= world.pushed_before || !has_step(&world.snapshot, i);
  TRACE("roll back from %d to %d, delivered %d, sent %d, queued %d\n", (int)world.redis.sequence,
        (int)world.snapshot.sequence, (int)self->outbox.send_queue.delivered, (int)self->sent,
        (int)self->queued);
  release_redis(&world.redis);
  copy_redis(&world.redis, &world.snapshot);
  end_agent(&world.agents[1]);
  if ((is_earlier || world.redis.sequence < self->outbox.send_queue.delivered) && dice(3) == 0)
    return; /* no connection is lost */
  memset(world.stale_until_ms, 0, sizeof world.stale_until_ms);
  self->reads = false;
  self->intake->control.activity = CONTROL_IDLE;
  self->reconnections++;
  if (!is_earlier && world.redis.sequence >= self->outbox.send_queue.delivered)
    self->sent = world.redis.sequence;
  detect_loss(self);
  free(self->taken);
  self->taken = NULL;
  self->has_taken = false;
  self->consumer->reconnected(self->intake);
}

static void execute_stale_move(void) {
  unsigned at = dice(4);
  TRACE("stale BLMOVE until %lld\n", (long long)world.stale_until_ms[at]);
  if (world.stale_until_ms[at] > virtual_time_ms)
    free(move_one());
  world.stale_until_ms[at] = 0;
}

static void act(struct agent *self) {
  switch (dice(7)) {
  case 0:
    send_batch(self);
    break;
  case 1:
    acknowledge(self);
    break;
  case 2:
    answer_query(self);
    break;
  case 3:
  case 4:
    use_consumer(self);
    break;
  case 5:
    use_heartbeat(self);
    break;
  default:
    finish_run(self);
  }
  advance(self);
}

/* Redis executes no writes of a superseded agent. */
static void act_superseded(void) {
  struct agent *self = world.agents[1];
  if (self == NULL)
    return;
  if (self->leaves_ms <= virtual_time_ms) {
    if (takes(self) && !self->has_taken)
      world.stale_until_ms[dice(4)] = virtual_time_ms + BLOCK_MS;
    end_agent(&world.agents[1]);
  } else {
    use_consumer(self);
    advance(self);
  }
}

static void do_something(bool with_rollbacks) {
  unsigned event = dice(200);
  virtual_time_ms += dice(60);
  if (event < 14)
    push_step();
  else if (event < 22)
    push_cancel();
  else if (event < 24)
    execute_stale_move();
  else if (event < 26)
    (event == 24 ? lose_consumer : lose_outbox)(world.agents[0]);
  else if (event == 26 && dice(3) == 0)
    take_over(dice(2) == 0);
  else if (event == 27 && with_rollbacks)
    take_snapshot();
  else if (event == 28 && with_rollbacks && dice(2) == 0)
    roll_back();
  else if (event < 60)
    act_superseded();
  else
    act(world.agents[0]);
  advance(world.agents[0]);
}

static bool is_over(void) {
  const struct agent *self = world.agents[0];
  for (size_t i = 0; i < LISTS; i++)
    if (world.redis.lists[i].count > 0)
      return false;
  return self->runs < 0 && self->outbox.send_queue.delivered == self->queued &&
         world.redis.started == NULL;
}

static void drain(void) {
  for (int turn = 0; turn < 200000 && !is_over(); turn++) {
    virtual_time_ms += 5;
    if (turn % 50 == 0)
      act_superseded();
    if (turn % 2000 == 1999 && takes(world.agents[0]) && !world.agents[0]->has_taken &&
        world.redis.lists[IN].count == 0)
      world.agents[0]->consumer->nothing(world.agents[0]->intake);
    act(world.agents[0]);
  }
  if (!is_over())
    FAIL("the schedule does not end: in %zu inflight %zu control %zu state %d activity %d",
         world.redis.lists[IN].count, world.redis.lists[INFLIGHT].count,
         world.redis.lists[CONTROL].count, world.agents[0]->intake->state,
         world.agents[0]->intake->activity);
}

/* A step that was pushed after the snapshot may be lost with it. Only an agent that has taken it
   still knows it. */
static void check(void) {
  for (int i = 0; i < world.pushed; i++) {
    bool is_known = !world.may_be_unknown[i];
    if (world.rollbacks == 0 && world.answers[i] != 1)
      FAIL("step %d has %d answers", i, world.answers[i]);
    if (world.runs[i] > 0 && world.answers[i] == 0 && (is_known || !world.lost_memory))
      FAIL("step %d has run and is not answered", i);
    if (is_known && world.redis.results[i] == 0)
      FAIL("redis has no result of step %d", i);
    if (world.rollbacks == 1 && !world.lost_memory && world.redis.results[i] > 1)
      FAIL("redis has %d results of step %d", world.redis.results[i], i);
  }
}

/* An agent of version 0.2 has taken all steps, and perhaps started one. */
static void leave_steps(void) {
  for (unsigned count = dice(40); count > 0; count--) {
    push_step();
    free(move_one());
  }
  if (world.pushed > 0 && dice(2) == 0) {
    world.redis.started = strdup("s0");
    world.runs[0] = 1;
  }
  world.redis.epoch = 1;
}

static void begin_schedule(long number, bool with_steps) {
  memset(&world, 0, sizeof world);
  world.schedule = number;
  world.seed = (uint64_t)number * 7919 + 1;
  virtual_time_ms = 1000;
  world.last_started = -1;
  if (with_steps && dice(4) == 0)
    leave_steps();
  world.agents[0] = start_agent();
}

static void end_schedule(void) {
  end_agent(&world.agents[0]);
  end_agent(&world.agents[1]);
  release_redis(&world.redis);
  release_redis(&world.snapshot);
}

static void run_schedule(long number, bool with_rollbacks) {
  begin_schedule(number, true);
  for (int i = 0; i < 1500; i++)
    do_something(with_rollbacks);
  drain();
  check();
  end_schedule();
}

static void begin_schedules(void) {
  event_base = loop_event_base_new();
  keys_init(&job_keys, "j");
}

static void end_schedules(void) {
  keys_release(&job_keys);
  event_base_free(event_base);
}

/* A server may push a step twice. */
TEST(the_copy_of_a_step_that_ends_after_a_reconnect_runs, NULL, NULL) {
  (void)state;
  begin_schedules();
  begin_schedule(1, false);
  push_step();
  world.pushed = 0;
  push_step();
  world.lost_memory = true; /* it may run twice */
  struct agent *self = world.agents[0];
  while (self->runs < 0 || self->start > 0) {
    send_batch(self);
    acknowledge(self);
    answer_query(self);
    use_consumer(self);
    advance(self);
  }
  lose_consumer(self);
  finish_run(self);
  world.last_started = -1;
  drain();
  assert_int_equal(world.answers[0], 2);
  end_schedule();
  end_schedules();
}

/* The agent has fetched the step ahead, and the outbox has reconnected. */
TEST(a_step_that_is_cancelled_while_inflight_is_checked_does_not_run, NULL, NULL) {
  (void)state;
  begin_schedules();
  begin_schedule(1, false);
  struct agent *self = world.agents[0];
  push_step();
  push_step();
  while (self->runs < 0 || self->start > 0 || self->intake->fetched == NULL) {
    send_batch(self);
    acknowledge(self);
    answer_query(self);
    use_consumer(self);
    advance(self);
  }
  lose_outbox(self);
  advance(self);
  insert(&world.redis.lists[CONTROL], 0, CANCEL_OF("s1"), strlen(CANCEL_OF("s1")));
  read_control(self, 1);
  self->must_cancel[1] = true;
  drain();
  check();
  end_schedule();
  end_schedules();
}

static void run_schedules(bool with_rollbacks) {
  begin_schedules();
  const char *one = getenv("INTAKE_SCHEDULE"), *many = getenv("INTAKE_SCHEDULES");
  long first = one != NULL ? atol(one) : 1;
  long last = one != NULL ? first : many != NULL ? atol(many) : 200;
  for (long number = first; number <= last; number++)
    run_schedule(number, with_rollbacks);
  end_schedules();
}

TEST(every_step_is_answered_once_and_in_order_whatever_dies, NULL, NULL) {
  (void)state;
  run_schedules(false);
}

TEST(no_step_runs_twice_if_redis_loses_data, NULL, NULL) {
  (void)state;
  run_schedules(true);
}
