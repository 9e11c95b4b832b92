#include "agent/frontends/redis/delivery/retention.h"
#include "tests/test.h"

enum { MAXLEN = 1000, KEEP = 100000, BYTES = 10 };

/* A stream with entries of ten bytes each, as Redis would have it. */
struct stream {
  struct retention retention;
  uint64_t queued;
  uint64_t length;
  int64_t now_ms;
};

static struct stream new_stream(uint64_t maxlen, uint64_t keep_bytes) {
  struct stream self = {.now_ms = 1000};
  self.retention = (struct retention){.maxlen = maxlen, .keep_bytes = keep_bytes};
  return self;
}

static void trim(struct stream *self) {
  struct retention_cut cut = retention_trim(&self->retention, RETENTION_UNPROTECTED);
  assert_null(cut.minid);
  if (cut.maxlen > 0 && cut.maxlen < self->length)
    self->length = cut.maxlen;
}

/* As the outbox does when no more events come. */
static void trim_late(struct stream *self) {
  if (!retention_is_trimmed(&self->retention) && !retention_has_young(&self->retention))
    trim(self);
}

static void add_events(struct stream *self, size_t events) {
  for (size_t i = 0; i < events; i++) {
    self->queued += BYTES;
    self->length++;
    if (retention_add(&self->retention, 1, BYTES, self->queued, ""))
      trim(self);
  }
}

/* Delivers everything that was queued; then the time passes. */
static void deliver_and_wait(struct stream *self, int64_t milliseconds) {
  retention_delivered(&self->retention, self->queued, self->now_ms);
  self->now_ms += milliseconds;
  retention_delivered(&self->retention, self->queued, self->now_ms);
  trim_late(self);
}

TEST(young_events_are_kept_until_they_are_old) {
  struct stream stream = new_stream(MAXLEN, KEEP);
  add_events(&stream, 9000);
  assert_int_equal(stream.length, 9000);
  deliver_and_wait(&stream, RETENTION_MS - 1);
  assert_int_equal(stream.length, 9000);
  assert_false(retention_is_trimmed(&stream.retention));
  deliver_and_wait(&stream, 1);
  assert_int_equal(stream.length, MAXLEN);
  assert_true(retention_is_trimmed(&stream.retention));
}

TEST(the_age_of_an_event_counts_from_its_delivery) {
  struct stream stream = new_stream(MAXLEN, KEEP);
  add_events(&stream, 5000);
  stream.now_ms += 60 * RETENTION_MS; /* Redis is away */
  retention_delivered(&stream.retention, 0, stream.now_ms);
  trim_late(&stream);
  add_events(&stream, 1000);
  assert_int_equal(stream.length, 6000);
  deliver_and_wait(&stream, RETENTION_MS - 1);
  assert_int_equal(stream.length, 6000);
}

TEST(young_events_use_at_most_the_allowed_bytes) {
  struct stream stream = new_stream(MAXLEN, KEEP);
  for (int i = 0; i < 100; i++) {
    add_events(&stream, 1000);
    retention_delivered(&stream.retention, stream.queued, stream.now_ms++);
    assert_true(stream.length <= (KEEP + KEEP / RETENTION_PARTS) / BYTES + RETENTION_SLACK + 1);
  }
  assert_true(stream.length >= (KEEP - 2 * KEEP / RETENTION_PARTS) / BYTES);
}

/* While events are queued, retention_trim_late is not called. */
TEST(a_slow_stream_of_events_trims_the_rest_of_a_burst) {
  struct stream stream = new_stream(MAXLEN, KEEP);
  add_events(&stream, 9000);
  for (int i = 0; i < 40; i++) {
    retention_delivered(&stream.retention, stream.queued, stream.now_ms);
    stream.now_ms += RETENTION_SPAN_MS;
    retention_delivered(&stream.retention, stream.queued, stream.now_ms);
    add_events(&stream, 1);
  }
  assert_in_range(stream.length, MAXLEN, MAXLEN + RETENTION_SLACK);
}

TEST(a_short_stream_is_never_trimmed) {
  struct stream stream = new_stream(MAXLEN, KEEP);
  add_events(&stream, MAXLEN + RETENTION_SLACK);
  assert_true(retention_is_trimmed(&stream.retention));
  deliver_and_wait(&stream, RETENTION_MS);
  assert_int_equal(stream.length, MAXLEN + RETENTION_SLACK);
}

TEST(the_stream_of_an_earlier_agent_is_trimmed_once) {
  struct stream stream = new_stream(MAXLEN, KEEP);
  retention_resume(&stream.retention);
  retention_delivered(&stream.retention, 0, stream.now_ms);
  assert_false(retention_is_trimmed(&stream.retention));
  stream.length = 5 * MAXLEN;
  trim_late(&stream);
  assert_int_equal(stream.length, 5 * MAXLEN);
  retention_delivered(&stream.retention, 0, stream.now_ms + RETENTION_MS);
  trim_late(&stream);
  assert_int_equal(stream.length, MAXLEN);
  assert_true(retention_is_trimmed(&stream.retention));
}

/* There are more deliveries than spans, and each delivery is late. */
TEST(the_number_of_spans_is_bounded_for_any_order_of_deliveries) {
  struct stream stream = new_stream(MAXLEN, KEEP);
  for (int i = 0; i < 3000; i++) {
    add_events(&stream, (size_t)(i % 7));
    retention_delivered(&stream.retention, stream.queued - stream.queued / 10 % 3 * BYTES,
                        stream.now_ms += i % 97);
    assert_true(stream.retention.count <= RETENTION_SPANS);
  }
}

TEST(without_a_length_the_stream_is_never_trimmed) {
  struct stream stream = new_stream(0, KEEP);
  assert_false(retention_is_on(&stream.retention));
  retention_resume(&stream.retention);
  add_events(&stream, 5000);
  deliver_and_wait(&stream, RETENTION_MS);
  assert_int_equal(stream.length, 5000);
  assert_true(retention_is_trimmed(&stream.retention));
}
