#include "agent/kinds/kind.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/utf8.h"

/* The variables that the agent adds. */
#define TAG_VARIABLE "SANDBOX_STEP_TAG="
#define ID_VARIABLE "SANDBOX_STEP_ID="

#define TRACE_VARIABLE "TRACEPARENT"
#define TRACE_FORM "00-00000000000000000000000000000000-0000000000000000-00"

static bool has_name(char *const *entries, const char *entry) {
  size_t name = strcspn(entry, "=");
  for (; entries != NULL && *entries != NULL; entries++)
    if (strncmp(*entries, entry, name) == 0 && (*entries)[name] == '=')
      return true;
  return false;
}

/* Whether the text begins with `length` hex digits, not all of which are `same`. */
static bool has_digits(const char *text, size_t length, char same) {
  return strspn(text, "0123456789abcdef") == length &&
         strspn(text, (const char[]){same, '\0'}) < length;
}

/* The form of W3C Trace Context: version-trace-parent-flags. */
static bool is_traceparent(const char *text) {
  return strlen(text) == sizeof TRACE_FORM - 1 && text[2] == '-' && text[35] == '-' &&
         text[52] == '-' && has_digits(text, 2, 'f') && has_digits(text + 3, 32, '0') &&
         has_digits(text + 36, 16, '0') && has_digits(text + 53, 2, '-');
}

const char *run_kind_trace(const struct step *step) {
  const char *value = step_variable(step, TRACE_VARIABLE);
  return value != NULL && is_traceparent(value) ? value : NULL;
}

bool run_kind_is_raw(const struct step *step) {
  return step->kind == &run_kind.wire && ((const struct run_fields *)step->fields)->raw;
}

void run_kind_set_trace(struct step *step, const char *traceparent) {
  if (step->kind != &run_kind.wire || traceparent == NULL || !is_traceparent(traceparent) ||
      step_variable(step, TRACE_VARIABLE) != NULL)
    return;
  size_t before = 0, length = sizeof TRACE_VARIABLE "=" TRACE_FORM;
  while (step->env != NULL && step->env[before] != NULL)
    before++;
  step->env = memory_resize(step->env, (before + 2) * sizeof *step->env);
  step->env[before] = memory_allocate(length);
  (void)snprintf(step->env[before], length, TRACE_VARIABLE "=%s", traceparent);
  step->env[before + 1] = NULL;
}

/* Enough for the texts of most commands. */
#define BODY_FIRST 4096

/* With the NUL. */
static void add_text(struct buffer *body, const char *text) {
  buffer_add(body, text, strlen(text) + 1);
}

static bool is_own(const char *entry) {
  return strncmp(entry, TAG_VARIABLE, sizeof TAG_VARIABLE - 1) == 0 ||
         strncmp(entry, ID_VARIABLE, sizeof ID_VARIABLE - 1) == 0;
}

/* A variable of the step overrides an inherited one; the agent's own override both. The agent's PWD
   is not inherited: exec_command sets it. */
void run_kind_prepare_spec(const struct kind_context *context, const struct step *step,
                           const char *tag, struct process_spec *spec) {
  const struct run_fields *run = step->fields;
  const char *directory = step->working_directory;
  struct supervisor_message *message = &spec->message;
  struct buffer *body = &spec->body;
  (void)buffer_space(body, BODY_FIRST);
  add_text(body, step->target);
  for (message->arguments = 1; run->args[message->arguments - 1] != NULL; message->arguments++)
    add_text(body, run->args[message->arguments - 1]);
  buffer_add_string(body, TAG_VARIABLE);
  add_text(body, tag);
  buffer_add_string(body, ID_VARIABLE);
  add_text(body, step->step_id);
  message->variables = 2;
  char *const *const sources[] = {step->env, context->environment};
  for (size_t i = 0; i < 2; i++)
    for (char *const *entry = sources[i]; entry != NULL && *entry != NULL; entry++)
      if (!is_own(*entry) &&
          (i < 1 || (strncmp(*entry, "PWD=", 4) != 0 && !has_name(step->env, *entry)))) {
        add_text(body, *entry);
        message->variables++;
      }
  add_text(body, directory != NULL ? directory : KIND_DIRECTORY);
  message->directory_may_be_missing = directory == NULL;
  message->home_at = (uint32_t)run->home_at;
  spec->input = run->input.text;
  spec->input_length = run->input.length;
}

void kind_release_input(struct step *step) {
  struct run_fields *run = step->fields;
  if (step->kind != &run_kind.wire)
    return;
  free(run->input.text);
  run->input = (struct step_bytes){0};
}

/* Stops soon after `out` has `most` bytes. */
static void add_word(struct buffer *out, const char *word, size_t most) {
  bool quoted = word[0] == '\0' || strpbrk(word, " \t\r\n'\"\\$`;&|<>()*?[]{}!#~") != NULL;
  buffer_add_string(out, quoted ? "'" : "");
  for (; *word != '\0' && out->length <= most; word++)
    buffer_add(out, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
  buffer_add_string(out, quoted && out->length <= most ? "'" : "");
}

void run_kind_describe(const struct step *step, struct masker *masker, char *out, size_t size) {
  char *const *args = ((const struct run_fields *)step->fields)->args;
  static const char ellipsis[] = "...";
  CHECK(size >= sizeof ellipsis);
  size_t most = size - sizeof ellipsis;
  struct buffer text = {0};
  add_word(&text, step->target, most);
  for (; *args != NULL && text.length <= most; args++) {
    buffer_add_string(&text, " ");
    add_word(&text, *args, most);
  }
  bool is_cut = text.length > most;
  buffer_add(&text, "", 1);
  mask_string(masker, text.bytes, is_cut);
  text.length = strlen(text.bytes);
  size_t shown = text.length > most ? utf8_cut(text.bytes, most) : text.length;
  (void)snprintf(out, size, "%.*s%s", (int)shown, text.bytes, is_cut ? ellipsis : "");
  buffer_release(&text);
}

static const struct step_field fields[] = {STEP_FIELD("args", texts, struct run_fields, args),
                                           STEP_FIELD("stdin", bytes, struct run_fields, input),
                                           STEP_FIELD("raw", flag, struct run_fields, raw)};

const struct kind run_kind = {KIND_WIRE("run", 0, "command", struct run_fields)};
