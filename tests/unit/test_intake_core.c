/* Runs intake_core with random schedules against a model of Redis. Whatever happens, every step is
   answered exactly once, runs at most once, and starts in the order in which it was pushed. A
   failure prints the number of its schedule. INTAKE_SCHEDULES=<n> runs this many schedules,
   INTAKE_SCHEDULE=<number> runs one, and INTAKE_TRACE=1 prints every event. */
#include "agent/frontends/redis/intake/intake_core.h"

#include "base/memory.h"
#include "tests/support/loop.h"
#include "tests/test.h"

enum { STEPS_MAX = 200, VALUES_MAX = 600, WRITES_MAX = 4000, BLOCK_MS = 10000, LEARN_MS = 4000 };
enum { IN, INFLIGHT, CONTROL, LISTS };

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

/* --- an agent around the core ----------------------------------------------------------------- */

struct write {
  struct outbox_change changes[OUTBOX_CHANGES_MAX]; /* the values are owned */
  size_t count;
  int result; /* the number of the answered step; -1: none */
  char *started;
  bool ends_started;
};

struct agent {
  struct intake_core core;
  int epoch;
  struct write *writes;
  uint64_t queued, sent, delivered; /* numbers of writes; Redis has executed the sent ones */
  uint64_t reconnections;           /* of the outbox */
  enum intake_query query;
  size_t position, count;
  bool has_taken; /* BLMOVE has moved the step `taken`, and the reply has not arrived */
  char *taken;
  size_t skip, page;
  bool reads;     /* a read of `control` is under way */
  uint64_t start; /* the position of the write of the running step's start; 0: acknowledged */
  int runs;       /* the number of the running step; -1: none */
  bool cancelled;
  int64_t leaves_ms; /* when a superseded agent reads the new fencing token */
};

static struct world {
  struct redis redis, snapshot;
  bool has_snapshot;
  struct agent *agents[2];           /* the owner, and a superseded agent; NULL: there is none */
  int64_t now_ms, stale_until_ms[4]; /* until when stale BLMOVEs may take a step */
  int pushed, runs[STEPS_MAX], answers[STEPS_MAX], last_started;
  int rollbacks, pushed_before;   /* steps that the snapshot, or its past, may have */
  bool may_be_unknown[STEPS_MAX]; /* pushed after a snapshot to which Redis went back */
  bool lost_memory;               /* an agent has ended after a rollback */
  uint64_t seed;
  long schedule;
} world;

