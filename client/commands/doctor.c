/* doctor: diagnoses problems and suggests fixes. */
#include <stdio.h>
#include <stdlib.h>

#include "client/commands/command.h"
#include "client/doctor/doctor.h"
#include "client/exit_code.h"
#include "client/options.h"
#include "client/redis/redis_job.h"

static bool choose_job(struct doctor *self) {
  struct error error;
  if (redis_job_choose(self->program, &error) == 0)
    return true;
  doctor_report(self, FINDING_WARNING, "sandbox -j JOB doctor", "no job was checked: %s",
                error.text);
  return false;
}

static void print_summary(const struct doctor *self) {
  struct buffer line = {0};
  if (self->problems > 0)
    buffer_add_format(&line, "%zu problem%s", self->problems, self->problems == 1 ? "" : "s");
  if (self->warnings > 0)
    buffer_add_format(&line, "%s%zu warning%s", self->problems > 0 ? ", " : "", self->warnings,
                      self->warnings == 1 ? "" : "s");
  if (line.length > 0)
    buffer_add_string(&line, "\n");
  (void)terminal_put(&self->program->terminal, false, line.bytes, line.length);
  buffer_release(&line);
}

int doctor_command(struct program *program, int argc, char **argv) {
  if (!options_none(program, argc, argv))
    return COMMAND_USAGE;
  const int begun = program_begin_redis(program);
  if (begun != 0)
    return begun;
  struct doctor self = {.program = program};
  bool has_control = false;
  if (doctor_check_connection(&self)) {
    doctor_check_redis(&self);
    const bool has_agent =
        !self.is_gone && choose_job(&self) && doctor_check_job(&self, &has_control);
    doctor_check_rights(&self, has_agent, has_control);
    doctor_report_refused(&self);
  }
  if (!program->json)
    print_summary(&self);
  buffer_release(&self.refused);
  free(self.info);
  return self.problems > 0 ? EXIT_FOUND : 0;
}
