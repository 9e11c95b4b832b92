#include "agent/engine/step_policy.h"

#include <stdlib.h>
#include <string.h>

#include "agent/confinement/denials.h"
#include "base/buffer.h"
#include "base/memory.h"

static bool is_command(const struct step *step) {
  return kind_of(step)->work == NULL;
}

void step_policy_init(struct step_policy *self, const struct kind_context *context,
                      struct step *step, struct error *error) {
  const struct confinement *confinement = context->confinement;
  const bool is_allowed =
      !is_command(step) || confinement_check_command(confinement, step->target, error) == 0;
  self->is_refused = !is_allowed || confinement_plan(confinement, step, &self->plan, error) != 0;
  step->is_fenced = self->plan.has_fence;
}

void step_policy_release(struct step_policy *self) {
  denials_release(&self->plan);
}

void step_policy_log_missing(const struct confinement_plan *plan, const struct log *log,
                             const char *step_id) {
  const char *const *missing = plan->missing;
  struct buffer words = {0};
  if (missing[0] == NULL)
    return;
  for (size_t i = 0; missing[i] != NULL; i++)
    buffer_add_format(&words, "%s%s", i > 0 ? ", " : "", missing[i]);
  log_line(log, LOG_WARN, step_id, "a part of the sandbox policy is not enforced: %.*s",
           (int)words.length, words.bytes);
  buffer_release(&words);
}

void step_policy_log(const struct step_policy *self, const struct log *log,
                     const struct step *step) {
  if (!self->is_refused && step->fence != NULL)
    step_policy_log_missing(&self->plan, log, step->step_id);
}

/* Returns the access that a file kind was denied. A kind that writes may also read, which it was
   denied if no policy restricts writing. */
static enum step_access denied_access(const struct step_policy *self, const struct step *step) {
  bool restricts_writing = false;
  for (const char *const *word = self->plan.enforced; *word != NULL; word++)
    restricts_writing |= strcmp(*word, "write") == 0;
  return kind_of(step)->read_only || !restricts_writing ? STEP_ACCESS_READ : STEP_ACCESS_WRITE;
}

/* A file kind names the path that it was denied. */
static void add_own_denial(struct step_policy *self, const struct step *step,
                           const struct captured_stream *errors) {
  static const char prefix[] = KIND_OUTSIDE_FENCE;
  const size_t begin = sizeof prefix - 1;
  if (errors->length <= begin || memcmp(errors->bytes, prefix, begin) != 0)
    return;
  const char *path = errors->bytes + begin;
  const char *end = memchr(path, '\n', errors->length - begin);
  char *copy = memory_copy(path, end != NULL ? (size_t)(end - path) : errors->length - begin);
  if (strstr(copy, "…") == NULL) /* else the message has only a part of the path */
    denials_add(&self->plan, denied_access(self, step), copy, true);
  free(copy);
}

void step_policy_find_denials(struct step_policy *self, const struct kind_context *context,
                              const struct step *step, const struct execution_result *end) {
  if (!self->plan.has_fence || !execution_result_is_own(end) || execution_result_is_success(end) ||
      end->errors.length == 0)
    return;
  if (!is_command(step)) {
    add_own_denial(self, step, &end->errors);
    return;
  }
  char *directory = kind_command_directory(step);
  if (directory != NULL)
    denials_find(&self->plan, context->confinement, step->fence, directory, end->errors.bytes,
                 end->errors.length);
  free(directory);
}

const struct step_fence *step_policy_started(const struct step_policy *self) {
  return self->plan.has_fence && !self->is_refused ? &self->plan.report : NULL;
}

const struct step_fence *step_policy_result(const struct step_policy *self) {
  const bool has_news = self->plan.missing[0] != NULL || self->plan.report.denial_count > 0;
  return has_news ? step_policy_started(self) : NULL;
}
