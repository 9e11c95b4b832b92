#include "agent/frontends/redis/delivery/send_queue.h"
#include "tests/test.h"

#define CHUNK SEND_QUEUE_CHUNK_SIZE

/* All bytes that are ever committed form a known sequence. */
static char byte_at(size_t position) {
  return (char)((position * 2654435761U) >> 13);
}

/* The queue, and a simple model: positions in that sequence, and the number of queued commands. */
struct trial {
  struct send_queue queue;
  size_t delivered;
  size_t committed;
  size_t commands;
};

static void make(struct trial *trial) {
  *trial = (struct trial){0};
}

static int set_up(void **state) {
  static struct trial trial;
  make(&trial);
  *state = &trial;
  return 0;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  send_queue_free(&trial->queue);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

static void put(struct trial *trial, size_t length, size_t commands) {
  char *out = send_queue_reserve(&trial->queue, length);
  for (size_t i = 0; i < length; i++)
    out[i] = byte_at(trial->committed + i);
  send_queue_commit(&trial->queue, commands);
  trial->committed += length;
  trial->commands += commands;
}

static void holds_from(const char *bytes, size_t length, size_t position) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i] != byte_at(position + i))
      fail_msg("byte %zu is wrong", position + i);
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

static struct batch batch_of(struct trial *trial) {
  const struct batch *batch = send_queue_batch(&trial->queue);
  check_batch(batch, trial->delivered);
  assert_true(batch->length <= trial->queue.bytes);
  assert_true(batch->commands <= trial->commands);
  return *batch;
}

static void deliver(struct trial *trial) {
  struct batch batch = batch_of(trial);
  send_queue_remove_batch(&trial->queue);
  trial->delivered += batch.length;
  trial->commands -= batch.commands;
}

static void drain(struct trial *trial) {
  while (trial->delivered < trial->committed)
    deliver(trial);
  assert_int_equal(trial->commands, 0);
  assert_int_equal(trial->queue.bytes, trial->committed - trial->delivered);
  assert_null(send_queue_batch(&trial->queue));
  assert_null(trial->queue.first); /* only one empty chunk is kept */
  assert_null(trial->queue.last);
}

TRIAL_TEST(an_empty_queue_has_no_batch) {
  assert_null(send_queue_batch(&trial->queue));
  assert_int_equal(trial->queue.bytes, trial->committed - trial->delivered);
  memset(send_queue_reserve(&trial->queue, 5), 'x', 5); /* not queued before the commit */
  assert_null(send_queue_batch(&trial->queue));
  assert_int_equal(trial->queue.bytes, trial->committed - trial->delivered);
  send_queue_free(&trial->queue); /* the queue is empty again */
}

TRIAL_TEST(a_batch_has_at_most_the_maximum_of_chunks) {
  for (size_t i = 0; i <= BATCH_PIECES; i++)
    put(trial, CHUNK, 2);
  struct batch batch = batch_of(trial);
  assert_int_equal(batch.length, BATCH_PIECES * CHUNK);
  assert_int_equal(batch.commands, 2 * BATCH_PIECES);
  drain(trial);
}

/* Reserved bytes that do not fit are in the next chunk. */
TRIAL_TEST(reserved_bytes_are_never_split) {
  for (size_t length = CHUNK - 3; length <= CHUNK + 3; length++) {
    put(trial, 1, 1);
    put(trial, length - 1, 1);
    put(trial, 10 * CHUNK + length, 1);
    put(trial, 3, 1);
    assert_int_equal(trial->queue.bytes, trial->committed - trial->delivered);
    struct batch batch = batch_of(trial);
    assert_int_equal(batch.count, length <= CHUNK ? 1 : 2);
    assert_int_equal(batch.length, length);
    deliver(trial);
    assert_int_equal(batch_of(trial).length, 10 * CHUNK + length); /* a batch by itself */
    deliver(trial);
    assert_int_equal(batch_of(trial).length, 3);
    drain(trial);
    put(trial, 7, 1); /* the queue works as before */
    drain(trial);
    send_queue_free(&trial->queue);
    make(trial);
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

TRIAL_TEST(the_queue_behaves_like_the_model) {
  for (uint32_t round = 1; round <= 20; round++) {
    uint32_t seed = round;
    for (int turn = 0; turn < 600; turn++) {
      uint32_t what = next_random(&seed) % 4;
      if (what < 2)
        put(trial, random_length(&seed), next_random(&seed) % 4);
      else if (trial->committed == trial->delivered)
        continue;
      else if (what == 2)
        (void)batch_of(trial); /* sent, and the reply was lost */
      else
        deliver(trial);
      if (turn % 16 == 0)
        assert_int_equal(trial->queue.bytes, trial->committed - trial->delivered);
    }
    if (round % 2 == 0)
      drain(trial);
    send_queue_free(&trial->queue); /* with or without queued bytes */
    make(trial);
  }
}
