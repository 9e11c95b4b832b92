/* Steps with flow control and replyTo, whose reader comes and goes, while connections and agents
   are killed. Every event is read, unless the reader was away for so long that it counts as gone,
   and every result is in its own list. */

#include "tests/fault/family.h"
#include "tests/test.h"

#define STEPS 6
#define LINES 2000
#define BOUND_MS 120000

/* A small part of a step's output, so that a slow reader would miss most of it. */
#define MAXLEN "100"

/* The longest pause of the reader, and the longest life of an agent. An agent trims nothing in its
   first 10 s, so most agents live longer. */
#define PAUSE_MS 600
#define LIFE_MS 20000
#define KILL_MS 100

/* Longer than the 10 s after which a reader is gone. */
#define AWAY_MS 13000

struct flow_step {
  char id[64];
  long seq; /* of the last event that was read */
  long results;
};

struct flow_reader {
  struct trial *trial;
  struct flow_step steps[STEPS];
  char cursor[64]; /* the last entry that was read */
  int64_t pause_until_ms, kill_ms, life_ms;
  enum { READS, WILL_BE_AWAY, WAS_AWAY } presence;
};

static void push_steps(struct flow_reader *self) {
  struct job *job = self->trial->job;
  for (size_t i = 0; i < STEPS; i++) {
    cJSON *json = job_script(job, job_format(job, "seq 1 %d; exit %zu", LINES, i));
    cJSON_AddTrueToObject(json, "flowControl");
    cJSON_AddStringToObject(json, "replyTo", i % 2 == 0 ? "even" : "odd");
    snprintf(self->steps[i].id, sizeof self->steps[i].id, "%s", job_text(json, "stepId"));
    job_push(job, json);
  }
}

static struct flow_step *find_step(struct flow_reader *self, const cJSON *json) {
  const char *id = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "stepId"));
  for (size_t i = 0; i < STEPS; i++)
    if (id != NULL && strcmp(self->steps[i].id, id) == 0)
      return &self->steps[i];
  tally_find(self->trial->tally, TALLY_WRONG, 1, "a step that nobody pushed: %.60s",
             id != NULL ? id : "none");
  return NULL;
}

/* What was trimmed while the reader was away is not lost. */
static void find_lost(struct flow_reader *self, long missing, const struct flow_step *step,
                      double before) {
  if (self->presence != WAS_AWAY)
    tally_find(self->trial->tally, TALLY_LOST, missing, "step %td: %ld events before event %.0f",
               step - self->steps, missing, before);
}

static struct flow_step *take_event(struct flow_reader *self, const redisReply *entry) {
  cJSON *json = cJSON_Parse(entry->element[1]->element[1]->str);
  struct flow_step *step = find_step(self, json);
  const cJSON *seq = cJSON_GetObjectItemCaseSensitive(json, "seq");
  if (step != NULL && cJSON_IsNumber(seq)) {
    long missing = (long)seq->valuedouble - step->seq - 1;
    find_lost(self, missing > 0 ? missing : 0, step, seq->valuedouble);
    tally_find(self->trial->tally, TALLY_DOUBLED, missing < 0, "step %td: event %.0f again",
               step - self->steps, seq->valuedouble);
    step->seq = (long)seq->valuedouble;
  }
  cJSON_Delete(json);
  return step;
}

/* Returns false if there was nothing to read. */
static bool read_page(struct flow_reader *self) {
  struct job *job = self->trial->job;
  redisReply *page = redisCommand(job->redis, "XRANGE sandbox:%s:events (%s + COUNT %d", job->id,
                                  self->cursor, 20 + (int)trial_random(self->trial, 100));
  struct flow_step *step = NULL;
  assert_true(page != NULL && page->type == REDIS_REPLY_ARRAY);
  for (size_t i = 0; i < page->elements; i++) {
    struct flow_step *of = take_event(self, page->element[i]);
    step = of != NULL ? of : step;
    snprintf(self->cursor, sizeof self->cursor, "%s", page->element[i]->element[0]->str);
  }
  freeReplyObject(page);
  if (step != NULL)
    trial_command(self->trial,
                  "LPUSH sandbox:%s:control {\"kind\":\"read\",\"stepId\":\"%s\",\"seq\":%ld}",
                  job->id, step->id, step->seq);
  return step != NULL;
}

