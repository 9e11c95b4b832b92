#ifndef CLIENT_SCREEN_TABLE_H
#define CLIENT_SCREEN_TABLE_H

#include <stddef.h>

#include "client/screen/terminal.h"

/*
 * Rows of text in columns, each as wide as its widest cell, for people.
 *
 *   struct table table = {.columns = 2};
 *   table_add(&table, "ID");  table_add(&table, "KIND");      row by row, from the left
 *   table_print(&table, &terminal, 0);
 *   table_release(&table);
 */
struct table {
  size_t columns;
  char **cells;
  size_t count;
};

/* What no terminal may get becomes U+FFFD (base/printable.h). NULL or "": "-". */
void table_add(struct table *self, const char *text);
void table_add_format(struct table *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, but an empty text stays empty. */
void table_add_or_nothing(struct table *self, const char *text);

/* To standard output. On a terminal a row has no more columns than that, and with `rows` above 0 no
   more rows are shown. */
void table_print(const struct table *self, struct terminal *terminal, size_t rows);

void table_release(struct table *self);

#endif
