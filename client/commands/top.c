/* top: shows what the jobs use. The hard part are rates: an agent updates its figures with every
   fifth heartbeat, so CPU and steps per minute compare two updates and not two heartbeats. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "client/commands/command.h"
#include "client/options.h"
#include "client/redis/event_stream.h"
#include "client/redis/redis_info.h"
#include "client/redis/redis_job.h"
#include "client/screen/figure.h"
#include "client/screen/table.h"
#include "client/signals.h"
#include "client/steps/history.h"

#define ROUND_MS 2000

/* After this many rounds, the jobs are listed again. */
#define ROUNDS_PER_LIST 5

/* The usual time between two readings of an agent's figures, and how many are kept: a minute. */
#define READING_MS 10000
#define READINGS 7

struct reading {
  int64_t at_ms; /* by the agent's clock */
  double cpu_seconds, steps;
};

/* A job with its history. */
struct watched {
  char *job;
  struct keys keys;
  int pid;
  struct reading readings[READINGS]; /* oldest first */
  size_t count;
  char *step_id; /* the running step, to which `started` belongs; NULL: none */
  struct started started;
  int64_t queue;
  struct job_agent agent;
  bool is_unreadable; /* Redis refuses a key of the job, as for a wrong type */
};

struct top {
  struct program *program;
  struct watched *list;
  size_t count;
  unsigned rounds;
};

/* --- readings --------------------------------------------------------------------------------- */

static double count_steps(const cJSON *heartbeat) {
  const cJSON *steps = cJSON_GetObjectItemCaseSensitive(heartbeat, "Steps"), *end;
  double count = cJSON_IsObject(steps) ? 0 : -1;
  cJSON_ArrayForEach(end, steps) count += cJSON_IsNumber(end) ? end->valuedouble : 0;
  return count;
}

/* A reading is new if a figure has changed, or after READING_MS: an idle agent's figures stay. */
static void add_reading(struct watched *self) {
  const struct reading now = {.at_ms = (int64_t)job_agent_figure(&self->agent, "Ts"),
                              .cpu_seconds = job_agent_figure(&self->agent, "CpuSeconds"),
                              .steps = count_steps(self->agent.heartbeat)};
  if (self->agent.pid != self->pid)
    self->count = 0;
  self->pid = self->agent.pid;
  const struct reading *last = self->count > 0 ? &self->readings[self->count - 1] : NULL;
  if (last != NULL && last->cpu_seconds == now.cpu_seconds && last->steps == now.steps &&
      now.at_ms - last->at_ms < READING_MS)
    return;
  if (self->count == READINGS)
    memmove(self->readings, self->readings + 1, --self->count * sizeof *self->readings);
  self->readings[self->count++] = now;
}

/* The first reading is older than its heartbeat. */
static double seconds_between(const struct reading *a, const struct reading *b) {
  const int64_t ms = b->at_ms - a->at_ms;
  return (double)(ms > READING_MS ? ms : READING_MS) / 1000;
}

/* Returns -1 if it is unknown. */
static double cpu_percent(const struct watched *self) {
  if (self->count < 2 || self->readings[self->count - 2].cpu_seconds < 0)
    return -1;
  const struct reading *before = &self->readings[self->count - 2], *last = before + 1;
  const double used = last->cpu_seconds - before->cpu_seconds;
  return used < 0 ? -1 : 100 * used / seconds_between(before, last);
}

static double steps_per_minute(const struct watched *self) {
  if (self->count < 2 || self->readings[0].steps < 0)
    return -1;
  const struct reading *last = &self->readings[self->count - 1];
  const double done = last->steps - self->readings[0].steps;
  return done < 0 ? -1 : 60 * done / seconds_between(&self->readings[0], last);
}

/* --- a round ---------------------------------------------------------------------------------- */

static void release_watched(struct watched *self) {
  keys_release(&self->keys);
  job_agent_release(&self->agent);
  free(self->step_id);
  free(self->job);
}

static void add_job(struct top *self, const char *job) {
  for (size_t i = 0; i < self->count; i++)
    if (strcmp(self->list[i].job, job) == 0)
      return;
  self->list = memory_resize(self->list, (self->count + 1) * sizeof *self->list);
  struct watched *watched = &self->list[self->count++];
  *watched = (struct watched){.job = memory_copy(job, strlen(job))};
  keys_init(&watched->keys, watched->job);
}

