#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/table.h"
#include "tests/test.h"

static void put_spread(cJSON *object, const char *name, const struct spread *spread) {
  if (spread->count == 0)
    return;
  cJSON *to = cJSON_AddObjectToObject(object, name);
  cJSON_AddNumberToObject(to, "median", spread->median);
  cJSON_AddNumberToObject(to, "min", spread->min);
  cJSON_AddNumberToObject(to, "max", spread->max);
}

static void put_figures(cJSON *object, const char *name, const struct figures *figures) {
  struct spread spread = figures_spread(figures);
  put_spread(object, name, &spread);
  cJSON *to = cJSON_GetObjectItem(object, name);
  if (to != NULL)
    cJSON_AddItemToObject(to, "rounds",
                          cJSON_CreateDoubleArray(figures->values, (int)figures->count));
}

/* `number`: of the row. */
static cJSON *encode_row(const struct outcome *outcome, size_t number) {
  static const char *const kinds[] = {[RATIO_AT_LEAST] = "ratio at least",
                                      [RATIO_AT_MOST] = "ratio at most",
                                      [OURS_AT_MOST] = "ours at most"};
  const struct row *row = &outcome->measurement->rows[number];
  const struct row_samples *samples = &outcome->samples->rows[number];
  struct spread ratio = row_ratio(samples);
  cJSON *to = cJSON_CreateObject();
  cJSON_AddStringToObject(to, "measurement", outcome->measurement->name);
  cJSON_AddStringToObject(to, "what", row->what);
  cJSON_AddStringToObject(to, "unit", row->unit);
  if (row->ceiling != NULL)
    cJSON_AddStringToObject(to, "ceilingIs", row->ceiling);
  put_figures(to, "ours", &samples->sides[OURS]);
  put_figures(to, "ceiling", &samples->sides[CEILING]);
  put_spread(to, "ratio", &ratio);
  struct spread to_baseline = row_to_baseline(samples);
  put_figures(to, "baseline", &samples->baseline);
  put_spread(to, "toBaseline", &to_baseline);
  cJSON_AddStringToObject(to, "kind", kinds[row->kind]);
  cJSON_AddNumberToObject(to, "target", row->target);
  cJSON_AddStringToObject(to, "verdict", verdict_name(row_verdict(outcome->samples, number, row)));
  cJSON *beside = cJSON_AddObjectToObject(to, "beside");
  for (size_t i = 0; i < samples->beside_count; i++)
    put_figures(beside, samples->beside[i].label, &samples->beside[i].figures);
  return to;
}

char *table_json(const struct outcome *outcomes, size_t count, double seconds) {
  cJSON *root = cJSON_CreateObject();
  cJSON_AddNumberToObject(root, "seconds", seconds);
  cJSON_AddNumberToObject(root, "cores", (double)sysconf(_SC_NPROCESSORS_ONLN));
  cJSON *rows = cJSON_AddArrayToObject(root, "rows");
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < outcomes[i].measurement->row_count; j++)
      cJSON_AddItemToArray(rows, encode_row(&outcomes[i], j));
  char *text = cJSON_Print(root);
  assert_non_null(text);
  cJSON_Delete(root);
  return text;
}
