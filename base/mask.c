#include "base/mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/secret_forms.h"

/*
 * The hard part is what may be handed out. After each byte the node says how many of the last bytes
 * a needle begins with, `depth` of them: no occurrence that is still to come begins before these,
 * so that everything before them is decided. A run of secret bytes that begins at or before this
 * border is decided as a whole, although its end may be behind it: its MASK is written, and
 * `decided` is then its end. Other runs wait, because an occurrence that is still to come may begin
 * to their left: with the needles "abcdefghi" and "cdefgh", "abcdefgh" waits for one more byte.
 */

/* --- the masker ------------------------------------------------------------------------------ */

static bool is_line_end(char byte) {
  return byte == '\n' || byte == '\r';
}

static bool is_outside(char byte) {
  return is_line_end(byte) || byte == ' ' || byte == '\t';
}

/* A value or a line of it. */
struct piece {
  const char *text;
  size_t length;
};

static struct piece trim(const char *text, size_t length) {
  while (length > 0 && is_outside(text[length - 1]))
    length--;
  for (; length > 0 && is_outside(*text); text++)
    length--;
  return (struct piece){text, length};
}

/* The next line of the value; `*at` is moved behind it. */
static bool take_line(const struct piece *value, size_t *at, struct piece *line) {
  if (*at >= value->length)
    return false;
  size_t end = *at;
  while (end < value->length && !is_line_end(value->text[end]))
    end++;
  *line = trim(value->text + *at, end - *at);
  *at = end + 1;
  return true;
}

static bool has_long_line(const struct piece *value) {
  struct piece line;
  for (size_t at = 0; take_line(value, &at, &line);)
    if (line.length >= NEEDLE_MIN)
      return true;
  return false;
}

static bool has_value(const struct masker *self, const struct piece *value) {
  for (size_t i = 0; i < self->value_count; i++)
    if (self->values[i].length == value->length &&
        memcmp(self->values[i].bytes, value->text, value->length) == 0)
      return true;
  return false;
}

static bool has_line_end(const char *text, size_t length) {
  return memchr(text, '\n', length) != NULL || memchr(text, '\r', length) != NULL;
}

/* Of one piece its different forms that are needles, with a "\n" after each. */
static void add_forms(struct buffer *out, const struct piece *piece) {
  size_t begins[SECRET_FORMS + 1] = {out->length}, count = 0;
  for (enum secret_form form = 0; form < SECRET_FORMS; form++) {
    const size_t begin = out->length;
    secret_form_add(form, piece->text, piece->length, out);
    const size_t length = out->length - begin;
    bool is_new = length >= NEEDLE_MIN && !has_line_end(out->bytes + begin, length);
    for (size_t i = 0; i < count && is_new; i++)
      is_new = begins[i + 1] - begins[i] != length + 1 ||
               memcmp(out->bytes + begins[i], out->bytes + begin, length) != 0;
    if (is_new) {
      buffer_add(out, "\n", 1);
      begins[++count] = out->length;
    } else {
      out->length = begin;
    }
  }
}

/* Stops when they are more than `most` bytes. */
static void add_all_forms(struct buffer *out, const struct piece *value, size_t most) {
  struct piece line;
  add_forms(out, value);
  if (!has_line_end(value->text, value->length))
    return;
  for (size_t at = 0; out->length <= most && take_line(value, &at, &line);)
    if (line.length >= NEEDLE_MIN)
      add_forms(out, &line);
}

static void add_needles(struct needles *needles, const struct buffer *forms) {
  for (const char *at = forms->bytes, *end = at + forms->length, *next; at < end; at = next + 1) {
    next = memchr(at, '\n', (size_t)(end - at));
    needles_add(needles, at, (size_t)(next - at));
  }
}

enum masker_answer masker_add(struct masker *self, const char *bytes, size_t length) {
  const struct piece value = trim(bytes, length);
  const size_t most = self->offered_max > 0 ? self->offered_max : MASKER_OFFERED_MAX;
  if (value.length > MASKER_VALUE_MAX)
    return MASKER_TOO_LONG;
  if (!has_long_line(&value))
    return MASKER_TOO_SHORT;
  if (has_value(self, &value))
    return MASKER_MASKED;
  if (self->value_count == MASKER_VALUES_MAX || value.length > most - self->offered)
    return MASKER_FULL;
  self->offered += value.length;
  struct buffer forms = {0};
  const size_t room = MASKER_NEEDLES_MAX - self->needles.text.length;
  add_all_forms(&forms, &value, room);
  bool fits = forms.length <= room;
  if (fits) {
    add_needles(&self->needles, &forms);
    self->values = memory_resize(self->values, (self->value_count + 1) * sizeof *self->values);
    self->values[self->value_count++] =
        (struct masker_value){memory_copy(value.text, value.length), value.length};
  }
  buffer_release(&forms);
  return fits ? MASKER_MASKED : MASKER_FULL;
}

void masker_release(struct masker *self) {
  needles_release(&self->needles);
  for (size_t i = 0; i < self->value_count; i++)
    free(self->values[i].bytes);
  free(self->values);
  *self = (struct masker){0};
}

size_t mask_text(struct masker *self, char *text, size_t length) {
  struct mask_stream stream;
  mask_stream_init(&stream, self);
  size_t masked = mask_stream_put(&stream, text, length);
  masked += mask_stream_end(&stream, text + masked);
  mask_stream_release(&stream);
  return masked;
}

void mask_string(struct masker *self, char *text, bool is_cut) {
  if (self == NULL || masker_is_empty(self))
    return;
  struct mask_stream stream;
  mask_stream_init(&stream, self);
  size_t masked = mask_stream_put(&stream, text, strlen(text));
  if (!is_cut)
    masked += mask_stream_end(&stream, text + masked);
  text[masked] = '\0';
  mask_stream_release(&stream);
}

