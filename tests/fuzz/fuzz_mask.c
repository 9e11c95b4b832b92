/* A stream in chunks against the definition in base/mask.h, byte by byte: the output, and the
   number of bytes that are held. The input is a script: the byte of a command says what it does and
   how many bytes follow. Needles and values are also added between chunks. */
#include "base/mask.h"
#include "base/memory.h"
#include "base/secret_forms.h"
#include "tests/fuzz/fuzz.h"

#define TEXT_MAX ((size_t)4096)
#define NEEDLES_MAX ((size_t)400)

struct execution {
  struct masker masker;
  struct mask_stream stream;
  struct buffer text, out;
  bool secret[TEXT_MAX];
  /* The needles, and the position from which each one counts. */
  struct {
    char *bytes;
    size_t length, from;
  } needles[NEEDLES_MAX];
  size_t count, longest;
};

static bool ends_line(char byte) {
  return byte == '\n' || byte == '\r';
}

/* The stream must not look at bytes before this position again. */
static size_t border(const struct execution *self) {
  return self->text.length - self->stream.depth;
}

static void list_needle(struct execution *self, const char *bytes, size_t length) {
  for (size_t i = 0; i < self->count; i++)
    if (self->needles[i].length == length && memcmp(self->needles[i].bytes, bytes, length) == 0)
      return;
  demand(self->count < NEEDLES_MAX);
  self->needles[self->count].bytes = memory_copy(bytes, length);
  self->needles[self->count].length = length;
  self->needles[self->count++].from = border(self);
  self->longest = length > self->longest ? length : self->longest;
}

static void add_needle(struct execution *self, const char *bytes, size_t length) {
  if (length < NEEDLE_MIN || memchr(bytes, '\n', length) != NULL ||
      memchr(bytes, '\r', length) != NULL || self->count > NEEDLES_MAX / 2)
    return;
  list_needle(self, bytes, length);
  needles_add(&self->masker.needles, bytes, length);
}

static bool is_outside(char byte) {
  return ends_line(byte) || byte == ' ' || byte == '\t';
}

static void trim(const char **text, size_t *length) {
  for (; *length > 0 && is_outside(**text); ++*text)
    --*length;
  while (*length > 0 && is_outside((*text)[*length - 1]))
    --*length;
}

/* Adds the needles of a value and of its lines. */
static bool list_forms(struct execution *self, const char *text, size_t length) {
  trim(&text, &length);
  for (enum secret_form form = SECRET_RAW; form < SECRET_FORMS && length >= NEEDLE_MIN; form++) {
    struct buffer out = {0};
    bool has_end = false;
    secret_form_add(form, text, length, &out);
    for (size_t i = 0; i < out.length; i++)
      has_end |= ends_line(out.bytes[i]);
    if (!has_end && out.length >= NEEDLE_MIN)
      list_needle(self, out.bytes, out.length);
    buffer_release(&out);
  }
  return length >= NEEDLE_MIN;
}

static void add_value(struct execution *self, const char *value, size_t length) {
  if (self->count > NEEDLES_MAX / 2)
    return;
  enum masker_answer answer = masker_add(&self->masker, value, length);
  bool is_long = false;
  for (size_t begin = 0, end = 0; begin < length; begin = ++end) {
    while (end < length && !ends_line(value[end]))
      end++;
    is_long |= list_forms(self, value + begin, end - begin);
  }
  demand(answer == (is_long ? MASKER_MASKED : MASKER_TOO_SHORT));
  if (is_long)
    (void)list_forms(self, value, length);
}

/* Marks the bytes that became secret with the last ones; returns whether an occurrence may still
   begin there. */
static void find_secrets(struct execution *self, size_t from) {
  for (size_t i = 0; i < self->count; i++) {
    size_t length = self->needles[i].length;
    size_t first = from > length ? from - length : 0;
    first = first > self->needles[i].from ? first : self->needles[i].from;
    for (size_t at = first; at + length <= self->text.length; at++)
      if (memcmp(self->text.bytes + at, self->needles[i].bytes, length) == 0)
        memset(self->secret + at, true, length);
  }
}

