#include "base/mask.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/secret_forms.h"

/*
 * The hard part is to know what may be output. After each byte, the node says how many of the last
 * bytes are the beginning of a needle: `depth` of them. No later occurrence begins before these, so
 * that everything before this border is decided. A run of secret bytes that begins at or before the
 * border is decided as a whole, even if its end lies behind it: its MASK is written, and `decided`
 * becomes its end. Other runs wait, because a later occurrence may begin to their left: with the
 * needles "abcdefghi" and "cdefgh", the text "abcdefgh" waits for one more byte.
 */

/* --- pieces of a value ------------------------------------------------------------------------ */

static bool is_line_end(char byte) {
  return byte == '\n' || byte == '\r';
}

static bool is_trimmed(char byte) {
  return is_line_end(byte) || byte == ' ' || byte == '\t';
}

/* A value, or a line of it. */
struct mask_piece {
  const char *text;
  size_t length;
};

static struct mask_piece trim(const char *text, size_t length) {
  while (length > 0 && is_trimmed(text[length - 1]))
    length--;
  for (; length > 0 && is_trimmed(*text); text++)
    length--;
  return (struct mask_piece){text, length};
}

/* Sets the next line of the value and moves `*at` behind it; returns false at the end. */
static bool next_line(const struct mask_piece *value, size_t *at, struct mask_piece *line) {
  if (*at >= value->length)
    return false;
  size_t end = *at;
  while (end < value->length && !is_line_end(value->text[end]))
    end++;
  *line = trim(value->text + *at, end - *at);
  *at = end + 1;
  return true;
}

static bool has_long_line(const struct mask_piece *value) {
  struct mask_piece line = {NULL, 0};
  for (size_t at = 0; line.length < NEEDLE_MIN && next_line(value, &at, &line);)
    continue;
  return line.length >= NEEDLE_MIN;
}

static struct masker_value *find_value(const struct masker *self, const struct mask_piece *value) {
  for (size_t i = 0; i < self->value_count; i++)
    if (self->values[i].length == value->length &&
        memcmp(self->values[i].bytes, value->text, value->length) == 0)
      return &self->values[i];
  return NULL;
}

/* --- buffers of secrets, which are erased before they are freed ------------------------------- */

static void erase(struct buffer *self) {
  if (self->bytes != NULL)
    explicit_bzero(self->bytes, self->capacity);
  buffer_release(self);
}

static void reserve(struct buffer *self, size_t size) {
  if (self->capacity - self->length >= size)
    return;
  struct buffer grown = {0};
  (void)buffer_space(&grown, 2 * (self->length + size));
  buffer_add(&grown, self->bytes, self->length);
  erase(self);
  *self = grown;
}

/* --- values and needles ----------------------------------------------------------------------- */

/* More than all forms of a byte take in a value and in its line (up to 60 each for JSON). A buffer
   above the limit leaves no copy behind when it grows, because realloc(3) moves its pages. */
#define FORMS_PER_BYTE ((size_t)128)
#define FORMS_RESERVED_MAX ((size_t)256 * 1024)

static bool has_line_end(const char *text, size_t length) {
  return memchr(text, '\n', length) != NULL || memchr(text, '\r', length) != NULL;
}

