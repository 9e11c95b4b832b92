#include "agent/doors/redis/out/ownership.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What is not of this form was not written by an agent: nobody's claim. */
static struct ownership parse(const char *value, size_t length) {
  static const struct ownership nobody = {0};
  char text[OWNERSHIP_TEXT_SIZE], same[OWNERSHIP_TEXT_SIZE];
  struct ownership ownership;
  if (value == NULL || length >= sizeof text)
    return nobody;
  memcpy(text, value, length);
  text[length] = '\0';
  if (sscanf(text, "%" SCNu64 ":%16" SCNx64 ":%" SCNu64, &ownership.epoch, &ownership.instance,
             &ownership.delivered) != 3 ||
      ownership.epoch >= UINT64_MAX / 2)
    return nobody;
  /* Signs, spaces and what follows the number pass there. */
  bool is_ours = ownership_text(&ownership, ownership.delivered, same) == length;
  return is_ours && memcmp(text, same, length) == 0 ? ownership : nobody;
}

void ownership_init(struct ownership *self, uint64_t instance) {
  *self = (struct ownership){.instance = instance};
}

bool ownership_is_made(const struct ownership *self) {
  return self->delivered > 0;
}

struct ownership_news ownership_see(struct ownership *self, bool executed, const char *value,
                                    size_t length) {
  if (self->epoch == 0) {
    self->epoch = parse(value, length).epoch + 1;
    return (struct ownership_news){0};
  }
  self->delivered += executed;
  enum ownership_verdict outcome_result = ownership_judge(self, value, length);
  self->delivered += outcome_result == OWNERSHIP_DELIVERED;
  return (struct ownership_news){.arrived = executed || outcome_result == OWNERSHIP_DELIVERED,
                                 .forgotten = outcome_result == OWNERSHIP_FORGOTTEN,
                                 .taken = outcome_result == OWNERSHIP_TAKEN};
}

enum ownership_verdict ownership_judge(const struct ownership *self, const char *value,
                                       size_t length) {
  struct ownership theirs = parse(value, length);
  if (theirs.epoch == self->epoch && theirs.instance == self->instance) {
    if (theirs.delivered == self->delivered + 1)
      return OWNERSHIP_DELIVERED;
    return theirs.delivered == self->delivered ? OWNERSHIP_PENDING : OWNERSHIP_FORGOTTEN;
  }
  if (theirs.epoch >= self->epoch)
    return OWNERSHIP_TAKEN;
  /* Somebody before, or nobody: before the first window that is as it should be. */
  return self->delivered == 0 ? OWNERSHIP_PENDING : OWNERSHIP_FORGOTTEN;
}

bool ownership_is_unchanged(struct ownership *self, const char *value, size_t length) {
  if (self->last[0] == '\0' || self->last_number != self->delivered)
    (void)ownership_text(self, self->delivered, self->last);
  self->last_number = self->delivered;
  return value != NULL && strlen(self->last) == length && memcmp(value, self->last, length) == 0;
}

size_t ownership_text(const struct ownership *self, uint64_t number,
                      char out[OWNERSHIP_TEXT_SIZE]) {
  return (size_t)snprintf(out, OWNERSHIP_TEXT_SIZE, "%" PRIu64 ":%016" PRIx64 ":%" PRIu64,
                          self->epoch, self->instance, number);
}
