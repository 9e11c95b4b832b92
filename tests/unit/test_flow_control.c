/*
 * Runs retention and flow control in random schedules against a model of the stream: output, slow
 * and silent readers, other writers, lost replies, losses of data and takeovers. No event that a
 * reader has not read is trimmed, no command waits forever, and the stream does not grow without
 * bound.
 */

#include "agent/frontends/redis/delivery/flow_control.h"
#include "tests/test.h"

enum { MAXLEN = 40, KEEP = 4000, ENTRIES_MAX = 200000, QUEUE_MAX = 20000, READERS = 8 };

#define FOREIGN UINT64_MAX

/* A command that is queued, and not executed yet. */
struct command {
  enum command_kind { ADD, BY_LENGTH, BY_ID } kind;
  uint64_t number; /* of the event, the length, or the lowest id */
  uint64_t safe;   /* when it was queued, events from this one on had to stay */
};

/* The reader of a step. It has read the events before `read`, and tells the agent so. */
struct reader {
  char step_id[16];
  uint64_t first, read, told, end, end_bytes;
  int64_t sign_ms;
  bool is_ended, is_gone, has_gap, has_lost; /* by trimming; by a loss of data */
};

struct model {
  struct retention retention;
  struct flow_control flow;
  uint64_t *entries; /* of the stream: the number of the event, or FOREIGN; the index is the id */
  uint64_t begin, end;
  struct command queue[QUEUE_MAX];
  size_t queued, queue_begin;
  uint64_t bytes, delivered;
  char newest[RETENTION_ID_SIZE];
  struct reader readers[READERS]; /* the last one may be running */
  size_t count;
  int number; /* of the last step */
  bool is_running;
  int64_t now_ms, paused_ms, last_check_ms, protected_ms;
};

static uint64_t seed, seed_of_schedule;

static uint64_t pick(uint64_t sides) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (seed >> 33) % sides;
}

static struct reader *running(struct model *self) {
  return self->is_running ? &self->readers[self->count - 1] : NULL;
}

/* Returns whether the agent may trim events that this reader has not read. */
static bool is_excused(const struct model *self, const struct reader *reader) {
  return reader->has_lost || reader->is_gone || (reader->is_ended && reader->told >= reader->end) ||
         self->now_ms - reader->sign_ms >= FLOW_CONTROL_GONE_MS ||
         (reader->is_ended && (self->retention.events - reader->end >= MAXLEN ||
                               self->retention.bytes - reader->end_bytes >= KEEP));
}

/* Returns the number of the first event that must stay. */
static uint64_t safe_from(const struct model *self) {
  uint64_t from = UINT64_MAX;
  for (size_t i = 0; i < self->count; i++)
    if (!is_excused(self, &self->readers[i]) && self->readers[i].told < from)
      from = self->readers[i].told;
  return from;
}

static void queue(struct model *self, enum command_kind kind, uint64_t number) {
  assert_true(self->queued < QUEUE_MAX);
  self->queue[self->queued++] =
      (struct command){.kind = kind, .number = number, .safe = safe_from(self)};
}

static void trim(struct model *self) {
  uint64_t from = flow_control_protected_from(&self->flow);
  struct retention_cut cut = retention_trim(&self->retention, from);
  if (cut.minid != NULL)
    queue(self, BY_ID, strtoull(cut.minid, NULL, 10));
  else if (cut.maxlen > 0)
    queue(self, BY_LENGTH, cut.maxlen);
}

static void add_event(struct model *self, uint64_t bytes) {
  queue(self, ADD, self->retention.events);
  self->bytes += bytes;
  if (retention_add(&self->retention, 1, bytes, self->bytes, self->newest)) {
    flow_control_added(&self->flow);
    trim(self);
  }
}

static void remove_oldest(struct model *self, const struct command *command) {
  uint64_t number = self->entries[self->begin++];
  if (number != FOREIGN && number >= command->safe)
    fail_msg("schedule %llu: event %llu was trimmed; those from %llu on are not read",
             (unsigned long long)seed_of_schedule, (unsigned long long)number,
             (unsigned long long)command->safe);
  for (size_t i = 0; i < self->count; i++)
    self->readers[i].has_gap |= number != FOREIGN && number >= self->readers[i].told;
}