/* Adds the distinct forms of a piece that are needles, with a "\n" after each. */
static void add_forms(struct buffer *out, const struct mask_piece *piece) {
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

/* Adds the needles of a value and stops when there are more than `most` bytes. */
static void add_all_forms(struct buffer *out, const struct mask_piece *value, size_t most) {
  struct mask_piece line;
  size_t most_bytes = FORMS_PER_BYTE * (value->length + 1);
  reserve(out, most_bytes < FORMS_RESERVED_MAX ? most_bytes : FORMS_RESERVED_MAX);
  add_forms(out, value);
  if (!has_line_end(value->text, value->length))
    return;
  for (size_t at = 0; out->length <= most && next_line(value, &at, &line);)
    if (line.length >= NEEDLE_MIN)
      add_forms(out, &line);
}

static void add_needles(struct needles *needles, const struct buffer *forms) {
  reserve(&needles->text, forms->length);
  for (const char *at = forms->bytes, *end = at + forms->length, *next; at < end; at = next + 1) {
    next = memchr(at, '\n', (size_t)(end - at));
    needles_add(needles, at, (size_t)(next - at));
  }
}

/* What all values together need. */
struct demand {
  size_t values, bytes, needles;
};

static bool fits(const struct masker *self, const struct demand *demand) {
  return demand->values <= MASKER_VALUES_MAX && demand->needles <= MASKER_NEEDLES_MAX &&
         (demand->bytes <= MASKER_BYTES_MIN ||
          demand->bytes <= (self->bytes_max != NULL ? self->bytes_max() : MASKER_BYTES_MAX));
}

/* Dropping makes all forms again, so it drops more than is needed now: a quarter of each limit
   becomes free, if enough values are not held. */
static bool leaves_capacity(const struct masker *self, const struct demand *demand) {
  return fits(self, &(struct demand){.values = demand->values + MASKER_VALUES_MAX / 4,
                                     .bytes = demand->bytes / 3 * 4,
                                     .needles = demand->needles / 3 * 4});
}

static void fill_needles(struct masker *self) {
  struct buffer forms = {0};
  erase(&self->needles.text);
  needles_release(&self->needles);
  for (size_t i = 0; i < self->value_count; i++) {
    const struct mask_piece value = {self->values[i].bytes, self->values[i].length};
    forms.length = 0;
    add_all_forms(&forms, &value, MASKER_NEEDLES_MAX);
    add_needles(&self->needles, &forms);
  }
  erase(&forms);
}

/* Drops the oldest values that nobody holds; changes nothing if that is not enough. */
static bool make_capacity(struct masker *self, struct demand demand) {
  struct demand least = demand;
  for (size_t i = 0; i < self->value_count; i++)
    if (self->values[i].holds == 0) {
      least.values--;
      least.bytes -= self->values[i].length;
      least.needles -= self->values[i].needles;
    }
  if (!fits(self, &least))
    return false;
  size_t kept = 0;
  for (size_t i = 0; i < self->value_count; i++) {
    struct masker_value *value = &self->values[i];
    if (value->holds > 0 || leaves_capacity(self, &demand)) {
      self->values[kept++] = *value;
      continue;
    }
    demand.values--;
    demand.bytes -= value->length;
    demand.needles -= value->needles;
    self->bytes -= value->length;
    explicit_bzero(value->bytes, value->length);
    free(value->bytes);
  }
  self->value_count = kept;
  self->drops++;
  fill_needles(self);
  return true;
}

static void hold_again(struct masker *self, struct masker_value *known) {
  struct masker_value value = *known, *last = &self->values[self->value_count - 1];
  value.holds++;
  memmove(known, known + 1, (size_t)(last - known) * sizeof *known);
  *last = value;
}

static enum masker_answer add_new(struct masker *self, const struct mask_piece *value) {
  struct buffer forms = {0};
  add_all_forms(&forms, value, MASKER_NEEDLES_MAX);
  const struct demand demand = {.values = self->value_count + 1,
                                .bytes = self->bytes + value->length,
                                .needles = self->needles.text.length + forms.length};
  const bool has_capacity = fits(self, &demand) || make_capacity(self, demand);
  if (has_capacity) {
    add_needles(&self->needles, &forms);
    self->values = memory_resize(self->values, (self->value_count + 1) * sizeof *self->values);
    self->values[self->value_count++] =
        (struct masker_value){.bytes = memory_copy(value->text, value->length),
                              .length = value->length,
                              .needles = forms.length,
                              .holds = 1};
    self->bytes += value->length;
  }
  erase(&forms);
  return has_capacity ? MASKER_MASKED : MASKER_FULL;
}

enum masker_answer masker_add(struct masker *self, const char *bytes, size_t length) {
  const struct mask_piece value = trim(bytes, length);
  if (value.length > MASKER_VALUE_MAX)
    return MASKER_TOO_LONG;
  if (!has_long_line(&value))
    return MASKER_TOO_SHORT;
  struct masker_value *known = find_value(self, &value);
  if (known == NULL)
    return add_new(self, &value);
  hold_again(self, known);
  return MASKER_MASKED;
}

void masker_let_go(struct masker *self, const char *bytes, size_t length) {
  const struct mask_piece value = trim(bytes, length);
  struct masker_value *known = find_value(self, &value);
  if (known != NULL && known->holds > 0)
    known->holds--;
}

void masker_release(struct masker *self) {
  needles_release(&self->needles);
  for (size_t i = 0; i < self->value_count; i++)
    free(self->values[i].bytes);
  free(self->values);
  *self = (struct masker){0};
}

void masker_erase(struct masker *self) {
  for (size_t i = 0; i < self->value_count; i++)
    explicit_bzero(self->values[i].bytes, self->values[i].length);
  if (self->needles.text.bytes != NULL)
    explicit_bzero(self->needles.text.bytes, self->needles.text.capacity);
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
  free(self->tail);
  mask_stream_init(self, self->masker);
}

/* The output of one chunk, which overwrites the part of the input that is decided. */
struct pass {
  struct mask_stream *stream;
  char *out;
  const char *in; /* the byte at the stream's `decided` */
};

static void skip_to(struct pass *self, uint64_t offset) {
  self->in += offset - self->stream->decided;
  self->stream->decided = offset;
}

static void output_to(struct pass *self, uint64_t offset) {
  if (offset <= self->stream->decided)
    return;
  size_t length = (size_t)(offset - self->stream->decided);
  if (self->out != self->in)
    memmove(self->out, self->in, length);
  self->out += length;
  skip_to(self, offset);
  self->stream->masked = false;
}

static void output_run(struct pass *self, const struct mask_run *run) {
  output_to(self, run->begin);
  if (!self->stream->masked) {
    memcpy(self->out, MASK, MASK_LENGTH);
    self->out += MASK_LENGTH;
  }
  skip_to(self, run->end);
  self->stream->masked = true;
}

/* A run that continues the last MASK cannot grow to the left. It must not wait, because the needle
   of which it is the end may begin before the tail, where follow_again would not find it. */
static bool is_decided(const struct mask_stream *stream, const struct mask_run *run,
                       uint64_t border) {
  return run->begin <= border || (stream->masked && run->begin <= stream->decided);
}

/* Outputs everything up to the border, before which no later occurrence begins. */
static void output_decided(struct pass *self, uint64_t border) {
  struct mask_stream *stream = self->stream;
  size_t done = 0;
  while (done < stream->run_count && is_decided(stream, &stream->runs[done], border))
    output_run(self, &stream->runs[done++]);
  stream->run_count -= done;
  if (stream->run_count > 0)
    memmove(stream->runs, stream->runs + done, stream->run_count * sizeof *stream->runs);
  output_to(self, border);
}

/* Adds an occurrence; no earlier one ends later. */
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

static inline uint32_t follow_byte(struct mask_stream *self, uint32_t node, char byte,
                                   uint64_t end) {
  const struct needles *needles = &self->masker->needles;
  node = needles_next(needles, node, byte);
  size_t ending = needles_ending(needles, node);
  if (ending > 0)
    add_occurrence(self, end - ending, end);
  return node;
}

/* Follows the tail again after needles were added or dropped. A drop may reduce the depth. */
static void follow_again(struct mask_stream *self) {
  const struct needles *needles = &self->masker->needles;
  uint64_t begin = self->read - self->depth;
  uint32_t node = NEEDLES_ROOT;
  self->run_count = 0;
  for (size_t i = 0; i < self->depth; i++)
    node = follow_byte(self, node, self->tail[i], begin + i + 1);
  const size_t depth = needles_depth(needles, node);
  CHECK(depth == self->depth || (depth < self->depth && self->drops != self->masker->drops));
  self->node = node;
  self->depth = depth;
}

/* How many bytes are followed at least from where needles_skip has stopped, because it would stop
   there again. */
#define FOLLOWED_MIN 3

static void follow(struct pass *pass, const char *bytes, size_t length) {
  struct mask_stream *self = pass->stream;
  const struct needles *needles = &self->masker->needles;
  uint32_t node = self->node;
  size_t at = 0;
  while (at < length) {
    if (node == NEEDLES_ROOT) {
      if (self->run_count > 0)
        output_decided(pass, self->read + at);
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

static void save_tail(struct mask_stream *self) {
  if (self->depth == 0)
    return;
  if (self->depth > self->tail_capacity) {
    self->tail_capacity = self->depth;
    self->tail = memory_resize(self->tail, self->tail_capacity);
  }
  memcpy(self->tail, needles_bytes(&self->masker->needles, self->node, self->depth), self->depth);
}

static size_t mask_chunk(struct mask_stream *self, char *text, size_t length, bool is_last) {
  struct needles *needles = &self->masker->needles;
  if (masker_is_empty(self->masker))
    return length;
  needles_prepare(needles);
  size_t held = mask_stream_held(self);
  if (held > 0 && self->tail != NULL)
    memcpy(text, self->tail + self->depth - held, held);
  if (self->known != needles->prepared || self->drops != self->masker->drops)
    follow_again(self);
  self->known = needles->prepared;
  self->drops = self->masker->drops;
  struct pass pass = {self, text, text};
  follow(&pass, text + held, length);
  save_tail(self);
  output_decided(&pass, self->read - (is_last ? 0 : self->depth));
  return (size_t)(pass.out - text);
}

size_t mask_stream_put(struct mask_stream *self, char *text, size_t length) {
  return mask_chunk(self, text, length, false);
}

size_t mask_stream_end(struct mask_stream *self, char *text) {
  size_t length = mask_chunk(self, text, 0, true);
  self->node = NEEDLES_ROOT;
  self->depth = 0;
  self->masked = false;
  return length;
}
