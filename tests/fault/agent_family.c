/* The agent is killed, with all its processes, and started again. */

#include "tests/fault/family.h"
#include "tests/test.h"

#define STEPS 20
#define KILLS_MAX 40

/* Half a megabyte, so that an agent may be killed during the write. */
#define CHUNK_LINES 65536

/* How long an agent runs, by seed: from a moment to long enough for the whole job. */
static const long lives_ms[] = {10, 40, 100, 250};

/* Steps that end right after their last lines, alone, or after more output than fits into one
   batch. */
static const struct {
  long lines;
  const char *script;
} shapes[] = {{10, "seq 1 5; sleep 0.02; seq 6 10"},
              {10, "seq 1 10; sleep 0.11"},
              {2000, "seq 1 2000"},
              {3, "seq 1 3"}};
static const size_t shapes_count = sizeof shapes / sizeof *shapes;

void kill_agent(struct trial *trial) {
  trial_open(trial, NULL);
  trial->work.may_be_interrupted = true;
  for (size_t i = 0; i < STEPS; i++)
    if (i % 6 == 2)
      work_push_read(&trial->work);
    else if (i % 6 == 4)
      work_push_cancelled(&trial->work);
    else if (i % 3 == 2)
      work_push_chunk(&trial->work, CHUNK_LINES);
    else
      work_push_script(&trial->work, shapes[i % shapes_count].lines, "", (int)(i % 3),
                       shapes[i % shapes_count].script);
  long life = lives_ms[trial_random(trial, sizeof lives_ms / sizeof *lives_ms)];
  for (int kills = 0; kills < KILLS_MAX; kills++) {
    trial_start_agent(trial);
    if (trial_wait_results(trial, STEPS, (int)trial_random(trial, life + 1)))
      break;
    trial_kill_agent(trial);
    trial->tally->cuts++;
  }
  if (!agent_process_is_running(trial->job->agent))
    trial_start_agent(trial);
  trial_wait_results(trial, STEPS, WAIT_BOUND_MS / 2);
  job_push_shutdown(trial->job);
  trial_finish(trial, WAIT_BOUND_MS);
}
