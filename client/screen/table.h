#pragma once

#include <stddef.h>

#include "client/screen/terminal.h"

/*
 * Prints rows of text in columns. Each column is as wide as its widest cell.
 *
 *   struct table table = {0};
 *   table_begin(&table, heads, 2);
 *   table_add(&table, "7f3a");  table_add(&table, "run");      row by row, from the left
 *   table_print(&table, &terminal, 0);
 *   table_release(&table);
 */
struct table {
  size_t columns;
  char **cells;
  size_t count;
};

void table_begin(struct table *self, const char *const *heads, size_t columns);

/* Adds a cell. NULL and "" become "-", and control characters U+FFFD (base/printable.h). */
void table_add(struct table *self, const char *text);
void table_add_format(struct table *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds a number, or "-" if it is negative. */
void table_add_number(struct table *self, double number, const char *unit);

/* Adds a cell that may be empty. */
void table_add_or_nothing(struct table *self, const char *text);

/* Adds a name, of which a terminal shows the beginning and the end if it is long. */
void table_add_name(struct table *self, const struct terminal *terminal, const char *name);

/* Prints at most `rows` rows, or all if it is 0. A terminal's rows are cut at its width. */
void table_print(const struct table *self, struct terminal *terminal, size_t rows);

void table_release(struct table *self);
