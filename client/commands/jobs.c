/* jobs: lists the jobs that have an agent. */
#include "client/commands/command.h"
#include "client/exit_code.h"
#include "client/options.h"
#include "client/redis/json_field.h"
#include "client/redis/redis_info.h"
#include "client/redis/redis_job.h"
#include "client/screen/figure.h"
#include "client/screen/table.h"

static const char *const ends[] = {"ok", "failed", "timedOut", "cancelled"};

#define ENDS (sizeof ends / sizeof *ends)

static const cJSON *steps_of(const struct job_agent *agent) {
  return cJSON_GetObjectItemCaseSensitive(agent->heartbeat, "Steps");
}

static void print_json(struct terminal *terminal, const char *job, const struct job_agent *agent) {
  static const char *const figures[] = {
      "HeldBytes",       "Reconnects", "MemoryBytes", "MemoryLimitBytes",
      "MemoryPeakBytes", "CpuSeconds", NULL};
  struct buffer json = {0};
  buffer_add_string(&json, "{");
  figure_add_json_text(&json, "job", job);
  figure_add_json_text(&json, "version", agent->version);
  figure_add_json(&json, "pid", agent->pid);
  figure_add_json(&json, "ageSeconds", agent->age_ms > 0 ? (double)agent->age_ms / 1000 : 0);
  buffer_add_format(&json, ",\"stepInFlight\":%s",
                    json_field_is_true(agent->heartbeat, "StepInFlight") ? "true" : "false");
  job_agent_add_json(agent, figures, &json);
  buffer_add_string(&json, ",\"steps\":{");
  for (size_t i = 0; i < ENDS; i++)
    figure_add_json(&json, ends[i], json_field_number(steps_of(agent), ends[i], -1));
  buffer_add_string(&json, "}}");
  (void)terminal_put_json(terminal, json.bytes, json.length);
  buffer_release(&json);
}

static void add_row(struct table *table, const struct terminal *terminal, const char *job,
                    const struct job_agent *agent) {
  const double cpu = job_agent_figure(agent, "CpuSeconds");
  table_add_name(table, terminal, job);
  table_add(table, job_agent_version(agent));
  table_add_format(table, "%d", agent->pid);
  table_add_format(table, "%s ago", figure_duration(agent->age_ms / 1000).text);
  table_add(table, json_field_is_true(agent->heartbeat, "StepInFlight") ? "running" : "-");
  table_add(table, figure_memory(job_agent_figure(agent, "MemoryBytes"),
                                 job_agent_figure(agent, "MemoryLimitBytes"))
                       .text);
  table_add(table, cpu >= 0 ? figure_duration((int64_t)cpu).text : "-");
  for (size_t i = 0; i < ENDS; i++) {
    const double count = json_field_number(steps_of(agent), ends[i], -1);
    table_add(table, count >= 0 ? figure_count((int64_t)count).text : "-");
  }
}

/* Returns the exit code. A heartbeat that Redis refuses, as for a wrong type, hides no other. */
static int list(struct program *program, const struct texts *ids) {
  static const char *const heads[] = {"JOB",    "AGENT",         "PID",           "ALIVE",
                                      "STEP",   "CONTAINER MEM", "CONTAINER CPU", "OK",
                                      "FAILED", "TIMED OUT",     "CANCELLED"};
  struct table table = {0};
  struct error error;
  int result = 0;
  bool is_complete = true;
  table_begin(&table, heads, sizeof heads / sizeof *heads);
  for (size_t i = 0; i < ids->count && result == 0; i++) {
    struct job_agent agent;
    struct keys keys;
    keys_init(&keys, ids->texts[i]);
    result = redis_job_read_agent(program, keys.heartbeat, &agent, &error);
    if (result != 0 && pipeline_away_ms(program->redis) == 0) {
      terminal_error(&program->terminal, "%s: %s", keys.heartbeat, error.text);
      result = 0;
      is_complete = false;
    }
    if (result == 0 && agent.is_alive && program->json)
      print_json(&program->terminal, ids->texts[i], &agent);
    else if (result == 0 && agent.is_alive)
      add_row(&table, &program->terminal, ids->texts[i], &agent);
    job_agent_release(&agent);
    keys_release(&keys);
  }
  if (result == 0 && table.count > table.columns)
    table_print(&table, &program->terminal, 0);
  else if (result == 0 && is_complete && !program->json)
    terminal_say(&program->terminal, COLOR_NONE, "no job is alive");
  table_release(&table);
  if (result != 0)
    return terminal_fail(&program->terminal, &error);
  return is_complete ? 0 : EXIT_CLIENT;
}

int jobs_command(struct program *program, int argc, char **argv) {
  if (!options_none(program, argc, argv))
    return COMMAND_USAGE;
  int code = program_begin_redis(program);
  if (code != 0)
    return code;
  struct texts ids = {0};
  struct error error;
  if (redis_job_list(program, &ids, &error) != 0)
    return terminal_fail(&program->terminal, &error);
  code = list(program, &ids);
  texts_release(&ids);
  if (code == 0)
    redis_info_warn_of_cluster(program);
  return code;
}
