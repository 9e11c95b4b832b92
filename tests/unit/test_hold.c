#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/redis/hold.h"

#define CHUNK HOLD_CHUNK_SIZE

/* The bytes of all that was ever committed are one known sequence. */
static char byte_at(size_t position) {
  return (char)((position * 2654435761U) >> 13);
}

/* The naive queue: positions in that sequence, and how many commands are held. */
struct model {
  size_t delivered;
  size_t committed;
  size_t commands;
};

static void put(struct hold *hold, struct model *model, size_t length, size_t commands) {
  char *out = hold_reserve(hold, length);
  for (size_t i = 0; i < length; i++)
    out[i] = byte_at(model->committed + i);
  hold_commit(hold, commands);
  model->committed += length;
  model->commands += commands;
}

static void holds_from(const struct hold_window *piece, size_t position) {
  for (size_t i = 0; i < piece->length; i++)
    if (piece->bytes[i] != byte_at(position + i))
      fail_msg("byte %zu is wrong", position + i);
}

/* All pieces together are what is held. */
static void compare(const struct hold *hold, const struct model *model) {
  assert_int_equal(hold->bytes, model->committed - model->delivered);
  struct hold_window piece = {.bytes = NULL};
  size_t position = model->delivered, commands = 0;
  while (hold_next_piece(hold, &piece)) {
    assert_true(piece.length > 0);
    holds_from(&piece, position);
    position += piece.length;
    commands += piece.commands;
  }
  assert_int_equal(position, model->committed);
  assert_int_equal(commands, model->commands);
}

static struct hold_window window_of(struct hold *hold, const struct model *model) {
  struct hold_window window;
  assert_true(hold_window(hold, &window));
  assert_true(window.length > 0 && window.length <= hold->bytes);
  assert_true(window.commands <= model->commands);
  holds_from(&window, model->delivered);
  return window;
}

static void deliver(struct hold *hold, struct model *model) {
  struct hold_window window = window_of(hold, model);
  hold_delivered(hold);
  model->delivered += window.length;
  model->commands -= window.commands;
}

static void drain(struct hold *hold, struct model *model) {
  struct hold_window window;
  while (model->delivered < model->committed)
    deliver(hold, model);
  assert_int_equal(model->commands, 0);
  compare(hold, model);
  assert_false(hold_window(hold, &window));
  assert_null(hold->first); /* nothing is kept for what has gone */
  assert_null(hold->last);
}

static void an_empty_one_has_nothing(void **state) {
  (void)state;
  struct hold hold;
  struct hold_window window;
  struct model model = {0};
  hold_init(&hold);
  assert_false(hold_window(&hold, &window));
  compare(&hold, &model);
  memset(hold_reserve(&hold, 5), 'x', 5); /* is not there until it is committed */
  assert_false(hold_window(&hold, &window));
  compare(&hold, &model);
  hold_free(&hold);
  hold_free(&hold); /* is empty again */
}

static void what_lies_in_one_piece_leaves_together(void **state) {
  (void)state;
  struct hold hold;
  struct model model = {0};
  hold_init(&hold);
  put(&hold, &model, 10, 1);
  put(&hold, &model, 20, 3);
  struct hold_window window = window_of(&hold, &model);
  assert_int_equal(window.length, 30);
  assert_int_equal(window.commands, 4);
  drain(&hold, &model);
  hold_free(&hold);
}

static void a_window_stays_what_it_is(void **state) {
  (void)state;
  struct hold hold;
  struct model model = {0};
  hold_init(&hold);
  put(&hold, &model, 10, 1);
  struct hold_window window = window_of(&hold, &model);
  put(&hold, &model, 20, 2);
  put(&hold, &model, CHUNK, 3);
  for (int times = 0; times < 2; times++) {
    struct hold_window again = window_of(&hold, &model);
    assert_ptr_equal(again.bytes, window.bytes);
    assert_int_equal(again.length, 10);
    assert_int_equal(again.commands, 1);
  }
  deliver(&hold, &model);
  compare(&hold, &model);
  window = window_of(&hold, &model);
  assert_int_equal(window.length, 20);
  assert_int_equal(window.commands, 2);
  drain(&hold, &model);
  hold_free(&hold);
}

/* A record is never cut: what does not fit lies in the next chunk. */
static void lengths_around_a_chunk(void **state) {
  (void)state;
  for (size_t length = CHUNK - 3; length <= CHUNK + 3; length++) {
    struct hold hold;
    struct model model = {0};
    hold_init(&hold);
    put(&hold, &model, 1, 1);
    put(&hold, &model, length - 1, 1);
    put(&hold, &model, 10 * CHUNK + length, 1);
    put(&hold, &model, 3, 1);
    compare(&hold, &model);
    assert_int_equal(window_of(&hold, &model).length, length <= CHUNK ? length : 1);
    deliver(&hold, &model);
    if (length > CHUNK)
      deliver(&hold, &model);
    assert_int_equal(window_of(&hold, &model).length, 10 * CHUNK + length);
    deliver(&hold, &model);
    assert_int_equal(window_of(&hold, &model).length, 3);
    drain(&hold, &model);
    put(&hold, &model, 7, 1); /* and it is as new */
    drain(&hold, &model);
    hold_free(&hold);
  }
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
    struct model model = {0};
    hold_init(&hold);
    for (int turn = 0; turn < 600; turn++) {
      uint32_t what = next_random(&seed) % 4;
      if (what < 2)
        put(&hold, &model, random_length(&seed), next_random(&seed) % 4);
      else if (model.committed == model.delivered)
        continue;
      else if (what == 2)
        (void)window_of(&hold, &model); /* sent, and its answer lost */
      else
        deliver(&hold, &model);
      if (turn % 16 == 0)
        compare(&hold, &model);
    }
    if (round % 2 == 0)
      drain(&hold, &model);
    hold_free(&hold); /* with or without something in it */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_one_has_nothing),
      cmocka_unit_test(what_lies_in_one_piece_leaves_together),
      cmocka_unit_test(a_window_stays_what_it_is),
      cmocka_unit_test(lengths_around_a_chunk),
      cmocka_unit_test(behaves_as_a_naive_queue),
  };
  return cmocka_run_group_tests_name("hold", tests, NULL, NULL);
}
