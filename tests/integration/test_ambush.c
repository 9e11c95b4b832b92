/* A background process attacks the supervisors of later steps, as the same user. */

#include "tests/support/as_user.h"
#include "tests/support/command.h"
#include "tests/support/job.h"

COMMAND_GROUP("ambush")

/* Returns the name of the file that will have the result. */
static const char *start_attack(struct job *job, const char *name) {
  const char *file = job_write(job, name, "", 0666);
  job->setup.uid = NOBODY;
  job_start_agent(job, NULL);
  const char *script =
      job_format(job, "setsid %s %s %d %s >/dev/null 2>&1 & echo up", command_path("ambush"), name,
                 (int)agent_process_pid(job->agent), file);
  job_expect_result(job, job_run(job, job_script(job, script)), 0, NULL, "up\n");
  return file;
}

static bool is_written(void *path) {
  struct stat status;
  return stat(path, &status) == 0 && status.st_size > 0;
}

/* Returns how many children the process saw. */
static int end_attack(struct job *job, const char *file, int *opened) {
  int seen = -1;
  *opened = -1;
  (void)close(open(job_format(job, "%s.end", file), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  assert_true(wait_until(is_written, (void *)file, WAIT_BOUND_MS));
  FILE *result = fopen(file, "r");
  assert_non_null(result);
  assert_int_equal(fscanf(result, "seen %d opened %d", &seen, opened), 2);
  assert_int_equal(fclose(result), 0);
  return seen;
}

/* Each step leaves a background process, so that its supervisor serves no other step. */
JOB_TEST_NO_AGENT(no_process_can_ever_open_the_memory_of_a_supervisor) {
  enum { STEPS = 200 };
  int opened;
  const char *file = start_attack(job, "memory");
  for (int i = 0; i < STEPS; i++)
    job_expect_result(job, job_run(job, job_script(job, "sleep 1 >/dev/null 2>&1 & echo up")), 0,
                      NULL, "up\n");
  assert_in_range(end_attack(job, file, &opened), STEPS / 4, 10 * STEPS);
  assert_int_equal(opened, 0);
  job_stop_agent(job, SIGTERM);
}

/* The agent does not wait for the stopped supervisors: its heartbeat continues, each step is
   answered, and SIGTERM ends the agent. */
JOB_TEST_NO_AGENT(a_supervisor_that_is_stopped_at_its_start_delays_only_its_step) {
  enum { STEPS = 60 };
  int opened;
  const char *file = start_attack(job, "stop");
  for (int i = 0; i < STEPS; i++) {
    const cJSON *step = job_script(job, "sleep 1 >/dev/null 2>&1 & echo up");
    const cJSON *result = job_run_within(job, step, 2 * WAIT_BOUND_MS);
    if (job_number(result, "exitCode") != 0)
      job_expect_part(job, result, "errorMessage", "its supervisor does not respond");
    assert_int_equal(job_ask_number(job, "EXISTS sandbox:%s:heartbeat", job->id), 1);
  }
  job_stop_agent(job, SIGTERM);
  assert_in_range(end_attack(job, file, &opened), 1, 100 * STEPS);
}

/* SIGCONT sets the errno of a supervisor. A command's child shares errno until it has found the
   command. The first steps leave background processes, so that the other steps get a supervisor
   that the attack has seen. */
JOB_TEST_NO_AGENT(a_supervisor_that_gets_signals_all_the_time_starts_its_commands) {
  enum { BACKGROUND_STEPS = 5, STEPS = 100, ENTRIES = 100 };
  static const char entry[] = "/nowhere:";
  char path[ENTRIES * sizeof entry + sizeof "/bin"] = "";
  int opened;
  for (int i = 0; i < ENTRIES; i++)
    strcat(path, entry);
  strcat(path, "/bin");
  const char *file = start_attack(job, "wake");
  for (int i = 0; i < STEPS; i++) {
    cJSON *step = i < BACKGROUND_STEPS ? job_script(job, "sleep 1 >/dev/null 2>&1 & echo up")
                                       : job_step(job, "echo", "up", NULL);
    cJSON_AddStringToObject(cJSON_AddObjectToObject(step, "env"), "PATH", path);
    job_expect_result(job, job_run(job, step), 0, NULL, "up\n");
  }
  assert_in_range(end_attack(job, file, &opened), 1, 10 * STEPS);
  job_stop_agent(job, SIGTERM);
}
