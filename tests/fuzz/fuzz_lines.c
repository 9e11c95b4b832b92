/* A stream of output that arrives in reads and is consumed with pauses, against the stream itself,
   which is read byte by byte. The input is a script: each command is a byte, followed by its
   arguments. */
#include "agent/engine/lines.h"
#include "base/utf8.h"
#include "tests/fuzz/fuzz.h"

#define PIECE_MAX ((size_t)300 * 1024)

/* Enough for a line of three pieces. */
#define STREAM_MAX (2 * PIECE_MAX + LINE_SPLITTER_READ)

struct execution {
  struct line_splitter splitter;
  char *stream;  /* everything that was read */
  size_t length; /* of it */
  size_t at;     /* the start of the next piece */
  size_t begin;  /* the start of its line */
};

static bool ends_line(char byte) {
  return byte == '\n' || byte == '\r';
}

/* The piece must be the next part of the stream, cut as the header says. */
static void check(struct execution *self, const struct line *line) {
  demand(line->length <= PIECE_MAX && line->length <= self->length - self->at);
  demand(line->length == 0 || memcmp(self->stream + self->at, line->text, line->length) == 0);
  demand(line->length == 0 || (memchr(line->text, '\n', line->length) == NULL &&
                               memchr(line->text, '\r', line->length) == NULL));
  self->at += line->length;
  if (line->partial) {
    demand(self->at < self->length && !ends_line(self->stream[self->at]));
    demand(line->length == PIECE_MAX ||
           (line->length + 3 >= PIECE_MAX && utf8_cut(line->text, PIECE_MAX) == line->length));
    return;
  }
  demand(line->length > 0 || self->begin == self->at);
  if (self->at == self->length) {
    demand(self->splitter.ended && line->length > 0);
  } else {
    demand(ends_line(self->stream[self->at]));
    self->at++;
  }
  self->begin = self->at;
}

/*
 * Skips bytes that are in no line: a byte order mark at the beginning, and the rest of "\\r\
 * ", which may be read after the line was taken.
 */
static void step_over(struct execution *self) {
  if (self->at == 0 && utf8_is_marked(self->stream, self->length))
    self->begin = self->at = UTF8_MARK_LENGTH;
  if (self->at > 0 && self->at < self->length && self->begin == self->at &&
      self->stream[self->at - 1] == '\r' && self->stream[self->at] == '\n')
    self->begin = ++self->at;
}

/* Takes up to this many pieces; returns whether there were fewer. */
static bool take(struct execution *self, size_t most) {
  struct line line;
  for (size_t i = 0; i < most; i++) {
    if (!line_splitter_next(&self->splitter, &line))
      return true;
    step_over(self);
    check(self, &line);
  }
  return false;
}

/* One read of as many of the next bytes as the buffer has capacity for. */
static size_t read_some(struct execution *self, size_t length) {
  size_t capacity;
  char *space = line_splitter_space(&self->splitter, 0, &capacity);
  demand(capacity >= LINE_SPLITTER_FIRST_READ);
  demand(self->splitter.capacity <= PIECE_MAX + LINE_SPLITTER_READ);
  size_t n = length < capacity ? length : capacity;
  memcpy(space, self->stream + self->length, n);
  self->length += n;
  line_splitter_filled(&self->splitter, n, n == capacity);
  return n;
}

/* Adds the text `times` times, in reads of up to the splitter's capacity. All lines are taken
   before a read, as the header requires, and `most` of them after it, so that the end finds some
   left. */
static void feed(struct execution *self, const char *text, size_t length, size_t times,
                 size_t most) {
  size_t total = length * times;
  if (total > STREAM_MAX - self->length)
    total = STREAM_MAX - self->length;
  char *all = self->stream + self->length;
  size_t filled = length < total ? length : total;
  memcpy(all, text, filled);
  while (filled < total) {
    size_t n = filled < total - filled ? filled : total - filled;
    memcpy(all + filled, all, n);
    filled += n;
  }
  while (total > 0) {
    demand(take(self, SIZE_MAX));
    total -= read_some(self, total);
    (void)take(self, most);
  }
}

static void finish(struct execution *self) {
  line_splitter_end(&self->splitter);
  demand(take(self, SIZE_MAX));
  step_over(self);
  demand(self->at == self->length);
  demand(take(self, 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct execution execution = {.stream = malloc(STREAM_MAX)};
  demand(execution.stream != NULL);
  line_splitter_init(&execution.splitter, PIECE_MAX);
  while (size > 0) {
    /* The low half of a command is the length of its text, the high half the number of
       repetitions. */
    size_t length = *data & 0xF;
    size_t scale = *data >> 4;
    size_t times = scale < 12 ? 1 : (size_t)1 << (4 * (scale - 11));
    data++;
    size--;
    if (length > size)
      length = size;
    feed(&execution, (const char *)data, length, times, scale);
    data += length;
    size -= length;
  }
  finish(&execution);
  line_splitter_release(&execution.splitter);
  free(execution.stream);
  return 0;
}
