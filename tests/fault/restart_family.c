/* redis-server is killed while a step prints, and comes back with everything that it had
   acknowledged, empty, or with older data. */

#include <sys/types.h>

#include "tests/fault/family.h"
#include "tests/test.h"

#define BOUND_MS 60000

/* A step that prints for two seconds. */
#define LONG_LINES 8000
static const char print_for_long[] =
    "i=0; while [ $i -lt 160 ]; do seq $((i*50+1)) $((i*50+50)); i=$((i+1)); sleep 0.01; done";

static void restart(struct trial *trial) {
  struct job *job = trial->job;
  redis_server_kill(job->server);
  trial->tally->cuts++;
  redis_server_restart(job->server);
  redisFree(job->redis);
  job->redis = redis_server_connect(job->server);
}

static long stream_length(struct trial *trial) {
  return (long)trial_command(trial, "XLEN sandbox:%s:events", trial->job->id);
}

static bool is_file_written(void *context) {
  struct trial *trial = context;
  redisReply *reply = redisCommand(trial->job->redis, "INFO persistence");
  assert_non_null(reply);
  bool is_written = strstr(reply->str, "aof_rewrite_in_progress:0\r\n") != NULL &&
                    strstr(reply->str, "aof_rewrite_scheduled:0\r\n") != NULL;
  freeReplyObject(reply);
  return is_written;
}

/* A server that was killed while it wrote a transaction drops it when it loads the file. But it
   leaves the beginning in the file, which the next load takes for a part of the following commands
   (Redis 7.0 to 8.0; valkey-io/valkey pull request 4342). */
static void rewrite_file(struct trial *trial) {
  freeReplyObject(redisCommand(trial->job->redis, "BGREWRITEAOF"));
  assert_true(wait_until(is_file_written, trial, WAIT_BOUND_MS));
}