/* --- a stream -------------------------------------------------------------------------------- */

void mask_stream_init(struct mask_stream *self, struct masker *masker) {
  *self = (struct mask_stream){.masker = masker};
}

void mask_stream_release(struct mask_stream *self) {
  free(self->runs);
  mask_stream_init(self, self->masker);
}

/* One chunk on its way: what is handed out is written over what was decided. */
struct pass {
  struct mask_stream *stream;
  char *out;
  const char *in; /* the byte at the stream's `decided` */
};

static void step_over(struct pass *self, uint64_t place) {
  self->in += place - self->stream->decided;
  self->stream->decided = place;
}

/* Hands out the bytes before a place. */
static void hand_out(struct pass *self, uint64_t place) {
  if (place <= self->stream->decided)
    return;
  size_t length = (size_t)(place - self->stream->decided);
  if (self->out != self->in)
    memmove(self->out, self->in, length);
  self->out += length;
  step_over(self, place);
  self->stream->masked = false;
}

static void hand_out_run(struct pass *self, const struct mask_run *run) {
  hand_out(self, run->begin);
  if (!self->stream->masked) {
    memcpy(self->out, MASK, MASK_LENGTH);
    self->out += MASK_LENGTH;
  }
  step_over(self, run->end);
  self->stream->masked = true;
}

/* No occurrence that is still to come begins before the border. */
static void hand_out_decided(struct pass *self, uint64_t border) {
  struct mask_stream *stream = self->stream;
  size_t taken = 0;
  while (taken < stream->run_count && stream->runs[taken].begin <= border)
    hand_out_run(self, &stream->runs[taken++]);
  stream->run_count -= taken;
  if (stream->run_count > 0)
    memmove(stream->runs, stream->runs + taken, stream->run_count * sizeof *stream->runs);
  hand_out(self, border);
}

/* An occurrence; none before it ends later. */
static void add_occurrence(struct mask_stream *self, uint64_t begin, uint64_t end) {
  if (end <= self->decided)
    return;
  if (begin < self->decided) {
    CHECK(self->masked);
    begin = self->decided;
  }
  while (self->run_count > 0 && self->runs[self->run_count - 1].end >= begin) {
    const struct mask_run *last = &self->runs[--self->run_count];
    begin = last->begin < begin ? last->begin : begin;
  }
  if (self->run_count == self->run_capacity) {
    self->run_capacity = self->run_capacity > 0 ? 2 * self->run_capacity : 8;
    self->runs = memory_resize(self->runs, self->run_capacity * sizeof *self->runs);
  }
  self->runs[self->run_count++] = (struct mask_run){begin, end};
}

/* `place` is that after the byte. */
static inline uint32_t follow_byte(struct mask_stream *self, uint32_t node, char byte,
                                   uint64_t place) {
  const struct needles *needles = &self->masker->needles;
  node = needles_next(needles, node, byte);
  size_t ending = needles_ending(needles, node);
  if (ending > 0)
    add_occurrence(self, place - ending, place);
  return node;
}

/* Looks at the bytes of the node again, for needles that were added. The depth stays. */
static void follow_again(struct mask_stream *self) {
  const struct needles *needles = &self->masker->needles;
  const char *bytes = needles_bytes(needles, self->node, self->depth);
  uint64_t begin = self->read - self->depth;
  uint32_t node = NEEDLES_ROOT;
  self->run_count = 0;
  for (size_t i = 0; i < self->depth; i++)
    node = follow_byte(self, node, bytes[i], begin + i + 1);
  CHECK(needles_depth(needles, node) == self->depth);
  self->node = node;
}

/* What needles_skip finds is followed at least so far, as it would find the same again. */
#define FOLLOWED_MIN 3

static void follow(struct pass *pass, const char *bytes, size_t length) {
  struct mask_stream *self = pass->stream;
  const struct needles *needles = &self->masker->needles;
  uint32_t node = self->node;
  size_t at = 0;
  while (at < length) {
    if (node == NEEDLES_ROOT) {
      if (self->run_count > 0)
        hand_out_decided(pass, self->read + at);
      at = needles_skip(needles, bytes, at, length);
    }
    size_t least = at + FOLLOWED_MIN;
    while (at < length && (node != NEEDLES_ROOT || at < least)) {
      node = follow_byte(self, node, bytes[at], self->read + at + 1);
      at++;
    }
  }
  self->read += length;
  self->node = node;
  self->depth = needles_depth(needles, node);
}

/* Takes a chunk; `ends`: no other follows. */
static size_t take_chunk(struct mask_stream *self, char *text, size_t length, bool ends) {
  struct needles *needles = &self->masker->needles;
  if (masker_is_empty(self->masker))
    return length;
  needles_prepare(needles);
  size_t held = mask_stream_held(self);
  if (held > 0)
    memcpy(text, needles_bytes(needles, self->node, held), held);
  if (self->known != needles->prepared)
    follow_again(self);
  self->known = needles->prepared;
  struct pass pass = {self, text, text};
  follow(&pass, text + held, length);
  hand_out_decided(&pass, self->read - (ends ? 0 : self->depth));
  return (size_t)(pass.out - text);
}

size_t mask_stream_put(struct mask_stream *self, char *text, size_t length) {
  return take_chunk(self, text, length, false);
}

size_t mask_stream_end(struct mask_stream *self, char *text) {
  size_t length = take_chunk(self, text, 0, true);
  self->node = NEEDLES_ROOT;
  self->depth = 0;
  self->masked = false;
  return length;
}
