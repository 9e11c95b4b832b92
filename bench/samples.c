#include "bench/samples.h"

#include <sys/mman.h>

#include "tests/test.h"

struct samples *samples_new(void) {
  void *memory =
      mmap(NULL, sizeof(struct samples), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  return memory;
}

void samples_free(struct samples *self) {
  munmap(self, sizeof *self);
}

static void add(struct figures *self, double value) {
  assert_true(self->count < SAMPLES_FIGURES);
  self->values[self->count++] = value;
}

void samples_add(struct samples *samples, size_t row, enum side side, double value) {
  assert_true(row < SAMPLES_ROWS);
  struct row_samples *self = &samples->rows[row];
  if (!samples->of_baseline)
    add(&self->sides[side], value);
  else if (side == OURS)
    add(&self->baseline, value);
}

void samples_beside(struct samples *samples, size_t row, const char *label, double value) {
  assert_true(row < SAMPLES_ROWS && strlen(label) < SAMPLES_LABEL_SIZE);
  struct row_samples *self = &samples->rows[row];
  if (samples->of_baseline)
    return;
  size_t i = 0;
  while (i < self->beside_count && strcmp(self->beside[i].label, label) != 0)
    i++;
  assert_true(i < SAMPLES_BESIDE);
  if (i == self->beside_count) {
    (void)snprintf(self->beside[i].label, sizeof self->beside[i].label, "%s", label);
    self->beside_count++;
  }
  add(&self->beside[i].figures, value);
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

struct spread figures_spread(const struct figures *self) {
  struct figures sorted = *self;
  size_t n = self->count;
  if (n == 0)
    return (struct spread){0};
  qsort(sorted.values, n, sizeof *sorted.values, compare);
  return (struct spread){.median = (sorted.values[(n - 1) / 2] + sorted.values[n / 2]) / 2,
                         .min = sorted.values[0],
                         .max = sorted.values[n - 1],
                         .count = n};
}

static struct spread ratio(const struct figures *ours, const struct figures *other) {
  struct figures ratios = {0};
  for (size_t i = 0; i < ours->count && i < other->count; i++)
    add(&ratios, ours->values[i] / other->values[i]);
  return figures_spread(&ratios);
}

struct spread row_ratio(const struct row_samples *self) {
  return ratio(&self->sides[OURS], &self->sides[CEILING]);
}

struct spread row_to_baseline(const struct row_samples *self) {
  return ratio(&self->sides[OURS], &self->baseline);
}

bool row_is_worse(const struct row_samples *self, const struct row *row) {
  struct spread spread = row_to_baseline(self);
  double most = row->baseline > 0 ? row->baseline : BASELINE_WORSE_MAX;
  return spread.count > 0 &&
         (row->kind == RATIO_AT_LEAST ? spread.median * most < 1 : spread.median > most);
}

enum verdict row_verdict(const struct samples *self, size_t number, const struct row *row) {
  const struct row_samples *samples = &self->rows[number];
  struct spread judged =
      row->kind == OURS_AT_MOST ? figures_spread(&samples->sides[OURS]) : row_ratio(samples);
  if (!self->whole || judged.count == 0)
    return VERDICT_UNKNOWN;
  bool good =
      row->kind == RATIO_AT_LEAST ? judged.median >= row->target : judged.median <= row->target;
  return good ? VERDICT_OK : VERDICT_SHORT;
}

const char *verdict_name(enum verdict verdict) {
  static const char *const names[] = {
      [VERDICT_OK] = "ok", [VERDICT_SHORT] = "short", [VERDICT_UNKNOWN] = "not measured"};
  return names[verdict];
}
