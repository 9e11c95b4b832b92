#include "tests/support/recorder.h"

#include "tests/test.h"

void recorder_add(struct recorder *self, const char *word) {
  assert_true(word[0] != '\0' && strchr(word, ' ') == NULL);
  size_t capacity = sizeof self->text - self->length;
  int length =
      snprintf(self->text + self->length, capacity, "%s%s", self->length > 0 ? " " : "", word);
  assert_true(length > 0 && (size_t)length < capacity);
  self->length += (size_t)length;
}

const char *recorder_text(const struct recorder *self) {
  return self->text;
}

void recorder_reset(struct recorder *self) {
  self->length = 0;
  self->text[0] = '\0';
}

struct awaited_text {
  const struct recorder *recorder;
  size_t length;
};

static bool is_as_long(void *context) {
  const struct awaited_text *awaited = context;
  return awaited->recorder->length >= awaited->length;
}

void recorder_expect(struct loop *loop, const struct recorder *self, const char *text) {
  (void)loop_until(loop, is_as_long, &(struct awaited_text){self, strlen(text)});
  loop_settle(loop);
  assert_string_equal(self->text, text);
}
