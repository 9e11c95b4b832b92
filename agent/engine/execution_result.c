#include "agent/engine/execution_result.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kinds/kind.h"
#include "agent/process/process.h"
#include "base/cgroup.h"
#include "base/memory.h"
#include "base/printable.h"
#include "wire/json.h"

bool execution_result_is_success(const struct execution_result *self) {
  return self->outcome == EXECUTION_EXITED && self->exit_code == 0;
}

bool execution_result_is_own(const struct execution_result *self) {
  return self->outcome == EXECUTION_EXITED || self->outcome == EXECUTION_SIGNALED;
}

static bool was_killed_by_guard(const struct execution_result *self) {
  return self->outcome == EXECUTION_MEMORY_LIMIT || self->outcome == EXECUTION_PROCESS_LIMIT;
}

bool execution_result_is_limited(const struct execution_result *self) {
  return was_killed_by_guard(self) || self->cost.cause == STEP_CAUSE_CPU_LIMIT ||
         self->cost.cause == STEP_CAUSE_FILE_SIZE_LIMIT;
}

/* Else the agent decides the exit code. */
static bool has_code(const struct execution_result *self) {
  return execution_result_is_own(self) || was_killed_by_guard(self);
}

bool execution_result_was_executed(const struct execution_result *self) {
  return has_code(self) || self->outcome == EXECUTION_TIMED_OUT;
}

struct captured_stream execution_result_message(const struct execution_result *self,
                                                unsigned timeout_seconds, struct error *line) {
  if (self->message.length > 0)
    return self->message;
  if (execution_result_is_own(self) && self->errors.length > 0)
    return self->errors;
  switch (self->outcome) {
  case EXECUTION_EXITED:
    (void)error_set(line, "exited with code %d and wrote nothing", self->exit_code);
    break;
  case EXECUTION_SIGNALED:
    (void)error_set(line, "killed by signal %d (%s)", self->signal, printable_signal(self->signal));
    break;
  case EXECUTION_TIMED_OUT:
    (void)error_set(line, "timed out after %us", timeout_seconds);
    break;
  default:
    *line = self->error;
  }
  return (struct captured_stream){.bytes = line->text, .length = strlen(line->text)};
}

static void add_bytes(struct buffer *out, int64_t bytes) {
  static const char units[] = "KMGT";
  size_t unit = 0;
  for (bytes /= 1024; bytes >= 1024 && bytes % 1024 == 0 && unit < sizeof units - 2; unit++)
    bytes /= 1024;
  buffer_add_format(out, "%lld %ciB", (long long)bytes, units[unit]);
}

/* After SIGXCPU, the kernel sends SIGKILL at the hard limit. Then only the processor time tells,
   which is known for the whole step. */
enum step_cause execution_result_signal_cause(const struct result_end *cost,
                                              const struct policy_limits *limits) {
  const uint64_t limit_s = limits->cpu_seconds;
  const int64_t used_us = cost->usage->user_us + cost->usage->system_us;
  const bool is_used_up = used_us >= 0 && (uint64_t)used_us / 1000000 >= limit_s;
  if (limit_s > 0 &&
      (cost->signal == SIGXCPU || (cost->signal == SIGKILL && is_used_up && !cost->oom_killed)))
    return STEP_CAUSE_CPU_LIMIT;
  return limits->file_size_bytes > 0 && cost->signal == SIGXFSZ ? STEP_CAUSE_FILE_SIZE_LIMIT
                                                                : STEP_CAUSE_SIGNAL;
}

static void add_reason(struct buffer *text, const struct result_end *cost,
                       const struct policy_limits *limits) {
  if (cost->cause == STEP_CAUSE_CPU_LIMIT) {
    buffer_add_format(text, ": a process used %llu s of processor time (limits.cpuSeconds)",
                      (unsigned long long)limits->cpu_seconds);
  } else if (cost->cause == STEP_CAUSE_FILE_SIZE_LIMIT) {
    buffer_add_format(text,
                      ": a file would have become larger than %llu bytes "
                      "(limits.fileSizeBytes)",
                      (unsigned long long)limits->file_size_bytes);
  } else {
    buffer_add_string(text, ": out of memory");
    if (cost->memory_limit_bytes >= 0) {
      buffer_add_string(text, ", the container has ");
      add_bytes(text, cost->memory_limit_bytes);
    }
  }
}

