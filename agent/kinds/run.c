#include "agent/kinds/kind.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/utf8.h"

/* The variables that the agent sets. */
enum { OWN_VARIABLES = 2 };

static const char *const own_names[OWN_VARIABLES] = {"SANDBOX_STEP_TAG", "SANDBOX_STEP_ID"};

/* A command's argv and envp in one allocation. It owns the texts of the variables that the agent
   sets, and borrows all others from the step and the agent. */
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

/* --- for the log --- */

struct bounded_text {
  char *out;
  size_t room; /* for text; the end mark has its own */
  size_t length;
  bool cut;
};

static void put(struct bounded_text *self, const char *text, size_t length) {
  size_t taken = length < self->room - self->length ? length : self->room - self->length;
  memcpy(self->out + self->length, text, taken);
  self->length += taken;
  self->cut |= taken < length;
}

static void put_word(struct bounded_text *self, const char *word) {
  bool quoted = word[0] == '\0' || strpbrk(word, " \t\r\n'\"\\$`;&|<>()*?[]{}!#~") != NULL;
  put(self, "'", quoted);
  for (const char *quote; (quote = strchr(word, '\'')) != NULL && !self->cut; word = quote + 1) {
    put(self, word, (size_t)(quote - word));
    put(self, "'\\''", 4);
  }
  put(self, word, strlen(word));
  put(self, "'", quoted);
}

static bool is_shell(const char *command) {
  static const char *const shells[] = {"sh", "bash", "dash", "ash", "zsh", "ksh"};
  const char *slash = strrchr(command, '/');
  const char *name = slash != NULL ? slash + 1 : command;
  for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
    if (strcmp(name, shells[i]) == 0)
      return true;
  return false;
}

/* The script of `sh -c SCRIPT`, `bash -lc SCRIPT`, `bash -l -c SCRIPT`; else NULL. */
static const char *shell_script(const char *command, char *const *args) {
  if (!is_shell(command))
    return NULL;
  for (; *args != NULL && (*args)[0] == '-'; args++)
    if ((*args)[1] != '-' && (*args)[strlen(*args) - 1] == 'c')
      return args[1];
  return NULL;
}

/* The words, in single quotes where they need them; of `sh -c` and its like only the script. Ends with
   "..." when it was cut; `size` is at least 4. */
static void describe(const struct step *step, char *out, size_t size) {
  char *const *args = ((const struct run_fields *)step->fields)->args;
  static const char mark[] = "...";
  CHECK(size >= sizeof mark);
  struct bounded_text text = {.out = out, .room = size - sizeof mark};
  const char *script = shell_script(step->target, args);
  if (script != NULL) {
    put(&text, script, strlen(script));
  } else {
    put_word(&text, step->target);
    for (; *args != NULL && !text.cut; args++) {
      put(&text, " ", 1);
      put_word(&text, *args);
    }
  }
  if (text.cut)
    text.length = utf8_cut(out, text.length);
  memcpy(out + text.length, text.cut ? mark : "", text.cut ? sizeof mark : 1);
}

static const struct step_field fields[] = {STEP_FIELD("args", texts, struct run_fields, args),
                                           STEP_FIELD("env", env, struct run_fields, env),
                                           STEP_FIELD("stdin", bytes, struct run_fields, input)};

const struct kind run_kind = {KIND_WIRE("run", 0, "command", struct run_fields),
                              .describe = describe, .prepare_spec = prepare_spec,
                              .release_input = release_input};
