#include "agent/step/kinds/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/step/command_text.h"
#include "agent/step/kinds/kinds.h"
#include "agent/step/process_tree.h"
#include "wire/memory.h"

/* What the agent sets itself. */
enum own_variable { OWN_TAG, OWN_JOB_ID, OWN_STEP_ID, OWN_VARIABLES };

struct environment {
  char *own[OWN_VARIABLES + 1]; /* owned, NULL-terminated */
  char **entries;               /* NULL-terminated; the texts are borrowed */
  size_t count;
};

static bool has_name(char *const *entries, const char *entry) {
  size_t name = strcspn(entry, "=");
  for (; *entries != NULL; entries++)
    if (strncmp(*entries, entry, name) == 0 && (*entries)[name] == '=')
      return true;
  return false;
}

static size_t count(char *const *entries) {
  size_t n = 0;
  while (entries[n] != NULL)
    n++;
  return n;
}

static char *variable(const char *name, const char *value) {
  char *text;
  if (asprintf(&text, "%s=%s", name, value) < 0)
    memory_exhausted("a buffer");
  return text;
}

/* A step's variable wins over an inherited one, and the agent's own ones over both. */
static void environment_init(struct environment *self, const struct step_run_context *context,
                             const struct step *step, const char *tag) {
  const struct run *run = step->fields;
  *self = (struct environment){.own = {variable(PROCESS_TREE_TAG, tag),
                                       variable("SANDBOX_JOB_ID", context->job_id),
                                       variable("SANDBOX_STEP_ID", step->step_id)}};
  size_t most = OWN_VARIABLES + count(run->env) + count(context->environment) + 1;
  self->entries = memory_allocate(most * sizeof *self->entries);
  memcpy(self->entries, self->own, sizeof self->own);
  self->count = OWN_VARIABLES;
  for (char *const *entry = run->env; *entry != NULL; entry++)
    if (!has_name(self->own, *entry))
      self->entries[self->count++] = *entry;
  for (char *const *entry = context->environment; *entry != NULL; entry++)
    if (!has_name(self->own, *entry) && !has_name(run->env, *entry))
      self->entries[self->count++] = *entry;
  self->entries[self->count] = NULL;
}

static void environment_release(struct environment *self) {
  for (size_t i = 0; i < OWN_VARIABLES; i++)
    free(self->own[i]);
  free(self->entries);
}

static struct process *start(const struct step_run_context *context, const struct step *step,
                             const char *tag, const struct process_handler *handler, void *owner,
                             struct error *error) {
  const struct run *run = step->fields;
  size_t arguments = count(run->args);
  char **argv = memory_allocate((arguments + 2) * sizeof *argv);
  argv[0] = step->subject;
  memcpy(argv + 1, run->args, (arguments + 1) * sizeof *argv);
  struct environment environment;
  environment_init(&environment, context, step, tag);
  struct process_spec spec = {
      .argv = argv,
      .envp = environment.entries,
      .directory = kind_directory(step),
      .tag = tag,
      .timeout_seconds = step->timeout_seconds,
  };
  struct process *process = process_start(&context->process, &spec, handler, owner, error);
  environment_release(&environment);
  free(argv);
  return process;
}

static void describe(const struct step *step, char *out, size_t size) {
  const struct run *run = step->fields;
  command_text(step->subject, run->args, out, size);
}

static const struct step_field fields[] = {
    {.name = "args", .type = &step_field_texts, .offset = offsetof(struct run, args)},
    {.name = "env", .type = &step_field_env, .offset = offsetof(struct run, env)},
};

const struct kind run_kind = {.wire = {.name = "run",
                                       .subject = "command",
                                       .fields = fields,
                                       .field_count = sizeof fields / sizeof *fields,
                                       .size = sizeof(struct run)},
                              .describe = describe,
                              .start = start};
