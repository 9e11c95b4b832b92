/* Connections that are slow, half open, or closed again and again. */

#include "tests/fault/family.h"
#include "tests/test.h"

#define BOUND_MS 60000

/* The time in which a half-open connection is noticed. */
#define NOTICE_MS 15000

/* From a command to its reply. */
#define LATENCY_MS 200

/* The time between two kills of all connections. A TLS handshake needs more of it. */
#define KILL_MS 20
#define KILL_TLS_MS 100

static bool is_new(void *context) {
  const struct trial *trial = context;
  return proxy_connections(trial->proxy, trial->role) > 1;
}

/* The server does not notice it either, and sends the next step to the dead connection. */
void network_half_open(struct trial *trial) {
  trial_open(trial, trial_start_server(trial, NULL));
  trial_put_proxy(trial, NULL);
  trial_start_agent(trial);
  work_push_script(&trial->work, 800, "", 0,
                   "i=0; while [ $i -lt 800 ]; do i=$((i+1)); echo $i; sleep 0.02; done");
  work_wait_events(&trial->work, 2 + trial_random(trial, 50));
  trial_expect_role(trial, trial->role);
  proxy_deafen(trial->proxy, trial->role);
  trial->tally->cuts++;
  work_push_read(&trial->work);
  work_push_chunk(&trial->work, 100);
  work_push_cancelled(&trial->work);
  work_push_lines(&trial->work, 5, 0);
  work_push_lines(&trial->work, 3, 1);
  if (!wait_until(is_new, trial, NOTICE_MS))
    tally_find(trial->tally, TALLY_WRONG, 1, "a dead connection was not noticed within %d ms",
               NOTICE_MS);
  job_push_shutdown(trial->job);
  trial_finish(trial, BOUND_MS);
}

void network_latency(struct trial *trial) {
  trial_open(trial, trial_start_server(trial, NULL));
  trial_put_proxy(trial, NULL);
  proxy_delay(trial->proxy, LATENCY_MS / 2);
  trial->tally->cuts++;
  work_push_lines(&trial->work, 3, 0);
  work_push_lines(&trial->work, 10000, 3);
  work_push_read(&trial->work);
  work_push_chunk(&trial->work, 100);
  work_push_chunk(&trial->work, 100);
  work_push_read(&trial->work);
  work_push_lines(&trial->work, 3, 0);
  job_push_shutdown(trial->job);
  trial_start_agent(trial);
  trial_finish(trial, BOUND_MS);
}

struct killing {
  struct trial *trial;
  int64_t next_ms;
};

static bool kill_until_done(void *context) {
  struct killing *killing = context;
  struct trial *trial = killing->trial;
  if (wait_now_ms() >= killing->next_ms) {
    killing->next_ms = wait_now_ms() + (trial->certificates != NULL ? KILL_TLS_MS : KILL_MS);
    trial->tally->cuts += (long)trial_command(trial, "CLIENT KILL TYPE normal SKIPME yes");
  }
  return trial_command(trial, "LLEN sandbox:%s:results", trial->job->id) > 0;
}

void network_client_kill(struct trial *trial) {
  trial_open(trial, trial_start_server(trial, NULL));
  work_push_lines(&trial->work, 200000, 0);
  work_push_chunk(&trial->work, 100);
  work_push_lines(&trial->work, 3, 1);
  trial_start_agent(trial);
  work_wait_events(&trial->work, 1);
  if (!wait_until(kill_until_done, &(struct killing){.trial = trial}, 4 * BOUND_MS))
    tally_find(trial->tally, TALLY_WRONG, 1, "the agent never gets through");
  job_push_shutdown(trial->job);
  trial_finish(trial, BOUND_MS);
}
