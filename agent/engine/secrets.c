#include "agent/engine/secrets.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/kinds/kind.h"
#include "base/memory.h"
#include "wire/json.h"

static void log_not_masked(const struct log *log, const char *step_id, const char *name,
                           enum masker_answer answer) {
  static const char *const reasons[] = {
      [MASKER_TOO_SHORT] = "no line of it has 6 bytes",
      [MASKER_TOO_LONG] = "it has more than 65536 bytes",
      [MASKER_FULL] = "too many values, or too long ones, are already masked",
  };
  static_assert(NEEDLE_MIN == 6 && MASKER_VALUE_MAX == 65536, "the reasons name them");
  log_line(log, LOG_WARN, step_id, "%s is not masked: %s", name, reasons[answer]);
}

void secrets_add(struct secrets *self, const struct log *log, const char *name, const char *value) {
  enum masker_answer answer = masker_add(&self->masker, value, strlen(value));
  if (answer != MASKER_MASKED)
    log_not_masked(log, NULL, name, answer);
}

static char *name_of(const char *entry) {
  char *name = memory_copy(entry, strlen(entry));
  name[strcspn(name, "=")] = '\0';
  return name;
}

static bool matches(const char *patterns, const char *name) {
  if (patterns == NULL)
    return false;
  bool found = false;
  char *copy = memory_copy(patterns, strlen(patterns)), *saved = NULL;
  for (char *at = copy; !found && (at = strtok_r(at, ", ", &saved)) != NULL; at = NULL)
    found = fnmatch(at, name, 0) == 0;
  free(copy);
  return found;
}

void secrets_init(struct secrets *self, const char *patterns, size_t (*bytes_max)(void),
                  const struct log *log) {
  *self = (struct secrets){.masker = {.bytes_max = bytes_max}, .patterns = patterns};
  for (char *const *entry = environ; patterns != NULL && *entry != NULL; entry++) {
    char *name = name_of(*entry);
    if (strchr(*entry, '=') != NULL && matches(patterns, name))
      secrets_add(self, log, name, *entry + strlen(name) + 1);
    free(name);
  }
}

void secrets_release(struct secrets *self) {
  masker_release(&self->masker);
}

static const char *value_of(const struct step *step, const char *name) {
  if (strchr(name, '=') != NULL)
    return NULL;
  const char *own = step_variable(step, name);
  return own != NULL ? own : getenv(name);
}

int secrets_check(const struct step *step, struct error *error) {
  for (size_t i = 0; step->secrets != NULL && step->secrets[i] != NULL; i++)
    if (value_of(step, step->secrets[i]) == NULL)
      return error_set(error, "secrets[%zu] names no variable", i);
  return 0;
}

struct secret_variable {
  char *name;
  const char *value;
  enum masker_answer answer;
};

static bool has_variable(const struct step_secrets *self, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(self->all[i].name, name) == 0)
      return true;
  return false;
}

/* Takes ownership of the name. */
static void add_variable(struct step_secrets *self, struct secret_variable variable) {
  if ((self->count & (self->count - 1)) == 0) /* 0, or a power of two */
    self->all = memory_resize(self->all, (2 * self->count + 1) * sizeof *self->all);
  self->all[self->count++] = variable;
}

/* Finds the variables that the step names, and those of its env that match a pattern. The names in
   `env` are unique, so that only those in `secrets` are compared. */
static void find_variables(struct step_secrets *self, const char *patterns,
                           const struct step *step) {
  for (char *const *name = step->secrets; name != NULL && *name != NULL; name++) {
    const char *value = value_of(step, *name);
    if (!has_variable(self, self->count, *name))
      add_variable(self, (struct secret_variable){.name = memory_copy(*name, strlen(*name)),
                                                  .value = value != NULL ? value : ""});
  }
  const size_t named = self->count;
  char *const *env = patterns != NULL ? step->env : NULL;
  for (char *const *entry = env; entry != NULL && *entry != NULL; entry++) {
    char *name = name_of(*entry);
    if (!has_variable(self, named, name) && matches(patterns, name))
      add_variable(self,
                   (struct secret_variable){.name = name, .value = *entry + strlen(name) + 1});
    else
      free(name);
  }
}

/* Logs last, because all of the values are masked in the log, too. */
struct step_secrets secrets_add_step(struct secrets *self, const struct log *log,
                                     const struct step *step) {
  struct step_secrets added = {0};
  size_t count = 0;
  find_variables(&added, self->patterns, step);
  for (size_t i = 0; i < added.count; i++)
    added.all[i].answer = masker_add(&self->masker, added.all[i].value, strlen(added.all[i].value));
  for (size_t i = 0; i < added.count; i++) {
    if (added.all[i].answer == MASKER_MASKED)
      continue;
    if (count < STEP_SECRETS_MAX)
      log_not_masked(log, step->step_id, added.all[i].name, added.all[i].answer);
    if (count == 0)
      added.not_masked = memory_zeros((added.count + 1) * sizeof(char *));
    added.not_masked[count++] = added.all[i].name;
  }
  if (count > STEP_SECRETS_MAX)
    log_line(log, LOG_WARN, step->step_id, "%zu more variables are not masked",
             count - STEP_SECRETS_MAX);
  return added;
}

/* The masker may have a value that this step could not add, but another step's. */
void secrets_end_step(struct secrets *self, struct step_secrets *added) {
  for (size_t i = 0; i < added->count; i++) {
    if (added->all[i].answer == MASKER_MASKED)
      masker_let_go(&self->masker, added->all[i].value, strlen(added->all[i].value));
    free(added->all[i].name);
  }
  free(added->all);
  free(added->not_masked);
}

/* Finds up to STEP_SECRETS_MAX values, of as many names in `secrets`. Returns how many. */
static size_t find_rejected(const struct secrets *self, const cJSON *root,
                            const char *values[STEP_SECRETS_MAX]) {
  const cJSON *env = cJSON_GetObjectItemCaseSensitive(root, "env"), *item;
  size_t count = 0, names = 0;
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "secrets")) {
    const char *name = cJSON_GetStringValue(item), *value = NULL;
    if (name != NULL)
      value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(env, name));
    if (name != NULL && value == NULL)
      value = getenv(name);
    if (value != NULL)
      values[count++] = value;
    if (++names == STEP_SECRETS_MAX)
      break;
  }
  cJSON_ArrayForEach(item, env) {
    const char *value = cJSON_GetStringValue(item);
    if (value != NULL && item->string != NULL && count < STEP_SECRETS_MAX &&
        matches(self->patterns, item->string))
      values[count++] = value;
  }
  return count;
}

void secrets_mask_rejected(struct secrets *self, const char *payload, size_t length,
                           struct error *error) {
  const char *values[STEP_SECRETS_MAX];
  bool is_held[STEP_SECRETS_MAX];
  struct error ignored;
  cJSON *root = json_tree_parse(payload, length, &ignored);
  const size_t count = find_rejected(self, root, values);
  for (size_t i = 0; i < count; i++)
    is_held[i] = masker_add(&self->masker, values[i], strlen(values[i])) == MASKER_MASKED;
  mask_string(&self->masker, error->text, false);
  for (size_t i = 0; i < count; i++)
    if (is_held[i])
      masker_let_go(&self->masker, values[i], strlen(values[i]));
  cJSON_Delete(root);
}
