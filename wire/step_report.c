#include "wire/step_report.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/json_string.h"
#include "base/memory.h"
#include "base/swar.h"
#include "wire/json.h"

/* The same walk first counts the bytes of a report and then writes them. `counts` is a constant for
   the compiler. */
struct sink {
  bool counts;
  size_t length;
  char *at;
};

static inline void put(struct sink *self, const char *text, size_t length) {
  if (self->counts)
    self->length += length;
  else
    self->at = swar_copy(self->at, text, length);
}

#define PUT(SINK, LITERAL) put(SINK, LITERAL, sizeof(LITERAL) - 1)

static inline void put_json(struct sink *self, const char *text, size_t length) {
  if (self->counts)
    self->length += json_string_length(text, length);
  else
    self->at = json_string_write(self->at, text, length);
}

static inline void put_base64(struct sink *self, const char *bytes, size_t length) {
  if (self->counts)
    self->length += base64_length(length);
  else
    self->at = base64_encode(self->at, bytes, length);
}

static inline void put_number(struct sink *self, uint64_t number) {
  if (self->counts)
    self->length += decimal_length(number);
  else
    self->at = decimal_write(self->at, number);
}

/* --- events --- */

#define TIMESTAMP_LENGTH ((size_t)STEP_EVENT_TIMESTAMP_SIZE - 1)
static_assert(sizeof "2026-05-05T10:00:00.123+00:00" == STEP_EVENT_TIMESTAMP_SIZE, "with a NUL");

/* 9999-12-31T23:59:59.999 */
#define LAST_MS INT64_C(253402300799999)

static inline char *write_part(char *out, int number, size_t digits, char separator) {
  out = decimal_write_padded(out, (uint64_t)number, digits);
  *out++ = separator;
  return out;
}

void step_event_timestamp(char out[STEP_EVENT_TIMESTAMP_SIZE], int64_t unix_ms) {
  unix_ms = unix_ms < 0 ? 0 : unix_ms < LAST_MS ? unix_ms : LAST_MS;
  time_t seconds = (time_t)(unix_ms / 1000);
  struct tm utc;
  (void)gmtime_r(&seconds, &utc);
  /* Each line has a timestamp: snprintf(3) would cost more than the rest of its event. */
  out = write_part(out, utc.tm_year + 1900, 4, '-');
  out = write_part(out, utc.tm_mon + 1, 2, '-');
  out = write_part(out, utc.tm_mday, 2, 'T');
  out = write_part(out, utc.tm_hour, 2, ':');
  out = write_part(out, utc.tm_min, 2, ':');
  out = write_part(out, utc.tm_sec, 2, '.');
  out = write_part(out, (int)(unix_ms % 1000), 3, '+');
  memcpy(out, "00:00", sizeof "00:00");
}

/* `name` has everything that precedes the first name. */
static void put_names(struct sink *out, const char *name, const char *const *names) {
  put(out, name, strlen(name));
  for (size_t i = 0; names[i] != NULL; i++) {
    put(out, i > 0 ? ",\"" : "\"", i > 0 ? 2 : 1);
    put_json(out, names[i], strlen(names[i]));
    PUT(out, "\"");
  }
  PUT(out, "]");
}

static void put_fence(struct sink *out, const struct step_fence *self) {
  PUT(out, ",\"fence\":{\"landlock\":");
  put_number(out, (uint64_t)self->landlock);
  PUT(out, ",\"network\":\"");
  put(out, self->network, strlen(self->network));
  put_names(out, "\",\"enforced\":[", self->enforced);
  put_names(out, ",\"missing\":[", self->missing);
  PUT(out, "}");
}

