#include "agent/frontends/redis/delivery/ownership.h"

#include "base/decimal.h"
#include <assert.h>

#define INSTANCE_LENGTH 16 /* hexadecimal digits */

static_assert(OWNERSHIP_TEXT_SIZE > 2 * DECIMAL_LENGTH_MAX + INSTANCE_LENGTH + 2,
              "a token has two decimal numbers, the instance and two colons");

/* A value with a larger epoch is treated as foreign text, so that the epoch never overflows. */
#define EPOCH_MAX (UINT64_MAX / 2)

/* Reads a number in the form that decimal_write writes: without a sign and leading zeros. */
static bool parse_decimal(const char **at, const char *end, uint64_t *number) {
  const char *begin = *at;
  *number = 0;
  for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
    const uint64_t digit = (uint64_t)(**at - '0');
    if (*number > (UINT64_MAX - digit) / 10)
      return false;
    *number = 10 * *number + digit;
  }
  return (size_t)(*at - begin) == decimal_length(*number);
}

static bool parse_instance(const char **at, const char *end, uint64_t *instance) {
  *instance = 0;
  if (end - *at < INSTANCE_LENGTH)
    return false;
  for (int i = 0; i < INSTANCE_LENGTH; i++, ++*at) {
    const bool is_letter = **at >= 'a' && **at <= 'f';
    if (!is_letter && (**at < '0' || **at > '9'))
      return false;
    *instance = *instance << 4 | (uint64_t)(is_letter ? **at - 'a' + 10 : **at - '0');
  }
  return true;
}

static bool parse_colon(const char **at, const char *end) {
  return *at < end && *(*at)++ == ':';
}

/* Returns epoch 0, which is no owner, for a value that no agent can have written. */
static struct ownership parse(const char *value, size_t length) {
  struct ownership ownership;
  if (value == NULL)
    return (struct ownership){0};
  const char *at = value, *end = value + length;
  bool is_token = parse_decimal(&at, end, &ownership.epoch) && parse_colon(&at, end) &&
                  parse_instance(&at, end, &ownership.instance) && parse_colon(&at, end) &&
                  parse_decimal(&at, end, &ownership.delivered) && at == end &&
                  ownership.epoch < EPOCH_MAX;
  return is_token ? ownership : (struct ownership){0};
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
  /* The value names an earlier owner, or none. Before this agent's first transaction, that is the
     normal case. After it, Redis has gone back to an older state. */
  return self->delivered == 0 ? OWNERSHIP_PENDING : OWNERSHIP_LOST_DATA;
}

size_t ownership_text(const struct ownership *self, uint64_t sequence,
                      char out[OWNERSHIP_TEXT_SIZE]) {
  char *at = decimal_write(out, self->epoch);
  *at++ = ':';
  for (int shift = 4 * (INSTANCE_LENGTH - 1); shift >= 0; shift -= 4)
    *at++ = "0123456789abcdef"[self->instance >> shift & 0xF];
  *at++ = ':';
  at = decimal_write(at, sequence);
  *at = '\0';
  return (size_t)(at - out);
}