void restart_kept(struct trial *trial) {
  static const char *const durable[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
  trial_open(trial, trial_start_server(trial, durable));
  work_push_lines(&trial->work, 5, 0);
  work_push_script(&trial->work, LONG_LINES, "", 0, print_for_long);
  work_push_lines(&trial->work, 3, 4);
  work_push_chunk(&trial->work, 100);
  work_push_read(&trial->work);
  job_push_shutdown(trial->job);
  trial_start_agent(trial);
  trial->work.redis_may_be_away = true;
  long floor = 0;
  for (int i = 0; i < 3; i++) {
    work_wait_events(&trial->work, floor + trial_random(trial, 2000));
    restart(trial);
    rewrite_file(trial);
    floor += 2000;
  }
  trial_finish(trial, BOUND_MS);
}

static struct work_step *push_gated(struct trial *trial) {
  return trial_push_gated(trial, LONG_LINES, print_for_long, 100);
}

/* Makes the server accept no more writes. Returns the final number of events. */
static long close_frontends(struct trial *trial) {
  trial_command(trial, "CLIENT PAUSE 60000 WRITE");
  return stream_length(trial);
}

void restart_empty(struct trial *trial) {
  trial_open(trial, trial_start_server(trial, NULL));
  struct work_step *running = push_gated(trial);
  trial_start_agent(trial);
  work_wait_events(&trial->work, 1 + trial_random(trial, LONG_LINES / 2));
  running->gap_until = close_frontends(trial);
  restart(trial);
  trial_open_gate(trial);
  work_push_chunk(&trial->work, 1);
  work_push_lines(&trial->work, 5, 2);
  job_push_shutdown(trial->job);
  trial_finish(trial, BOUND_MS);
}

/* The server saves a snapshot while a step runs, and is restored from it later. Three kinds:
   0  the same step still runs when the server dies
   1  the step has ended and another one runs, so the server loses the answer. The step may remain
      unanswered, but does not run again, not even by the next agent
   2  as 0, and the snapshot has a step in the queue that is taken when the server dies */
enum snapshot_kind { STEP_RUNS_ON, STEP_IS_FORGOTTEN, STEP_COMES_TWICE, SNAPSHOT_KINDS };

static void push_more(struct trial *trial) {
  work_push_chunk(&trial->work, 1);
  work_push_lines(&trial->work, 3, 1);
  work_push_chunk(&trial->work, 1);
}

/* Saves the snapshot; for STEP_COMES_TWICE, with steps in the queue that the agent has not
   taken. */
static void keep_snapshot(struct trial *trial, enum snapshot_kind kind) {
  pid_t agent = agent_process_pid(trial->job->agent);
  if (kind == STEP_COMES_TWICE) {
    /* The server closes the connections, so that no BLMOVE takes the new steps. */
    assert_int_equal(kill(agent, SIGSTOP), 0);
    trial_command(trial, "CLIENT KILL TYPE normal SKIPME yes");
    push_more(trial);
  }
  trial_command(trial, "SAVE");
  assert_int_equal(kill(agent, SIGCONT), 0);
}

static bool is_one_fetched_ahead(void *context) {
  struct trial *trial = context;
  return trial_command(trial, "LLEN sandbox:%s:inflight", trial->job->id) == 2;
}

void restart_snapshot(struct trial *trial) {
  enum snapshot_kind kind = (enum snapshot_kind)(trial->number % SNAPSHOT_KINDS);
  trial_open(trial, trial_start_server(trial, NULL));
  work_push_lines(&trial->work, 5, 0);
  long before = 7; /* the events of the steps before the last one */
  if (kind == STEP_IS_FORGOTTEN) {
    struct work_step *forgotten = work_push_script(&trial->work, LONG_LINES, "", 0, print_for_long);
    forgotten->may_vanish = true;
    forgotten->gap_until = LONG_LINES + 2;
    before += LONG_LINES + 2;
  }
  struct work_step *running = push_gated(trial);
  if (kind != STEP_COMES_TWICE)
    push_more(trial);
  if (kind == STEP_IS_FORGOTTEN)
    job_push_shutdown(trial->job);
  trial_start_agent(trial);
  work_wait_events(&trial->work, 8 + trial_random(trial, LONG_LINES / 4));
  keep_snapshot(trial, kind);
  work_wait_events(&trial->work, before + LONG_LINES / 4 + trial_random(trial, LONG_LINES / 4));
  if (!wait_until(is_one_fetched_ahead, trial, WAIT_BOUND_MS))
    tally_find(trial->tally, TALLY_WRONG, 1, "no step is taken while another one runs");
  running->gap_until = close_frontends(trial) - before;
  restart(trial);
  trial_open_gate(trial);
  if (kind == STEP_IS_FORGOTTEN) {
    assert_int_equal(agent_process_wait(trial->job->agent, BOUND_MS), 0);
    trial_start_agent(trial);
  }
  job_push_shutdown(trial->job);
  trial_finish(trial, BOUND_MS);
}

/* The server goes back several times, to a random snapshot and often to the same one, sometimes
   before the agent has delivered anything since. */
void restart_repeatedly(struct trial *trial) {
  trial_open(trial, trial_start_server(trial, NULL));
  for (int i = 0; i < 12; i++) {
    if (i % 2 == 1)
      work_push_chunk(&trial->work, 1);
    work_push_script(&trial->work, 20, "", i % 3,
                     job_format(trial->job, "seq 1 20; sleep 0.%ld", trial_random(trial, 20)));
  }
  for (size_t i = 0; i < trial->work.count; i++)
    trial->work.steps[i].went_back = true;
  trial_command(trial, "SAVE");
  trial_start_agent(trial);
  trial->work.redis_may_be_away = true;
  for (long rounds = 3 + trial_random(trial, 6); rounds > 0; rounds--) {
    trial_let_pass((int)trial_random(trial, 400));
    if (trial_random(trial, 3) == 0)
      trial_command(trial, "SAVE");
    if (trial_random(trial, 2) == 0)
      trial_let_pass((int)trial_random(trial, 400));
    restart(trial);
  }
  job_push_shutdown(trial->job);
  trial_finish(trial, BOUND_MS);
}
