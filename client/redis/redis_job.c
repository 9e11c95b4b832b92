#include "client/redis/redis_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "client/redis/event_stream.h"
#include "client/redis/json_field.h"
#include "client/screen/figure.h"
#include "wire/json.h"

#define PREFIX "sandbox:"
#define SUFFIX ":heartbeat"
static const char any_heartbeat[] = PREFIX "*" SUFFIX;

/* Keys per SCAN, and the most SCANs: 65 million keys. */
#define SCAN_COUNT "4000"
#define SCANS_MAX 16384

/* The most memory for the ids of jobs, or for the elements of a list. */
#define BYTES_MAX ((size_t)1024 * 1024 * 1024)

/* --- which job -------------------------------------------------------------------------------- */

struct job_scan {
  char cursor[32];
  struct texts found;
};

/* Turns the keys into job ids. */
static void on_scan(void *context, const struct reply *reply) {
  struct job_scan *self = context;
  const size_t around = sizeof PREFIX - 1 + sizeof SUFFIX - 1;
  self->cursor[0] = '\0';
  if (reply->type != REPLY_ARRAY || reply->elements != 2)
    return;
  (void)snprintf(self->cursor, sizeof self->cursor, "%s", reply_text(reply->element[0]));
  const struct reply *keys = reply->element[1];
  for (size_t i = 0; keys->type == REPLY_ARRAY && i < keys->elements; i++) {
    const char *key = reply_text(keys->element[i]);
    const size_t length = strlen(key);
    if (length > around)
      texts_add(&self->found, memory_copy(key + sizeof PREFIX - 1, length - around));
  }
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

int redis_job_list(struct program *program, struct texts *ids, struct error *error) {
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
  const int64_t end_ms = clock_monotonic_ms() + PROGRAM_START_MS;
  do {
    texts_release(&ids);
    result = redis_job_list(program, &ids, error);
  } while (result == 0 && ids.count == 0 && program_wait_for_start(program, end_ms));
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

int redis_job_choose(struct program *program, struct error *error) {
  if (program->job == NULL && find_job(program, error) != 0)
    return -1;
  keys_init(&program->keys, program->job);
  program->has_keys = true;
  return 0;
}

/* --- its agent -------------------------------------------------------------------------------- */

int redis_job_read_agent(struct program *program, const char *heartbeat_key,
                         struct job_agent *agent, struct error *error) {
  char *text;
  struct error ignored;
  *agent = (struct job_agent){0};
  if (pipeline_get(program->redis, heartbeat_key, &text, error) != 0)
    return -1;
  agent->is_alive = text != NULL;
  agent->heartbeat = text != NULL ? json_tree_parse(text, strlen(text), &ignored) : NULL;
  free(text);
  const double pid = json_field_number(agent->heartbeat, "Pid", 0);
  const double ms = json_field_number(agent->heartbeat, "Ts", 0);
  agent->pid = pid > 0 && pid <= INT32_MAX ? (int)pid : 0;
  agent->age_ms = clock_unix_ms() - (ms > 0 && ms <= JSON_EXACT_MAX ? (int64_t)ms : 0);
  agent->version = json_field_text(agent->heartbeat, "Version", NULL);
  return 0;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* The most bytes of a step's command with its arguments that are kept. */
#define TARGET_MAX 4096

/* The most elements of one page, and the most pages of one list: 2 million elements. */
#define PAGE 500
#define PAGES_MAX 4096

/* Visits the elements of a list from its head on. A page that does not fit into a reply is read
   again in smaller pieces. Between two pages others push at the head and take at the tail. Then an
   element is visited twice, but no element that stays is left out. */
struct list_reader {
  void *owner;
  /* Returns whether to go on. */
  bool (*visit)(void *owner, const char *element);
  size_t at, size; /* the next page */
  bool is_over;
};

static void on_page(void *context, const struct reply *reply) {
  struct list_reader *self = context;
  const size_t count = reply->type == REPLY_ARRAY ? reply->elements : 0;
  if (reply->is_truncated && self->size > 1) {
    self->size = self->size / 4 > 0 ? self->size / 4 : 1;
    return;
  }
  self->is_over = !reply->is_truncated && count < self->size;
  for (size_t i = 0; i < count; i++)
    if (!self->visit(self->owner, reply_text(reply->element[i])))
      self->is_over = true;
  self->at += self->size;
  self->size = self->size * 4 < PAGE ? self->size * 4 : PAGE;
}

static int read_list(struct program *program, const char *key, struct list_reader *self,
                     struct error *error) {
  struct pipeline_pages pages = {.redis = program->redis, .max = PAGES_MAX};
  while (!self->is_over) {
    char first[24], last[24];
    (void)snprintf(first, sizeof first, "%zu", self->at);
    (void)snprintf(last, sizeof last, "%zu", self->at + self->size - 1);
    if (pipeline_next_page(&pages, WORDS("LRANGE", key, first, last), on_page, self, error) != 0)
      return -1;
  }
  return 0;
}

static bool copy_element(void *owner, const char *element) {
  struct texts *texts = owner;
  texts_add(texts, memory_copy(element, strlen(element)));
  return texts->bytes <= BYTES_MAX;
}

static int copy_list(struct program *program, const char *key, struct texts *list,
                     struct error *error) {
  struct list_reader reader = {.owner = list, .visit = copy_element, .size = PAGE};
  if (read_list(program, key, &reader, error) != 0)
    return -1;
  return list->bytes <= BYTES_MAX
             ? 0
             : error_set(error, "%.100s is larger than this program can read", key);
}

/* --- all steps -------------------------------------------------------------------------------- */

/* Returns the script of a shell whose first argument is a flag such as -c or -ec, or NULL. */
static const char *find_script(const char *command, const cJSON *arg) {
  static const char *const shells[] = {"sh", "bash", "dash", "ash", "zsh", "ksh"};
  const char *slash = strrchr(command, '/'), *name = slash != NULL ? slash + 1 : command;
  const char *flag = arg != NULL ? cJSON_GetStringValue(arg) : NULL;
  const size_t length = flag != NULL ? strlen(flag) : 0;
  bool is_shell = false;
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
    is_shell |= strcmp(name, shells[i]) == 0;
  return is_shell && length > 1 && flag[0] == '-' && flag[length - 1] == 'c'
             ? cJSON_GetStringValue(arg->next)
             : NULL;
}

/* Returns the command with its arguments, the first line of a script, the path or the pattern. */
static char *describe(const cJSON *tree) {
  struct buffer text = {0};
  const cJSON *args = cJSON_GetObjectItemCaseSensitive(tree, "args");
  const cJSON *arg = args != NULL ? args->child : NULL;
  const char *target = json_field_text(tree, "pattern", "");
  target = json_field_text(tree, "path", target);
  target = json_field_text(tree, "command", target);
  const char *script = find_script(target, arg);
  if (script != NULL)
    target = script, arg = NULL;
  buffer_add(&text, target, strcspn(target, "\n"));
  for (; arg != NULL && cJSON_IsString(arg) && text.length < TARGET_MAX; arg = arg->next) {
    buffer_add_string(&text, " ");
    buffer_add_string(&text, arg->valuestring);
  }
  if (text.length > TARGET_MAX)
    text.length = utf8_cut(text.bytes, TARGET_MAX);
  buffer_add(&text, "", 1);
  return text.bytes;
}

static void add_step(struct job_steps *self, const char *json, const char *running, bool is_taken) {
  struct error ignored;
  cJSON *tree = json_tree_parse(json, strlen(json), &ignored);
  const char *id = json_field_text(tree, "stepId", "?");
  const char *kind = json_field_text(tree, "kind", tree != NULL ? "run" : "?");
  struct job_step *step = &self->list[self->count++];
  *step = (struct job_step){.id = memory_copy(id, strlen(id)),
                            .kind = memory_copy(kind, strlen(kind)),
                            .target = describe(tree),
                            .is_taken = is_taken,
                            .short_length = 4};
  step->is_running = running != NULL && strcmp(running, step->id) == 0;
  cJSON_Delete(tree);
}

/* Reads `in` before `inflight`: a step that moves meanwhile is in both then, and not in neither.
   The oldest step is at the tail of each list. */
static int read_steps(struct program *program, struct job_steps *steps, struct error *error) {
  struct texts in = {0}, inflight = {0};
  char *running = NULL;
  const struct keys *keys = &program->keys;
  *steps = (struct job_steps){0};
  int result = copy_list(program, keys->in, &in, error);
  if (result == 0)
    result = copy_list(program, keys->inflight, &inflight, error);
  if (result == 0)
    result = pipeline_get(program->redis, keys->started, &running, error);
  steps->list = memory_allocate((in.count + inflight.count + 1) * sizeof *steps->list);
  for (size_t i = inflight.count; i > 0; i--)
    add_step(steps, inflight.texts[i - 1], running, true);
  for (size_t i = in.count; i > 0; i--)
    add_step(steps, in.texts[i - 1], running, false);
  job_steps_deduplicate(steps);
  texts_release(&in);
  texts_release(&inflight);
  free(running);
  if (result != 0)
    job_steps_release(steps);
  return result;
}

/* --- one step --------------------------------------------------------------------------------- */

/* An id with escapes, which servers do not write, is decoded. */
static bool is_of_step(const char *json, const char *id) {
  struct json_member step;
  struct error ignored;
  const size_t length = strlen(id);
  if (!json_member_find(json, strlen(json), "stepId", &step))
    return false;
  if (memchr(step.text, '\\', step.length) == NULL)
    return step.length == length + 2 && strncasecmp(step.text + 1, id, length) == 0;
  cJSON *text = json_tree_parse(step.text, step.length, &ignored);
  const bool is_same = cJSON_IsString(text) && strcasecmp(text->valuestring, id) == 0;
  cJSON_Delete(text);
  return is_same;
}

struct step_search {
  const char *id;
  size_t newer; /* elements before it in the list */
  char *found;  /* NULL: not found yet */
};

static bool match_element(void *owner, const char *element) {
  struct step_search *self = owner;
  if (self->found == NULL && is_of_step(element, self->id))
    self->found = memory_copy(element, strlen(element));
  self->newer += self->found == NULL;
  return self->found == NULL;
}

/* Sets the element, or NULL. The first page is small, because elements may be large. */
static int search_list(struct program *program, const char *key, struct step_search *search,
                       struct error *error) {
  struct list_reader reader = {.owner = search, .visit = match_element, .size = 8};
  return read_list(program, key, &reader, error);
}

/* Counts the older steps in the list. */
static int find_in_list(struct program *program, const char *key, const char *id, size_t *before,
                        bool *is_found, struct error *error) {
  struct step_search search = {.id = id};
  int64_t length = 0;
  int result = search_list(program, key, &search, error);
  *is_found = result == 0 && search.found != NULL;
  if (*is_found)
    result = pipeline_length(program->redis, key, &length, error);
  *before = length > (int64_t)search.newer + 1 ? (size_t)length - search.newer - 1 : 0;
  free(search.found);
  return result;
}

/* `in` comes first, as in read_steps. */
static int find_in_lists(struct program *program, const char *id, size_t *before, bool *is_found,
                         struct error *error) {
  const struct keys *keys = &program->keys;
  int64_t taken = 0;
  int result = find_in_list(program, keys->in, id, before, is_found, error);
  if (result != 0 || !*is_found)
    return result != 0 ? -1 : find_in_list(program, keys->inflight, id, before, is_found, error);
  result = pipeline_length(program->redis, keys->inflight, &taken, error);
  *before += (size_t)(taken > 0 ? taken : 0);
  return result;
}

/* While the step runs, the lists, which may be long, need not be read. */
static int find_step(struct program *program, const char *id, struct job_place *place,
                     struct error *error) {
  struct error ignored;
  *place = (struct job_place){0};
  (void)pipeline_get(program->redis, program->keys.started, &place->running, &ignored);
  place->is_found = place->running != NULL && strcmp(place->running, id) == 0;
  return place->is_found ? 0 : find_in_lists(program, id, &place->before, &place->is_found, error);
}

static char *describe_running(struct program *program, const char *id) {
  struct step_search search = {.id = id};
  struct error ignored;
  (void)search_list(program, program->keys.inflight, &search, &ignored);
  cJSON *tree =
      search.found != NULL ? json_tree_parse(search.found, strlen(search.found), &ignored) : NULL;
  char *target = describe(tree);
  cJSON_Delete(tree);
  free(search.found);
  return target;
}

/* --- pushing, and the result ------------------------------------------------------------------ */

/* Looks for the result of a step in its own list, and then in `results`: an agent may not know
   replyTo, or have no right for the list. */
static int find_result(struct program *program, const char *id, char **result, bool *is_own,
                       struct error *error) {
  struct step_search search = {.id = id};
  char *key = keys_reply(&program->keys, id);
  struct error ignored;
  *result = NULL;
  (void)pipeline_call(program->redis, WORDS("LINDEX", key, "-1"), reply_to_text, result, &ignored);
  free(key);
  *is_own = *result != NULL;
  if (*is_own)
    return 0;
  const int failed = search_list(program, program->keys.results, &search, error);
  *result = search.found;
  return failed;
}

/* Sets whether Redis has the step, or its result. */
static int find_pushed(struct program *program, const char *id, bool *found, struct error *error) {
  size_t before;
  char *text = NULL;
  bool is_own;
  int result = find_in_lists(program, id, &before, found, error);
  if (result == 0 && !*found)
    result = find_result(program, id, &text, &is_own, error);
  *found |= text != NULL;
  free(text);
  return result;
}

/* After a silence, the network may still deliver what was sent, so the step is not sent again. A
   loss that comes late counts as one: the timer of the connection may have started before the
   push. */
static int push(struct program *program, void *source, const char *id, const char *json,
                struct error *error) {
  bool found;
  if (source != NULL && event_stream_check_rights(source, error) != 0)
    return -1;
  for (int64_t lost_ms = 0;;) {
    const int64_t sent_ms = clock_monotonic_ms();
    switch (pipeline_ask(program->redis, WORDS("LPUSH", program->keys.in, json), reply_to_nothing,
                         NULL, INT64_MAX, error)) {
    case PIPELINE_ANSWERED:
      return 0;
    case PIPELINE_REFUSED:
      return -1;
    case PIPELINE_NO_ANSWER:
      return error_set(error, "redis does not answer; %.36s may still run", id);
    case PIPELINE_LOST:
      break;
    }
    const bool was_silent = clock_monotonic_ms() - sent_ms >= PIPELINE_SILENT_MS / 2;
    if (find_pushed(program, id, &found, error) != 0) {
      const struct error why = *error;
      return error_set(error, "%s; %.36s may still run", why.text, id);
    }
    if (found)
      return 0;
    if (was_silent)
      return error_set(error, "redis did not answer in time; %.36s may still run", id);
    lost_ms = lost_ms != 0 ? lost_ms : clock_monotonic_ms();
    if (clock_monotonic_ms() - lost_ms > ACCESS_TIMEOUT_MS || program->signal != 0) {
      pipeline_connection_error(program->redis, error);
      return -1;
    }
  }
}

/* Does not wait until the list is deleted: it has one value, and expires. */
static int take_result(struct program *program, const char *id, char **result,
                       struct error *error) {
  bool is_own;
  int failed = find_result(program, id, result, &is_own, error);
  char *key = keys_reply(&program->keys, id);
  if (is_own)
    pipeline_send(program->redis, WORDS("DEL", key), reply_to_nothing, NULL);
  else if (failed == 0 && *result != NULL)
    failed = pipeline_call(program->redis, WORDS("LREM", program->keys.results, "1", *result),
                           reply_to_nothing, NULL, error);
  free(key);
  return failed;
}

/* --- control messages ------------------------------------------------------------------------- */

/* How long `control` lives without an agent (wire/PROTOCOL.md). */
#define CONTROL_SECONDS "86400"

/* The agent may be gone, and nobody else would let the list expire. */
void redis_job_acknowledge(struct program *program, const char *id, uint64_t seq,
                           reply_handler *handler, void *owner) {
  const char *control = program->keys.control;
  struct buffer json = {0};
  buffer_add_string(&json, "{\"kind\":\"read\",\"stepId\":");
  buffer_add_json(&json, id, strlen(id));
  buffer_add_string(&json, ",\"seq\":");
  buffer_add_number(&json, seq);
  buffer_add(&json, "}", sizeof "}");
  pipeline_send(program->redis, WORDS("LPUSH", control, json.bytes), handler, owner);
  pipeline_send(program->redis, WORDS("EXPIRE", control, CONTROL_SECONDS), reply_to_nothing, NULL);
  buffer_release(&json);
}

static int push_message(struct program *program, const char *key, const char *head, const char *id,
                        const char *tail, struct error *error) {
  struct buffer json = {0};
  buffer_add_string(&json, head);
  buffer_add_json(&json, id, strlen(id));
  buffer_add(&json, tail, strlen(tail) + 1);
  int result =
      pipeline_call(program->redis, WORDS("LPUSH", key, json.bytes), reply_to_nothing, NULL, error);
  buffer_release(&json);
  return result;
}

/* An agent without `control` (0.2 or older) gets the message in `in`. */
static int cancel(struct program *program, const struct job_agent *agent, const char *id,
                  struct error *error) {
  const struct keys *keys = &program->keys;
  if (agent->is_alive && !job_agent_can(agent, "control"))
    return push_message(program, keys->in, "{\"schemaVersion\":1,\"stepId\":", id,
                        ",\"kind\":\"cancel\"}", error);
  int result =
      push_message(program, keys->control, "{\"kind\":\"cancel\",\"stepId\":", id, "}", error);
  if (result == 0 && !agent->is_alive)
    result = pipeline_call(program->redis, WORDS("EXPIRE", keys->control, CONTROL_SECONDS),
                           reply_to_nothing, NULL, error);
  return result;
}

/* It is not pushed again if the connection is lost, because a second one would stop the next
   agent. */
static int shut_down(struct program *program, const char *id, struct error *error) {
  char *json = memory_format("{\"schemaVersion\":1,\"stepId\":\"%s\",\"kind\":\"shutdown\"}", id);
  const enum pipeline_answer answer =
      pipeline_ask(program->redis, WORDS("LPUSH", program->keys.in, json), reply_to_nothing, NULL,
                   INT64_MAX, error);
  free(json);
  if (answer == PIPELINE_LOST)
    return error_set(error, "the connection to redis was lost; sandbox ps shows whether the "
                            "shutdown waits, and whether the agent is gone");
  return answer == PIPELINE_ANSWERED ? 0 : -1;
}

/* --- the table -------------------------------------------------------------------------------- */

static int read_agent(struct program *program, struct job_agent *agent, struct error *error) {
  return redis_job_read_agent(program, program->keys.heartbeat, agent, error);
}

/* Reads the heartbeat. A lost connection is not the answer. */
static int ping(struct program *program, bool *is_alive, struct error *error) {
  const int64_t end_ms = program->begin_ms + PROGRAM_PING_MS;
  enum pipeline_answer answer;
  char *heartbeat = NULL;
  if (redis_job_choose(program, error) != 0)
    return -1;
  pipeline_fail_fast(program->redis, true);
  do
    answer = pipeline_ask(program->redis, WORDS("GET", program->keys.heartbeat), reply_to_text,
                          &heartbeat, end_ms - clock_monotonic_ms(), error);
  while (answer == PIPELINE_LOST && clock_monotonic_ms() < end_ms);
  *is_alive = heartbeat != NULL;
  free(heartbeat);
  return answer == PIPELINE_ANSWERED ? 0 : -1;
}

const struct job_access redis_access = {.peer = "redis",
                                        .missed_cause = "the stream was trimmed",
                                        .choose = redis_job_choose,
                                        .ping = ping,
                                        .read_agent = read_agent,
                                        .read_steps = read_steps,
                                        .find_step = find_step,
                                        .describe_running = describe_running,
                                        .push = push,
                                        .take_result = take_result,
                                        .cancel = cancel,
                                        .shut_down = shut_down,
                                        .events = &redis_event_access};