static inline __attribute__((always_inline)) void put_event(struct sink *out,
                                                            const struct step_event *self) {
  static const char kind_names[][sizeof "completed"] = {[STEP_EVENT_STARTED] = "started",
                                                        [STEP_EVENT_STDOUT] = "stdout",
                                                        [STEP_EVENT_STDERR] = "stderr",
                                                        [STEP_EVENT_COMPLETED] = "completed"};
  const char *kind = kind_names[self->kind];
  PUT(out, "{\"schemaVersion\":");
  put(out, self->schema_version == 1 ? "1" : "2", 1);
  PUT(out, ",\"stepId\":\"");
  put(out, self->step_id, self->step_id_length);
  PUT(out, "\",\"kind\":\"");
  put(out, kind, strlen(kind));
  PUT(out, "\",\"line\":\"");
  if (self->is_base64)
    put_base64(out, self->line, self->line_length);
  else
    put_json(out, self->line, self->line_length);
  PUT(out, "\",\"timestamp\":\"");
  put(out, self->timestamp, TIMESTAMP_LENGTH);
  PUT(out, "\",\"seq\":");
  put_number(out, self->seq);
  if (self->is_base64)
    PUT(out, ",\"encoding\":\"base64\"");
  if (self->partial)
    PUT(out, ",\"partial\":true");
  if (self->not_masked != NULL)
    put_names(out, ",\"notMasked\":[", self->not_masked);
  if (self->fence != NULL)
    put_fence(out, self->fence);
  PUT(out, "}");
}

size_t step_event_length(const struct step_event *self) {
  struct sink out = {.counts = true};
  put_event(&out, self);
  return out.length;
}

char *step_event_write(const struct step_event *self, char *at) {
  struct sink out = {.counts = false};
  out.at = at;
  put_event(&out, self);
  return out.at;
}

int64_t step_event_read_seq(const char *json, size_t length, const char *step_id,
                            int *schema_version) {
  struct error ignored;
  errno = 0;
  cJSON *event = json_tree_parse(json, length, &ignored);
  if (event == NULL && errno == ENOMEM)
    memory_exhausted("tree of a message");
  const cJSON *id = cJSON_GetObjectItemCaseSensitive(event, "stepId");
  const cJSON *seq = cJSON_GetObjectItemCaseSensitive(event, "seq");
  const cJSON *version = cJSON_GetObjectItemCaseSensitive(event, "schemaVersion");
  *schema_version = cJSON_IsNumber(version) && version->valuedouble == 2 ? 2 : 1;
  int64_t number = -1;
  /* Up to 2^53 a double is exact. */
  if (cJSON_IsString(id) && strcmp(id->valuestring, step_id) == 0 && cJSON_IsNumber(seq) &&
      seq->valuedouble >= 1 && seq->valuedouble < 9e15)
    number = (int64_t)seq->valuedouble;
  cJSON_Delete(event);
  return number;
}

/* --- results --- */

struct step_result step_result_of_agent(int schema_version, const char *step_id,
                                        enum step_cause cause, const char *reason) {
  return (struct step_result){.schema_version = schema_version,
                              .step_id = step_id,
                              .exit_code = -1,
                              .error_message = reason,
                              .error_message_length = strlen(reason),
                              .end = {.cause = cause}};
}

void step_result_seconds(char out[STEP_RESULT_SECONDS_SIZE], int64_t duration_ms) {
  uint64_t milliseconds = duration_ms > 0 ? (uint64_t)duration_ms : 0;
  char *end = decimal_write(out, milliseconds / 1000);
  *end++ = '.';
  end = decimal_write_padded(end, milliseconds % 1000, 3);
  while (end[-1] == '0')
    end--;
  if (end[-1] == '.')
    end--;
  *end = '\0';
}

static void put_nullable(struct sink *out, const char *text, size_t length) {
  if (text == NULL) {
    PUT(out, "null");
    return;
  }
  PUT(out, "\"");
  put_json(out, text, length);
  PUT(out, "\"");
}

static void put_text(struct sink *out, const char *name, const char *text) {
  put(out, name, strlen(name));
  put_nullable(out, text, strlen(text));
}

/* `name` has everything that precedes the value. Writes nothing if the figure is unknown. */
static void put_figure(struct sink *out, const char *name, int64_t figure) {
  if (figure < 0)
    return;
  put(out, name, strlen(name));
  put_number(out, (uint64_t)figure);
}