void execution_result_explain(struct execution_result *self, const struct policy_limits *limits,
                              struct buffer *text) {
  if (!execution_result_is_own(self) ||
      !(self->cost.oom_killed || execution_result_is_limited(self)))
    return;
  if (self->outcome == EXECUTION_SIGNALED)
    buffer_add_format(text, "killed by signal %d (%s)", self->signal,
                      printable_signal(self->signal));
  else
    buffer_add_format(text, "exited with code %d", self->exit_code);
  add_reason(text, &self->cost, limits);
  (void)error_set(&self->error, "%.*s", (int)text->length, text->bytes);
  if (self->errors.length > 0) {
    buffer_add_string(text, "\n");
    buffer_add(text, self->errors.bytes, self->errors.length);
  }
  self->message = (struct captured_stream){.bytes = text->bytes, .length = text->length};
}

struct memory_before memory_before_read(void) {
  const struct cgroup *group = cgroup_own();
  return (struct memory_before){.oom_kills = cgroup_oom_kills(group),
                                .peak_bytes = cgroup_memory_peak(group),
                                .limit_bytes = cgroup_memory_limit(group)};
}

void memory_before_compare(const struct memory_before *self, bool is_success,
                           struct result_end *cost) {
  const struct cgroup *group = cgroup_own();
  int64_t kills = cgroup_oom_kills(group), peak = cgroup_memory_peak(group);
  if (self->oom_kills >= 0 && kills >= self->oom_kills)
    cost->oom_kills = kills - self->oom_kills;
  cost->oom_killed = cost->oom_kills > 0 && !is_success;
  cost->memory_limit_bytes = self->limit_bytes;
  if (self->peak_bytes >= 0 && peak > self->peak_bytes)
    cost->memory_peak_bytes = peak;
}

/* A command's output is part of the result however it ended. */
struct step_result execution_result_step_result(const struct execution_result *self,
                                                const struct step *step, struct error *line) {
  struct step_result result = {.schema_version = step_answer_version(step),
                               .step_id = step->step_id,
                               .exit_code = has_code(self) ? self->exit_code : -1,
                               .timed_out = self->outcome == EXECUTION_TIMED_OUT,
                               .duration_ms = self->duration_ms,
                               .output_content = self->output.bytes,
                               .output_content_length = self->output.length,
                               .end = self->cost};
  if (self->output.truncated) {
    result.output_bytes = self->output.total;
    result.output_tail = self->output.tail;
    result.output_tail_length = self->output.tail_length;
  }
  bool succeeded = execution_result_is_success(self);
  if (result.output_content == NULL && kind_of(step)->has_content && succeeded)
    result.output_content = "";
  if (succeeded)
    return result;
  const struct captured_stream message =
      execution_result_message(self, step->timeout_seconds, line);
  result.error_message = message.bytes;
  result.error_message_length = message.length;
  return result;
}

/* The command's message, which has the whole reason, is not logged. */
static const char *note_of(const struct result_end *cost) {
  return cost->cause == STEP_CAUSE_CPU_LIMIT         ? ": limits.cpuSeconds"
         : cost->cause == STEP_CAUSE_FILE_SIZE_LIMIT ? ": limits.fileSizeBytes"
         : cost->oom_killed                          ? ": out of memory"
                                                     : "";
}

void execution_result_log(const struct execution_result *self, const struct log *log,
                          const struct step *step, bool quiet) {
  bool succeeded = execution_result_is_success(self);
  enum log_level failure = quiet ? LOG_DEBUG : LOG_WARN;
  char command[400];
  kind_describe(step, log->masker, command, sizeof command);
  /* Only the agent's own message: a command's output was logged or sent already. */
  bool own = !execution_result_is_own(self) || kind_of(step)->work != NULL;
  bool has_message = own && !succeeded;
  struct error line;
  struct captured_stream message = {.bytes = ""};
  if (has_message)
    message = execution_result_message(self, step->timeout_seconds, &line);
  const char *separator = has_message ? ": " : note_of(&self->cost);
  log_line(log, succeeded && !quiet ? LOG_INFO : failure, step->step_id,
           "exit=%d in %lldms `%s`%s%.*s", has_code(self) ? self->exit_code : -1,
           (long long)self->duration_ms, command, separator, (int)message.length, message.bytes);
  const struct process_outcome *process = self->process;
  if (process->holder.pid != 0)
    log_line(log, failure, step->step_id,
             "pid %d (%s) still holds the output in the background; its later output is lost",
             (int)process->holder.pid, process->holder.name);
  if (process->unkillable > 0)
    log_line(log, LOG_WARN, step->step_id, "%zu processes survive SIGKILL", process->unkillable);
}

