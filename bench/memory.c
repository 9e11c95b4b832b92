/*
 * The most that the agent has resident: when it waits for its first step; while a step prints a
 * million lines; while one prints a line that does not end. An agent of its own for each, since the
 * kernel keeps the peak of a process.
 */

#include "bench/bench.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/support/proc.h"
#include "tests/test.h"

#define JOB "memory"
#define ROUNDS 5

#define IDLE_LIMIT_KIB 1024
#define HOLD_KIB 4096 /* --hold-bytes, when nothing is said */
#define PEAK_LIMIT_KIB (HOLD_KIB + 2048)

/* A line of 1 GB comes in pieces of 1 MiB (--line-bytes). One is in the reading buffer, and one may
   be held beyond --hold-bytes, since a record is accepted as long as there is any room; 1 MB of the
   line is kept for outputContent, and encoded again in the result. */
#define LONG_LINE_LIMIT_KIB (12 * 1024)

enum { IDLE, LINES, ENDLESS, ROWS };

struct peak {
  const char *program;
  const char *arguments; /* the inside of a JSON array */
  const char *maxlen; /* of the stream: parts of a line are large, the server keeps few of them */
};

static const struct peak peaks[ROWS] = {
    [LINES] = {"lines", "\"1000000\"", "10000"},
    [ENDLESS] = {"endless", "\"1000000000\"", "100"},
};

static struct agent_process *start(struct rig *self, const char *maxlen) {
  rig_wait_idle(self, 0); /* the one before has left */
  rig_do(self->redis, "FLUSHALL");
  struct agent_process *agent =
      rig_start_agent(self, JOB, (const char *[]){"--events-maxlen", maxlen, NULL});
  rig_wait_idle(self, 1);
  return agent;
}

static double resident_kib(struct agent_process *agent, const char *field) {
  long kib = proc_status_kib(agent_process_pid(agent), field);
  if (kib <= 0)
    agent_process_fail(agent, "the agent has no %s", field);
  return (double)kib;
}

static double idle_kib(struct rig *self) {
  struct agent_process *agent = start(self, "10000");
  double kib = resident_kib(agent, "VmRSS");
  agent_process_free(agent);
  return kib;
}

static double peak_kib(struct rig *self, const struct peak *peak) {
  char program[PATH_MAX];
  char step[RIG_STEP_SIZE];
  rig_program(program, peak->program);
  rig_step(step, 1, program, peak->arguments);
  struct agent_process *agent = start(self, peak->maxlen);
  (void)rig_number(self->redis, "LPUSH sandbox:" JOB ":in %s", step);
  redisAppendCommand(self->redis, "BRPOP sandbox:" JOB ":results 0");
  redisReply *reply = rig_reply(self->redis);
  assert_int_equal(reply->elements, 2);
  if (strstr(reply->element[1]->str, "\"exitCode\":0") == NULL)
    agent_process_fail(agent, "%s fails", program);
  freeReplyObject(reply);
  double kib = resident_kib(agent, "VmHWM");
  agent_process_free(agent);
  return kib;
}

static void *begin(void) {
  struct rig *self = calloc(1, sizeof *self);
  assert_non_null(self);
  rig_init(self);
  return self;
}

static void round_of_ours(void *context, size_t round, struct samples *samples) {
  (void)round;
  struct rig *self = context;
  samples_add(samples, IDLE, OURS, idle_kib(self));
  for (size_t row = LINES; row < ROWS; row++)
    samples_add(samples, row, OURS, peak_kib(self, &peaks[row]));
}

static void end(void *context) {
  rig_release(context);
  free(context);
}

static const struct row rows[ROWS] = {
    [IDLE] = {"memory, idle", "KiB", NULL, OURS_AT_MOST, IDLE_LIMIT_KIB, 0},
    [LINES] = {"memory, 1,000,000 lines", "KiB", NULL, OURS_AT_MOST, PEAK_LIMIT_KIB, 0},
    [ENDLESS] = {"memory, one line of 1 GB", "KiB", NULL, OURS_AT_MOST, LONG_LINE_LIMIT_KIB, 0},
};

const struct measurement bench_memory = {.name = "memory",
                                         .rows = rows,
                                         .row_count = ROWS,
                                         .rounds = ROUNDS,
                                         .begin = begin,
                                         .round = round_of_ours,
                                         .end = end};