static void put_flag(struct sink *out, const char *name, bool flag) {
  put(out, name, strlen(name));
  put(out, flag ? "true" : "false", flag ? 4 : 5);
}

static void put_seconds(struct sink *out, const char *name, int64_t milliseconds) {
  char seconds[STEP_RESULT_SECONDS_SIZE];
  if (milliseconds < 0)
    return;
  step_result_seconds(seconds, milliseconds);
  put(out, name, strlen(name));
  put(out, seconds, strlen(seconds));
}

static int64_t milliseconds_of(int64_t microseconds) {
  return microseconds < 0 ? -1 : microseconds / 1000;
}

static void put_usage(struct sink *out, const struct step_usage *self) {
  put_figure(out, ",\"maxRssBytes\":", self->max_rss_bytes);
  put_seconds(out, ",\"userCpuSeconds\":", milliseconds_of(self->user_us));
  put_seconds(out, ",\"systemCpuSeconds\":", milliseconds_of(self->system_us));
  put_figure(out, ",\"readBytes\":", self->read_bytes);
  put_figure(out, ",\"writtenBytes\":", self->written_bytes);
  put_figure(out, ",\"majorFaults\":", self->major_faults);
  put_figure(out, ",\"voluntarySwitches\":", self->voluntary_switches);
  put_figure(out, ",\"involuntarySwitches\":", self->involuntary_switches);
  put_figure(out, ",\"processes\":", self->processes);
}

static void put_memory(struct sink *out, const struct result_end *self) {
  if (self->memory_limit_bytes < 0 && self->memory_peak_bytes < 0)
    return;
  bool has_both = self->memory_limit_bytes >= 0 && self->memory_peak_bytes >= 0;
  PUT(out, ",\"memory\":{");
  put_figure(out, "\"limitBytes\":", self->memory_limit_bytes);
  put_figure(out, has_both ? ",\"peakBytes\":" : "\"peakBytes\":", self->memory_peak_bytes);
  PUT(out, "}");
}

static void put_process(struct sink *out, const struct step_process *self) {
  PUT(out, "{\"pid\":");
  put_number(out, (uint64_t)self->pid);
  put_figure(out, ",\"parent\":", self->parent);
  put_text(out, ",\"command\":", self->command);
  PUT(out, ",\"state\":\"");
  put_json(out, &self->state, 1);
  PUT(out, "\"");
  if (self->wait[0] != '\0')
    put_text(out, ",\"wait\":", self->wait);
  if (self->syscall[0] != '\0')
    put_text(out, ",\"syscall\":", self->syscall);
  put_figure(out, ",\"rssBytes\":", self->rss_bytes);
  put_seconds(out, ",\"cpuSeconds\":", self->cpu_ms);
  put_seconds(out, ",\"ageSeconds\":", self->age_ms);
  PUT(out, "}");
}

static void put_alive(struct sink *out, const struct result_end *self) {
  if (self->alive_count == 0)
    return;
  PUT(out, ",\"alive\":[");
  for (size_t i = 0; i < self->alive_count; i++) {
    if (i > 0)
      PUT(out, ",");
    put_process(out, &self->alive[i]);
  }
  PUT(out, "]");
}

/* Writes what the step used, and which of its processes are left. */
static void put_execution(struct sink *out, const struct result_end *self) {
  if (self->signal != 0) {
    put_figure(out, ",\"signal\":", self->signal);
    put_text(out, ",\"signalName\":", self->signal_name);
    put_flag(out, ",\"coreDumped\":", self->core_dumped);
  }
  if (self->oom_kills >= 0)
    put_flag(out, ",\"oomKilled\":", self->oom_killed);
  put_figure(out, ",\"oomKills\":", self->oom_kills);
  put_usage(out, self->usage);
  put_memory(out, self);
  put_figure(out, ",\"survivors\":", self->survivors);
  if (self->holder > 0) {
    put_figure(out, ",\"heldBy\":{\"pid\":", self->holder);
    put_text(out, ",\"command\":", self->holder_command);
    PUT(out, "}");
  }
  put_alive(out, self);
}

