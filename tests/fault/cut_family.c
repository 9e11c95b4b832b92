/* The connection is cut at a byte of the traffic of a job. The job is small and always the same, or
   prints faster than Redis accepts output. */

#include "tests/fault/family.h"
#include "tests/test.h"

/* The job has seven steps and a shutdown. One step fails and prints to stderr, one prints in two
   batches, one reads a file, two append to a file, and one is cancelled. */
static void run_small_job(struct trial *trial, const struct proxy_plan *plan) {
  trial_open(trial, NULL);
  trial_put_proxy(trial, plan);
  work_push_lines(&trial->work, 3, 0);
  work_push_script(&trial->work, 2, "", 3, "exec >&2; seq 1 2");
  work_push_chunk(&trial->work, 1);
  work_push_read(&trial->work);
  work_push_cancelled(&trial->work);
  work_push_chunk(&trial->work, 1);
  work_push_script(&trial->work, 4, "", 0, "seq 1 2; sleep 0.11; seq 3 4");
  job_push_shutdown(trial->job);
  trial_start_agent(trial);
  trial_finish(trial, WAIT_BOUND_MS);
}

static void cut_once(struct trial *trial, enum relay_direction direction, bool swallow) {
  struct proxy_plan plan = {0};
  plan.faults[trial->role][0] =
      (struct relay_fault){.direction = direction, .byte = trial->number, .swallow = swallow};
  run_small_job(trial, &plan);
}

void cut_request(struct trial *trial) {
  cut_once(trial, RELAY_REQUEST, false);
}

void cut_reply(struct trial *trial) {
  cut_once(trial, RELAY_REPLY, false);
}

void cut_swallowed_reply(struct trial *trial) {
  cut_once(trial, RELAY_REPLY, true);
}

/* Both connections are cut, at a byte and in a way that the seed selects. The next connections are
   cut early, while the agent finds out which commands were executed. */
void cut_again(struct trial *trial) {
  static const long reach[RELAY_WORKERS][PROXY_FAULTS][RELAY_DIRECTIONS] = {
      [RELAY_INTAKE] = {{400, 1200}, {300, 600}}, [RELAY_OUTBOX] = {{5000, 1000}, {1200, 400}}};
  struct proxy_plan plan = {0};
  for (int role = 0; role < RELAY_WORKERS; role++) {
    for (int i = 0; i < PROXY_FAULTS; i++) {
      enum relay_direction direction = trial_random(trial, 2) == 0 ? RELAY_REQUEST : RELAY_REPLY;
      plan.faults[role][i].direction = direction;
      plan.faults[role][i].byte =
          1 + trial_random(trial, trial_reach(trial, direction, reach[role][i][direction]));
      plan.faults[role][i].swallow = direction == RELAY_REPLY && trial_random(trial, 2) == 0;
    }
  }
  run_small_job(trial, &plan);
}

/* Several batches are queued, and each connection is cut anywhere among a few of them. */
void cut_flood(struct trial *trial) {
  enum { LINES = 6000, FILLER = 400 };
  static const long reach[RELAY_DIRECTIONS] = {1500000, 90000};
  static char filler[FILLER + 1];
  memset(filler, 'x', FILLER);
  struct proxy_plan plan = {0};
  for (int i = 0; i < PROXY_FAULTS; i++) {
    enum relay_direction direction = trial_random(trial, 2) == 0 ? RELAY_REQUEST : RELAY_REPLY;
    plan.faults[RELAY_OUTBOX][i].direction = direction;
    plan.faults[RELAY_OUTBOX][i].byte =
        1 + trial_random(trial, trial_reach(trial, direction, reach[direction]));
    plan.faults[RELAY_OUTBOX][i].swallow = direction == RELAY_REPLY && trial_random(trial, 2) == 0;
  }
  trial_open(trial, NULL);
  trial_put_proxy(trial, &plan);
  work_push_script(&trial->work, LINES, filler, 0,
                   job_format(trial->job, "seq -f '%%g%s' 1 %d", filler, LINES));
  work_push_lines(&trial->work, 3, 1);
  job_push_shutdown(trial->job);
  trial_start_agent(trial);
  trial_finish(trial, WAIT_BOUND_MS);
}
