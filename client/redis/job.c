#include "client/redis/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/memory.h"
#include "client/redis/json_field.h"
#include "wire/json.h"

#define PREFIX "sandbox:"
#define SUFFIX ":heartbeat"
static const char any_heartbeat[] = PREFIX "*" SUFFIX;

/* Keys per SCAN, and the most SCANs: 65 million keys. */
#define SCAN_COUNT "4000"
#define SCANS_MAX 16384

/* The most memory for the ids of jobs, or for the elements of a list. */
#define BYTES_MAX ((size_t)1024 * 1024 * 1024)

/* An agent that was just started has a heartbeat after this time. */
#define START_MS 2000

/* Returns false when the time is over. */
static bool wait_for_start(struct program *program, int64_t end_ms) {
  pipeline_turn(program->redis);
  return clock_monotonic_ms() < end_ms;
}

/* --- which job -------------------------------------------------------------------------------- */

struct job_scan {
  char cursor[32];
  struct texts found;
};

/* Turns the keys into job ids. */
static void on_scan(void *context, const redisReply *reply) {
  struct job_scan *self = context;
  const size_t around = sizeof PREFIX - 1 + sizeof SUFFIX - 1;
  struct texts keys = {0}, ids = {0};
  self->cursor[0] = '\0';
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2)
    return;
  (void)snprintf(self->cursor, sizeof self->cursor, "%s", reply_text(reply->element[0]));
  reply_to_texts(&keys, reply->element[1]);
  ids.texts = memory_zeros((keys.count + 1) * sizeof *ids.texts);
  for (size_t i = 0; i < keys.count; i++) {
    const size_t length = strlen(keys.texts[i]);
    if (length <= around)
      continue;
    ids.texts[ids.count++] = memory_copy(keys.texts[i] + sizeof PREFIX - 1, length - around);
    ids.bytes += length;
  }
  texts_release(&keys);
  texts_append(&self->found, &ids);
}

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* SCAN may return a key twice. */
static void sort_and_deduplicate(struct texts *self) {
  size_t kept = 0;
  if (self->count > 0)
    qsort(self->texts, self->count, sizeof *self->texts, compare_texts);
  for (size_t i = 0; i < self->count; i++) {
    if (kept > 0 && strcmp(self->texts[kept - 1], self->texts[i]) == 0)
      free(self->texts[i]);
    else
      self->texts[kept++] = self->texts[i];
  }
  self->count = kept;
}

int job_list(struct program *program, struct texts *ids, struct error *error) {
  struct pipeline_pages pages = {.redis = program->redis, .max = SCANS_MAX};
  struct job_scan scan = {.cursor = "0"};
  int result;
  do {
    result = pipeline_next_page(
        &pages, WORDS("SCAN", scan.cursor, "MATCH", any_heartbeat, "COUNT", SCAN_COUNT), on_scan,
        &scan, error);
    if (result == 0 && scan.found.bytes > BYTES_MAX)
      result = error_set(error, "redis has more jobs than this program can list");
  } while (result == 0 && scan.cursor[0] != '\0' && strcmp(scan.cursor, "0") != 0);
  if (result != 0) {
    texts_release(&scan.found);
    return -1;
  }
  sort_and_deduplicate(&scan.found);
  *ids = scan.found;
  return 0;
}

/* Finds the only job that is alive. */
static int find_job(struct program *program, struct error *error) {
  struct texts ids = {0};
  int result;
  const int64_t end_ms = clock_monotonic_ms() + START_MS;
  do {
    texts_release(&ids);
    result = job_list(program, &ids, error);
  } while (result == 0 && ids.count == 0 && wait_for_start(program, end_ms));
  if (result == 0 && ids.count == 0)
    result = error_set(error, "no job is alive: pass -j JOB, or set JOB_ID");
  else if (result == 0 && ids.count > 1)
    result =
        error_set(error, "%zu jobs are alive (sandbox jobs lists them): pass -j JOB", ids.count);
  else if (result == 0)
    program->job = program->found_job = memory_copy(ids.texts[0], strlen(ids.texts[0]));
  texts_release(&ids);
  return result;
}