static void put_end(struct sink *out, const struct result_end *self) {
  static const char *const causes[] = {[STEP_CAUSE_REFUSED] = "refused",
                                       [STEP_CAUSE_LOST] = "lost",
                                       [STEP_CAUSE_NOT_STARTED] = "notStarted",
                                       [STEP_CAUSE_EXITED] = "exited",
                                       [STEP_CAUSE_SIGNAL] = "signal",
                                       [STEP_CAUSE_TIMEOUT] = "timeout",
                                       [STEP_CAUSE_CANCELLED] = "cancelled",
                                       [STEP_CAUSE_MEMORY_LIMIT] = "memoryLimit",
                                       [STEP_CAUSE_CPU_LIMIT] = "cpuLimit",
                                       [STEP_CAUSE_PROCESS_LIMIT] = "processLimit",
                                       [STEP_CAUSE_FILE_SIZE_LIMIT] = "fileSizeLimit"};
  put_text(out, ",\"end\":{\"cause\":", causes[self->cause]);
  if (self->usage != NULL)
    put_execution(out, self);
  PUT(out, "}");
}

static void put_denials(struct sink *out, const struct step_fence *self) {
  static const char *const accesses[] = {"read", "write", "network"};
  if (self->denial_count == 0)
    return;
  PUT(out, ",\"denials\":[");
  for (size_t i = 0; i < self->denial_count; i++) {
    const struct step_denial *denial = &self->denials[i];
    put_text(out, i > 0 ? ",{\"access\":" : "{\"access\":", accesses[denial->access]);
    if (denial->path != NULL)
      put_text(out, ",\"path\":", denial->path);
    put_flag(out, ",\"certain\":", denial->is_certain);
    PUT(out, "}");
  }
  PUT(out, "]");
}

static inline void put_result(struct sink *out, const struct step_result *self) {
  char numbers[sizeof "\",\"exitCode\":-2147483648,\"timedOut\":false,\"durationSeconds\":" +
               STEP_RESULT_SECONDS_SIZE];
  char seconds[STEP_RESULT_SECONDS_SIZE];
  step_result_seconds(seconds, self->duration_ms);
  int length =
      snprintf(numbers, sizeof numbers, "\",\"exitCode\":%d,\"timedOut\":%s,\"durationSeconds\":%s",
               self->exit_code, self->timed_out ? "true" : "false", seconds);
  PUT(out, "{\"schemaVersion\":");
  put_number(out, (uint64_t)self->schema_version);
  PUT(out, ",\"stepId\":\"");
  put_json(out, self->step_id, strlen(self->step_id));
  put(out, numbers, (size_t)length);
  PUT(out, ",\"errorMessage\":");
  put_nullable(out, self->error_message, self->error_message_length);
  PUT(out, ",\"outputContent\":");
  put_nullable(out, self->output_content, self->output_content_length);
  PUT(out, ",\"eventCount\":");
  if (self->event_count < 0)
    PUT(out, "null");
  else
    put_number(out, (uint64_t)self->event_count);
  if (self->output_tail != NULL) {
    PUT(out, ",\"outputTruncated\":true,\"outputBytes\":");
    put_number(out, self->output_bytes);
    PUT(out, ",\"outputTail\":");
    put_nullable(out, self->output_tail, self->output_tail_length);
  }
  if (self->is_raw)
    put_figure(out, ",\"outputBytes\":", (int64_t)self->output_bytes);
  put_end(out, &self->end);
  if (self->fence != NULL) {
    put_names(out, ",\"fence\":{\"missing\":[", self->fence->missing);
    put_denials(out, self->fence);
    PUT(out, "}");
  }
  PUT(out, "}");
}

size_t step_result_length(const struct step_result *self) {
  struct sink out = {.counts = true};
  put_result(&out, self);
  return out.length;
}

char *step_result_write(const struct step_result *self, char *at) {
  struct sink out = {.counts = false};
  out.at = at;
  put_result(&out, self);
  return out.at;
}
