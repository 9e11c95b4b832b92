#include "agent/frontends/redis/delivery/retention.h"
#include "tests/test.h"

enum { MAXLEN = 1000, KEEP = 100000, BYTES = 10 };

/* A stream of entries of ten bytes each, as Redis would have it. */
struct scene {
  struct retention retention;
  uint64_t queued;
  uint64_t length;
  int64_t now_ms;
};

static struct scene scene_of(uint64_t maxlen, uint64_t keep_bytes) {
  struct scene self = {.now_ms = 1000};
  self.retention = (struct retention){.maxlen = maxlen, .keep_bytes = keep_bytes};
  return self;
}

static void trim(struct scene *self, uint64_t most) {
  self->length = self->length < most ? self->length : most;
}

static void print(struct scene *self, size_t events) {
  for (size_t i = 0; i < events; i++) {
    self->queued += BYTES;
    self->length++;
    uint64_t most = retention_add(&self->retention, 1, BYTES, self->queued);
    if (most > 0)
      trim(self, most);
  }
}

/* All that was queued is delivered; then so much time passes. */
static void pass(struct scene *self, int64_t milliseconds) {
  retention_delivered(&self->retention, self->queued, self->now_ms);
  self->now_ms += milliseconds;
  retention_delivered(&self->retention, self->queued, self->now_ms);
  if (retention_is_due(&self->retention))
    trim(self, MAXLEN);
}

TEST(young_events_are_kept_and_trimmed_when_they_are_not) {
  struct scene scene = scene_of(MAXLEN, KEEP);
  print(&scene, 9000);
  assert_int_equal(scene.length, 9000);
  pass(&scene, RETENTION_MS - 1);
  assert_int_equal(scene.length, 9000);
  assert_false(retention_is_settled(&scene.retention));
  pass(&scene, 1);
  assert_int_equal(scene.length, MAXLEN);
  assert_true(retention_is_settled(&scene.retention));
}

TEST(events_are_young_from_their_delivery_on) {
  struct scene scene = scene_of(MAXLEN, KEEP);
  print(&scene, 5000);
  scene.now_ms += 60 * RETENTION_MS; /* Redis is away */
  retention_delivered(&scene.retention, 0, scene.now_ms);
  assert_false(retention_is_due(&scene.retention));
  print(&scene, 1000);
  assert_int_equal(scene.length, 6000);
  pass(&scene, RETENTION_MS - 1);
  assert_int_equal(scene.length, 6000);
}

TEST(young_events_have_no_more_than_their_bytes) {
  struct scene scene = scene_of(MAXLEN, KEEP);
  for (int i = 0; i < 100; i++) {
    print(&scene, 1000);
    retention_delivered(&scene.retention, scene.queued, scene.now_ms++);
    assert_true(scene.length <= (KEEP + KEEP / RETENTION_PARTS) / BYTES + RETENTION_SLACK + 1);
  }
  assert_true(scene.length >= (KEEP - 2 * KEEP / RETENTION_PARTS) / BYTES);
}

/* As long as something is printed nobody is asked whether it is due. */
TEST(a_trickle_ends_what_a_burst_began) {
  struct scene scene = scene_of(MAXLEN, KEEP);
  print(&scene, 9000);
  for (int i = 0; i < 40; i++) {
    retention_delivered(&scene.retention, scene.queued, scene.now_ms);
    scene.now_ms += RETENTION_SPAN_MS;
    retention_delivered(&scene.retention, scene.queued, scene.now_ms);
    print(&scene, 1);
  }
  assert_in_range(scene.length, MAXLEN, MAXLEN + RETENTION_SLACK);
}

TEST(a_short_stream_is_never_trimmed) {
  struct scene scene = scene_of(MAXLEN, KEEP);
  print(&scene, MAXLEN + RETENTION_SLACK);
  assert_true(retention_is_settled(&scene.retention));
  pass(&scene, RETENTION_MS);
  assert_int_equal(scene.length, MAXLEN + RETENTION_SLACK);
}

TEST(an_earlier_agents_stream_is_trimmed_once) {
  struct scene scene = scene_of(MAXLEN, KEEP);
  retention_resume(&scene.retention);
  retention_delivered(&scene.retention, 0, scene.now_ms);
  assert_false(retention_is_settled(&scene.retention));
  assert_false(retention_is_due(&scene.retention));
  retention_delivered(&scene.retention, 0, scene.now_ms + RETENTION_MS);
  assert_true(retention_is_due(&scene.retention));
  assert_false(retention_is_due(&scene.retention));
}

/* More deliveries than there are spans, each of them late. */
TEST(any_rhythm_of_deliveries_is_bounded) {
  struct scene scene = scene_of(MAXLEN, KEEP);
  for (int i = 0; i < 3000; i++) {
    print(&scene, (size_t)(i % 7));
    retention_delivered(&scene.retention, scene.queued - scene.queued / 10 % 3 * BYTES,
                        scene.now_ms += i % 97);
    assert_true(scene.retention.count <= RETENTION_SPANS);
  }
}

TEST(without_a_length_or_bytes_it_never_trims) {
  static const uint64_t rows[][2] = {{0, KEEP}, {MAXLEN, 0}};
  for (size_t i = 0; i < 2; i++) {
    struct scene scene = scene_of(rows[i][0], rows[i][1]);
    assert_false(retention_is_on(&scene.retention));
    retention_resume(&scene.retention);
    print(&scene, 5000);
    pass(&scene, RETENTION_MS);
    assert_int_equal(scene.length, 5000);
    assert_true(retention_is_settled(&scene.retention));
  }
}
