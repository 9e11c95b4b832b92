#include "bench/table.h"
#include "tests/test.h"

enum { NUMBER_SIZE = 24, CELL_SIZE = 96, COLUMNS = 12 };

static const char *const heads[COLUMNS] = {"what",    "ours",     "min-max",    "ceiling",
                                           "min-max", "ratio",    "min-max",    "target",
                                           "",        "baseline", "ours to it", "min-max"};

struct line {
  char cells[COLUMNS][CELL_SIZE];
};

/* With three or four significant digits. */
static void write_number(char out[NUMBER_SIZE], double value) {
  static const char *const suffixes[] = {"", "k", "M", "G"};
  size_t suffix = 0;
  double limit = 99999.5;
  while (value >= limit && suffix < 3) {
    value /= 1000;
    limit = 999.95;
    suffix++;
  }
  int places = value < 10 ? 2 : value < 100 || (suffix > 0 && value < 1000) ? 1 : 0;
  if (value < 1)
    places = 3;
  snprintf(out, NUMBER_SIZE, "%.*f%s", places, value, suffixes[suffix]);
}

static void write_spread(char median[CELL_SIZE], char range[CELL_SIZE],
                         const struct spread *spread) {
  char text[NUMBER_SIZE], min[NUMBER_SIZE], max[NUMBER_SIZE];
  if (spread->count == 0)
    return;
  write_number(text, spread->median);
  write_number(min, spread->min);
  write_number(max, spread->max);
  snprintf(median, CELL_SIZE, "%s", text);
  if (spread->count > 1)
    snprintf(range, CELL_SIZE, "%s-%s", min, max);
}

static void write_ratio(char median[CELL_SIZE], char range[CELL_SIZE],
                        const struct spread *spread) {
  if (spread->count == 0)
    return;
  snprintf(median, CELL_SIZE, "%.3f", spread->median);
  if (spread->count > 1)
    snprintf(range, CELL_SIZE, "%.2f-%.*f", spread->min, spread->max < 10 ? 2 : 0, spread->max);
}

/* `number`: of the row. */
static void fill(struct line *self, const struct outcome *outcome, size_t number) {
  const struct row *row = &outcome->measurement->rows[number];
  const struct row_samples *samples = &outcome->samples->rows[number];
  struct spread ours = figures_spread(&samples->sides[OURS]);
  struct spread ceiling = figures_spread(&samples->sides[CEILING]);
  struct spread ratio = row_ratio(samples);
  char target[NUMBER_SIZE];
  *self = (struct line){0};
  snprintf(self->cells[0], CELL_SIZE, "%s, %s", row->what, row->unit);
  write_spread(self->cells[1], self->cells[2], &ours);
  write_spread(self->cells[3], self->cells[4], &ceiling);
  write_ratio(self->cells[5], self->cells[6], &ratio);
  if (row->kind == OURS_AT_MOST)
    write_number(target, row->target);
  else
    snprintf(target, sizeof target, "%.2f", row->target);
  snprintf(self->cells[7], CELL_SIZE, "%s %s", row->kind == RATIO_AT_LEAST ? ">=" : "<=", target);
  snprintf(self->cells[8], CELL_SIZE, "%s",
           verdict_name(row_verdict(outcome->samples, number, row)));
  struct spread baseline = figures_spread(&samples->baseline);
  struct spread to_baseline = row_to_baseline(samples);
  char range[CELL_SIZE] = "";
  write_spread(self->cells[9], range, &baseline);
  write_ratio(self->cells[10], self->cells[11], &to_baseline);
  if (row_is_worse(samples, row))
    snprintf(self->cells[11] + strlen(self->cells[11]), CELL_SIZE - strlen(self->cells[11]),
             " worse");
}

static void widen(size_t widths[COLUMNS], const struct line *line) {
  for (size_t i = 0; i < COLUMNS; i++) {
    size_t width = strlen(line->cells[i]);
    if (width > widths[i])
      widths[i] = width;
  }
}

/* Words are aligned left, figures right; a figure and its range look like one column. Without a
   baseline its columns are omitted. */
static void print_line(FILE *out, const struct line *line, const size_t widths[COLUMNS],
                       size_t columns) {
  static const bool is_range[COLUMNS] = {[2] = true, [4] = true, [6] = true, [11] = true};
  for (size_t i = 0; i < columns; i++) {
    bool to_left = i == 0 || i == 8 || is_range[i];
    const char *gap = i == 0 ? "" : is_range[i] ? " " : "  ";
    if (i + 1 == columns)
      fprintf(out, "%s%s", line->cells[i][0] == '\0' ? "" : gap, line->cells[i]);
    else
      fprintf(out, "%s%*s", gap, to_left ? -(int)widths[i] : (int)widths[i], line->cells[i]);
  }
  fprintf(out, "\n");
}

static void print_below(FILE *out, const struct row *row, const struct row_samples *samples) {
  if (row->ceiling != NULL)
    fprintf(out, "  %s: the ceiling is %s\n", row->what, row->ceiling);
  for (size_t i = 0; i < samples->beside_count; i++) {
    const struct beside *beside = &samples->beside[i];
    struct spread spread = figures_spread(&beside->figures);
    char median[CELL_SIZE] = "", range[CELL_SIZE] = "";
    write_spread(median, range, &spread);
    fprintf(out, "    %s: %s%s%s\n", beside->label, median, *range == '\0' ? "" : ", ", range);
  }
}

void table_print(FILE *out, const struct outcome *outcomes, size_t count) {
  struct line head = {0};
  struct line lines[64];
  size_t widths[COLUMNS] = {0}, line_count = 0, columns = 9;
  for (size_t i = 0; i < COLUMNS; i++)
    snprintf(head.cells[i], CELL_SIZE, "%s", heads[i]);
  widen(widths, &head);
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < outcomes[i].measurement->row_count; j++) {
      assert_true(line_count < sizeof lines / sizeof *lines);
      fill(&lines[line_count], &outcomes[i], j);
      columns = lines[line_count].cells[9][0] != '\0' ? COLUMNS : columns;
      widen(widths, &lines[line_count++]);
    }
  }
  print_line(out, &head, widths, columns);
  for (size_t i = 0; i < line_count; i++)
    print_line(out, &lines[i], widths, columns);
  fprintf(out, "\n");
  for (size_t i = 0; i < count; i++) {
    for (size_t j = 0; j < outcomes[i].measurement->row_count; j++)
      print_below(out, &outcomes[i].measurement->rows[j], &outcomes[i].samples->rows[j]);
  }
}
