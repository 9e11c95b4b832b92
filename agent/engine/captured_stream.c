#include "agent/engine/captured_stream.h"

#include "base/utf8.h"

/* `at` is neither 0 nor the end of the text. */
static bool line_begins(const char *text, size_t at) {
  return text[at - 1] == '\n' || (text[at - 1] == '\r' && text[at] != '\n');
}

size_t captured_stream_tail_at(const char *text, size_t length, size_t max) {
  if (length <= max)
    return 0;
  const size_t first = length - max;
  for (size_t at = first; at < length; at++)
    if (line_begins(text, at))
      return at;
  return first + utf8_rest(text + first, max);
}

/* Where the first `max` bytes of a longer text end. */
static size_t head_end(const char *text, size_t max) {
  for (size_t at = max; at > 0; at--)
    if (line_begins(text, at))
      return at;
  return utf8_cut(text, max);
}

struct captured_stream captured_stream_shown(struct captured_stream self, size_t max) {
  while (!self.truncated && self.length > 0 && self.bytes[self.length - 1] == '\n')
    self.length--;
  if (self.length > max) {
    self.length = utf8_cut(self.bytes, max);
    self.truncated = true;
  }
  return self;
}

struct captured_stream captured_stream_ends(struct captured_stream self, size_t side) {
  if (!self.truncated && self.length <= 2 * side)
    return self;
  if (!self.truncated) {
    self.tail = self.bytes;
    self.tail_length = self.total = self.length;
    self.truncated = true;
  }
  const size_t at = captured_stream_tail_at(self.tail, self.tail_length, side);
  self.tail += at;
  self.tail_length -= at;
  if (self.length > side)
    self.length = head_end(self.bytes, side);
  return self;
}

uint64_t captured_stream_left_out(const struct captured_stream *self) {
  return self->total - self->length - self->tail_length;
}
