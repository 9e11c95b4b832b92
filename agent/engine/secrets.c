#include "agent/engine/secrets.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/kinds/kind.h"
#include "base/memory.h"

bool secrets_add(struct secrets *self, const struct log *log, const char *step_id, const char *name,
                 const char *value) {
  static const char *const reasons[] = {
      [MASKER_TOO_SHORT] = "no line of it has 6 bytes",
      [MASKER_TOO_LONG] = "it has more than 65536 bytes",
      [MASKER_FULL] = "too many or too long ones are masked already",
  };
  static_assert(NEEDLE_MIN == 6 && MASKER_VALUE_MAX == 65536, "as the reasons say");
  enum masker_answer answer = masker_add(&self->masker, value, strlen(value));
  if (answer != MASKER_MASKED)
    log_line(log, LOG_WARN, step_id, "%s is not masked: %s", name, reasons[answer]);
  return answer == MASKER_MASKED;
}

static char *name_of(const char *entry) {
  char *name = memory_copy(entry, strlen(entry));
  name[strcspn(name, "=")] = '\0';
  return name;
}

static bool matches(const char *patterns, const char *name) {
  bool found = false;
  char *copy = patterns != NULL ? memory_copy(patterns, strlen(patterns)) : NULL, *saved = NULL;
  for (char *at = copy; !found && (at = strtok_r(at, ",", &saved)) != NULL; at = NULL)
    found = fnmatch(at, name, 0) == 0;
  free(copy);
  return found;
}

void secrets_init(struct secrets *self, const char *patterns, const struct log *log) {
  *self = (struct secrets){.patterns = patterns};
  for (char *const *entry = environ; patterns != NULL && *entry != NULL; entry++) {
    char *name = name_of(*entry);
    if (strchr(*entry, '=') != NULL && matches(patterns, name))
      (void)secrets_add(self, log, NULL, name, *entry + strlen(name) + 1);
    free(name);
  }
}

void secrets_release(struct secrets *self) {
  masker_release(&self->masker);
}

/* --- of a step -------------------------------------------------------------------------------- */

static const char *value_of(const struct step *step, const char *name) {
  const char *own = run_kind_variable(step, name);
  return own != NULL ? own : getenv(name);
}

int secrets_check(const struct step *step, struct error *error) {
  for (size_t i = 0; step->secrets != NULL && step->secrets[i] != NULL; i++)
    if (value_of(step, step->secrets[i]) == NULL)
      return error_set(error, "secrets[%zu] names no variable", i);
  return 0;
}

static size_t count_texts(char *const *texts) {
  size_t count = 0;
  while (texts != NULL && texts[count] != NULL)
    count++;
  return count;
}

/* `most`: how many there may be. */
static void add_name(char ***names, size_t most, const char *name) {
  size_t count = count_texts(*names);
  if (*names == NULL)
    *names = memory_zeros((most + 1) * sizeof **names);
  (*names)[count] = memory_copy(name, strlen(name));
}

static bool is_named(const struct step *step, const char *name) {
  for (char *const *at = step->secrets; at != NULL && *at != NULL; at++)
    if (strcmp(*at, name) == 0)
      return true;
  return false;
}

static bool add_variable(struct secrets *self, const struct log *log, const struct step *step,
                         const char *name) {
  const char *value = value_of(step, name);
  return secrets_add(self, log, step->step_id, name, value != NULL ? value : "");
}

char **secrets_add_step(struct secrets *self, const struct log *log, const struct step *step) {
  char *const *env = self->patterns != NULL ? run_kind_env(step) : NULL;
  const size_t most = count_texts(step->secrets) + count_texts(env);
  char **names = NULL;
  for (char *const *name = step->secrets; name != NULL && *name != NULL; name++)
    if (!add_variable(self, log, step, *name))
      add_name(&names, most, *name);
  for (char *const *entry = env; entry != NULL && *entry != NULL; entry++) {
    char *name = name_of(*entry);
    if (matches(self->patterns, name) && !is_named(step, name) &&
        !secrets_add(self, log, step->step_id, name, *entry + strlen(name) + 1))
      add_name(&names, most, name);
    free(name);
  }
  return names;
}

void secrets_free_names(char **names) {
  for (char **name = names; name != NULL && *name != NULL; name++)
    free(*name);
  free(names);
}
