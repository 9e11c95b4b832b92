/* Keys, the agent, results and events of a job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/doctor/doctor.h"
#include "client/redis/job.h"
#include "client/screen/figure.h"

/* Results that a server has not read: more than that, and it may not read them at all. */
#define RESULTS_MANY 100

/* The default of --events-maxlen; near it events may be trimmed, and readers that are slower miss
   some. */
#define EVENTS_MAX 10000
#define EVENTS_NEAR 9900
#define EVENTS_AGE_MS (10 * 60 * 1000)

/* A heartbeat comes every 2 s, and lives so long. */
#define BEAT_LATE_MS 5000
#define BEAT_LIFE_MS 10000

/* Keys that expire so soon, and no agent keeps them. */
#define TTL_SHORT 3600

#define CLOCKS_MS 2000

struct job_key {
  const char *name, *type;
};

static void list_keys(const struct keys *keys, struct job_key out[7]) {
  out[0] = (struct job_key){keys->in, "list"};
  out[1] = (struct job_key){keys->inflight, "list"};
  out[2] = (struct job_key){keys->results, "list"};
  out[3] = (struct job_key){keys->events, "stream"};
  out[4] = (struct job_key){keys->started, "string"};
  out[5] = (struct job_key){keys->committed, "string"};
  out[6] = (struct job_key){keys->heartbeat, "string"};
}

/* --- the agent -------------------------------------------------------------------------------- */

/* How long ago the heartbeat was set, by the clock of Redis; -1: not known. */
static int64_t beat_age_ms(struct doctor *self) {
  int64_t left_ms = -1;
  if (!doctor_learn(self, WORDS("PTTL", self->program->keys.heartbeat), reply_to_number,
                    &left_ms) ||
      left_ms < 0 || left_ms > BEAT_LIFE_MS)
    return -1;
  return BEAT_LIFE_MS - left_ms;
}

/* Adds how the agent's clock differs from that of Redis. Returns whether that is too much. */
static bool add_clock(struct buffer *text, int64_t ts_ms, int64_t redis_ms, int64_t age_ms) {
  if (redis_ms < 0 || age_ms < 0)
    return false;
  const int64_t ahead_ms = ts_ms - (redis_ms - age_ms);
  buffer_add_format(text, "; its clock is %.1fs %s that of Redis",
                    (double)(ahead_ms < 0 ? -ahead_ms : ahead_ms) / 1000,
                    ahead_ms < 0 ? "behind" : "ahead of");
  return ahead_ms > CLOCKS_MS || ahead_ms < -CLOCKS_MS;
}

static void find_features(struct doctor *self, const struct job_agent *agent) {
  static const char *const known[] = {"editFile",  "cancel",       "stdin",         "writeBytes",
                                      "readBytes", "searchHidden", "withMediaType", "outputTail",
                                      "secrets",   "end"};
  struct buffer names = {0}, missing = {0};
  const cJSON *feature;
  cJSON_ArrayForEach(feature, cJSON_GetObjectItemCaseSensitive(agent->beat, "Features")) {
    if (cJSON_IsString(feature))
      buffer_add_format(&names, "%s%s", names.length > 0 ? ", " : "", feature->valuestring);
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!job_agent_can(agent, known[i]))
      buffer_add_format(&missing, "%s%s", missing.length > 0 ? ", " : "", known[i]);
  if (missing.length > 0)
    doctor_find(self, FINDING_WARNING, "an image with a newer agent",
                "features: it does not say that it has %.*s", (int)missing.length, missing.bytes);
  else
    doctor_find(self, FINDING_OK, NULL, "features: %.*s", (int)names.length, names.bytes);
  buffer_release(&names);
  buffer_release(&missing);
}

static void find_alive(struct doctor *self, const struct job_agent *agent, int64_t age_ms,
                       int64_t redis_ms) {
  struct buffer text = {0};
  const bool is_late = age_ms > BEAT_LATE_MS;
  buffer_add_format(&text, "agent %s pid %d, alive %s ago",
                    agent->version != NULL ? agent->version : "of 0.1.0 or older", agent->pid,
                    figure_duration((age_ms >= 0 ? age_ms : agent->age_ms) / 1000).text);
  const bool is_far = add_clock(&text, (int64_t)figure_of(agent->beat, "Ts"), redis_ms, age_ms);
  doctor_find(self, is_late || is_far ? FINDING_WARNING : FINDING_OK,
              is_late  ? "its log says what keeps it"
              : is_far ? "timedatectl set-ntp true, on its machine and that of Redis"
                       : NULL,
              "%.*s", (int)text.length, text.bytes);
  buffer_release(&text);
  find_features(self, agent);
}

