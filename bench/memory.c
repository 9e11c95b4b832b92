/*
 * The resident memory of an agent that waits for its first step, and its peak while a step prints a
 * million lines, and while a step prints a line that does not end. Each has an agent of its own,
 * because the kernel keeps the peak of a process. Over TLS the first two, with one authority; and
 * idle with the system's bundle of authorities, if there is one.
 */
#include <unistd.h>

#include "bench/bench.h"
#include "bench/measurements.h"
#include "bench/rig.h"
#include "tests/support/proc.h"
#include "tests/test.h"

#define JOB "memory"
#define ROUNDS 5

#define IDLE_LIMIT_KIB 1024
#define HOLD_KIB 4096 /* the default of --hold-bytes */
#define PEAK_LIMIT_KIB (HOLD_KIB + 2048)

/* A line of 1 GB comes in pieces of 1 MiB (--line-bytes). One is in the read buffer, and one may be
   held beyond --hold-bytes, because a record is accepted while there is any capacity. 1 MB of the
   line is kept for outputContent, and encoded again in the result. */
#define LONG_LINE_LIMIT_KIB (12 * 1024)

#define TLS_IDLE_LIMIT_KIB 1536
#define TLS_PEAK_LIMIT_KIB 8192
#define SYSTEM_BUNDLE "/etc/ssl/certs/ca-certificates.crt"

enum { IDLE, LINES, ENDLESS, ROWS, TLS_ROWS = ENDLESS };

struct peak {
  const char *program;
  const char *arguments; /* the inside of a JSON array */
  const char *maxlen;    /* of the stream: parts of a line are large, so the server keeps few */
};

static const struct peak peaks[ROWS] = {
    [LINES] = {"lines", "\"1000000\"", "10000"},
    [ENDLESS] = {"endless", "\"1000000000\"", "100"},
};

static struct agent_process *start(struct rig *self, const char *const *arguments) {
  rig_wait_idle(self, 0); /* the previous agent has left */
  rig_do(self->redis, "FLUSHALL");
  struct agent_process *agent = rig_start_agent(self, JOB, arguments);
  rig_wait_idle(self, 1);
  return agent;
}

static double resident_kib(struct agent_process *agent, const char *field) {
  long kib = proc_status_kib(agent_process_pid(agent), field);
  if (kib <= 0)
    agent_process_fail(agent, "the agent has no %s", field);
  return (double)kib;
}

static double idle_kib(struct rig *self, const char *const *arguments) {
  struct agent_process *agent = start(self, arguments);
  double kib = resident_kib(agent, "VmRSS");
  agent_process_free(agent);
  return kib;
}

static double peak_kib(struct rig *self, const struct peak *peak) {
  char program[PATH_MAX];
  char step[RIG_STEP_SIZE];
  rig_program(program, peak->program);
  rig_step(step, 1, program, peak->arguments);
  struct agent_process *agent =
      start(self, (const char *[]){"--events-maxlen", peak->maxlen, NULL});
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

static struct rig *begin(void (*init)(struct rig *)) {
  struct rig *self = calloc(1, sizeof *self);
  assert_non_null(self);
  init(self);
  return self;
}

static void *begin_plain(void) {
  return begin(rig_init);
}

static void *begin_tls(void) {
  return begin(rig_init_tls);
}

static void measure(struct rig *self, size_t row_count, struct samples *samples) {
  samples_add(samples, IDLE, OURS,
              idle_kib(self, (const char *[]){"--events-maxlen", "10000", NULL}));
  for (size_t row = LINES; row < row_count; row++)
    samples_add(samples, row, OURS, peak_kib(self, &peaks[row]));
}

static void round_of_plain(void *context, size_t round, struct samples *samples) {
  (void)round;
  measure(context, ROWS, samples);
}

/* The bundle does not contain this server's authority. It is trusted in addition, from a directory
   that contains nothing else. */
static double idle_with_bundle_kib(struct rig *self) {
  char directory[PATH_MAX], link[PATH_MAX + 8];
  (void)snprintf(directory, sizeof directory, "%s/bundle-XXXXXX", getenv("TMPDIR"));
  assert_non_null(mkdtemp(directory));
  (void)snprintf(link, sizeof link, "%s/bundle", directory);
  assert_int_equal(symlink(SYSTEM_BUNDLE, link), 0);
  double kib = idle_kib(self, (const char *[]){"--cacertdir", directory, NULL});
  assert_int_equal(unlink(link), 0);
  assert_int_equal(rmdir(directory), 0);
  return kib;
}

static void round_of_tls(void *context, size_t round, struct samples *samples) {
  (void)round;
  measure(context, TLS_ROWS, samples);
  if (access(SYSTEM_BUNDLE, R_OK) == 0)
    samples_beside(samples, IDLE, "with the system's bundle, KiB", idle_with_bundle_kib(context));
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

static const struct row tls_rows[TLS_ROWS] = {
    [IDLE] = {"memory over TLS, idle", "KiB", NULL, OURS_AT_MOST, TLS_IDLE_LIMIT_KIB, 0},
    [LINES] = {"memory over TLS, 1,000,000 lines", "KiB", NULL, OURS_AT_MOST, TLS_PEAK_LIMIT_KIB,
               0},
};

const struct measurement bench_memory = {"memory",       rows, ROW_COUNT(rows), ROUNDS, begin_plain,
                                         round_of_plain, end};

const struct measurement bench_memory_tls = {
    "memory-tls", tls_rows, ROW_COUNT(tls_rows), ROUNDS, begin_tls, round_of_tls, end};
