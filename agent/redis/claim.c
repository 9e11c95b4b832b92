#include "agent/redis/claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What is not of this form was not written by an agent: nobody's claim. */
static struct claim parse(const char *value, size_t length) {
  static const struct claim nobody = {0};
  char text[CLAIM_TEXT_SIZE], same[CLAIM_TEXT_SIZE];
  struct claim claim;
  if (value == NULL || length >= sizeof text)
    return nobody;
  memcpy(text, value, length);
  text[length] = '\0';
  if (sscanf(text, "%" SCNu64 ":%16" SCNx64 ":%" SCNu64, &claim.generation, &claim.nonce,
             &claim.delivered) != 3 ||
      claim.generation >= UINT64_MAX / 2)
    return nobody;
  /* Signs, spaces and what follows the number pass there. */
  bool is_ours = claim_text(&claim, claim.delivered, same) == length;
  return is_ours && memcmp(text, same, length) == 0 ? claim : nobody;
}

void claim_init(struct claim *self, uint64_t nonce) {
  *self = (struct claim){.nonce = nonce};
}

bool claim_is_made(const struct claim *self) {
  return self->delivered > 0;
}

struct claim_news claim_see(struct claim *self, bool executed, const char *value, size_t length) {
  if (self->generation == 0) {
    self->generation = parse(value, length).generation + 1;
    return (struct claim_news){0};
  }
  self->delivered += executed;
  enum claim_verdict outcome_result = claim_judge(self, value, length);
  self->delivered += outcome_result == CLAIM_DELIVERED;
  return (struct claim_news){.arrived = executed || outcome_result == CLAIM_DELIVERED,
                             .forgotten = outcome_result == CLAIM_FORGOTTEN,
                             .taken = outcome_result == CLAIM_TAKEN};
}

enum claim_verdict claim_judge(const struct claim *self, const char *value, size_t length) {
  struct claim theirs = parse(value, length);
  if (theirs.generation == self->generation && theirs.nonce == self->nonce) {
    if (theirs.delivered == self->delivered + 1)
      return CLAIM_DELIVERED;
    return theirs.delivered == self->delivered ? CLAIM_PENDING : CLAIM_FORGOTTEN;
  }
  if (theirs.generation >= self->generation)
    return CLAIM_TAKEN;
  /* Somebody before, or nobody: before the first window that is as it should be. */
  return self->delivered == 0 ? CLAIM_PENDING : CLAIM_FORGOTTEN;
}

bool claim_is_unchanged(struct claim *self, const char *value, size_t length) {
  if (self->last[0] == '\0' || self->last_number != self->delivered)
    (void)claim_text(self, self->delivered, self->last);
  self->last_number = self->delivered;
  return value != NULL && strlen(self->last) == length && memcmp(value, self->last, length) == 0;
}

size_t claim_text(const struct claim *self, uint64_t number, char out[CLAIM_TEXT_SIZE]) {
  return (size_t)snprintf(out, CLAIM_TEXT_SIZE, "%" PRIu64 ":%016" PRIx64 ":%" PRIu64,
                          self->generation, self->nonce, number);
}
