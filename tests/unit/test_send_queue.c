#include "agent/doors/redis/out/send_queue.h"
#include "tests/test.h"

#define CHUNK SEND_QUEUE_CHUNK_SIZE

/* The bytes of all that was ever committed are one known sequence. */
static char byte_at(size_t position) {
  return (char)((position * 2654435761U) >> 13);
}

/* The naive queue: positions in that sequence, and how many commands are queued. */
struct model {
  size_t delivered;
  size_t committed;
  size_t commands;
};

static void put(struct send_queue *send_queue, struct model *model, size_t length,
                size_t commands) {
  char *out = send_queue_reserve(send_queue, length);
  for (size_t i = 0; i < length; i++)
    out[i] = byte_at(model->committed + i);
  send_queue_commit(send_queue, commands);
  model->committed += length;
  model->commands += commands;
}

static void holds_from(const char *bytes, size_t length, size_t position) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i] != byte_at(position + i))
      fail_msg("byte %zu is wrong", position + i);
}

/* All pieces together are what is queued. */
static void compare(const struct send_queue *send_queue, const struct model *model) {
  assert_int_equal(send_queue->bytes, model->committed - model->delivered);
  struct send_queue_piece piece = {.bytes = NULL};
  size_t position = model->delivered;
  while (send_queue_next_piece(send_queue, &piece)) {
    assert_true(piece.length > 0);
    holds_from(piece.bytes, piece.length, position);
    position += piece.length;
  }
  assert_int_equal(position, model->committed);
}

static void check_batch(const struct batch *batch, size_t position) {
  assert_non_null(batch);
  assert_in_range(batch->count, 1, BATCH_PIECES);
  size_t length = 0;
  for (int i = 0; i < batch->count; i++) {
    assert_true(batch->pieces[i].iov_len > 0);
    holds_from(batch->pieces[i].iov_base, batch->pieces[i].iov_len, position + length);
    length += batch->pieces[i].iov_len;
  }
  assert_int_equal(length, batch->length);
  assert_true(batch->count == 1 || length <= BATCH_PIECES * CHUNK);
}

static struct batch batch_of(struct send_queue *send_queue, const struct model *model) {
  const struct batch *batch = send_queue_batch(send_queue);
  check_batch(batch, model->delivered);
  assert_true(batch->length <= send_queue->bytes);
  assert_true(batch->commands <= model->commands);
  return *batch;
}

static void deliver(struct send_queue *send_queue, struct model *model) {
  struct batch batch = batch_of(send_queue, model);
  send_queue_delivered(send_queue);
  model->delivered += batch.length;
  model->commands -= batch.commands;
}

static void drain(struct send_queue *send_queue, struct model *model) {
  while (model->delivered < model->committed)
    deliver(send_queue, model);
  assert_int_equal(model->commands, 0);
  compare(send_queue, model);
  assert_null(send_queue_batch(send_queue));
  assert_null(send_queue->first); /* nothing is kept for what has gone, but the one to come */
  assert_null(send_queue->last);
}

TEST(an_empty_one_has_nothing) {
  struct send_queue send_queue;
  struct model model = {0};
  send_queue_init(&send_queue);
  assert_null(send_queue_batch(&send_queue));
  compare(&send_queue, &model);
  memset(send_queue_reserve(&send_queue, 5), 'x', 5); /* is not there until it is committed */
  assert_null(send_queue_batch(&send_queue));
  assert_null(send_queue_next_batch(&send_queue));
  compare(&send_queue, &model);
  send_queue_free(&send_queue);
  send_queue_free(&send_queue); /* is empty again */
}

TEST(what_is_queued_leaves_together) {
  struct send_queue send_queue;
  struct model model = {0};
  send_queue_init(&send_queue);
  put(&send_queue, &model, 10, 1);
  put(&send_queue, &model, 20, 3);
  put(&send_queue, &model, CHUNK, 2);
  struct batch batch = batch_of(&send_queue, &model);
  assert_int_equal(batch.length, 30 + CHUNK);
  assert_int_equal(batch.commands, 6);
  assert_int_equal(batch.count, 2);
  drain(&send_queue, &model);
  send_queue_free(&send_queue);
}

TEST(a_batch_stays_what_it_is) {
  struct send_queue send_queue;
  struct model model = {0};
  send_queue_init(&send_queue);
  put(&send_queue, &model, 10, 1);
  struct batch batch = batch_of(&send_queue, &model);
  put(&send_queue, &model, 20, 2);
  put(&send_queue, &model, CHUNK, 3);
  for (int times = 0; times < 2; times++) {
    struct batch again = batch_of(&send_queue, &model);
    assert_memory_equal(&again, &batch, sizeof batch);
    assert_int_equal(again.length, 10);
    assert_int_equal(again.commands, 1);
  }
  deliver(&send_queue, &model);
  compare(&send_queue, &model);
  batch = batch_of(&send_queue, &model);
  assert_int_equal(batch.length, 20 + CHUNK);
  assert_int_equal(batch.commands, 5);
  drain(&send_queue, &model);
  send_queue_free(&send_queue);
}

