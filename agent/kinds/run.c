#include "agent/kinds/run.h"

#include <string.h>

#include "agent/kinds/command_text.h"
#include "agent/kinds/kinds.h"
#include "agent/process/process_tree.h"
#include "base/memory.h"

/* What the agent sets itself. */
enum { OWN_VARIABLES = 3 };

static const char *const own_names[OWN_VARIABLES] = {PROCESS_TREE_TAG, "SANDBOX_JOB_ID",
                                                     "SANDBOX_STEP_ID"};

/*
 * What the command is started with. One allocation that the process takes over; the texts that are
 * the step's or the agent's are borrowed.
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

/* Writes "name=value"; returns where the next text may begin. */
static char *put_variable(char *out, const char *name, const char *value) {
  out = stpcpy(out, name);
  *out++ = '=';
  return stpcpy(out, value) + 1;
}

static void put_own(struct command *self, char *text, const char *const values[OWN_VARIABLES]) {
  size_t count = 0;
  for (size_t i = 0; i < OWN_VARIABLES; i++) {
    if (values[i] == NULL)
      continue;
    self->own[count++] = text;
    text = put_variable(text, own_names[i], values[i]);
  }
  self->own[count] = NULL;
}

/* A step's variable wins over an inherited one, and the agent's own ones over both. */
static void put_environment(struct command *self, char *const *env, char *const *inherited) {
  char **next = self->envp;
  for (char *const *entry = self->own; *entry != NULL; entry++)
    *next++ = *entry;
  for (char *const *entry = env; *entry != NULL; entry++)
    if (!has_name(self->own, *entry))
      *next++ = *entry;
  for (char *const *entry = inherited; *entry != NULL; entry++)
    if (!has_name(self->own, *entry) && !has_name(env, *entry))
      *next++ = *entry;
  *next = NULL;
}

static struct command *command_new(const struct run_context *context, const struct step *step,
                                   const char *tag) {
  const struct run_fields *run = step->fields;
  const char *const values[OWN_VARIABLES] = {tag, context->job_id, step->step_id};
  size_t texts = 0;
  for (size_t i = 0; i < OWN_VARIABLES; i++)
    if (values[i] != NULL)
      texts += strlen(own_names[i]) + strlen(values[i]) + sizeof "=";
  size_t arguments = count(run->args) + 2;
  size_t variables = OWN_VARIABLES + count(run->env) + count(context->environment) + 1;
  struct command *self =
      memory_allocate(sizeof *self + (arguments + variables) * sizeof(char *) + texts);
  self->argv = (char **)(self + 1);
  self->envp = self->argv + arguments;
  self->argv[0] = step->target;
  memcpy(self->argv + 1, run->args, (arguments - 1) * sizeof(char *));
  put_own(self, (char *)(self->envp + variables), values);
  put_environment(self, run->env, context->environment);
  return self;
}

static void prepare_spec(const struct run_context *context, const struct step *step,
                         const char *tag, struct process_spec *spec) {
  const char *directory = step->working_directory;
  struct command *command = command_new(context, step, tag);
  spec->argv = command->argv;
  spec->envp = command->envp;
  spec->memory = command;
  spec->directory = directory != NULL ? directory : KIND_DIRECTORY;
  spec->directory_may_be_missing = directory == NULL;
}

static void describe(const struct step *step, char *out, size_t size) {
  const struct run_fields *run = step->fields;
  command_text(step->target, run->args, out, size);
}

static const struct step_field fields[] = {
    {.name = "args", .type = &step_field_texts, .offset = offsetof(struct run_fields, args)},
    {.name = "env", .type = &step_field_env, .offset = offsetof(struct run_fields, env)},
};

const struct kind run_kind = {.wire = {.name = "run",
                                       .target = "command",
                                       .fields = fields,
                                       .field_count = sizeof fields / sizeof *fields,
                                       .size = sizeof(struct run_fields)},
                              .describe = describe,
                              .prepare_spec = prepare_spec};
