/* cancel, shutdown: orders to the agent itself. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client/exit_code.h"
#include "client/program.h"
#include "client/redis/job.h"
#include "client/steps/step_text.h"

/* Without an agent nobody would obey, until one comes that the order was not meant for. */
static int check_agent(struct program *program, struct error *error) {
  bool is_alive;
  if (job_is_alive(program, &is_alive, error) != 0)
    return -1;
  return is_alive ? 0 : error_set(error, "no agent for %.100s: no heartbeat", program->job);
}

/* An order may come twice: the second finds nothing to do. */
static int push_order(struct program *program, const char *id, const char *kind,
                      struct error *error) {
  struct buffer json = {0};
  int64_t length = 0;
  step_text_begin(&json, id, kind);
  step_text_end(&json);
  int result = pipeline_call(program->redis, WORDS("LPUSH", program->keys.in, json.bytes),
                             reply_to_number, &length, error);
  buffer_release(&json);
  return result;
}

static int fail(struct program *program, const struct error *error) {
  terminal_error(&program->terminal, "%s", error->text);
  return EXIT_CLIENT;
}

/* --- cancel ----------------------------------------------------------------------------------- */

enum chosen { CHOSEN_ID, CHOSEN_RUNNING, CHOSEN_WAITING, CHOSEN_ALL };

static bool is_chosen(const struct job_step *step, enum chosen chosen, const char *id) {
  switch (chosen) {
  case CHOSEN_ID:
    return strncasecmp(step->id, id, strlen(id)) == 0;
  case CHOSEN_RUNNING:
    return step->is_running;
  case CHOSEN_WAITING:
    return !step->is_running;
  case CHOSEN_ALL:
    break;
  }
  return true;
}

static int cancel_chosen(struct program *program, enum chosen chosen, const char *id,
                         struct error *error) {
  struct job_steps steps;
  size_t count = 0;
  if (check_agent(program, error) != 0 || job_read_steps(program, &steps, error) != 0)
    return -1;
  for (size_t i = 0; i < steps.count; i++)
    count += is_chosen(&steps.list[i], chosen, id);
  int result = 0;
  if (chosen == CHOSEN_ID && count != 1)
    result = count == 0 ? error_set(error, "no step that waits or runs begins with '%.40s'", id)
                        : error_set(error, "%zu steps begin with '%.40s'", count, id);
  for (size_t i = steps.count; i > 0 && result == 0; i--) {
    const struct job_step *step = &steps.list[i - 1];
    if (!is_chosen(step, chosen, id))
      continue;
    result = push_order(program, step->id, "cancel", error);
    if (result == 0)
      terminal_say(&program->terminal, COLOR_NONE, "cancelling %s", job_shorten_step(step).text);
  }
  if (count == 0 && result == 0)
    terminal_say(&program->terminal, COLOR_NONE, "nothing to cancel");
  job_steps_release(&steps);
  return result;
}

static int cancel(struct program *program, int argc, char **argv) {
  static const char *const names[] = {"", "--running", "--waiting", "--all"};
  struct error error;
  enum chosen chosen = CHOSEN_ID;
  if (argc > 1 && strcmp(argv[1], "-g") == 0) {
    terminal_error(&program->terminal, "-g needs an agent with graceSeconds");
    return EXIT_CLIENT;
  }
  if (argc != 2)
    return program_usage(&cancel_command);
  for (size_t i = 1; i < sizeof names / sizeof *names; i++)
    if (strcmp(argv[1], names[i]) == 0)
      chosen = (enum chosen)i;
  if (chosen == CHOSEN_ID && (argv[1][0] == '-' || argv[1][0] == '\0'))
    return program_usage(&cancel_command);
  return cancel_chosen(program, chosen, argv[1], &error) == 0 ? 0 : fail(program, &error);
}

const struct command cancel_command = {.name = "cancel",
                                       .usage = "ID | --running | --waiting | --all",
                                       .help = "end steps; an ID may be the beginning of one",
                                       .run = cancel,
                                       .needs_job = true};

/* --- shutdown --------------------------------------------------------------------------------- */

static int shut_down(struct program *program, int argc, char **argv) {
  struct error error;
  char id[STEP_ID_SIZE];
  bool now = argc == 2 && strcmp(argv[1], "--now") == 0;
  if (argc > 2 || (argc == 2 && !now))
    return program_usage(&shutdown_command);
  step_id_make(id);
  if (check_agent(program, &error) != 0 ||
      (now && cancel_chosen(program, CHOSEN_ALL, "", &error) != 0) ||
      push_order(program, id, "shutdown", &error) != 0)
    return fail(program, &error);
  terminal_say(&program->terminal, COLOR_NONE, "%s shuts down%s", program->job,
               now ? "" : " after its steps");
  return 0;
}

const struct command shutdown_command = {.name = "shutdown",
                                         .usage = "[--now]",
                                         .help = "end the agent, after its steps or with them",
                                         .run = shut_down,
                                         .needs_job = true};
