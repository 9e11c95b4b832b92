/* cancel, shutdown: messages to the agent. */
#include <string.h>
#include <strings.h>

#include "client/commands/command.h"
#include "client/options.h"
#include "client/steps/step_text.h"

static bool is_group(const char *which) {
  return strcmp(which, "--running") == 0 || strcmp(which, "--waiting") == 0 ||
         strcmp(which, "--all") == 0;
}

/* `which` is a group of steps, an id or, unless `is_complete`, the beginning of one. */
static bool is_selected(const struct job_step *step, const char *which, bool is_complete) {
  if (!is_group(which))
    return strncasecmp(step->id, which, strlen(which) + is_complete) == 0;
  const bool is_wanted =
      strcmp(which, "--all") == 0 || step->is_running == (strcmp(which, "--running") == 0);
  return is_wanted && !step->is_kept;
}

/* A complete id wins over longer ones that begin with it. The newest step comes first: otherwise
   the agent would start the next one. */
static int cancel_steps(struct program *program, const struct job_agent *agent, const char *which,
                        struct error *error) {
  struct job_steps steps;
  size_t count = 0;
  if (program->access->read_steps(program, &steps, error) != 0)
    return -1;
  bool is_complete = false;
  for (size_t i = 0; i < steps.count; i++)
    is_complete |= strcasecmp(steps.list[i].id, which) == 0;
  for (size_t i = 0; i < steps.count; i++)
    count += is_selected(&steps.list[i], which, is_complete);
  int result = 0;
  if (!is_group(which) && !is_complete && count != 1)
    result = count == 0 ? error_set(error, "no step that waits or runs begins with '%.40s'", which)
                        : error_set(error, "%zu steps begin with '%.40s': give more of the ID",
                                    count, which);
  for (size_t i = steps.count; i > 0 && result == 0; i--) {
    const struct job_step *step = &steps.list[i - 1];
    if (!is_selected(step, which, is_complete))
      continue;
    result = program->access->cancel(program, agent, step->id, error);
    if (result == 0)
      terminal_say(&program->terminal, COLOR_NONE, "cancelling %s", job_shorten_step(step).text);
  }
  if (count == 0 && result == 0)
    terminal_say(&program->terminal, COLOR_NONE, "nothing to cancel");
  else if (result == 0 && !agent->is_alive)
    terminal_say(&program->terminal, COLOR_YELLOW,
                 "no agent is alive: the next one cancels these steps, if it starts within a day");
  job_steps_release(&steps);
  return result;
}

/* Returns the group or the id, or NULL after wrong usage. */
static const char *read_which(struct program *program, int argc, char **argv) {
  static const struct option flags[] = {{"running", no_argument, NULL, 'R'},
                                        {"waiting", no_argument, NULL, 'W'},
                                        {"all", no_argument, NULL, 'A'},
                                        {NULL, 0, NULL, 0}};
  static const char *const names[] = {"ID"};
  const char *group = NULL;
  int flag;
  optind = 0;
  while ((flag = options_next(program, argc, argv, "", flags)) >= 0)
    group = group != NULL ? "" : flag == 'R' ? "--running" : flag == 'W' ? "--waiting" : "--all";
  if (flag == OPTIONS_STOP ||
      (group != NULL && group[0] == '\0' &&
       !options_fail(program, "only one of --running, --waiting and --all is possible")) ||
      !options_words(program, argc, argv, group == NULL, group == NULL, names))
    return NULL;
  return group != NULL ? group : argv[optind];
}

int cancel_command(struct program *program, int argc, char **argv) {
  struct job_agent agent;
  struct error error;
  const char *which = read_which(program, argc, argv);
  if (which == NULL)
    return COMMAND_USAGE;
  const int code = program_begin_job(program);
  if (code != 0)
    return code;
  int result = program->access->read_agent(program, &agent, &error);
  if (result == 0)
    result = cancel_steps(program, &agent, which, &error);
  job_agent_release(&agent);
  return result == 0 ? 0 : terminal_fail(&program->terminal, &error);
}

/* Without an agent, the shutdown would wait for the next one, which must not obey it. */
static int shut_down(struct program *program, bool now, struct error *error) {
  struct job_agent agent;
  char id[STEP_ID_SIZE];
  step_id_make(id);
  int result = program->access->read_agent(program, &agent, error);
  if (result == 0 && !agent.is_alive)
    result = error_set(error, "no agent for %.100s: no heartbeat", program->job);
  if (result == 0 && now)
    result = cancel_steps(program, &agent, "--all", error);
  if (result == 0)
    result = program->access->shut_down(program, id, error);
  job_agent_release(&agent);
  return result;
}

int shutdown_command(struct program *program, int argc, char **argv) {
  static const struct option flags[] = {{"now", no_argument, NULL, 'N'}, {NULL, 0, NULL, 0}};
  struct error error;
  bool now = false;
  int flag;
  optind = 0;
  while ((flag = options_next(program, argc, argv, "", flags)) >= 0)
    now = true;
  if (flag == OPTIONS_STOP || !options_words(program, argc, argv, 0, 0, NULL))
    return COMMAND_USAGE;
  const int code = program_begin_job(program);
  if (code != 0)
    return code;
  if (shut_down(program, now, &error) != 0)
    return terminal_fail(&program->terminal, &error);
  terminal_say(&program->terminal, COLOR_NONE, "%s shuts down%s", program->job,
               now ? "" : " after its steps");
  return 0;
}
