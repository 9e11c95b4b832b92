/* ps: lists the running step and the waiting steps. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/printable.h"
#include "client/commands/command.h"
#include "client/options.h"
#include "client/redis/redis_info.h"
#include "client/screen/figure.h"
#include "client/screen/table.h"
#include "client/steps/history.h"

struct view {
  struct job_agent agent;
  struct job_steps steps;
  struct started started; /* of the running step */
};

static int read_view(struct program *program, struct view *self, struct error *error) {
  *self = (struct view){0};
  if (program->access->read_agent(program, &self->agent, error) != 0 ||
      program->access->read_steps(program, &self->steps, error) != 0)
    return -1;
  for (size_t i = 0; i < self->steps.count; i++)
    if (self->steps.list[i].is_running)
      return program->access->events->find_started(program, self->steps.list[i].id, &self->started,
                                                   error);
  return 0;
}

/* The next agent answers a lost step, or runs it if it was not started. */
static const char *state_of(const struct view *self, const struct job_step *step) {
  if (step->is_taken && !self->agent.is_alive)
    return "lost";
  return step->is_running ? "running" : "waiting";
}

static void print_json(struct terminal *terminal, const struct view *self) {
  struct buffer json = {0};
  buffer_add_string(&json, "[");
  for (size_t i = 0; i < self->steps.count; i++) {
    const struct job_step *step = &self->steps.list[i];
    const char *since = step->is_running ? self->started.timestamp : "";
    buffer_add_string(&json, i > 0 ? ",{" : "{");
    figure_add_json_text(&json, "id", step->id);
    figure_add_json_text(&json, "kind", step->kind);
    figure_add_json_text(&json, "state", state_of(self, step));
    figure_add_json_text(&json, "since", since[0] != '\0' ? since : NULL);
    figure_add_json_text(&json, "target", step->target);
    buffer_add_string(&json, "}");
  }
  buffer_add_string(&json, "]");
  (void)terminal_put_json(terminal, json.bytes, json.length);
  buffer_release(&json);
}

static void add_agent(struct buffer *out, const struct job_agent *agent) {
  if (!agent->is_alive) {
    buffer_add_string(out, "no agent");
    return;
  }
  buffer_add_string(out, "agent ");
  printable_add(out, job_agent_version(agent), strlen(job_agent_version(agent)));
  buffer_add_format(out, " pid %d, alive %s ago", agent->pid,
                    figure_duration(agent->age_ms / 1000).text);
}

static int print_head(struct program *program, const struct view *self, struct error *error) {
  struct buffer line = {0};
  int64_t results = 0;
  char version[64];
  char *info = NULL;
  if (program->redis == NULL)
    results = (int64_t)job_agent_figure(&self->agent, "unread");
  else if (pipeline_length(program->redis, program->keys.results, &results, error) == 0)
    info = redis_info_read(program);
  else
    return -1;
  buffer_add_string(&line, "JOB ");
  printable_add(&line, program->job, strlen(program->job));
  buffer_add_string(&line, "   ");
  add_agent(&line, &self->agent);
  if (redis_info_version(info, version, sizeof version))
    buffer_add_format(&line, ", redis %s", version);
  buffer_add_format(&line, "   results waiting: %s\n", figure_count(results).text);
  (void)terminal_put(&program->terminal, false, line.bytes, line.length);
  buffer_release(&line);
  free(info);
  return 0;
}

static void add_since(struct table *table, const struct started *started) {
  const int64_t ms = clock_unix_ms() - started->unix_ms;
  table_add(table, started->timestamp[0] != '\0' ? figure_duration(ms / 1000).text : "-");
}

static void print_steps(struct program *program, const struct view *self) {
  static const char *const heads[] = {"ID", "KIND", "STATE", "SINCE", "COMMAND"};
  struct table table = {0};
  size_t place = 0;
  table_begin(&table, heads, sizeof heads / sizeof *heads);
  for (size_t i = 0; i < self->steps.count; i++) {
    const struct job_step *step = &self->steps.list[i];
    table_add(&table, job_shorten_step(step).text);
    table_add(&table, step->kind);
    table_add(&table, state_of(self, step));
    if (step->is_running)
      add_since(&table, &self->started);
    else if (step->is_taken && !self->agent.is_alive)
      table_add(&table, "-");
    else
      table_add_format(&table, "%zu", ++place);
    table_add_or_nothing(&table, step->target);
  }
  table_print(&table, &program->terminal, 0);
  table_release(&table);
}

int ps_command(struct program *program, int argc, char **argv) {
  if (!options_none(program, argc, argv))
    return COMMAND_USAGE;
  const int begun = program_begin_job(program);
  if (begun != 0)
    return begun;
  struct view view;
  struct error error;
  int result = read_view(program, &view, &error);
  if (result == 0 && program->json)
    print_json(&program->terminal, &view);
  else if (result == 0 && (result = print_head(program, &view, &error)) == 0)
    print_steps(program, &view);
  job_agent_release(&view.agent);
  job_steps_release(&view.steps);
  return result == 0 ? 0 : terminal_fail(&program->terminal, &error);
}