/* The command that starts an agent for the job; to be released. */
static struct buffer start_agent(const struct doctor *self) {
  struct buffer fix = {0};
  buffer_add_string(&fix, "agent --redis-url URL --job-id ");
  doctor_add_word(&fix, self->program->job);
  buffer_add(&fix, "", 1);
  return fix;
}

/* The next one answers what was taken, and runs what waits. */
static void find_no_agent(struct doctor *self) {
  const struct keys *keys = &self->program->keys;
  int64_t waiting = 0, taken = 0;
  char *started = NULL;
  (void)doctor_ask(self, WORDS("LLEN", keys->in), reply_to_number, &waiting);
  (void)doctor_ask(self, WORDS("LLEN", keys->inflight), reply_to_number, &taken);
  (void)doctor_ask(self, WORDS("GET", keys->started), reply_to_text, &started);
  if (self->is_gone) {
    free(started);
    return;
  }
  struct buffer fix = start_agent(self);
  if (taken > 0)
    doctor_find(self, FINDING_PROBLEM, fix.bytes,
                "no agent: no heartbeat, and %s step%s taken and not answered%s",
                figure_count(taken).text, taken == 1 ? " was" : "s were",
                started != NULL ? "; the next agent will answer one of them as interrupted" : "");
  else if (waiting > 0)
    doctor_find(self, FINDING_PROBLEM, fix.bytes, "no agent: no heartbeat, and %s step%s",
                figure_count(waiting).text, waiting == 1 ? " waits" : "s wait");
  else
    doctor_find(self, FINDING_WARNING, fix.bytes, "no agent: no heartbeat, and no step waits");
  buffer_release(&fix);
  free(started);
}

