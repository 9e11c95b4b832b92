#include "agent/engine/secrets.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/kinds/kind.h"
#include "base/memory.h"

static void log_not_masked(const struct log *log, const char *step_id, const char *name,
                           enum masker_answer answer) {
  static const char *const reasons[] = {
      [MASKER_TOO_SHORT] = "no line of it has 6 bytes",
      [MASKER_TOO_LONG] = "it has more than 65536 bytes",
      [MASKER_FULL] = "too many or too long ones were masked before",
  };
  static_assert(NEEDLE_MIN == 6 && MASKER_VALUE_MAX == 65536, "as the reasons say");
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
  bool found = false;
  char *copy = patterns != NULL ? memory_copy(patterns, strlen(patterns)) : NULL, *saved = NULL;
  for (char *at = copy; !found && (at = strtok_r(at, ", ", &saved)) != NULL; at = NULL)
    found = fnmatch(at, name, 0) == 0;
  free(copy);
  return found;
}

void secrets_init(struct secrets *self, const char *patterns, size_t bytes_max,
                  const struct log *log) {
  *self = (struct secrets){.masker = {.offered_max = bytes_max}, .patterns = patterns};
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

/* --- of a step -------------------------------------------------------------------------------- */

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

static bool is_among(char *const *names, size_t count, const char *name) {
  for (size_t i = 0; i < count && names[i] != NULL; i++)
    if (strcmp(names[i], name) == 0)
      return true;
  return false;
}

/* Those of a step that are not masked. */
struct not_masked {
  char **names; /* ended by NULL */
  enum masker_answer *answers;
  size_t count;
};

static void add_variable(struct secrets *self, struct not_masked *not_masked, const char *name,
                         const char *value) {
  enum masker_answer answer = masker_add(&self->masker, value, strlen(value));
  if (answer == MASKER_MASKED)
    return;
  const size_t count = ++not_masked->count;
  not_masked->names = memory_resize(not_masked->names, (count + 1) * sizeof *not_masked->names);
  not_masked->answers = memory_resize(not_masked->answers, count * sizeof *not_masked->answers);
  not_masked->names[count - 1] = memory_copy(name, strlen(name));
  not_masked->names[count] = NULL;
  not_masked->answers[count - 1] = answer;
}

static void add_named(struct secrets *self, struct not_masked *not_masked,
                      const struct step *step) {
  for (size_t i = 0; step->secrets != NULL && step->secrets[i] != NULL; i++) {
    const char *value = value_of(step, step->secrets[i]);
    if (!is_among(step->secrets, i, step->secrets[i]))
      add_variable(self, not_masked, step->secrets[i], value != NULL ? value : "");
  }
}

static void add_matching(struct secrets *self, struct not_masked *not_masked,
                         const struct step *step) {
  char *const *env = self->patterns != NULL ? step->env : NULL;
  for (char *const *entry = env; entry != NULL && *entry != NULL; entry++) {
    char *name = name_of(*entry);
    bool is_named = step->secrets != NULL && is_among(step->secrets, SIZE_MAX, name);
    if (!is_named && matches(self->patterns, name))
      add_variable(self, not_masked, name, *entry + strlen(name) + 1);
    free(name);
  }
}

/* The log comes last: it is masked, too, by all of them. */
char **secrets_add_step(struct secrets *self, const struct log *log, const struct step *step) {
  struct not_masked not_masked = {0};
  add_named(self, &not_masked, step);
  add_matching(self, &not_masked, step);
  for (size_t i = 0; i < not_masked.count; i++)
    log_not_masked(log, step->step_id, not_masked.names[i], not_masked.answers[i]);
  free(not_masked.answers);
  return not_masked.names;
}

void secrets_free_names(char **names) {
  for (char **name = names; name != NULL && *name != NULL; name++)
    free(*name);
  free(names);
}