#define TRACE(...)                                                                                 \
  (getenv("INTAKE_TRACE") != NULL                                                                  \
       ? (void)(printf("%6lld ", (long long)world.now_ms), printf(__VA_ARGS__))                    \
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

static void on_take(void *owner) {
  struct agent *self = owner;
  assert_false(self->has_taken);
}

static void on_search(void *owner, size_t skip, size_t count) {
  struct agent *self = owner;
  self->skip = skip;
  self->page = count;
}

static void on_query(void *owner, enum intake_query query, size_t position, size_t count) {
  struct agent *self = owner;
  assert_int_equal(self->query, INTAKE_QUERY_NONE);
  self->query = query;
  self->position = position;
  self->count = count;
}

static uint64_t on_write(void *owner, const struct outbox_record *record) {
  struct agent *self = owner;
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

static void on_arrived(void *owner) {
  (void)owner;
}

static void on_cancel(void *owner, const char *step_id) {
  struct agent *self = owner;
  assert_int_equal(number_of(step_id), self->runs);
  self->cancelled = true;
}

static bool on_interrupted(void *owner) {
  (void)owner;
  return true;
}

static void on_answered(void *owner, const struct step_result *result) {
  (void)owner;
  (void)result;
}

static void advance(struct agent *self) {
  const struct intake_context now = {.now_ms = world.now_ms,
                                     .delivered = self->delivered,
                                     .reconnections = self->reconnections,
                                     .capacity = 1,
                                     .is_empty = self->delivered == self->queued};
  struct queued_step *step;
  do {
    intake_core_advance(&self->core, &now);
    step = intake_core_next_step(&self->core);
    if (step == NULL)
      return;
    self->runs = number_of(step->step_id);
    TRACE("epoch %d gives %d\n", self->epoch, self->runs);
    self->cancelled = false;
    intake_core_start_step(&self->core, true);
    self->start = self->queued;
  } while (true);
}

static struct agent *start_agent(void) {
  static const struct intake_io io = {
      .take = on_take, .search = on_search, .query = on_query, .write = on_write};
  static const struct intake_handler handler = {.arrived = on_arrived,
                                                .cancel = on_cancel,
                                                .interrupted = on_interrupted,
                                                .answered = on_answered};
  static const struct log log = {.fd = -1, .least = LOG_ERROR};
  struct agent *self = memory_allocate(sizeof *self);
  *self = (struct agent){.epoch = ++world.redis.epoch, .runs = -1};
  self->writes = memory_zeros(WRITES_MAX * sizeof *self->writes);
  world.redis.sequence = 0;
  TRACE("agent %d starts\n", self->epoch);
  intake_core_init(&self->core, &log, &io, self, &handler, self);
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
  intake_core_release(&self->core);
  free(self);
}

/* --- events ----------------------------------------------------------------------------------- */

static void execute(const struct write *write) {
  static const int lists[] = {
      [OUTBOX_IN] = IN, [OUTBOX_INFLIGHT] = INFLIGHT, [OUTBOX_CONTROL] = CONTROL};
  for (size_t i = 0; i < write->count; i++) {
    const struct outbox_change *change = &write->changes[i];
    struct list *list = &world.redis.lists[lists[change->list]];
    if (change->kind == OUTBOX_PUSH_NEWEST || change->kind == OUTBOX_PUSH_OLDEST)
      insert(list, change->kind == OUTBOX_PUSH_NEWEST ? 0 : list->count, change->value.bytes,
             change->value.length);
    else
      remove_value(list, change->value.bytes, change->value.length,
                   change->kind == OUTBOX_REMOVE_NEWEST);
  }
  if (write->started != NULL || write->ends_started) {
    free(world.redis.started);
    world.redis.started = write->started != NULL ? strdup(write->started) : NULL;
  }
  if (write->result >= 0) {
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
  if (self->start == 0 || self->delivered < self->start)
    return;
  self->start = 0;
  if (++world.runs[self->runs] > 1 && !world.lost_memory)
    FAIL("step %d runs twice", self->runs);
  if (self->runs <= world.last_started && world.rollbacks == 0)
    FAIL("step %d runs after step %d", self->runs, world.last_started);
  world.last_started = self->runs;
}

static void mark_pending_results(struct agent *self) {
  recent_steps_roll_back(&self->core.recent);
  for (uint64_t i = self->delivered; i < self->queued; i++)
    if (self->writes[i].result >= 0) {
      char id[16];
      snprintf(id, sizeof id, "s%d", self->writes[i].result);
      intake_core_mark_pending(&self->core, id);
    }
}

/* Lets the agent notice that Redis has lost acknowledged writes. */
static void detect_loss(struct agent *self) {
  if (world.redis.epoch == self->epoch && world.redis.sequence >= self->delivered)
    return;
  if (world.redis.epoch > self->epoch)
    return;
  world.redis.epoch = self->epoch;
  world.redis.sequence = self->sent = self->delivered;
  const struct intake_context now = {.now_ms = world.now_ms,
                                     .delivered = self->delivered,
                                     .reconnections = self->reconnections,
                                     .capacity = 1};
  mark_pending_results(self);
  bool again = intake_core_lose_data(&self->core, &now);
  assert_false(again && self->start == 0 && world.rollbacks == 0);
}

/* Redis executes a batch. The acknowledgement is a separate event. */
static void send_batch(struct agent *self) {
  detect_loss(self);
  if (world.redis.epoch != self->epoch)
    return;
  self->sent = world.redis.sequence > self->sent ? world.redis.sequence : self->sent;
  for (unsigned most = 1 + dice(5); most > 0 && self->sent < self->queued; most--)
    execute(&self->writes[self->sent++]);
}

static void acknowledge(struct agent *self) {
  detect_loss(self);
  if (world.redis.epoch != self->epoch)
    return;
  self->delivered = self->sent;
  run_if_acknowledged(self);
}

static struct payload payload_of(const char *value) {
  return (struct payload){.bytes = value, .length = strlen(value)};
}

static void read_control(struct agent *self, size_t count) {
  const struct list *control = &world.redis.lists[CONTROL];
  size_t known = self->core.control.count;
  for (size_t i = 1; i <= count && known + i <= control->count; i++) {
    struct payload payload = payload_of(control->values[control->count - known - i]);
    intake_core_message(&self->core, &payload);
  }
}

/* The query is executed and answered between two batches. */
static void answer_query(struct agent *self) {
  enum intake_query query = self->query;
  const struct redis *redis = &world.redis;
  if (query == INTAKE_QUERY_NONE || self->sent != self->delivered || redis->epoch != self->epoch)
    return;
  detect_loss(self);
  self->query = INTAKE_QUERY_NONE;
  if (query == INTAKE_QUERY_STARTUP) {
    struct intake_startup startup = {.inflight = redis->lists[INFLIGHT].count,
                                     .in = redis->lists[IN].count,
                                     .had_owner = self->epoch > 1,
                                     .interrupted.version = 1};
    if (redis->started != NULL)
      startup.interrupted.id = memory_copy(redis->started, strlen(redis->started));
    size_t before = self->core.control.count;
    read_control(self, before + 1);
    startup.has_more_messages = self->core.control.count == 2 * before + 1;
    intake_core_startup(&self->core, &startup);
  } else if (query == INTAKE_QUERY_LENGTHS) {
    intake_core_lengths(&self->core, redis->lists[INFLIGHT].count, redis->lists[IN].count);
  } else {
    bool is_short = false;
    const struct list *list = &redis->lists[INFLIGHT];
    for (size_t i = 0; i < self->count; i++) {
      size_t position = self->position - i;
      is_short = position > list->count;
      if (is_short)
        continue;
      struct payload payload = payload_of(list->values[list->count - position]);
      intake_core_scan_step(&self->core, &payload);
    }
    intake_core_end_scan_page(&self->core, is_short);
  }
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
  return self->core.activity == INTAKE_TAKING || self->core.activity == INTAKE_ARRIVING;
}

static void use_consumer(struct agent *self) {
  const struct list *in = &world.redis.lists[IN];
  if (takes(self) && !self->has_taken) {
    self->taken = move_one();
    self->has_taken = self->taken != NULL;
  } else if (self->has_taken) {
    struct payload payload = payload_of(self->taken);
    self->has_taken = false;
    intake_core_step_taken(&self->core, &payload);
    free(self->taken);
    self->taken = NULL;
  } else if (self->core.activity == INTAKE_SEARCHING) {
    intake_core_begin_search_page(&self->core, in->count);
    for (size_t i = self->skip; i < self->skip + self->page && i < in->count; i++) {
      struct payload payload = payload_of(in->values[in->count - 1 - i]);
      intake_core_search_step(&self->core, &payload);
    }
    intake_core_end_search_page(
        &self->core, self->skip + self->page >= in->count ? INTAKE_PAGE_LAST : INTAKE_PAGE_WHOLE);
  }
}

/* The BLMOVE of the lost connection becomes stale. */
static void lose_consumer(struct agent *self) {
  TRACE("epoch %d loses its consumer\n", self->epoch);
  if (takes(self) && !self->has_taken)
    world.stale_until_ms[dice(4)] = world.now_ms + BLOCK_MS;
  free(self->taken);
  self->taken = NULL;
  self->has_taken = false;
  intake_core_reconnected(&self->core);
}

static void lose_outbox(struct agent *self) {
  TRACE("epoch %d loses its outbox\n", self->epoch);
  self->reconnections++;
}

static void use_heartbeat(struct agent *self) {
  if (!self->reads && control_messages_may_read(&self->core.control)) {
    self->reads = true;
    self->core.control.activity = CONTROL_READING;
  } else if (self->reads) {
    read_control(self, 1 + dice(3));
    self->reads = false;
    self->core.control.activity = CONTROL_IDLE;
  }
}

static void finish_run(struct agent *self) {
  if (self->runs < 0 || self->start > 0)
    return;
  char id[16];
  snprintf(id, sizeof id, "s%d", self->runs);
  struct step_result result = step_result_of_agent(1, id, STEP_CAUSE_EXITED, "");
  self->runs = -1;
  intake_core_finish_step(&self->core, NULL, &result);
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
  if (dice(8) == 0)
    snprintf(value, sizeof value, "garbage");
  else
    snprintf(value, sizeof value, "{\"kind\":\"cancel\",\"stepId\":\"s%d\"}", number);
  struct list *list = &world.redis.lists[dice(4) == 0 ? IN : CONTROL];
  if (list == &world.redis.lists[CONTROL] || value[0] == '{')
    insert(list, 0, value, strlen(value));
}

/* The agent is killed, or superseded. A superseded agent may take steps until it reads the new
   fencing token. */
static void take_over(bool is_killed) {
  struct agent *before = world.agents[0];
  world.lost_memory |= world.rollbacks > 0;
  end_agent(&world.agents[1]);
  before->leaves_ms = world.now_ms + LEARN_MS;
  world.agents[1] = before;
  if (is_killed) {
    if (takes(before) && !before->has_taken && dice(2) == 0)
      world.stale_until_ms[dice(4)] = world.now_ms + BLOCK_MS;
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

/* Redis comes back with older data. */
static void roll_back(void) {
  struct agent *self = world.agents[0];
  if (!world.has_snapshot || world.snapshot.epoch != world.redis.epoch)
    return;
  world.rollbacks++;
  for (int i = world.pushed_before; i < world.pushed; i++)
    world.may_be_unknown[i] = true;
  TRACE("roll back from %d to %d, delivered %d, sent %d, queued %d\n", (int)world.redis.sequence,
        (int)world.snapshot.sequence, (int)self->delivered, (int)self->sent, (int)self->queued);
  release_redis(&world.redis);
  copy_redis(&world.redis, &world.snapshot);
  end_agent(&world.agents[1]);
  memset(world.stale_until_ms, 0, sizeof world.stale_until_ms);
  if (world.rollbacks == 1 && world.redis.sequence < self->delivered && dice(2) == 0)
    return; /* as by FLUSHALL: the connections are not lost, and the next batch notices it */
  self->reads = false;
  self->core.control.activity = CONTROL_IDLE;
  self->reconnections++;
  if (world.redis.sequence < self->delivered)
    detect_loss(self);
  else
    self->sent = world.redis.sequence;
  free(self->taken);
  self->taken = NULL;
  self->has_taken = false;
  intake_core_reconnected(&self->core);
}

static void execute_stale_move(void) {
  unsigned at = dice(4);
  TRACE("stale BLMOVE until %lld\n", (long long)world.stale_until_ms[at]);
  if (world.stale_until_ms[at] > world.now_ms)
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
  if (self->leaves_ms <= world.now_ms) {
    if (takes(self) && !self->has_taken)
      world.stale_until_ms[dice(4)] = world.now_ms + BLOCK_MS;
    end_agent(&world.agents[1]);
  } else {
    use_consumer(self);
    advance(self);
  }
}

static void do_something(bool with_rollbacks) {
  unsigned event = dice(200);
  world.now_ms += dice(60);
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
  return self->runs < 0 && self->delivered == self->queued && world.redis.started == NULL;
}

static void drain(void) {
  for (int turn = 0; turn < 200000 && !is_over(); turn++) {
    world.now_ms += 5;
    if (turn % 50 == 0)
      act_superseded();
    if (turn % 2000 == 1999 && takes(world.agents[0]) && !world.agents[0]->has_taken &&
        world.redis.lists[IN].count == 0)
      intake_core_take_timed_out(&world.agents[0]->core);
    act(world.agents[0]);
  }
  if (!is_over())
    FAIL("the schedule does not end: in %zu inflight %zu control %zu state %d activity %d",
         world.redis.lists[IN].count, world.redis.lists[INFLIGHT].count,
         world.redis.lists[CONTROL].count, world.agents[0]->core.state,
         world.agents[0]->core.activity);
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

static void begin_schedule(long number) {
  memset(&world, 0, sizeof world);
  world.schedule = number;
  world.seed = (uint64_t)number * 7919 + 1;
  world.now_ms = 1000;
  world.last_started = -1;
  world.agents[0] = start_agent();
}

static void end_schedule(void) {
  end_agent(&world.agents[0]);
  end_agent(&world.agents[1]);
  release_redis(&world.redis);
  release_redis(&world.snapshot);
}

static void run_schedule(long number, bool with_rollbacks) {
  begin_schedule(number);
  for (int i = 0; i < 1500; i++)
    do_something(with_rollbacks);
  drain();
  check();
  end_schedule();
}

static void run_schedules(bool with_rollbacks) {
  const char *one = getenv("INTAKE_SCHEDULE"), *many = getenv("INTAKE_SCHEDULES");
  long first = one != NULL ? atol(one) : 1;
  long last = one != NULL ? first : many != NULL ? atol(many) : 200;
  for (long number = first; number <= last; number++)
    run_schedule(number, with_rollbacks);
}

/* A server may push a step twice. */
TEST(the_copy_of_a_step_that_ends_after_a_reconnect_runs, NULL, NULL) {
  (void)state;
  begin_schedule(1);
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
}

TEST(every_step_is_answered_once_and_in_order_whatever_dies, NULL, NULL) {
  (void)state;
  run_schedules(false);
}

TEST(no_step_runs_twice_if_redis_loses_data, NULL, NULL) {
  (void)state;
  run_schedules(true);
}
