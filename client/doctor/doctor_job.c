/* Checks the agent, the keys, the results and the events of a job. */
#include <stdlib.h>
#include <string.h>

#include "client/doctor/doctor.h"
#include "client/redis/json_field.h"
#include "client/redis/redis_job.h"
#include "client/screen/figure.h"
#include "wire/features.h"

/* If more results wait, the server may not read them at all. */
#define RESULTS_MANY 100

/* The default of --events-maxlen. Near it, events are trimmed, and a slow reader misses some. */
#define EVENTS_MAX 10000
#define EVENTS_NEAR 9900
#define EVENTS_AGE_MS (10 * 60 * 1000)

/* A heartbeat is set every 2 s, and expires after 10 s. */
#define HEARTBEAT_LATE_MS 5000
#define HEARTBEAT_LIFE_MS 10000

/* The agent makes the value up to this long before Redis sets the key. */
#define HEARTBEAT_DELAY_MS 2000

/* Keys that expire within this time need an agent that refreshes them. */
#define TTL_SHORT 3600

/* --- the agent -------------------------------------------------------------------------------- */

/* Returns how long ago the heartbeat was set, by the clock of Redis, or -1 if it is unknown. */
static int64_t heartbeat_age_ms(struct doctor *self) {
  int64_t left_ms = -1;
  if (!doctor_query_optional(self, WORDS("PTTL", self->program->keys.heartbeat), reply_to_number,
                             &left_ms) ||
      left_ms < 0 || left_ms > HEARTBEAT_LIFE_MS)
    return -1;
  return HEARTBEAT_LIFE_MS - left_ms;
}

static void report_features(struct doctor *self, const struct job_agent *agent) {
  struct buffer missing = {0};
  for (const char *const *feature = protocol_features; *feature != NULL; feature++)
    if (!job_agent_can(agent, *feature))
      buffer_add_format(&missing, "%s%s", missing.length > 0 ? ", " : "", *feature);
  if (missing.length > 0)
    doctor_report(self, FINDING_WARNING, "use an image with a newer agent",
                  "the agent lacks features: %.*s", (int)missing.length, missing.bytes);
  else
    doctor_report(self, FINDING_OK, NULL, "the agent has all features");
  buffer_release(&missing);
}

/* The first version of Landlock's interface with which every policy is enforced. Linux 6.12 has
   it. Older ones lack what every policy contains, and only an agent that is process 1 does without
   it. */
#define LANDLOCK_COMPLETE 6

/* A part of a policy is no warning if some policies work: many jobs need none. */
static void report_landlock(struct doctor *self, int version, bool is_refused, const char *words) {
  const bool is_complete = version >= LANDLOCK_COMPLETE;
  if (is_refused)
    doctor_report(self, FINDING_WARNING,
                  "Linux 6.12, or an agent that is process 1 of its container",
                  "the kernel enforces only a part of a sandbox policy%s (Landlock ABI %d): the "
                  "agent refuses every policy without bestEffort",
                  words, version);
  else
    doctor_report(self, FINDING_OK, NULL, "the kernel enforces %s%s (Landlock ABI %d%s)",
                  is_complete ? "a sandbox policy" : "a part of a sandbox policy", words, version,
                  is_complete ? "" : ", and Linux 6.12 has all of it");
}

/* An agent of 0.3 or older says nothing about policies, and lacks the features. */
static void report_policy(struct doctor *self, const struct job_agent *agent) {
  static const char fix[] = "Linux 6.12 with landlock in its option lsm=, and a seccomp profile "
                            "that allows landlock_create_ruleset";
  const int version = (int)job_agent_figure(agent, "Landlock");
  struct buffer words = {0};
  const cJSON *word;
  cJSON_ArrayForEach(word, cJSON_GetObjectItem(agent->heartbeat, "Enforces")) {
    if (cJSON_IsString(word))
      buffer_add_format(&words, "%s%s", words.length > 0 ? ", " : ": ", word->valuestring);
  }
  buffer_add(&words, "", 1);
  if (version == 0)
    doctor_report(self, FINDING_WARNING, fix, "the kernel has no Landlock, and enforces %s%s",
                  words.length > 1 ? "only a part of a sandbox policy" : "no sandbox policy",
                  words.bytes);
  else if (version > 0)
    report_landlock(self, version, version < LANDLOCK_COMPLETE && agent->pid != 1, words.bytes);
  buffer_release(&words);
}

/* Returns how far the agent's clock is ahead of that of Redis, as far as its heartbeat shows. */
static int64_t clock_ahead_ms(const struct job_agent *agent, int64_t set_ms) {
  const int64_t ahead_ms = (int64_t)json_field_number(agent->heartbeat, "Ts", -1) - set_ms;
  if (ahead_ms >= 0)
    return ahead_ms;
  return ahead_ms < -HEARTBEAT_DELAY_MS ? ahead_ms + HEARTBEAT_DELAY_MS : 0;
}