int job_choose(struct program *program, struct error *error) {
  if (program->job == NULL && find_job(program, error) != 0)
    return -1;
  keys_init(&program->keys, program->job);
  program->has_keys = true;
  return 0;
}

/* --- its agent -------------------------------------------------------------------------------- */

int job_read_agent(struct program *program, const char *heartbeat_key, struct job_agent *agent,
                   struct error *error) {
  char *text = NULL;
  struct error ignored;
  *agent = (struct job_agent){0};
  if (pipeline_call(program->redis, WORDS("GET", heartbeat_key), reply_to_text, &text, error) != 0)
    return -1;
  agent->is_alive = text != NULL;
  agent->heartbeat = text != NULL ? json_tree_parse(text, strlen(text), &ignored) : NULL;
  free(text);
  const double pid = json_field_number(agent->heartbeat, "Pid", 0);
  const double ms = json_field_number(agent->heartbeat, "Ts", 0);
  agent->pid = pid > 0 && pid <= INT32_MAX ? (int)pid : 0;
  agent->age_ms = clock_unix_ms() - (ms > 0 && ms <= JSON_EXACT_MAX ? (int64_t)ms : 0);
  agent->version =
      cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(agent->heartbeat, "Version"));
  return 0;
}

void job_agent_release(struct job_agent *self) {
  cJSON_Delete(self->heartbeat);
  *self = (struct job_agent){0};
}

bool job_agent_can(const struct job_agent *self, const char *feature) {
  const cJSON *list = cJSON_GetObjectItemCaseSensitive(self->heartbeat, "Features");
  for (const cJSON *item = list != NULL ? list->child : NULL; item != NULL; item = item->next)
    if (cJSON_IsString(item) && strcmp(item->valuestring, feature) == 0)
      return true;
  return false;
}

const char *job_agent_version(const struct job_agent *self) {
  return self->version != NULL ? self->version : "0.1.0 or older";
}

int job_is_alive(struct program *program, bool *is_alive, struct error *error) {
  char *heartbeat = NULL;
  int result = pipeline_call(program->redis, WORDS("GET", program->keys.heartbeat), reply_to_text,
                             &heartbeat, error);
  *is_alive = heartbeat != NULL;
  free(heartbeat);
  return result;
}

