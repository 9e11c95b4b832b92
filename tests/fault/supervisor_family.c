/* Supervisors are killed or stopped while they work, or lose their agent while background processes
   are running. */

#include "tests/fault/family.h"
#include "tests/support/proc.h"
#include "tests/test.h"

#define STEPS 20
#define SIGNALS_MAX 40

/* Half a megabyte, so that a supervisor may be hit during the write. */
#define CHUNK_LINES 65536

static void push_work(struct trial *trial) {
  for (long i = 0; i < STEPS; i++)
    if (i % 6 == 2)
      work_push_read(&trial->work);
    else if (i % 6 == 5)
      work_push_chunk(&trial->work, CHUNK_LINES);
    else if (i % 2 == 0)
      work_push_script(&trial->work, 2000, "", (int)(i % 3), "seq 1 2000");
    else
      work_push_script(&trial->work, 10, "", (int)(i % 3), "seq 1 5; sleep 0.05; seq 6 10");
}

/* Signals the supervisor that works, or the one that is idle. */
static void signal_supervisor(struct trial *trial, int signal) {
  pid_t pid = proc_child_of(agent_process_pid(trial->job->agent), (int)trial_random(trial, 2));
  if (pid > 0 && kill(pid, signal) == 0)
    trial->tally->cuts++;
}

static void signal_supervisors(struct trial *trial, int signal) {
  push_work(trial);
  trial_start_agent(trial);
  for (int i = 0; i < SIGNALS_MAX; i++) {
    if (trial_wait_results(trial, STEPS, (int)trial_random(trial, 40)))
      break;
    signal_supervisor(trial, signal);
  }
  job_push_shutdown(trial->job);
  trial_finish(trial, WAIT_BOUND_MS);
}

void kill_supervisor(struct trial *trial) {
  trial_open(trial, NULL);
  trial->work.may_be_killed = true;
  signal_supervisors(trial, SIGKILL);
}

void stop_supervisor(struct trial *trial) {
  trial_open(trial, NULL);
  signal_supervisors(trial, SIGSTOP);
}

/* Ways for a process to escape from a search by session, group, parent or environment. $S
   sleeps. */
static const char *const escapes[] = {
    "setsid env -i $S >/dev/null 2>&1 &",
    "(setsid sh -c 'trap \"\" TERM HUP; $S & $S' >/dev/null 2>&1 &);",
    "SANDBOX_STEP_TAG=another setsid sh -c '$S & $S' >/dev/null 2>&1 &",
};

static void push_escape(struct trial *trial, const char *sleep) {
  const char *escape = escapes[trial_random(trial, sizeof escapes / sizeof *escapes)];
  const char *script =
      job_format(trial->job, "export S='%s'; seq 1 5; %s sleep 0.05; seq 6 10", sleep, escape);
  work_push_script(&trial->work, 10, "", 0, script);
}

/* Kills only the agent, so that its processes remain. */
static void kill_agent_alone(struct trial *trial) {
  kill(agent_process_pid(trial->job->agent), SIGKILL);
  agent_process_wait(trial->job->agent, WAIT_BOUND_MS);
  trial->tally->cuts++;
}

void orphan_supervisor(struct trial *trial) {
  trial_open(trial, NULL);
  trial->work.may_be_interrupted = true;
  const char *sleep = job_sleep(trial->job, 600);
  for (int i = 0; i < STEPS; i++)
    push_escape(trial, sleep);
  for (int kills = 0; kills < SIGNALS_MAX; kills++) {
    trial_start_agent(trial);
    if (trial_wait_results(trial, STEPS, (int)trial_random(trial, 250)))
      break;
    kill_agent_alone(trial);
    if (!proc_wait_gone(sleep, WAIT_BOUND_MS))
      tally_find(trial->tally, TALLY_WRONG, 1, "a process has outlived its agent");
  }
  if (!agent_process_is_running(trial->job->agent))
    trial_start_agent(trial);
  trial_wait_results(trial, STEPS, WAIT_BOUND_MS / 2);
  job_push_shutdown(trial->job);
  trial_finish(trial, WAIT_BOUND_MS);
  if (proc_find(sleep) != 0)
    tally_find(trial->tally, TALLY_WRONG, 1, "a process has outlived the program");
}