static void report_agent(struct doctor *self, const struct job_agent *agent, int64_t age_ms,
                         int64_t redis_ms) {
  struct buffer text = {0};
  const bool is_late = age_ms > HEARTBEAT_LATE_MS;
  buffer_add_format(&text, "agent %s pid %d, alive %s ago", job_agent_version(agent), agent->pid,
                    figure_duration((age_ms >= 0 ? age_ms : agent->age_ms) / 1000).text);
  const bool is_far = redis_ms >= 0 && age_ms >= 0 &&
                      doctor_add_clock(&text, "; its", clock_ahead_ms(agent, redis_ms - age_ms));
  doctor_report(self, is_late || is_far ? FINDING_WARNING : FINDING_OK,
                is_late  ? "see the agent's log"
                : is_far ? "timedatectl set-ntp true, on the machines of the agent and of Redis"
                         : NULL,
                "%.*s", (int)text.length, text.bytes);
  buffer_release(&text);
  report_features(self, agent);
  report_policy(self, agent);
}

/* The command that starts an agent for the job. */
#define START_AGENT "agent --redis-url URL --job-id "
static struct buffer start_agent(const struct doctor *self) {
  return doctor_fix(START_AGENT, self->program->job, "");
}

/* The next agent answers the steps that were taken, and runs the waiting ones. */
static void report_no_agent(struct doctor *self) {
  const struct keys *keys = &self->program->keys;
  int64_t waiting = -1, taken = 0; /* negative: Redis does not say it */
  char *started = NULL, *owner = NULL;
  (void)doctor_query(self, WORDS("LLEN", keys->in), reply_to_number, &waiting);
  (void)doctor_query(self, WORDS("LLEN", keys->inflight), reply_to_number, &taken);
  (void)doctor_query(self, WORDS("GET", keys->started), reply_to_text, &started);
  (void)doctor_query(self, WORDS("GET", keys->committed), reply_to_text, &owner);
  struct buffer fix =
      owner == NULL
          ? start_agent(self)
          : doctor_fix("recreate its pod (kubectl logs POD says why it ended), or " START_AGENT,
                       self->program->job, "");
  if (taken > 0)
    doctor_report(self, FINDING_PROBLEM, fix.bytes,
                  "no agent: no heartbeat, and %s step%s taken and not answered%s",
                  figure_count(taken).text, taken == 1 ? " was" : "s were",
                  started == NULL ? ""
                  : taken == 1    ? "; the next agent will answer it as interrupted"
                                  : "; the next agent will answer one of them as interrupted");
  else if (waiting > 0)
    doctor_report(self, FINDING_PROBLEM, fix.bytes, "no agent: no heartbeat, and %s step%s",
                  figure_count(waiting).text, waiting == 1 ? " waits" : "s wait");
  else
    doctor_report(self, FINDING_WARNING, fix.bytes, "no agent: no heartbeat%s",
                  waiting == 0 ? ", and no step waits" : "");
  buffer_release(&fix);
  free(started);
  free(owner);
}

/* The heartbeat must not change between its age and its content. */
static bool check_agent(struct doctor *self, int64_t redis_ms, bool *has_control) {
  struct program *program = self->program;
  struct job_agent agent;
  struct error error;
  int64_t before_ms = heartbeat_age_ms(self), age_ms = -1;
  for (int i = 0; i < 3; i++) {
    if (self->is_gone ||
        redis_job_read_agent(program, program->keys.heartbeat, &agent, &error) != 0)
      return false; /* a wrong type, or a missing right: other checks report it */
    age_ms = heartbeat_age_ms(self);
    if (age_ms >= before_ms || i == 2)
      break;
    before_ms = age_ms;
    job_agent_release(&agent);
  }
  const bool is_alive = agent.is_alive;
  *has_control = job_agent_can(&agent, "control");
  if (is_alive)
    report_agent(self, &agent, age_ms, redis_ms);
  else
    report_no_agent(self);
  job_agent_release(&agent);
  return is_alive;
}

/* --- keys ------------------------------------------------------------------------------------- */

struct job_key {
  const char *name, *type;
};

/* Returns whether the key has its type, or does not exist. */
static bool check_type(struct doctor *self, const struct job_key *key, bool *is_there) {
  char *type = NULL;
  *is_there = false;
  if (!doctor_query_optional(self, WORDS("TYPE", key->name), reply_to_text, &type) || type == NULL)
    return true;
  *is_there = strcmp(type, "none") != 0;
  const bool is_right = !*is_there || strcmp(type, key->type) == 0;
  struct buffer fix = doctor_fix("DEL ", key->name, ", or RENAME it to keep the value");
  if (!is_right)
    doctor_report(self, FINDING_PROBLEM, fix.bytes, "%s is a %s, not a %s", key->name, type,
                  key->type);
  buffer_release(&fix);
  free(type);
  return is_right;
}

