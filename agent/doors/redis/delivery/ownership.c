#include "agent/doors/redis/delivery/ownership.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/decimal.h"

static_assert(OWNERSHIP_TEXT_SIZE > 2 * DECIMAL_LENGTH_MAX + 16 + 2, "three numbers, two colons");

/* From here on raising the epoch would end in an overflow one day; no agent gets there. */
#define EPOCH_MAX (UINT64_MAX / 2)

/* A value of another form was not written by an agent: it counts as no owner at all, epoch 0. */
static struct ownership parse(const char *value, size_t length) {
  static const struct ownership nobody = {0};
  char text[OWNERSHIP_TEXT_SIZE], same[OWNERSHIP_TEXT_SIZE];
  struct ownership ownership;
  if (value == NULL || length >= sizeof text)
    return nobody;
  memcpy(text, value, length);
  text[length] = '\0';
  char *end;
  ownership.epoch = strtoull(text, &end, 10);
  ownership.instance = strtoull(*end == ':' ? end + 1 : end, &end, 16);
  ownership.delivered = strtoull(*end == ':' ? end + 1 : end, NULL, 10);
  if (ownership.epoch >= EPOCH_MAX)
    return nobody;
  /* Signs, spaces and trailing bytes were accepted; the text that an agent writes has none. */
  bool is_ours = ownership_text(&ownership, ownership.delivered, same) == length;
  return is_ours && memcmp(text, same, length) == 0 ? ownership : nobody;
}

enum ownership_state ownership_update(struct ownership *self, bool executed, const char *value,
                                      size_t length) {
  if (self->epoch == 0) {
    self->epoch = parse(value, length).epoch + 1;
    return OWNERSHIP_PENDING;
  }
  self->delivered += executed;
  enum ownership_state state = ownership_compare(self, value, length);
  self->delivered += state == OWNERSHIP_DELIVERED;
  return state;
}

enum ownership_state ownership_compare(const struct ownership *self, const char *value,
                                       size_t length) {
  struct ownership theirs = parse(value, length);
  if (theirs.epoch == self->epoch && theirs.instance == self->instance) {
    if (theirs.delivered == self->delivered + 1)
      return OWNERSHIP_DELIVERED;
    return theirs.delivered == self->delivered ? OWNERSHIP_PENDING : OWNERSHIP_LOST_DATA;
  }
  if (theirs.epoch >= self->epoch)
    return OWNERSHIP_TAKEN;
  /* An earlier owner, or none. Before the first transaction that is as it should be; after it,
     Redis went back to an older state. */
  return self->delivered == 0 ? OWNERSHIP_PENDING : OWNERSHIP_LOST_DATA;
}

size_t ownership_text(const struct ownership *self, uint64_t sequence,
                      char out[OWNERSHIP_TEXT_SIZE]) {
  int length = snprintf(out, OWNERSHIP_TEXT_SIZE, "%" PRIu64 ":%016" PRIx64 ":%" PRIu64,
                        self->epoch, self->instance, sequence);
  CHECK(length > 0 && length < OWNERSHIP_TEXT_SIZE);
  return (size_t)length;
}