TEST(a_batch_has_at_most_batch_pieces_chunks) {
  struct send_queue send_queue;
  struct model model = {0};
  send_queue_init(&send_queue);
  for (size_t i = 0; i <= BATCH_PIECES; i++)
    put(&send_queue, &model, CHUNK, 2);
  struct batch batch = batch_of(&send_queue, &model);
  assert_int_equal(batch.length, BATCH_PIECES * CHUNK);
  assert_int_equal(batch.commands, 2 * BATCH_PIECES);
  drain(&send_queue, &model);
  send_queue_free(&send_queue);
}

TEST(the_next_batch_is_a_full_one) {
  struct send_queue send_queue;
  struct model model = {0};
  send_queue_init(&send_queue);
  put(&send_queue, &model, 10, 1);
  struct batch batch = batch_of(&send_queue, &model);
  put(&send_queue, &model, 20, 2); /* in the same chunk */
  for (size_t i = 0; i < BATCH_PIECES; i++) {
    assert_null(send_queue_next_batch(&send_queue));
    put(&send_queue, &model, CHUNK, 3);
  }
  struct batch next = *send_queue_next_batch(&send_queue);
  check_batch(&next, batch.length);
  assert_int_equal(next.count, BATCH_PIECES);
  assert_int_equal(next.commands, 2 + 3 * (BATCH_PIECES - 1));
  put(&send_queue, &model, CHUNK, 3);
  assert_memory_equal(send_queue_next_batch(&send_queue), &next,
                      sizeof next); /* stays what it is */
  deliver(&send_queue, &model);
  assert_memory_equal(send_queue_batch(&send_queue), &next, sizeof next);
  check_batch(send_queue_next_batch(&send_queue), model.delivered + next.length);
  compare(&send_queue, &model);
  drain(&send_queue, &model);
  send_queue_free(&send_queue);
}

/* A record is never cut: what does not fit lies in the next chunk. */
TEST(lengths_around_a_chunk) {
  for (size_t length = CHUNK - 3; length <= CHUNK + 3; length++) {
    struct send_queue send_queue;
    struct model model = {0};
    send_queue_init(&send_queue);
    put(&send_queue, &model, 1, 1);
    put(&send_queue, &model, length - 1, 1);
    put(&send_queue, &model, 10 * CHUNK + length, 1);
    put(&send_queue, &model, 3, 1);
    compare(&send_queue, &model);
    struct batch batch = batch_of(&send_queue, &model);
    assert_int_equal(batch.count, length <= CHUNK ? 1 : 2);
    assert_int_equal(batch.length, length);
    deliver(&send_queue, &model);
    assert_int_equal(batch_of(&send_queue, &model).length,
                     10 * CHUNK + length); /* is one by itself */
    deliver(&send_queue, &model);
    assert_int_equal(batch_of(&send_queue, &model).length, 3);
    drain(&send_queue, &model);
    put(&send_queue, &model, 7, 1); /* and it is as new */
    drain(&send_queue, &model);
    send_queue_free(&send_queue);
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

TEST(behaves_as_a_naive_queue) {
  for (uint32_t round = 1; round <= 20; round++) {
    uint32_t seed = round;
    struct send_queue send_queue;
    struct model model = {0};
    send_queue_init(&send_queue);
    for (int turn = 0; turn < 600; turn++) {
      uint32_t what = next_random(&seed) % 4;
      if (what < 2)
        put(&send_queue, &model, random_length(&seed), next_random(&seed) % 4);
      else if (model.committed == model.delivered)
        continue;
      else if (what == 2)
        (void)batch_of(&send_queue, &model); /* sent, and its reply lost */
      else if (next_random(&seed) % 2 == 0 && send_queue_batch(&send_queue) != NULL &&
               send_queue_next_batch(&send_queue) != NULL)
        check_batch(send_queue_next_batch(&send_queue),
                    model.delivered + send_queue_batch(&send_queue)->length);
      else
        deliver(&send_queue, &model);
      if (turn % 16 == 0)
        compare(&send_queue, &model);
    }
    if (round % 2 == 0)
      drain(&send_queue, &model);
    send_queue_free(&send_queue); /* with or without something in it */
  }
}
