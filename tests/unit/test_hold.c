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

static void holds_from(const char *bytes, size_t length, size_t position) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i] != byte_at(position + i))
      fail_msg("byte %zu is wrong", position + i);
}

/* All pieces together are what is held. */
static void compare(const struct hold *hold, const struct model *model) {
  assert_int_equal(hold->bytes, model->committed - model->delivered);
  struct hold_piece piece = {.bytes = NULL};
  size_t position = model->delivered;
  while (hold_next_piece(hold, &piece)) {
    assert_true(piece.length > 0);
    holds_from(piece.bytes, piece.length, position);
    position += piece.length;
  }
  assert_int_equal(position, model->committed);
}

static void check_window(const struct hold_window *window, size_t position) {
  assert_non_null(window);
  assert_in_range(window->count, 1, HOLD_WINDOW_PIECES);
  size_t length = 0;
  for (int i = 0; i < window->count; i++) {
    assert_true(window->pieces[i].iov_len > 0);
    holds_from(window->pieces[i].iov_base, window->pieces[i].iov_len, position + length);
    length += window->pieces[i].iov_len;
  }
  assert_int_equal(length, window->length);
  assert_true(window->count == 1 || length <= HOLD_WINDOW_PIECES * CHUNK);
}

static struct hold_window window_of(struct hold *hold, const struct model *model) {
  const struct hold_window *window = hold_window(hold);
  check_window(window, model->delivered);
  assert_true(window->length <= hold->bytes);
  assert_true(window->commands <= model->commands);
  return *window;
}

static void deliver(struct hold *hold, struct model *model) {
  struct hold_window window = window_of(hold, model);
  hold_delivered(hold);
  model->delivered += window.length;
  model->commands -= window.commands;
}

static void drain(struct hold *hold, struct model *model) {
  while (model->delivered < model->committed)
    deliver(hold, model);
  assert_int_equal(model->commands, 0);
  compare(hold, model);
  assert_null(hold_window(hold));
  assert_null(hold->first); /* nothing is kept for what has gone, but the one to come */
  assert_null(hold->last);
}

static void an_empty_one_has_nothing(void **state) {
  (void)state;
  struct hold hold;
  struct model model = {0};
  hold_init(&hold);
  assert_null(hold_window(&hold));
  compare(&hold, &model);
  memset(hold_reserve(&hold, 5), 'x', 5); /* is not there until it is committed */
  assert_null(hold_window(&hold));
  assert_null(hold_window_behind(&hold));
  compare(&hold, &model);
  hold_free(&hold);
  hold_free(&hold); /* is empty again */
}

static void what_is_there_leaves_together(void **state) {
  (void)state;
  struct hold hold;
  struct model model = {0};
  hold_init(&hold);
  put(&hold, &model, 10, 1);
  put(&hold, &model, 20, 3);
  put(&hold, &model, CHUNK, 2);
  struct hold_window window = window_of(&hold, &model);
  assert_int_equal(window.length, 30 + CHUNK);
  assert_int_equal(window.commands, 6);
  assert_int_equal(window.count, 2);
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
    assert_memory_equal(&again, &window, sizeof window);
    assert_int_equal(again.length, 10);
    assert_int_equal(again.commands, 1);
  }
  deliver(&hold, &model);
  compare(&hold, &model);
  window = window_of(&hold, &model);
  assert_int_equal(window.length, 20 + CHUNK);
  assert_int_equal(window.commands, 5);
  drain(&hold, &model);
  hold_free(&hold);
}

static void a_window_is_so_many_chunks(void **state) {
  (void)state;
  struct hold hold;
  struct model model = {0};
  hold_init(&hold);
  for (size_t i = 0; i <= HOLD_WINDOW_PIECES; i++)
    put(&hold, &model, CHUNK, 2);
  struct hold_window window = window_of(&hold, &model);
  assert_int_equal(window.length, HOLD_WINDOW_PIECES * CHUNK);
  assert_int_equal(window.commands, 2 * HOLD_WINDOW_PIECES);
  drain(&hold, &model);
  hold_free(&hold);
}

static void behind_it_there_is_nothing_less_than_a_window(void **state) {
  (void)state;
  struct hold hold;
  struct model model = {0};
  hold_init(&hold);
  put(&hold, &model, 10, 1);
  struct hold_window window = window_of(&hold, &model);
  put(&hold, &model, 20, 2); /* in the same chunk */
  for (size_t i = 0; i < HOLD_WINDOW_PIECES; i++) {
    assert_null(hold_window_behind(&hold));
    put(&hold, &model, CHUNK, 3);
  }
  struct hold_window behind = *hold_window_behind(&hold);
  check_window(&behind, window.length);
  assert_int_equal(behind.count, HOLD_WINDOW_PIECES);
  assert_int_equal(behind.commands, 2 + 3 * (HOLD_WINDOW_PIECES - 1));
  put(&hold, &model, CHUNK, 3);
  assert_memory_equal(hold_window_behind(&hold), &behind, sizeof behind); /* stays what it is */
  deliver(&hold, &model);
  assert_memory_equal(hold_window(&hold), &behind, sizeof behind);
  check_window(hold_window_behind(&hold), model.delivered + behind.length);
  compare(&hold, &model);
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
    struct hold_window window = window_of(&hold, &model);
    assert_int_equal(window.count, length <= CHUNK ? 1 : 2);
    assert_int_equal(window.length, length);
    deliver(&hold, &model);
    assert_int_equal(window_of(&hold, &model).length, 10 * CHUNK + length); /* is one by itself */
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
      else if (next_random(&seed) % 2 == 0 && hold_window(&hold) != NULL &&
               hold_window_behind(&hold) != NULL)
        check_window(hold_window_behind(&hold), model.delivered + hold_window(&hold)->length);
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
      cmocka_unit_test(what_is_there_leaves_together),
      cmocka_unit_test(a_window_stays_what_it_is),
      cmocka_unit_test(a_window_is_so_many_chunks),
      cmocka_unit_test(behind_it_there_is_nothing_less_than_a_window),
      cmocka_unit_test(lengths_around_a_chunk),
      cmocka_unit_test(behaves_as_a_naive_queue),
  };
  return cmocka_run_group_tests_name("hold", tests, NULL, NULL);
}