void execution_result_mask_reason(struct error *reason, const struct supervisor_report *report,
                                  struct masker *masker) {
  *reason = report->reason;
  if (report->whole_reason == NULL || masker_is_empty(masker))
    return;
  const size_t length = strlen(report->whole_reason);
  char *masked = memory_copy(report->whole_reason, length);
  mask_string(masker, masked, length >= EXEC_REASON_MAX - 1);
  if (strcmp(masked, report->whole_reason) != 0) {
    (void)error_set(reason, "%s", masked);
    reason->code = report->reason.code;
  }
  free(masked);
}

char *execution_result_set_subject(struct execution_result *self, const char *subject,
                                   struct masker *masker) {
  self->subject = subject;
  if (masker_is_empty(masker) || subject == NULL)
    return NULL;
  char *masked = memory_copy(subject, strlen(subject));
  self->subject = masked;
  mask_string(masker, masked, false);
  const int code = self->error.code;
  if (strcmp(masked, subject) == 0 || self->outcome < EXECUTION_NO_DIRECTORY ||
      self->outcome == EXECUTION_REFUSED)
    return masked;
  (void)error_set(&self->error, "cannot start %s: %s", masked,
                  code != 0 ? strerror(code) : "failed");
  self->error.code = code;
  return masked;
}

/* The longest comm of proc(5). */
#define NAME_MAX_OF_KERNEL 15

static void mask_name(struct masker *masker, char *name) {
  mask_string(masker, name, strlen(name) == NAME_MAX_OF_KERNEL);
}

/* A command line, which may be cut, or a name in brackets. */
static void mask_command(struct masker *masker, char *command, size_t size) {
  const size_t length = strlen(command);
  if (length == NAME_MAX_OF_KERNEL + 2 && command[0] == '[' && command[length - 1] == ']') {
    command[length - 1] = '\0';
    mask_name(masker, command + 1);
    (void)memcpy(command + strlen(command), "]", sizeof "]");
  } else {
    mask_string(masker, command, length == size - 1);
  }
}

void execution_result_mask_processes(struct process_outcome *outcome, struct masker *masker) {
  struct step_process *alive = outcome->report.alive;
  for (size_t i = 0; i < outcome->report.alive_count; i++)
    mask_command(masker, alive[i].command, sizeof alive[i].command);
  mask_command(masker, outcome->holder.command, sizeof outcome->holder.command);
  mask_name(masker, outcome->holder.name);
}

/* Bounds of the log line: the fields, the bytes of a payload that is read, and of a name. */
#define FIELDS_SHOWN 16
#define PAYLOAD_READ_MAX ((size_t)1024 * 1024)
#define NAME_SHOWN 40

static void add_field(struct buffer *out, struct masker *masker, const char *name, size_t length,
                      size_t value_length) {
  char *shown = memory_copy(name, length);
  mask_string(masker, shown, false); /* before the name is cut */
  buffer_add_format(out, "%s %.*s (%zu bytes)", out->length > 0 ? "," : ":", NAME_SHOWN, shown,
                    value_length);
  free(shown);
}

/* Adds the names of an object's fields and the sizes of their values, because any value may be a
   secret. In invalid JSON a value may stand in place of a name. */
static void add_fields(struct buffer *out, struct masker *masker, const char *payload,
                       size_t length) {
  struct json_text text = {.bytes = payload, .length = length};
  struct json_member name = {0};
  size_t value = 0, count = 0, wrong;
  if (length > PAYLOAD_READ_MAX || json_text_object(payload, length, &wrong) != JSON_TEXT_WHOLE)
    return;
  while (count < FIELDS_SHOWN && json_text_next(&text) == JSON_TEXT_WHOLE) {
    if (text.depth == 1 && text.token == ':') {
      value = text.at;
    } else if (text.depth == 1 && text.token == '"' && value == 0) {
      name = (struct json_member){payload + text.start + 1, text.at - text.start - 2};
    } else if (value > 0 && (text.depth == 0 || (text.depth == 1 && text.token == ','))) {
      add_field(out, masker, name.text, name.length, text.start - value);
      value = 0;
      count++;
    }
  }
}

void execution_result_log_refused(const struct log *log, const char *step_id,
                                  const struct error *error, const char *payload, size_t length) {
  struct buffer fields = {0};
  add_fields(&fields, log->masker, payload, length);
  log_line(log, LOG_WARN, step_id, "refused: %s; payload of %zu bytes%.*s", error->text, length,
           (int)fields.length, fields.length > 0 ? fields.bytes : "");
  buffer_release(&fields);
}
