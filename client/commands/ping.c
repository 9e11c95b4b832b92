/* ping: whether the job's agent is alive, for probes: within 1 s, and without SCAN. */
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/options.h"

int ping_command(struct program *program, int argc, char **argv) {
  struct error error;
  bool is_alive;
  if (!options_none(program, argc, argv))
    return COMMAND_USAGE;
  if (program->texts[PROGRAM_JOB] == NULL && !program_is_http(program)) {
    terminal_error(&program->terminal, "ping needs a job: pass -j JOB, or set JOB_ID");
    return EXIT_USAGE;
  }
  const int code = program_begin(program);
  if (code != 0)
    return code;
  if (program->access->ping(program, &is_alive, &error) != 0)
    return terminal_fail(&program->terminal, &error);
  terminal_say(&program->terminal, COLOR_NONE, is_alive ? "%s has an agent" : "%s has no agent",
               program->job);
  return is_alive ? 0 : EXIT_FOUND;
}