static int compare(const void *a, const void *b) {
  return strcmp(((const struct watched *)a)->job, ((const struct watched *)b)->job);
}

static int find_jobs(struct top *self, struct error *error) {
  struct texts ids = {0};
  if (self->program->job != NULL) {
    add_job(self, self->program->job);
    return 0;
  }
  if (self->rounds % ROUNDS_PER_LIST != 0)
    return 0;
  if (redis_job_list(self->program, &ids, error) != 0)
    return -1;
  for (size_t i = 0; i < ids.count; i++)
    add_job(self, ids.texts[i]);
  texts_release(&ids);
  if (self->count > 0)
    qsort(self->list, self->count, sizeof *self->list, compare);
  return 0;
}

/* Reads the running step. Its event `started` is searched once. */
static int read_step(struct program *program, struct watched *self, struct error *error) {
  char *id;
  if (pipeline_get(program->redis, self->keys.started, &id, error) != 0)
    return -1;
  const bool is_same = id != NULL && self->step_id != NULL && strcmp(id, self->step_id) == 0;
  free(self->step_id);
  self->step_id = id;
  if (id == NULL || is_same)
    return 0;
  return event_stream_find_started_of(program, self->keys.events, id, &self->started, error);
}

static int read_queue(struct program *program, struct watched *self, struct error *error) {
  int64_t in = 0, inflight = 0;
  if (pipeline_length(program->redis, self->keys.in, &in, error) != 0 ||
      pipeline_length(program->redis, self->keys.inflight, &inflight, error) != 0)
    return -1;
  const int64_t fetched = inflight - (inflight > 0 && self->step_id != NULL);
  self->queue = in + (self->agent.is_alive ? fetched : 0);
  return 0;
}

static bool is_shown(const struct top *self, const struct watched *watched) {
  return watched->agent.is_alive || watched->is_unreadable || self->program->job != NULL;
}

static int read_job(struct top *self, struct watched *watched, struct error *error) {
  struct program *program = self->program;
  job_agent_release(&watched->agent);
  watched->is_unreadable = false;
  if (redis_job_read_agent(program, watched->keys.heartbeat, &watched->agent, error) != 0)
    return -1;
  if (watched->agent.is_alive)
    add_reading(watched);
  else
    watched->count = 0;
  if (!is_shown(self, watched))
    return 0;
  return read_step(program, watched, error) != 0 ? -1 : read_queue(program, watched, error);
}

/* One job that cannot be read does not hide the others. */
static void mark_unreadable(struct watched *self) {
  free(self->step_id);
  self->step_id = NULL;
  self->count = 0;
  self->queue = -1;
  self->is_unreadable = true;
}

