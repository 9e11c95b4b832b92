#include "agent/kinds/run.h"

#include <stdlib.h>
#include <string.h>

#include "agent/kinds/command_text.h"
#include "agent/kinds/kinds.h"
#include "base/check.h"
#include "base/memory.h"

/* The variables that the agent sets. */
enum { OWN_VARIABLES = 2 };

static const char *const own_names[OWN_VARIABLES] = {"SANDBOX_STEP_TAG", "SANDBOX_STEP_ID"};

/*
 * A command's argv and envp in one allocation. It owns the texts of
 * the variables that the agent sets, and borrows all others from the step and the agent.
 */
struct command {
  char *own[OWN_VARIABLES + 1]; /* NULL-terminated */
  char **argv;
  char **envp;
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

/* Writes "name=value" and a NUL; returns the end. */
static char *put_variable(char *out, const char *name, const char *value) {
  out = stpcpy(out, name);
  *out++ = '=';
  return stpcpy(out, value) + 1;
}

static char *put_own(struct command *self, char *text, const char *const values[OWN_VARIABLES]) {
  char **next = self->own;
  for (size_t i = 0; i < OWN_VARIABLES; i++) {
    *next++ = text;
    text = put_variable(text, own_names[i], values[i]);
  }
  *next = NULL;
  return text;
}

/* A step's variable wins over an inherited one, the agent's own over both. Returns the end. */
static char **put_environment(struct command *self, char *const *env, char *const *inherited) {
  char **next = self->envp;
  for (char *const *entry = self->own; *entry != NULL; entry++)
    *next++ = *entry;
  for (char *const *entry = env; *entry != NULL; entry++)
    if (!has_name(self->own, *entry))
      *next++ = *entry;
  for (char *const *entry = inherited; *entry != NULL; entry++)
    if (!has_name(self->own, *entry) && !has_name(env, *entry))
      *next++ = *entry;
  *next++ = NULL;
  return next;
}

static struct command *command_new(const struct kind_context *context, const struct step *step,
                                   const char *tag) {
  const struct run_fields *run = step->fields;
  const char *const values[OWN_VARIABLES] = {tag, step->step_id};
  size_t texts = 0;
  for (size_t i = 0; i < OWN_VARIABLES; i++)
    texts += strlen(own_names[i]) + strlen(values[i]) + sizeof "=";
  size_t arguments = count(run->args) + 2;
  size_t variables = OWN_VARIABLES + count(run->env) + count(context->environment) + 1;
  size_t size = sizeof(struct command) + (arguments + variables) * sizeof(char *) + texts;
  struct command *self = memory_allocate(size);
  self->argv = (char **)(self + 1);
  self->envp = self->argv + arguments;
  self->argv[0] = step->target;
  memcpy(self->argv + 1, run->args, (arguments - 1) * sizeof(char *));
  char *end = put_own(self, (char *)(self->envp + variables), values);
  char **envp_end = put_environment(self, run->env, context->environment);
  CHECK(end == (char *)self + size && envp_end <= self->envp + variables);
  return self;
}

static void prepare_spec(const struct kind_context *context, const struct step *step,
                         const char *tag, struct process_spec *spec) {
  const char *directory = step->working_directory;
  struct command *command = command_new(context, step, tag);
  spec->exec.argv = command->argv;
  spec->exec.envp = command->envp;
  spec->memory = command;
  const struct run_fields *run = step->fields;
  spec->input = run->input.text;
  spec->input_length = run->input.length;
  spec->exec.directory = directory != NULL ? directory : KIND_DIRECTORY;
  spec->exec.directory_may_be_missing = directory == NULL;
}

static void release_input(struct step *step) {
  struct run_fields *run = step->fields;
  free(run->input.text);
  run->input = (struct step_bytes){0};
}

static void describe(const struct step *step, char *out, size_t size) {
  const struct run_fields *run = step->fields;
  command_text(step->target, run->args, out, size);
}

static const struct step_field fields[] = {
    {.name = "args", .type = &step_field_texts, .offset = offsetof(struct run_fields, args)},
    {.name = "env", .type = &step_field_env, .offset = offsetof(struct run_fields, env)},
    {.name = "stdin", .type = &step_field_bytes, .offset = offsetof(struct run_fields, input)},
};

const struct kind run_kind = {.wire = {.name = "run",
                                       .number = 0,
                                       .target = "command",
                                       .table = STEP_TABLE(fields, struct run_fields)},
                              .describe = describe,
                              .prepare_spec = prepare_spec,
                              .release_input = release_input};
