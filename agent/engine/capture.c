#include "agent/engine/capture.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/swar.h"
#include "base/utf16.h"

#define TAIL_CAPACITY (2 * CAPTURE_TAIL_MAX)

void capture_init(struct capture *self) {
  *self = (struct capture){0};
}

void capture_release(struct capture *self) {
  free(self->head);
  free(self->tail);
}

/* A unit has at least one byte: shorter output is not counted. */
static bool is_head_full(struct capture *self) {
  if (self->head_length < CAPTURE_HEAD_UNITS)
    return false;
  self->head_units +=
      utf16_units(self->head + self->head_counted, self->head_length - self->head_counted);
  self->head_counted = self->head_length;
  return self->head_units >= CAPTURE_HEAD_UNITS;
}

static void add_to_head(struct capture *self, const char *text, size_t length, bool partial) {
  if (self->head_full)
    return;
  size_t needed = self->head_length + length + 1;
  if (needed > self->head_capacity) {
    size_t capacity = self->head_capacity == 0 ? 4096 : 2 * self->head_capacity;
    self->head_capacity = capacity > needed ? capacity : needed;
    self->head = memory_resize(self->head, self->head_capacity);
  }
  char *end = swar_copy(self->head + self->head_length, text, length);
  if (!partial)
    *end++ = '\n';
  self->head_length = (size_t)(end - self->head);
  self->head_full = is_head_full(self);
}

/* Moves at most one byte for each byte that is added. Of a longer output it keeps more than
   CAPTURE_TAIL_MAX bytes, so that the length shows that it was cut. */
static void add_to_tail(struct capture *self, const char *text, size_t length) {
  if (self->tail == NULL)
    self->tail = memory_allocate(TAIL_CAPACITY);
  if (length > TAIL_CAPACITY) {
    text += length - TAIL_CAPACITY;
    length = TAIL_CAPACITY;
  }
  size_t room = TAIL_CAPACITY - length;
  if (self->tail_length > room) {
    size_t kept = room < CAPTURE_TAIL_MAX ? room : CAPTURE_TAIL_MAX;
    memmove(self->tail, self->tail + self->tail_length - kept, kept);
    self->tail_length = kept;
  }
  (void)swar_copy(self->tail + self->tail_length, text, length);
  self->tail_length += length;
}

void capture_add(struct capture *self, bool from_stdout, const char *text, size_t length,
                 bool partial) {
  if (from_stdout)
    add_to_head(self, text, length, partial);
  add_to_tail(self, text, length);
  add_to_tail(self, "\n", partial ? 0 : 1);
}

/* What is beyond CAPTURE_CONTENT_MAX is read, too, and overwritten. A short content never moves:
   the first room is enough to read it and to see its end. */
char *capture_content_space(struct capture *self, size_t *size) {
  if (self->head_capacity - self->head_length < CAPTURE_CONTENT_READ) {
    self->head_capacity = 2 * (self->head_capacity + CAPTURE_CONTENT_READ);
    self->head = memory_resize(self->head, self->head_capacity);
  }
  *size = self->head_capacity - self->head_length;
  return self->head + self->head_length;
}

void capture_content_filled(struct capture *self, size_t length) {
  CHECK(length <= self->head_capacity - self->head_length);
  size_t room = CAPTURE_CONTENT_MAX - self->head_length;
  self->head_length += length < room ? length : room;
}

const char *capture_head(const struct capture *self, size_t *length) {
  *length = self->head_length;
  return self->head;
}

const char *capture_tail(const struct capture *self, size_t *length) {
  const char *text = self->tail;
  *length = self->tail_length;
  if (*length > CAPTURE_TAIL_MAX) {
    text += *length - CAPTURE_TAIL_MAX;
    *length = CAPTURE_TAIL_MAX;
    for (int i = 0; i < 3 && ((unsigned char)*text & 0xC0) == 0x80; i++, --*length)
      text++;
  }
  if (*length > 0 && text[*length - 1] == '\n')
    --*length;
  return text;
}
