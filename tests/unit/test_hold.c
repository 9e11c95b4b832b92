#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/hold.h"

#define CHUNK ((size_t)64 * 1024)

enum { PIECES = 8 };

/* The bytes of all records ever made are one known sequence, whatever their lengths. */
static char byte_at(size_t position) {
  return (char)((position * 2654435761U) >> 13);
}

/* The naive queue: lengths of records, and positions in that sequence. */
enum { RECORDS_MAX = 4096 };

struct model {
  size_t lengths[RECORDS_MAX];
  size_t first; /* oldest not acknowledged */
  size_t count; /* all that were ever committed */
  size_t acknowledged;
  size_t sent;
  size_t released;
  size_t committed;
};

static void put(struct hold *hold, struct model *model, size_t length) {
  char *out = hold_reserve(hold, length);
  for (size_t i = 0; i < length; i++)
    out[i] = byte_at(model->committed + i);
  hold_commit(hold);
  model->lengths[model->count++] = length;
  model->committed += length;
}

static void release(struct hold *hold, struct model *model) {
  hold_release_all(hold);
  model->released = model->committed;
}

/* Looks at what is to be sent, and says that so much of it was, at the most. */
static void send_some(struct hold *hold, struct model *model, int most, size_t length) {
  struct iovec pieces[PIECES];
  int count = hold_unsent(hold, pieces, most);
  assert_in_range(count, 0, most);
  size_t at = model->sent;
  for (int i = 0; i < count; i++) {
    const char *bytes = pieces[i].iov_base;
    assert_true(pieces[i].iov_len > 0);
    for (size_t k = 0; k < pieces[i].iov_len; k++, at++)
      if (bytes[k] != byte_at(at))
        fail_msg("byte %zu is wrong", at);
  }
  assert_true(at <= model->released);
  if (count < most)
    assert_int_equal(at, model->released);
  size_t sent = at - model->sent < length ? at - model->sent : length;
  hold_sent(hold, sent);
  model->sent += sent;
}

static bool acknowledge(struct hold *hold, struct model *model) {
  if (model->first == model->count ||
      model->acknowledged + model->lengths[model->first] > model->sent)
    return false;
  model->acknowledged += model->lengths[model->first++];
  hold_acknowledged(hold);
  return true;
}

static void rewind_to_oldest(struct hold *hold, struct model *model) {
  hold_rewind(hold);
  model->sent = model->acknowledged;
}

static void compare(const struct hold *hold, const struct model *model) {
  assert_int_equal(hold->records, model->count - model->first);
  assert_int_equal(hold->bytes, model->committed - model->acknowledged);
  size_t length = 0;
  const char *oldest = hold_oldest(hold, &length);
  if (model->first == model->count) {
    assert_null(oldest);
    return;
  }
  assert_int_equal(length, model->lengths[model->first]);
  assert_true(oldest[0] == byte_at(model->acknowledged));
  assert_true(oldest[length - 1] == byte_at(model->acknowledged + length - 1));
}

static void drain(struct hold *hold, struct model *model) {
  release(hold, model);
  while (model->sent < model->committed)
    send_some(hold, model, PIECES, SIZE_MAX);
  while (acknowledge(hold, model))
    compare(hold, model);
  assert_int_equal(hold->records, 0);
  assert_int_equal(hold->bytes, 0);
  assert_null(hold->first); /* nothing is kept for what has gone */
}

static void an_empty_one_has_nothing(void **state) {
  (void)state;
  struct hold hold;
  struct iovec piece;
  size_t length;
  hold_init(&hold);
  hold_release_all(&hold);
  hold_rewind(&hold);
  hold_sent(&hold, 0);
  assert_null(hold_oldest(&hold, &length));
  assert_int_equal(hold_unsent(&hold, &piece, 1), 0);
  hold_free(&hold);
  hold_free(&hold); /* is empty again */
}

static void what_is_not_released_is_not_sent(void **state) {
  (void)state;
  struct hold hold;
  struct model model = {0};
  struct iovec piece;
  hold_init(&hold);
  put(&hold, &model, 10);
  assert_int_equal(hold_unsent(&hold, &piece, 1), 0);
  release(&hold, &model);
  put(&hold, &model, 10);
  assert_int_equal(hold_unsent(&hold, &piece, 1), 1);
  assert_int_equal(piece.iov_len, 10);
  assert_int_equal(hold_unsent(&hold, &piece, 0), 0);
  /* What is reserved is not there until it is committed. */
  memset(hold_reserve(&hold, 5), 'x', 5);
  hold_release_all(&hold);
  assert_int_equal(hold_unsent(&hold, &piece, 1), 1);
  assert_int_equal(piece.iov_len, 20);
  assert_int_equal(hold.records, 2);
  hold_free(&hold);
}