/* Redis executes everything that is queued. */
static void execute(struct model *self, bool is_reply_lost) {
  uint64_t last = 0;
  for (size_t i = 0; i < self->queued; i++) {
    const struct command *command = &self->queue[i];
    if (command->kind == ADD) {
      last = self->end;
      self->entries[self->end++] = command->number;
    } else {
      while (self->begin < self->end &&
             (command->kind == BY_ID ? self->begin < command->number
                                     : self->end - self->begin > command->number))
        remove_oldest(self, command);
    }
  }
  self->queued = 0;
  self->delivered = self->bytes;
  retention_delivered(&self->retention, self->delivered, self->now_ms);
  if (last > 0 && !is_reply_lost)
    snprintf(self->newest, sizeof self->newest, "%llu-0", (unsigned long long)last);
}

static void begin_step(struct model *self) {
  if (self->count == READERS)
    memmove(self->readers, self->readers + 1, --self->count * sizeof *self->readers);
  uint64_t first = self->retention.events;
  struct reader *reader = &self->readers[self->count++];
  *reader = (struct reader){.first = first, .read = first, .told = first, .sign_ms = self->now_ms};
  snprintf(reader->step_id, sizeof reader->step_id, "s%d", ++self->number);
  flow_control_begin(&self->flow, reader->step_id, self->now_ms);
  self->is_running = true;
  self->paused_ms = 0;
  add_event(self, 10);
}

static void end_step(struct model *self) {
  struct reader *reader = running(self);
  add_event(self, 10);
  flow_control_end(&self->flow, self->now_ms);
  reader->is_ended = true;
  reader->end = self->retention.events;
  reader->end_bytes = self->retention.bytes;
  reader->sign_ms = self->now_ms;
  self->is_running = false;
}

/* The reader reads some of the entries that exist. They are in order and without a gap. */
static void read_some(struct model *self, struct reader *reader, uint64_t most) {
  uint64_t end = reader->is_ended ? reader->end : self->retention.events;
  for (uint64_t at = self->begin; at < self->end && most > 0; at++) {
    uint64_t number = self->entries[at];
    if (number == FOREIGN || number < reader->read || number >= end)
      continue;
    if (number > reader->read && !reader->has_gap && !reader->has_lost)
      fail_msg("schedule %llu: event %llu of %s is missing", (unsigned long long)seed_of_schedule,
               (unsigned long long)reader->read, reader->step_id);
    reader->read = number + 1;
    most--;
  }
  uint64_t seq = reader->read - reader->first;
  if (pick(64) == 0) { /* it lies */
    reader->read = end;
    seq = UINT64_MAX;
  }
  reader->told = reader->read;
  reader->sign_ms = self->now_ms;
  reader->is_gone &= reader->is_ended;
  flow_control_read(&self->flow, reader->step_id, seq, self->now_ms);
}

/* Another reader of the same step is behind. Its message is a sign of life, and moves nothing. */
static void read_behind(struct model *self, struct reader *reader) {
  reader->sign_ms = self->now_ms;
  reader->is_gone &= reader->is_ended;
  flow_control_read(&self->flow, reader->step_id, pick(reader->told - reader->first + 1),
                    self->now_ms);
}

/* The agent reads `control`. A reader is awaited only while the command waits. */
static void check(struct model *self, bool is_first) {
  int64_t began_ms = self->now_ms - (int64_t)(pick(100));
  for (size_t i = 0; i < self->count; i++)
    self->readers[i].is_gone |= is_excused(self, &self->readers[i]);
  flow_control_checked(&self->flow, began_ms, is_first, self->now_ms);
  struct reader *reader = running(self);
  for (size_t i = 0; i < self->count; i++)
    if (is_first || (&self->readers[i] == reader && !flow_control_is_paused(&self->flow)))
      self->readers[i].sign_ms = self->now_ms;
}

static void pass(struct model *self, int64_t milliseconds) {
  for (int64_t left = milliseconds; left > 0; left -= 2000) {
    self->now_ms += left < 2000 ? left : 2000;
    retention_delivered(&self->retention, self->delivered, self->now_ms);
    check(self, false);
    if (!retention_is_trimmed(&self->retention) &&
        (flow_control_protected_from(&self->flow) != RETENTION_UNPROTECTED ||
         !retention_has_young(&self->retention)))
      trim(self);
  }
}

