/* Each kind of message as a file: golden/<name>.json has the files that exist before, a step, its
   events and its result. $D is the test's directory; TIME and SECONDS replace values that differ
   each time. */

#include <dirent.h>

#include "tests/support/job.h"
#include "tests/support/kind_rows.h"

#define GOLDEN "tests/integration/golden/"

/* The files cover at least each kind of step and each kind of failure. */
#define FEWEST 14

static char *read_golden(struct job *job, const char *name) {
  FILE *file = fopen(job_format(job, GOLDEN "%s", name), "r");
  assert_non_null(file);
  char *text = NULL;
  size_t size = 0;
  assert_true(getdelim(&text, &size, '\0', file) > 0);
  assert_int_equal(fclose(file), 0);
  return job_own_text(job, text);
}

/* Replaces each $D. */
static const char *with_directory(struct job *job, const char *text) {
  const char *rest = strstr(text, "$D");
  if (rest == NULL)
    return text;
  const char *expanded =
      job_format(job, "%.*s%s", (int)(rest - text), text, kind_rows_directory(job));
  return job_format(job, "%s%s", expanded, with_directory(job, rest + 2));
}

static bool is_time(const char *text) {
  static const char shape[] = "0000-00-00T00:00:00.000+00:00";
  for (size_t i = 0; i < sizeof shape - 1; i++)
    if (shape[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != shape[i])
      return false;
  return true;
}

/* Replaces each time with the word TIME. */
static const char *without_times(struct job *job, const char *text) {
  char *copy = job_format(job, "%s", text);
  char *out = copy;
  for (const char *at = copy; *at != '\0';)
    if (is_time(at)) {
      memcpy(out, "TIME", 4);
      out += 4;
      at += sizeof "0000-00-00T00:00:00.000+00:00" - 1;
    } else {
      *out++ = *at++;
    }
  *out = '\0';
  return copy;
}

static const char *print(struct job *job, const cJSON *json) {
  return job_own_text(job, cJSON_PrintUnformatted(json));
}

static const char *events_as_golden(struct job *job, const cJSON *step) {
  cJSON *events = job_own(job, cJSON_Duplicate(job_events(job, step), true));
  for (cJSON *event = events->child; event != NULL; event = event->next)
    cJSON_DeleteItemFromObject(event, "entryMs");
  return without_times(job, print(job, events));
}

/* Removes figures, which depend on the machine; they must not be negative. */
static void remove_figures(cJSON *end) {
  for (cJSON *member = end->child, *next; member != NULL; member = next) {
    next = member->next;
    if (strcmp(member->string, "cause") == 0 || strcmp(member->string, "survivors") == 0)
      continue;
    assert_true(!cJSON_IsNumber(member) || member->valuedouble >= 0);
    assert_false(cJSON_IsNull(member) || cJSON_IsString(member));
    cJSON_Delete(cJSON_DetachItemViaPointer(end, member));
  }
}

static const char *result_as_golden(struct job *job, const cJSON *result) {
  cJSON *copy = job_own(job, cJSON_Duplicate(result, true));
  assert_true(cJSON_IsNumber(cJSON_GetObjectItem(copy, "durationSeconds")));
  remove_figures(cJSON_GetObjectItem(copy, "end"));
  cJSON_ReplaceItemInObject(copy, "durationSeconds", cJSON_CreateString("SECONDS"));
  return without_times(job, print(job, copy));
}

static void check(struct job *job, const char *name) {
  cJSON *golden = job_own(job, cJSON_Parse(with_directory(job, read_golden(job, name))));
  if (golden == NULL)
    fail_msg("%s is not JSON", name);
  const cJSON *files = cJSON_GetObjectItem(golden, "files");
  for (const cJSON *file = files->child; file != NULL; file = file->next)
    kind_rows_file(job, file->string, file->valuestring);
  const cJSON *step = cJSON_GetObjectItem(golden, "step");
  job->schema_version = cJSON_GetObjectItem(step, "schemaVersion")->valueint;
  job_do(job, "DEL sandbox:%s:events", job->id); /* removes events of another version */
  const cJSON *result = job_run(job, step);
  assert_string_equal(result_as_golden(job, result),
                      print(job, cJSON_GetObjectItem(golden, "result")));
  assert_string_equal(events_as_golden(job, step),
                      print(job, cJSON_GetObjectItem(golden, "events")));
}

static int is_json(const struct dirent *entry) {
  return strstr(entry->d_name, ".json") != NULL;
}

JOB_TEST(messages_match_the_golden_files) {
  struct dirent **entries;
  int count = scandir(GOLDEN, &entries, is_json, alphasort);
  assert_true(count >= FEWEST);
  for (int i = 0; i < count; i++) {
    check(job, entries[i]->d_name);
    free(entries[i]);
  }
  free(entries);
}