/* The length of the longest end of the text that a needle begins with. */
static size_t longest_beginning(const struct execution *self) {
  for (size_t length = self->longest; length > 0; length--)
    for (size_t i = 0; i < self->count && length <= self->text.length; i++)
      if (length <= self->needles[i].length &&
          length <= self->text.length - self->needles[i].from &&
          memcmp(self->text.bytes + self->text.length - length, self->needles[i].bytes, length) ==
              0)
        return length;
  return 0;
}

/* The output must be the definition's output for this many bytes. */
static void compare(const struct execution *self, size_t decided) {
  size_t place = 0;
  for (size_t i = 0; i < decided; i++) {
    if (self->secret[i] && i > 0 && self->secret[i - 1])
      continue;
    const char *expected = self->secret[i] ? MASK : self->text.bytes + i;
    size_t length = self->secret[i] ? MASK_LENGTH : 1;
    demand(place + length <= self->out.length &&
           memcmp(self->out.bytes + place, expected, length) == 0);
    place += length;
  }
  demand(place == self->out.length);
}

/* Adds a chunk in a separate array, so that accesses beyond it are noticed. */
static void put(struct execution *self, const char *bytes, size_t length) {
  if (length > TEXT_MAX - self->text.length)
    length = TEXT_MAX - self->text.length;
  size_t held = mask_stream_held(&self->stream), before = border(self);
  char *space = malloc(held + length + 1);
  demand(space != NULL);
  if (length > 0)
    memcpy(space + held, bytes, length);
  buffer_add(&self->text, bytes, length);
  buffer_add(&self->out, space, mask_stream_put(&self->stream, space, length));
  free(space);
  find_secrets(self, before);
  demand(mask_stream_held(&self->stream) <= longest_beginning(self));
  compare(self, self->text.length - mask_stream_held(&self->stream));
}

static void finish(struct execution *self) {
  size_t held = mask_stream_held(&self->stream);
  char *space = malloc(held + 1);
  demand(space != NULL);
  buffer_add(&self->out, space, mask_stream_end(&self->stream, space));
  free(space);
  find_secrets(self, 0);
  demand(mask_stream_held(&self->stream) == 0);
  compare(self, self->text.length);
}

static void release(struct execution *self) {
  for (size_t i = 0; i < self->count; i++)
    free(self->needles[i].bytes);
  mask_stream_release(&self->stream);
  masker_release(&self->masker);
  buffer_release(&self->text);
  buffer_release(&self->out);
}

/* Adds a part of a needle, so that the text is similar to it. */
static void put_part(struct execution *self, size_t number, size_t begin, size_t length) {
  if (self->count == 0)
    return;
  number %= self->count;
  begin %= self->needles[number].length;
  size_t left = self->needles[number].length - begin;
  put(self, self->needles[number].bytes + begin, length < left ? length : left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct execution *execution = calloc(1, sizeof *execution);
  demand(execution != NULL);
  mask_stream_init(&execution->stream, &execution->masker);
  while (size >= 4) {
    unsigned command = *data >> 5;
    size_t length = *data & 0x1F;
    data++;
    size--;
    if (command >= 5) { /* 32 bytes of the needle or more, or up to 31 */
      put_part(execution, data[0], data[1], command == 5 ? 32 + length * 8 : length);
      data += 2;
      size -= 2;
      continue;
    }
    length = length < size ? length : size;
    const char *bytes = (const char *)data;
    if (command == 0)
      add_needle(execution, bytes, length);
    else if (command == 1)
      add_value(execution, bytes, length);
    else
      put(execution, bytes, length);
    data += length;
    size -= length;
  }
  finish(execution);
  release(execution);
  free(execution);
  return 0;
}