/* Redis is back at an older state. What readers have not read may be gone. */
static void roll_back(struct model *self) {
  uint64_t lost = pick(50);
  execute(self, true);
  self->end -= lost < self->end - self->begin ? lost : self->end - self->begin;
  self->newest[0] = '\0';
  retention_forget_ids(&self->retention);
  for (size_t i = 0; i < self->count; i++)
    self->readers[i].has_lost = true;
}

/* The next agent knows nothing of the stream, and trims nothing for FLOW_CONTROL_GONE_MS. */
static void take_over(struct model *self) {
  struct retention *retention = &self->retention;
  const uint64_t length = self->end - self->begin;
  flow_control_release(&self->flow);
  self->queued = 0;
  self->is_running = false;
  self->count = 0;
  *retention = (struct retention){.maxlen = MAXLEN, .keep_bytes = retention->keep_bytes};
  self->newest[0] = '\0';
  for (uint64_t at = self->begin; at < self->end; at++)
    self->entries[at] = FOREIGN;
  retention_resume(retention);
  flow_control_protect_earlier(&self->flow, self->now_ms);
  for (int i = 0; i < 4; i++) {
    flow_control_read(&self->flow, "earlier", 7, self->now_ms);
    pass(self, FLOW_CONTROL_GONE_MS - 1);
    execute(self, false);
    assert_true(self->end - self->begin >= length);
  }
}

static void act(struct model *self) {
  struct reader *reader = self->count > 0 ? &self->readers[pick(self->count)] : NULL;
  switch (pick(16)) {
  case 0:
    if (self->is_running)
      end_step(self);
    else
      begin_step(self);
    break;
  case 1: /* a step without flow control */
    for (size_t i = pick(60); !self->is_running && i > 0; i--)
      add_event(self, 1 + pick(100));
    break;
  case 2:
    self->entries[self->end++] = FOREIGN;
    break;
  case 3:
    pass(self, (int64_t)(pick(3000)));
    break;
  case 4:
    if (pick(20) == 0)
      roll_back(self);
    else if (pick(20) == 0)
      take_over(self);
    break;
  case 5:
    check(self, pick(8) == 0);
    break;
  case 6:
  case 7:
  case 8:
    execute(self, pick(8) == 0);
    break;
  case 9:
  case 10:
  case 11:
    if (reader != NULL && pick(8) == 0)
      read_behind(self, reader);
    else if (reader != NULL && !reader->has_lost)
      read_some(self, reader, pick(60));
    break;
  default:
    for (size_t i = pick(30); self->is_running && i > 0 && !flow_control_is_paused(&self->flow);
         i--)
      add_event(self, 1 + pick(pick(16) == 0 ? 3000 : 50));
  }
}

/* A command that waits continues when its reader has read everything, or is silent. */
static void expect_to_continue(struct model *self) {
  struct reader *reader = running(self);
  if (reader == NULL || !flow_control_is_paused(&self->flow))
    return;
  execute(self, false);
  if (pick(2) == 0 && !reader->has_lost)
    read_some(self, reader, UINT64_MAX);
  else
    pass(self, FLOW_CONTROL_GONE_MS + 3 * 2000);
  assert_false(flow_control_is_paused(&self->flow));
}

static void run_schedule(void) {
  static struct model model;
  seed = seed_of_schedule;
  uint64_t *entries = model.entries;
  model = (struct model){.retention = {.maxlen = MAXLEN, .keep_bytes = KEEP},
                         .entries = entries,
                         .begin = 1,
                         .end = 1,
                         .now_ms = 100000};
  model.flow.retention = &model.retention;
  if (entries == NULL)
    model.entries = calloc(ENTRIES_MAX, sizeof *entries);
  for (int i = 0; i < 400 && model.end < ENTRIES_MAX - 10000; i++) {
    act(&model);
    if (i % 16 == 0)
      expect_to_continue(&model);
  }
  if (model.is_running)
    end_step(&model);
  execute(&model, false);
  pass(&model, 3 * FLOW_CONTROL_GONE_MS);
  execute(&model, false);
  assert_true(model.end - model.begin <= MAXLEN + RETENTION_SLACK + 400); /* and other entries */
  assert_int_equal(flow_control_protected_from(&model.flow), RETENTION_UNPROTECTED);
  flow_control_release(&model.flow);
}

TEST(no_event_is_trimmed_before_its_reader_has_read_it) {
  for (seed_of_schedule = 1; seed_of_schedule <= 3000; seed_of_schedule++)
    run_schedule();
}