static int read_round(struct top *self, struct error *error) {
  const struct program *program = self->program;
  if (find_jobs(self, error) != 0)
    return -1;
  for (size_t i = 0; i < self->count; i++) {
    if (read_job(self, &self->list[i], error) == 0)
      continue;
    if (program->job != NULL || pipeline_away_ms(program->redis) > 0)
      return -1;
    mark_unreadable(&self->list[i]);
  }
  self->rounds++;
  return 0;
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static void add_step(struct buffer *json, const struct watched *self) {
  if (self->step_id == NULL) {
    buffer_add_string(json, ",\"step\":null");
    return;
  }
  const bool is_known = self->started.timestamp[0] != '\0';
  buffer_add_string(json, ",\"step\":{");
  figure_add_json_text(json, "id", self->step_id);
  figure_add_json_text(json, "line", is_known ? self->started.line : NULL);
  figure_add_json_text(json, "since", is_known ? self->started.timestamp : NULL);
  buffer_add_string(json, "}");
}

static void print_json(const struct top *self) {
  static const char *const figures[] = {"CpuSeconds", "MemoryBytes", "MemoryLimitBytes",
                                        "HeldBytes", NULL};
  struct buffer json = {0};
  for (size_t i = 0; i < self->count; i++) {
    const struct watched *watched = &self->list[i];
    if (!is_shown(self, watched))
      continue;
    buffer_add_string(&json, "{");
    figure_add_json_text(&json, "job", watched->job);
    buffer_add_format(&json, ",\"alive\":%s", watched->agent.is_alive ? "true" : "false");
    add_step(&json, watched);
    figure_add_json(&json, "cpuPercent", cpu_percent(watched));
    job_agent_add_json(&watched->agent, figures, &json);
    figure_add_json(&json, "queue", (double)watched->queue);
    figure_add_json(&json, "steps", count_steps(watched->agent.heartbeat));
    figure_add_json(&json, "stepsPerMinute", steps_per_minute(watched));
    buffer_add_string(&json, "}");
    (void)terminal_put_json(&self->program->terminal, json.bytes, json.length);
    json.length = 0;
  }
  buffer_release(&json);
}

/* --- as text ---------------------------------------------------------------------------------- */

static void add_running(struct table *table, const struct watched *self) {
  if (self->is_unreadable)
    table_add(table, "unreadable: see sandbox doctor");
  else if (!self->agent.is_alive)
    table_add(table, "no agent");
  else if (self->step_id == NULL)
    table_add(table, "-");
  else if (self->started.timestamp[0] == '\0')
    table_add(table, "running");
  else
    table_add_format(table, "%.40s %s", self->started.line,
                     figure_duration((clock_unix_ms() - self->started.unix_ms) / 1000).text);
}

static void add_row(struct table *table, const struct terminal *terminal,
                    const struct watched *self) {
  const struct job_agent *agent = &self->agent;
  const double held = job_agent_figure(agent, "HeldBytes");
  table_add_name(table, terminal, self->job);
  add_running(table, self);
  table_add_number(table, cpu_percent(self), "%");
  table_add(table, figure_memory(job_agent_figure(agent, "MemoryBytes"),
                                 job_agent_figure(agent, "MemoryLimitBytes"))
                       .text);
  table_add(table, held == 0 ? "0" : figure_memory(held, -1).text);
  table_add(table, self->queue >= 0 ? figure_count(self->queue).text : "-");
  table_add_number(table, steps_per_minute(self), "");
}

static size_t rows_of_terminal(void) {
  struct winsize size = {0};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1 ? size.ws_row - 1U : 0;
}

static void print_table(const struct top *self) {
  static const char *const heads[] = {"JOB",  "STEP",  "CONTAINER CPU", "CONTAINER MEM",
                                      "HELD", "QUEUE", "STEPS/MIN"};
  struct terminal *terminal = &self->program->terminal;
  struct table table = {0};
  table_begin(&table, heads, sizeof heads / sizeof *heads);
  for (size_t i = 0; i < self->count; i++)
    if (is_shown(self, &self->list[i]))
      add_row(&table, terminal, &self->list[i]);
  table_print(&table, terminal, terminal->is_tty[0] ? rows_of_terminal() : 0);
  if (table.count == table.columns && !terminal->is_tty[0])
    terminal_say(terminal, COLOR_NONE, "no job is alive");
  table_release(&table);
}

/* --- the command ------------------------------------------------------------------------------ */

/* There is nothing to undo, so a signal may end a call to Redis. */
static void leave(int signal) {
  signals_end_key_line(signal);
  _exit(signal == SIGINT ? 0 : 128 + signal);
}

static void wait_for_round(struct program *program) {
  const int64_t next_ms = clock_monotonic_ms() + ROUND_MS;
  while (clock_monotonic_ms() < next_ms)
    program_turn(program);
}

/* Runs until an interrupt, or until nobody reads the output. */
static int repeat(struct top *self) {
  struct program *program = self->program;
  struct error error;
  signals_handle(leave);
  int result = read_round(self, &error);
  while (result == 0) {
    terminal_put_raw(&program->terminal, false, "\x1b[H\x1b[J");
    print_table(self);
    if (terminal_drain(&program->terminal) != 0)
      break;
    wait_for_round(program);
    result = read_round(self, &error);
  }
  return result == 0 ? 0 : terminal_fail(&program->terminal, &error);
}

static int show_once(struct top *self) {
  struct error error;
  if (read_round(self, &error) != 0)
    return terminal_fail(&self->program->terminal, &error);
  if (self->program->json)
    print_json(self);
  else
    print_table(self);
  if (self->program->job == NULL)
    redis_info_warn_of_cluster(self->program);
  return 0;
}

int top_command(struct program *program, int argc, char **argv) {
  if (!options_none(program, argc, argv))
    return COMMAND_USAGE;
  int code = program_begin_redis(program);
  if (code != 0)
    return code;
  struct top self = {.program = program};
  code = program->terminal.is_tty[0] && !program->json ? repeat(&self) : show_once(&self);
  for (size_t i = 0; i < self.count; i++)
    release_watched(&self.list[i]);
  free(self.list);
  return code;
}