static void report_ttl(struct doctor *self, int64_t shortest, bool has_agent) {
  struct buffer fix = start_agent(self);
  if (shortest >= 0 && shortest < TTL_SHORT && !has_agent)
    doctor_report(self, FINDING_WARNING, fix.bytes,
                  "keys have the right types; TTL %s, and no agent refreshes it",
                  figure_duration(shortest).text);
  else if (shortest >= 0)
    doctor_report(self, FINDING_OK, NULL, "keys have the right types; TTL %s",
                  figure_duration(shortest).text);
  else
    doctor_report(self, FINDING_OK, NULL, "keys have the right types; no TTL");
  buffer_release(&fix);
}

static void check_keys(struct doctor *self, bool has_agent) {
  const struct keys *keys = &self->program->keys;
  /* The last two do not expire with the others. */
  const struct job_key list[] = {{keys->in, "list"},          {keys->inflight, "list"},
                                 {keys->results, "list"},     {keys->events, "stream"},
                                 {keys->started, "string"},   {keys->control, "list"},
                                 {keys->committed, "string"}, {keys->heartbeat, "string"}};
  const size_t count = sizeof list / sizeof *list;
  bool are_right = true, is_there, is_any = false;
  int64_t shortest = -1;
  for (size_t i = 0; i < count; i++) {
    int64_t left = -1;
    are_right = check_type(self, &list[i], &is_there) && are_right;
    is_any |= is_there;
    if (i + 2 < count && is_there &&
        doctor_query_optional(self, WORDS("TTL", list[i].name), reply_to_number, &left) &&
        left >= 0 && (shortest < 0 || left < shortest))
      shortest = left;
  }
  if (are_right && is_any)
    report_ttl(self, shortest, has_agent);
}

/* --- results and events ----------------------------------------------------------------------- */

static void check_results(struct doctor *self) {
  const char *key = self->program->keys.results;
  int64_t count = 0;
  if (doctor_query(self, WORDS("LLEN", key), reply_to_number, &count) != PIPELINE_ANSWERED)
    return;
  struct buffer fix = doctor_fix("LRANGE ", key, " -3 -1 shows the oldest");
  if (count > RESULTS_MANY)
    doctor_report(self, FINDING_WARNING, fix.bytes,
                  "%s results wait in %s: does the server read them?", figure_count(count).text,
                  key);
  else
    doctor_report(self, FINDING_OK, NULL, "results: %s wait%s", figure_count(count).text,
                  count == 1 ? "s" : "");
  buffer_release(&fix);
}

/* Sets the time in the id of the oldest entry. */
static void on_oldest(void *ms, const struct reply *reply) {
  const struct reply *stream =
      reply->type == REPLY_ARRAY && reply->elements > 0 ? reply->element[0] : NULL;
  const struct reply *entries = stream != NULL && stream->elements == 2 ? stream->element[1] : NULL;
  if (entries != NULL && entries->type == REPLY_ARRAY && entries->elements > 0 &&
      entries->element[0]->elements > 0 && entries->element[0]->element[0]->str != NULL)
    *(int64_t *)ms = strtoll(entries->element[0]->element[0]->str, NULL, 10);
}

static void check_events(struct doctor *self, int64_t redis_ms) {
  const char *key = self->program->keys.events;
  int64_t count = 0, oldest_ms = -1;
  if (!doctor_query_optional(self, WORDS("XLEN", key), reply_to_number, &count))
    return;
  if (count > 0)
    (void)doctor_query(self, WORDS("XREAD", "COUNT", "1", "STREAMS", key, "0-0"), on_oldest,
                       &oldest_ms);
  if (count == 0 || oldest_ms < 0 || redis_ms < 0) {
    doctor_report(self, FINDING_OK, NULL, "events: %s", figure_count(count).text);
    return;
  }
  const int64_t age_ms = redis_ms - oldest_ms;
  const struct figure age = figure_duration(age_ms / 1000);
  if (count >= EVENTS_NEAR && age_ms < EVENTS_AGE_MS)
    doctor_report(self, FINDING_WARNING, "agent --events-maxlen N, or --events-pace N",
                  "events: %s of %s, oldest %s: readers slower than that miss lines",
                  figure_count(count).text, figure_count(EVENTS_MAX).text, age.text);
  else
    doctor_report(self, FINDING_OK, NULL, "events: %s, oldest %s", figure_count(count).text,
                  age.text);
}

bool doctor_check_job(struct doctor *self, bool *has_control) {
  const int64_t redis_ms = doctor_redis_ms(self);
  const bool has_agent = check_agent(self, redis_ms, has_control);
  check_keys(self, has_agent);
  check_results(self);
  check_events(self, redis_ms);
  return has_agent;
}
