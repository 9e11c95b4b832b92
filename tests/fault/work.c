#include "tests/fault/work.h"

#include "tests/support/encoded.h"
#include "tests/test.h"

static const char content[] = "what is read\n";

/* A line of a chunk. Memory pages end with a line, and so does a write that was interrupted. */
#define CHUNK_LINE "%07zu\n"
enum { CHUNK_LINE_LENGTH = 8 };

void work_init(struct work *self, struct job *job, const char *directory) {
  *self = (struct work){.job = job};
  snprintf(self->runs, sizeof self->runs, "%s/runs", directory);
  snprintf(self->file, sizeof self->file, "%s/file", directory);
  snprintf(self->chunks, sizeof self->chunks, "%s/chunks", directory);
  FILE *file = fopen(self->file, "we");
  assert_non_null(file);
  assert_true(fputs(content, file) >= 0 && fclose(file) == 0);
}

static void push_control(struct work *self, const char *text) {
  freeReplyObject(
      redisCommand(self->job->redis, "LPUSH sandbox:%s:control %s", self->job->id, text));
}

/* With each step, an invalid control message and two cancels of an unknown step are pushed. */
static void push(struct work *self, const cJSON *json) {
  struct work_step *step = &self->steps[self->count++];
  snprintf(step->id, sizeof step->id, "%s", job_text(json, "stepId"));
  job_push(self->job, json);
  push_control(self, "garbage");
  for (int i = 0; i < 2; i++)
    push_control(self, "{\"kind\":\"cancel\",\"stepId\":\"nobody\"}");
}

void work_push_cancelled(struct work *self) {
  struct work_step *step = work_push_script(self, 2, "", 0, "seq 1 2; sleep 5");
  const char *text = job_format(self->job, "{\"kind\":\"cancel\",\"stepId\":\"%s\"}", step->id);
  step->may_be_cancelled = true;
  for (int i = 0; i < 2; i++)
    push_control(self, text);
}

struct work_step *work_push_script(struct work *self, long lines, const char *filler, int exit_code,
                                   const char *script) {
  static const char to_stderr[] = "exec >&2;";
  assert_true(self->count < WORK_STEPS_MAX);
  struct work_step *step = &self->steps[self->count];
  *step = (struct work_step){.exit_code = exit_code, .lines = lines, .filler = filler};
  bool on_stderr = strncmp(script, to_stderr, sizeof to_stderr - 1) == 0;
  step->stream = on_stderr ? "stderr" : "stdout";
  const cJSON *json = job_script(self->job, job_format(self->job, "echo %zu >>'%s'; %s; exit %d",
                                                       self->count, self->runs, script, exit_code));
  push(self, json);
  return step;
}

static cJSON *file_step(struct work *self, const char *kind, const char *path) {
  cJSON *json = job_step(self->job, "", NULL);
  cJSON_DeleteItemFromObject(json, "command");
  cJSON_ReplaceItemInObject(json, "kind", cJSON_CreateString(kind));
  cJSON_AddStringToObject(json, "path", path);
  return json;
}

struct work_step *work_push_read(struct work *self) {
  assert_true(self->count < WORK_STEPS_MAX);
  struct work_step *step = &self->steps[self->count];
  *step = (struct work_step){.stream = "stdout", .filler = "", .content = content};
  push(self, file_step(self, "readFile", self->file));
  return step;
}

struct work_step *work_push_chunk(struct work *self, long lines) {
  assert_true(self->count < WORK_STEPS_MAX);
  struct work_step *step = &self->steps[self->count];
  *step = (struct work_step){.stream = "stdout", .filler = "", .chunk_lines = lines};
  size_t length = (size_t)lines * CHUNK_LINE_LENGTH;
  char *chunk = malloc(length + 1);
  assert_non_null(chunk);
  for (size_t at = 0; at < length; at += CHUNK_LINE_LENGTH)
    snprintf(chunk + at, CHUNK_LINE_LENGTH + 1, CHUNK_LINE, self->count);
  char *base64 = encoded(chunk, length);
  cJSON *json = file_step(self, "writeBytes", self->chunks);
  cJSON_AddStringToObject(json, "content", base64);
  cJSON_AddTrueToObject(json, "append");
  push(self, json);
  free(base64);
  free(chunk);
  return step;
}

long work_find_chunks(const struct work *self, struct work_chunk chunks[WORK_STEPS_MAX]) {
  char line[CHUNK_LINE_LENGTH + 1], expected[32];
  size_t length, before = WORK_STEPS_MAX, highest = 0;
  long foreign = 0;
  memset(chunks, 0, WORK_STEPS_MAX * sizeof *chunks);
  FILE *file = fopen(self->chunks, "re");
  while (file != NULL && (length = fread(line, 1, CHUNK_LINE_LENGTH, file)) > 0) {
    line[length] = '\0';
    size_t place = strtoul(line, NULL, 10);
    snprintf(expected, sizeof expected, CHUNK_LINE, place);
    if (strcmp(line, expected) != 0 || place >= self->count) {
      foreign += (long)length;
      continue;
    }
    chunks[place].lines++;
    chunks[place].pieces += place != before;
    chunks[place].is_late |= place < highest;
    highest = place > highest ? place : highest;
    before = place;
  }
  if (file != NULL)
    fclose(file);
  return foreign;
}

struct work_step *work_push_lines(struct work *self, long lines, int exit_code) {
  return work_push_script(self, lines, "", exit_code, job_format(self->job, "seq 1 %ld", lines));
}

void work_count_runs(const struct work *self, long runs[WORK_STEPS_MAX]) {
  memset(runs, 0, WORK_STEPS_MAX * sizeof *runs);
  FILE *file = fopen(self->runs, "re");
  unsigned place;
  while (file != NULL && fscanf(file, "%u", &place) == 1) {
    if (place < WORK_STEPS_MAX)
      runs[place]++;
  }
  if (file != NULL)
    fclose(file);
}

struct sought {
  struct job *job;
  long long entries;
};

static long long count_events(struct job *job) {
  redisReply *reply = redisCommand(job->redis, "XLEN sandbox:%s:events", job->id);
  if (reply == NULL)
    job_fail(job, "XLEN: %s", job->redis->errstr);
  long long entries = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
  freeReplyObject(reply);
  return entries;
}

static bool count_more(void *context) {
  struct sought *sought = context;
  long long before = sought->entries;
  sought->entries = count_events(sought->job);
  return sought->entries > before;
}

void work_wait_events(const struct work *self, long long entries) {
  struct sought sought = {self->job, count_events(self->job)};
  while (sought.entries < entries)
    if (!wait_until(count_more, &sought, WAIT_BOUND_MS))
      job_fail(self->job, "never %lld events", entries);
}