/* The heartbeat must be the same before and after its age. */
static bool look_at_agent(struct doctor *self, int64_t redis_ms) {
  struct program *program = self->program;
  struct job_agent agent;
  struct error error;
  int64_t before_ms = beat_age_ms(self), age_ms = -1;
  for (int i = 0; i < 3; i++) {
    if (self->is_gone)
      return false;
    if (job_read_agent(program, program->keys.heartbeat, &agent, &error) != 0)
      return false; /* of a wrong type, or without the right to: other findings */
    age_ms = beat_age_ms(self);
    if (age_ms >= before_ms || i == 2)
      break;
    before_ms = age_ms;
    job_agent_release(&agent);
  }
  const bool is_alive = agent.is_alive;
  if (!self->is_gone && is_alive)
    find_alive(self, &agent, age_ms, redis_ms);
  else if (!self->is_gone)
    find_no_agent(self);
  job_agent_release(&agent);
  return is_alive;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* Returns whether the key is of its type, or not there. */
static bool check_type(struct doctor *self, const struct job_key *key, bool *is_there) {
  struct buffer fix = {0};
  char *type = NULL;
  *is_there = false;
  if (!doctor_learn(self, WORDS("TYPE", key->name), reply_to_text, &type) || type == NULL)
    return true;
  *is_there = strcmp(type, "none") != 0;
  const bool is_right = !*is_there || strcmp(type, key->type) == 0;
  if (!is_right) {
    buffer_add_string(&fix, "RENAME ");
    doctor_add_word(&fix, key->name);
    buffer_add_string(&fix, " ");
    doctor_add_word(&fix, key->name);
    buffer_add(&fix, ":wrong, or DEL it", sizeof ":wrong, or DEL it");
    doctor_find(self, FINDING_PROBLEM, fix.bytes, "%s is a %s, not a %s", key->name, type,
                key->type);
  }
  buffer_release(&fix);
  free(type);
  return is_right;
}

static void find_times(struct doctor *self, int64_t shortest, bool has_agent) {
  struct buffer fix = start_agent(self);
  if (shortest >= 0 && shortest < TTL_SHORT && !has_agent)
    doctor_find(self, FINDING_WARNING, fix.bytes,
                "keys have the right types; TTL %s, and no agent refreshes it",
                figure_duration(shortest).text);
  else if (shortest >= 0)
    doctor_find(self, FINDING_OK, NULL, "keys have the right types; TTL %s",
                figure_duration(shortest).text);
  else
    doctor_find(self, FINDING_OK, NULL, "keys have the right types; no TTL");
  buffer_release(&fix);
}

/* The heartbeat's time is another one, and `committed` stays for an hour where all else is gone. */
static void look_at_keys(struct doctor *self, bool has_agent) {
  struct job_key list[7];
  bool are_right = true, is_there, is_any = false;
  int64_t shortest = -1;
  list_keys(&self->program->keys, list);
  for (size_t i = 0; i < 7 && !self->is_gone; i++) {
    int64_t left = -1;
    are_right = check_type(self, &list[i], &is_there) && are_right;
    is_any |= is_there;
    if (i >= 5 || !is_there ||
        !doctor_learn(self, WORDS("TTL", list[i].name), reply_to_number, &left))
      continue;
    if (left >= 0 && (shortest < 0 || left < shortest))
      shortest = left;
  }
  if (are_right && is_any && !self->is_gone)
    find_times(self, shortest, has_agent);
}

/* --- results and events ----------------------------------------------------------------------- */

static void look_at_results(struct doctor *self) {
  const char *key = self->program->keys.results;
  struct buffer fix = {0};
  int64_t count = 0;
  if (doctor_ask(self, WORDS("LLEN", key), reply_to_number, &count) != ANSWER_GIVEN)
    return;
  buffer_add_string(&fix, "LRANGE ");
  doctor_add_word(&fix, key);
  buffer_add(&fix, " -3 -1 shows the oldest", sizeof " -3 -1 shows the oldest");
  if (count > RESULTS_MANY)
    doctor_find(self, FINDING_WARNING, fix.bytes,
                "%s results wait in %s: does the server read them?", figure_count(count).text, key);
  else
    doctor_find(self, FINDING_OK, NULL, "results: %s wait%s", figure_count(count).text,
                count == 1 ? "s" : "");
  buffer_release(&fix);
}

/* The time in the id of the stream's oldest entry; -1: it has none. */
static void take_oldest(void *ms, const redisReply *reply) {
  const redisReply *stream =
      reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 ? reply->element[0] : NULL;
  const redisReply *entries = stream != NULL && stream->elements == 2 ? stream->element[1] : NULL;
  if (entries != NULL && entries->type == REDIS_REPLY_ARRAY && entries->elements > 0 &&
      entries->element[0]->elements > 0 && entries->element[0]->element[0]->str != NULL)
    *(int64_t *)ms = strtoll(entries->element[0]->element[0]->str, NULL, 10);
}

static void look_at_events(struct doctor *self, int64_t redis_ms) {
  const char *key = self->program->keys.events;
  int64_t count = 0, oldest_ms = -1;
  if (!doctor_learn(self, WORDS("XLEN", key), reply_to_number, &count))
    return;
  if (count > 0)
    (void)doctor_ask(self, WORDS("XREAD", "COUNT", "1", "STREAMS", key, "0-0"), take_oldest,
                     &oldest_ms);
  if (self->is_gone)
    return;
  if (count == 0 || oldest_ms < 0 || redis_ms < 0) {
    doctor_find(self, FINDING_OK, NULL, "events: %s", figure_count(count).text);
    return;
  }
  const int64_t age_ms = redis_ms - oldest_ms;
  const struct figure age = figure_duration(age_ms / 1000);
  if (count >= EVENTS_NEAR && age_ms < EVENTS_AGE_MS)
    doctor_find(self, FINDING_WARNING, "agent --events-maxlen N, or --events-pace N",
                "events: %s of %s, oldest %s: readers slower than that miss lines",
                figure_count(count).text, figure_count(EVENTS_MAX).text, age.text);
  else
    doctor_find(self, FINDING_OK, NULL, "events: %s, oldest %s", figure_count(count).text,
                age.text);
}

bool doctor_look_at_job(struct doctor *self) {
  const int64_t redis_ms = doctor_redis_ms(self);
  const bool has_agent = look_at_agent(self, redis_ms);
  look_at_keys(self, has_agent);
  if (!self->is_gone)
    look_at_results(self);
  if (!self->is_gone)
    look_at_events(self, redis_ms);
  return has_agent;
}
