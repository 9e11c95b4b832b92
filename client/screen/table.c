#include "client/screen/table.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/buffer.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/printable.h"
#include "base/utf8.h"

/* The spaces between two columns. */
#define BETWEEN 2

static const char ellipsis[] = "…";

/* How much of a long name remains: columns, and bytes. */
#define NAME_BEGIN 11
#define NAME_END 13

void table_add_or_nothing(struct table *self, const char *text) {
  struct buffer cell = {0};
  printable_add(&cell, text, strlen(text));
  buffer_add(&cell, "", 1);
  self->cells = memory_resize(self->cells, (self->count + 1) * sizeof *self->cells);
  self->cells[self->count++] = cell.bytes;
}

void table_add(struct table *self, const char *text) {
  table_add_or_nothing(self, text != NULL && text[0] != '\0' ? text : "-");
}

void table_add_format(struct table *self, const char *format, ...) {
  char text[256];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  table_add(self, text);
}

void table_add_number(struct table *self, double number, const char *unit) {
  char text[64] = "";
  if (number >= 0)
    (void)snprintf(text, sizeof text, "%.0f%s", number, unit);
  table_add(self, text);
}

void table_begin(struct table *self, const char *const *heads, size_t columns) {
  self->columns = columns;
  for (size_t i = 0; i < columns; i++)
    table_add(self, heads[i]);
}

/* Returns how many bytes at the start fit into the capacity, and sets their number of columns. */
static size_t fit(const char *text, size_t capacity, size_t *taken) {
  size_t at = 0, length = strlen(text);
  *taken = 0;
  while (at < length) {
    const size_t sequence = utf8_sequence(text + at, length - at);
    const size_t step = sequence > 0 ? sequence : 1;
    const int width = sequence > 0 ? wcwidth((wchar_t)utf8_decode(text + at, step)) : 1;
    const size_t columns = width >= 0 ? (size_t)width : 1;
    if (*taken + columns > capacity)
      break;
    *taken += columns;
    at += step;
  }
  return at;
}

void table_add_name(struct table *self, const struct terminal *terminal, const char *name) {
  const size_t length = strlen(name);
  size_t tail = length > NAME_END ? length - NAME_END : 0, taken;
  if (!terminal->is_tty[0] || length <= NAME_BEGIN + NAME_END) {
    table_add(self, name);
    return;
  }
  while ((name[tail] & 0xC0) == 0x80) /* within a character */
    tail++;
  const int head = (int)fit(name, NAME_BEGIN, &taken);
  table_add_format(self, "%.*s%s%s", head, name, ellipsis, name + tail);
}

static size_t width_of(const char *text) {
  size_t width;
  (void)fit(text, SIZE_MAX, &width);
  return width;
}

static size_t column_width(const struct table *self, size_t column) {
  size_t width = 0;
  for (size_t i = column; i < self->count; i += self->columns) {
    const size_t cell = width_of(self->cells[i]);
    width = cell > width ? cell : width;
  }
  return width;
}

static void add_row(const struct table *self, size_t row, const size_t *widths,
                    struct buffer *line) {
  size_t blank = 0;
  for (size_t i = 0; i < self->columns; i++) {
    const char *cell = self->cells[row * self->columns + i];
    if (cell[0] != '\0')
      buffer_add_format(line, "%*s%s", (int)blank, "", cell);
    blank = (cell[0] != '\0' ? 0 : blank) + widths[i] - width_of(cell) + BETWEEN;
  }
  buffer_add(line, "", 1);
}

static void print_line(struct terminal *terminal, const char *line) {
  const size_t width = terminal->is_tty[0] ? (size_t)terminal_width(terminal) : SIZE_MAX;
  size_t taken, length = fit(line, width, &taken);
  const bool is_cut = line[length] != '\0';
  if (is_cut)
    length = fit(line, width - 1, &taken);
  (void)terminal_put(terminal, false, line, length);
  if (is_cut)
    (void)terminal_put(terminal, false, ellipsis, sizeof ellipsis - 1);
  (void)terminal_put(terminal, false, "\n", 1);
}

void table_print(const struct table *self, struct terminal *terminal, size_t rows) {
  CHECK(self->columns > 0);
  size_t *widths = memory_zeros(self->columns * sizeof *widths);
  for (size_t i = 0; i < self->columns; i++)
    widths[i] = column_width(self, i);
  for (size_t row = 0; row < self->count / self->columns && (rows == 0 || row < rows); row++) {
    struct buffer line = {0};
    add_row(self, row, widths, &line);
    print_line(terminal, line.bytes);
    buffer_release(&line);
  }
  free(widths);
}

void table_release(struct table *self) {
  for (size_t i = 0; i < self->count; i++)
    free(self->cells[i]);
  free(self->cells);
  *self = (struct table){0};
}