int job_await_agent(struct program *program, bool *is_alive, struct error *error) {
  const int64_t end_ms = clock_monotonic_ms() + START_MS;
  int result;
  do
    result = job_is_alive(program, is_alive, error);
  while (result == 0 && !*is_alive && wait_for_start(program, end_ms));
  return result;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* The most elements of one reply, and the most replies of one list: 2 million elements. */
#define PAGE 500
#define PAGES_MAX 4096

struct page {
  struct pipeline *redis;
  struct texts texts;
  bool is_truncated;
  size_t length; /* places of the list; 0: the page is to be read again, with a smaller size */
};

static void on_page(void *context, const redisReply *reply) {
  struct page *self = context;
  self->is_truncated = pipeline_is_truncated(self->redis);
  reply_to_texts(&self->texts, reply);
}

/* Reads `*size` elements from `at` on, which counts from the tail if it is negative. If they are
   too large for a reply, the page is empty and the size becomes smaller; otherwise it becomes
   larger, up to PAGE. */
static int read_page(struct pipeline_pages *pages, const char *key, long at, size_t *size,
                     struct page *page, struct error *error) {
  char first[24], last[24];
  *page = (struct page){.redis = pages->redis};
  (void)snprintf(first, sizeof first, "%ld", at);
  (void)snprintf(last, sizeof last, "%ld", at + (long)*size - 1);
  if (pipeline_next_page(pages, WORDS("LRANGE", key, first, last), on_page, page, error) != 0)
    return -1;
  if (page->is_truncated && *size > 1) {
    texts_release(&page->texts);
    *size = *size / 4 > 0 ? *size / 4 : 1;
    return 0;
  }
  page->length = *size;
  *size = *size * 4 < PAGE ? *size * 4 : PAGE;
  return 0;
}

static bool is_last(const struct page *page) {
  return !page->is_truncated && page->texts.count < page->length;
}

/* Reads a list from its head on. Between two pages others push at the head and take at the tail.
   Then an element is read twice, but no element that stays is left out. */
static int read_list(struct program *program, const char *key, struct texts *list,
                     struct error *error) {
  struct pipeline_pages pages = {.redis = program->redis, .max = PAGES_MAX};
  size_t size = PAGE;
  long at = 0;
  for (bool is_over = false; !is_over;) {
    struct page page;
    if (read_page(&pages, key, at, &size, &page, error) != 0)
      return -1;
    is_over = is_last(&page);
    at += (long)page.length;
    texts_append(list, &page.texts);
    if (list->bytes > BYTES_MAX)
      return error_set(error, "%.100s is larger than this program can read", key);
  }
  return 0;
}

/* --- all steps -------------------------------------------------------------------------------- */

static char *copy_or(const cJSON *object, const char *name, const char *fallback) {
  char *text = json_field_copy(object, name);
  return text != NULL ? text : memory_copy(fallback, strlen(fallback));
}

static void release_step(struct job_step *self) {
  free(self->id);
  free(self->kind);
  free(self->target);
  *self = (struct job_step){0};
}

static void add_step(struct job_steps *self, const char *json, const char *running) {
  struct error ignored;
  cJSON *tree = json_tree_parse(json, strlen(json), &ignored);
  char *target = json_field_copy(tree, "command");
  target = target != NULL ? target : json_field_copy(tree, "path");
  struct job_step *step = &self->list[self->count++];
  *step = (struct job_step){.id = copy_or(tree, "stepId", "?"),
                            .kind = copy_or(tree, "kind", tree != NULL ? "run" : "?"),
                            .target = target != NULL ? target : copy_or(tree, "pattern", ""),
                            .short_length = 4};
  step->is_running = running != NULL && strcmp(running, step->id) == 0;
  cJSON_Delete(tree);
}

static int compare_ids(const void *left, const void *right) {
  const struct job_step *a = *(struct job_step *const *)left;
  const struct job_step *b = *(struct job_step *const *)right;
  const int order = strcasecmp(a->id, b->id);
  return order != 0 ? order : (a > b) - (a < b);
}

static void lengthen_short_id(struct job_step *self, const struct job_step *other) {
  while (self->short_length < strlen(self->id) &&
         strncasecmp(self->id, other->id, self->short_length) == 0)
    self->short_length++;
}

/* Keeps the first step of each id, and makes the short ids unique. The id that has the most in
   common with another one is its neighbor in sorted order. */
static void deduplicate_steps(struct job_steps *self) {
  struct job_step **sorted = memory_allocate((self->count + 1) * sizeof *sorted), *last = NULL;
  for (size_t i = 0; i < self->count; i++)
    sorted[i] = &self->list[i];
  qsort(sorted, self->count, sizeof *sorted, compare_ids);
  for (size_t i = 0; i < self->count; i++) {
    struct job_step *step = sorted[i];
    if (last != NULL && strcmp(step->id, "?") != 0 && strcasecmp(last->id, step->id) == 0) {
      release_step(step);
      continue;
    }
    if (last != NULL) {
      lengthen_short_id(last, step);
      lengthen_short_id(step, last);
    }
    last = step;
  }
  free(sorted);
  size_t kept = 0;
  for (size_t i = 0; i < self->count; i++)
    if (self->list[i].id != NULL)
      self->list[kept++] = self->list[i];
  self->count = kept;
}

/* Reads `in` before `inflight`: a step that moves meanwhile is in both then, and not in neither.
   The oldest step is at the tail of each list. */
int job_read_steps(struct program *program, struct job_steps *steps, struct error *error) {
  struct texts in = {0}, inflight = {0};
  char *running = NULL;
  const struct keys *keys = &program->keys;
  *steps = (struct job_steps){0};
  int result = read_list(program, keys->in, &in, error);
  if (result == 0)
    result = read_list(program, keys->inflight, &inflight, error);
  if (result == 0)
    result =
        pipeline_call(program->redis, WORDS("GET", keys->started), reply_to_text, &running, error);
  steps->list = memory_allocate((in.count + inflight.count + 1) * sizeof *steps->list);
  for (size_t i = inflight.count; i > 0; i--)
    add_step(steps, inflight.texts[i - 1], running);
  for (size_t i = in.count; i > 0; i--)
    add_step(steps, in.texts[i - 1], running);
  deduplicate_steps(steps);
  texts_release(&in);
  texts_release(&inflight);
  free(running);
  if (result != 0)
    job_steps_release(steps);
  return result;
}

void job_steps_release(struct job_steps *self) {
  for (size_t i = 0; i < self->count; i++)
    release_step(&self->list[i]);
  free(self->list);
  *self = (struct job_steps){0};
}

struct job_short_id job_shorten(const char *id) {
  struct job_short_id result;
  (void)snprintf(result.text, sizeof result.text, "%.4s", id);
  return result;
}

struct job_short_id job_shorten_step(const struct job_step *step) {
  struct job_short_id result;
  (void)snprintf(result.text, sizeof result.text, "%.*s", (int)step->short_length, step->id);
  return result;
}

/* --- one step --------------------------------------------------------------------------------- */

static bool is_of_step(const char *json, const char *id) {
  struct json_member step;
  const size_t length = strlen(id);
  return json_member_find(json, strlen(json), "stepId", &step) && step.length == length + 2 &&
         strncasecmp(step.text + 1, id, length) == 0;
}

/* The first page is small, because other steps may be large. */
#define FIND_PAGE_MIN 4

/* Searches from `*place` on towards the tail, or from the head if it is 0. */
static int find_place(struct program *program, const char *key, const char *id, size_t *place,
                      struct error *error) {
  struct pipeline_pages pages = {.redis = program->redis, .max = PAGES_MAX};
  size_t size = FIND_PAGE_MIN, at = *place;
  int64_t length = 0;
  if (at == 0 &&
      pipeline_call(program->redis, WORDS("LLEN", key), reply_to_number, &length, error) != 0)
    return -1;
  at = at > 0 ? at : (size_t)(length > 0 ? length : 0);
  *place = 0;
  while (at > 0 && *place == 0) {
    struct page page;
    size = at < size ? at : size;
    if (read_page(&pages, key, -(long)at, &size, &page, error) != 0)
      return -1;
    at -= page.length;
    for (size_t i = 0; i < page.texts.count; i++)
      if (is_of_step(page.texts.texts[i], id))
        *place = at + page.texts.count - i;
    texts_release(&page.texts);
  }
  return 0;
}

/* `in` comes first, as in job_read_steps. */
static int find_in_lists(struct program *program, const char *id, struct job_place *place,
                         struct error *error) {
  const struct keys *keys = &program->keys;
  if (place->inflight == 0 && find_place(program, keys->in, id, &place->in, error) != 0)
    return -1;
  return place->in > 0 ? 0 : find_place(program, keys->inflight, id, &place->inflight, error);
}

int job_find_step(struct program *program, const char *id, struct job_place *place, size_t *before,
                  bool *is_found, struct error *error) {
  const bool was_known = place->in + place->inflight > 0;
  int64_t others = 0;
  int result = find_in_lists(program, id, place, error);
  /* If Redis went back to older data, the step may be farther from the tail than before. */
  if (result == 0 && was_known && place->in + place->inflight == 0)
    result = find_in_lists(program, id, place, error);
  *is_found = result == 0 && place->in + place->inflight > 0;
  if (*is_found && place->in > 0)
    result = pipeline_call(program->redis, WORDS("LLEN", program->keys.inflight), reply_to_number,
                           &others, error);
  if (*is_found)
    *before = place->in + place->inflight - 1 + (size_t)(others > 0 ? others : 0);
  return result;
}

bool job_is_running(struct program *program, const char *id) {
  char *running = NULL;
  struct error ignored;
  const bool is_running = pipeline_call(program->redis, WORDS("GET", program->keys.started),
                                        reply_to_text, &running, &ignored) == 0 &&
                          running != NULL && strcmp(running, id) == 0;
  free(running);
  return is_running;
}

/* --- pushing, and the result ------------------------------------------------------------------ */

struct push {
  enum { PUSH_SENT, PUSH_LOST, PUSH_DONE, PUSH_REFUSED } state;
  struct error *error;
};

static void on_push(void *context, const redisReply *reply) {
  struct push *self = context;
  self->state = reply == NULL                        ? PUSH_LOST
                : reply->type == REDIS_REPLY_INTEGER ? PUSH_DONE
                                                     : PUSH_REFUSED;
  if (self->state == PUSH_REFUSED)
    (void)error_set(self->error, "%s", reply->str != NULL ? reply->str : "redis refuses the step");
}

/* Sets whether Redis has the step, or its result. */
static int find_pushed(struct program *program, const char *id, bool *found, struct error *error) {
  struct job_place place = {0};
  size_t before;
  struct texts results = {0};
  int result = job_find_step(program, id, &place, &before, found, error);
  if (result == 0 && !*found)
    result = read_list(program, program->keys.results, &results, error);
  for (size_t i = 0; i < results.count; i++)
    *found |= strstr(results.texts[i], id) != NULL;
  texts_release(&results);
  return result;
}

int job_push(struct program *program, const char *id, const char *json, struct error *error) {
  for (int64_t lost_ms = 0;;) {
    struct push push = {.error = error};
    const int64_t begin_ms = clock_monotonic_ms();
    pipeline_send(program->redis, WORDS("LPUSH", program->keys.in, json), on_push, &push);
    while (push.state == PUSH_SENT && pipeline_away_ms(program->redis) <= PIPELINE_TIMEOUT_MS &&
           !pipeline_is_stopped(program->redis, begin_ms))
      pipeline_turn(program->redis);
    if (push.state == PUSH_SENT) {
      pipeline_discard(program->redis);
      (void)error_set(error, "redis does not answer; %.36s may still run", id);
    }
    if (push.state != PUSH_LOST)
      return push.state == PUSH_DONE ? 0 : -1;
    bool found;
    if (find_pushed(program, id, &found, error) != 0) {
      const struct error why = *error;
      return error_set(error, "%s; %.36s may still run", why.text, id);
    }
    if (found)
      return 0;
    if (lost_ms == 0)
      lost_ms = clock_monotonic_ms();
    if (clock_monotonic_ms() - lost_ms > PIPELINE_TIMEOUT_MS) {
      pipeline_connection_error(program->redis, error);
      return -1;
    }
  }
}

/* The newest results are at the head, and this one is among them: small pages are enough. */
#define RESULTS_PAGE 32

static int find_result(struct program *program, const char *id, char **result,
                       struct error *error) {
  struct pipeline_pages pages = {.redis = program->redis, .max = PAGES_MAX};
  size_t size = RESULTS_PAGE;
  long at = 0;
  *result = NULL;
  for (bool is_over = false; !is_over && *result == NULL;) {
    struct page page;
    if (read_page(&pages, program->keys.results, at, &size, &page, error) != 0)
      return -1;
    for (size_t i = 0; i < page.texts.count && *result == NULL; i++)
      if (is_of_step(page.texts.texts[i], id))
        *result = memory_copy(page.texts.texts[i], strlen(page.texts.texts[i]));
    is_over = is_last(&page);
    at += (long)page.length;
    texts_release(&page.texts);
  }
  return 0;
}

int job_take_result(struct program *program, const char *id, char **result, struct error *error) {
  if (find_result(program, id, result, error) != 0)
    return -1;
  if (*result != NULL)
    pipeline_send(program->redis, WORDS("LREM", program->keys.results, "1", *result), NULL, NULL);
  return 0;
}
