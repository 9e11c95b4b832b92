/* ping: whether the job's agent is alive, for probes: within 1 s, and without SCAN. */
#include <stdlib.h>

#include "base/clock.h"
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/options.h"
#include "client/redis/job.h"

/* A probe waits 1 s by default, in which the program also starts and ends. */
#define PING_MS 900

/* Reads the heartbeat, or fails in time. A lost connection is not the answer. */
static int read_heartbeat(struct program *program, char **heartbeat, struct error *error) {
  const int64_t end_ms = program->begin_ms + PING_MS;
  enum pipeline_answer answer;
  pipeline_fail_fast(program->redis, true);
  do
    answer = pipeline_ask(program->redis, WORDS("GET", program->keys.heartbeat), reply_to_text,
                          heartbeat, end_ms - clock_monotonic_ms(), error);
  while (answer == PIPELINE_LOST && clock_monotonic_ms() < end_ms);
  return answer == PIPELINE_ANSWERED ? 0 : -1;
}

int ping_command(struct program *program, int argc, char **argv) {
  struct error error;
  char *heartbeat = NULL;
  if (!options_none(program, argc, argv))
    return COMMAND_USAGE;
  if (program->texts[PROGRAM_JOB] == NULL) {
    terminal_error(&program->terminal, "ping needs a job: pass -j JOB, or set JOB_ID");
    return EXIT_USAGE;
  }
  const int code = program_begin_job(program);
  if (code != 0)
    return code;
  if (read_heartbeat(program, &heartbeat, &error) != 0)
    return terminal_fail(&program->terminal, &error);
  const bool is_alive = heartbeat != NULL;
  terminal_say(&program->terminal, COLOR_NONE, is_alive ? "%s has an agent" : "%s has no agent",
               program->job);
  free(heartbeat);
  return is_alive ? 0 : EXIT_FOUND;
}