static void what_was_sent_is_sent_again(void **state) {
  (void)state;
  struct hold hold;
  struct model model = {0};
  hold_init(&hold);
  for (size_t length = 1; length <= 5; length++)
    put(&hold, &model, length);
  release(&hold, &model);
  send_some(&hold, &model, PIECES, 8); /* three records and two bytes */
  assert_true(acknowledge(&hold, &model));
  rewind_to_oldest(&hold, &model);
  send_some(&hold, &model, PIECES, SIZE_MAX);
  assert_int_equal(model.sent, 15);
  rewind_to_oldest(&hold, &model);
  rewind_to_oldest(&hold, &model);
  drain(&hold, &model);
  put(&hold, &model, 7); /* and it is as new */
  drain(&hold, &model);
  hold_free(&hold);
}

/* Around the size of a chunk, where the lengths of its records, 4 bytes each, lie too. */
static void lengths_around_a_chunk(void **state) {
  (void)state;
  for (size_t length = CHUNK - 16; length <= CHUNK + 16; length++) {
    struct hold hold;
    struct model model = {0};
    hold_init(&hold);
    put(&hold, &model, 1);
    put(&hold, &model, length - 12);
    for (size_t i = 0; i < 8; i++)
      put(&hold, &model, i + 1);
    put(&hold, &model, length);
    put(&hold, &model, 10 * CHUNK + length % 4);
    put(&hold, &model, 3);
    release(&hold, &model);
    send_some(&hold, &model, 1, 1);
    compare(&hold, &model);
    drain(&hold, &model);
    hold_free(&hold);
  }
}

static void many_small_records_fill_a_chunk(void **state) {
  (void)state;
  struct hold hold;
  static struct model model;
  model = (struct model){0};
  hold_init(&hold);
  for (int round = 0; round < 8; round++) {
    const struct hold_chunk *chunk = NULL;
    model.count = model.first = 0;
    for (int i = 0; i < RECORDS_MAX; i++) {
      put(&hold, &model, 13);
      chunk = chunk == NULL ? hold.last : chunk;
    }
    assert_true(chunk != hold.last || 17 * RECORDS_MAX < CHUNK);
    drain(&hold, &model);
  }
  hold_free(&hold);
}

static uint32_t next_random(uint32_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 17;
  *seed ^= *seed << 5;
  return *seed;
}

static size_t random_length(uint32_t *seed) {
  static const size_t most[] = {1, 4, 100, 100, 1000, 5000, CHUNK, 3 * CHUNK};
  size_t limit = most[next_random(seed) % (sizeof most / sizeof *most)];
  return 1 + next_random(seed) % limit;
}

static void behaves_as_a_naive_queue(void **state) {
  (void)state;
  for (uint32_t round = 1; round <= 20; round++) {
    uint32_t seed = round;
    struct hold hold;
    static struct model model;
    model = (struct model){0};
    hold_init(&hold);
    while (model.count < 300) {
      switch (next_random(&seed) % 8) {
      case 0:
      case 1:
      case 2:
        put(&hold, &model, random_length(&seed));
        break;
      case 3:
        release(&hold, &model);
        break;
      case 4:
      case 5:
        send_some(&hold, &model, 1 + (int)(next_random(&seed) % PIECES), random_length(&seed));
        break;
      case 6:
        for (uint32_t n = next_random(&seed) % 8; n > 0 && acknowledge(&hold, &model); n--)
          compare(&hold, &model);
        break;
      default:
        if (next_random(&seed) % 4 == 0)
          rewind_to_oldest(&hold, &model);
      }
      compare(&hold, &model);
    }
    if (round % 2 == 0)
      drain(&hold, &model);
    hold_free(&hold); /* with or without records in it */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_one_has_nothing),
      cmocka_unit_test(what_is_not_released_is_not_sent),
      cmocka_unit_test(what_was_sent_is_sent_again),
      cmocka_unit_test(lengths_around_a_chunk),
      cmocka_unit_test(many_small_records_fill_a_chunk),
      cmocka_unit_test(behaves_as_a_naive_queue),
  };
  return cmocka_run_group_tests_name("hold", tests, NULL, NULL);
}