static long count_results(const struct flow_reader *self) {
  const char *id = self->trial->job->id;
  return (long)(trial_command(self->trial, "LLEN sandbox:%s:results:even", id) +
                trial_command(self->trial, "LLEN sandbox:%s:results:odd", id));
}

static void break_something(struct flow_reader *self, int64_t now_ms) {
  struct trial *trial = self->trial;
  if (now_ms >= self->kill_ms) {
    self->kill_ms = now_ms + KILL_MS;
    trial->tally->cuts += (long)trial_command(trial, "CLIENT KILL TYPE normal SKIPME yes");
  }
  if (now_ms < self->life_ms)
    return;
  self->life_ms = now_ms + trial_random(trial, LIFE_MS);
  trial_kill_agent(trial);
  trial->tally->cuts++;
  trial_start_agent(trial);
}

static bool take_turn(void *context) {
  struct flow_reader *self = context;
  int64_t now_ms = wait_now_ms();
  bool is_answered = count_results(self) >= STEPS;
  if (!is_answered)
    break_something(self, now_ms);
  if (now_ms < self->pause_until_ms)
    return false;
  if (trial_random(self->trial, 10) == 0)
    self->pause_until_ms = now_ms + trial_random(self->trial, PAUSE_MS);
  if (self->presence == WILL_BE_AWAY && self->steps[0].seq > 0) {
    self->presence = WAS_AWAY;
    self->pause_until_ms = now_ms + AWAY_MS;
  }
  return !read_page(self) && is_answered;
}

static void check_list(struct flow_reader *self, const char *name, size_t parity) {
  struct trial *trial = self->trial;
  redisReply *list =
      redisCommand(trial->job->redis, "LRANGE sandbox:%s:%s 0 -1", trial->job->id, name);
  assert_true(list != NULL && list->type == REDIS_REPLY_ARRAY);
  for (size_t i = 0; i < list->elements; i++) {
    cJSON *json = cJSON_Parse(list->element[i]->str);
    struct flow_step *step = find_step(self, json);
    const cJSON *count = cJSON_GetObjectItemCaseSensitive(json, "eventCount");
    if (step != NULL && ++step->results > 1)
      tally_find(trial->tally, TALLY_DOUBLED, 1, "step %td: another result", step - self->steps);
    if (step != NULL && (size_t)(step - self->steps) % 2 != parity)
      tally_find(trial->tally, TALLY_WRONG, 1, "step %td: its result is in %s", step - self->steps,
                 name);
    if (step != NULL && cJSON_IsNumber(count))
      find_lost(self, (long)count->valuedouble - step->seq, step, count->valuedouble + 1);
    cJSON_Delete(json);
  }
  freeReplyObject(list);
}

void read_with_flow_control(struct trial *trial) {
  struct flow_reader self = {.trial = trial, .cursor = "0"};
  trial_open(trial, trial_start_server(trial, NULL));
  trial->events_maxlen = MAXLEN;
  if (trial_random(trial, 4) == 0)
    self.presence = WILL_BE_AWAY;
  push_steps(&self);
  trial_start_agent(trial);
  self.life_ms = wait_now_ms() + trial_random(trial, LIFE_MS);
  if (!wait_until(take_turn, &self, BOUND_MS))
    tally_find(trial->tally, TALLY_WRONG, 1, "a command or a result waits forever");
  check_list(&self, "results:even", 0);
  check_list(&self, "results:odd", 1);
  for (size_t i = 0; i < STEPS; i++)
    tally_find(trial->tally, TALLY_LOST, self.steps[i].results == 0, "step %zu: no result", i);
  tally_find(trial->tally, TALLY_WRONG,
             (long)trial_command(trial, "LLEN sandbox:%s:results", trial->job->id),
             "results of other steps");
  trial_command(trial, "DEL sandbox:%s:events", trial->job->id); /* these were checked */
  job_push_shutdown(trial->job);
  trial_finish(trial, BOUND_MS);
}
