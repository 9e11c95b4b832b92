/*
 * Draws the figures of the bench for the README:
 *
 *   picture build/bench.json bench/picture.svg
 *
 * Each ratio to a ceiling is a bar, with a line at the ceiling and a mark at the target; latencies
 * are pairs of bars. Rows that have neither are left out. Colours follow the reader's scheme, light
 * or dark, and the background is the page's.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

enum { WIDTH = 760, LABEL_END = 232, BAR_BEGIN = 240, BAR_SPACE = 330, ROW_HEIGHT = 24, HEAD = 34 };

/* Longer bars end here. */
#define RATIO_MAX 1.6

static const char style[] =
    "text{font:12px -apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}"
    ".head{font-weight:600}.what{text-anchor:end}.beside,.note{fill:#59636e}.note{font-size:11px}"
    "rect.ok{fill:#2da44e}rect.short{fill:#d4a72c}rect.ceiling{fill:#afb8c1}"
    ".line{stroke:#59636e;stroke-dasharray:3 3}.target{stroke:#0969da;stroke-width:2.5}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.beside,.note{fill:#9198a1}"
    "rect.ok{fill:#3fb950}rect.short{fill:#d29922}rect.ceiling{fill:#656c76}"
    ".line{stroke:#9198a1}.target{stroke:#58a6ff}}";

struct group {
  const char *head;
  const char *note;
  bool (*has)(const cJSON *row);
  void (*draw)(FILE *out, const cJSON *row, int y, double most);
  const char *figure; /* whose largest value sets the scale; NULL: RATIO_MAX does */
  const char *guide;  /* beside the line at the ceiling; NULL: there is none */
};

static const char *word(const cJSON *row, const char *name) {
  const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(row, name));
  return text == NULL ? "" : text;
}

/* Of a row's "ours", "ceiling" or "ratio"; -1 where there is none. */
static double median(const cJSON *row, const char *name) {
  const cJSON *value = cJSON_GetObjectItem(cJSON_GetObjectItem(row, name), "median");
  return cJSON_IsNumber(value) ? value->valuedouble : -1;
}

static double target(const cJSON *row) {
  const cJSON *value = cJSON_GetObjectItem(row, "target");
  return cJSON_IsNumber(value) ? value->valuedouble : 0;
}

static bool is_rate(const cJSON *row) {
  return strcmp(word(row, "kind"), "ratio at least") == 0 && median(row, "ratio") >= 0;
}

static bool is_cost(const cJSON *row) {
  return strcmp(word(row, "kind"), "ratio at most") == 0 && median(row, "ratio") >= 0;
}

static bool is_latency(const cJSON *row) {
  const char *what = word(row, "what");
  return (strstr(what, "p50") != NULL || strstr(what, "p99") != NULL) && median(row, "ours") >= 0;
}

static double across(double value, double most) {
  return BAR_SPACE * fmin(value, most) / most;
}

static void put_text(FILE *out, const char *kind, int x, int y, const char *text) {
  fprintf(out, "<text class=\"%s\" x=\"%d\" y=\"%d\">", kind, x, y);
  for (; *text != '\0'; text++) {
    if (*text == '<' || *text == '>' || *text == '&')
      fprintf(out, "&#%d;", *text);
    else
      fputc(*text, out);
  }
  fprintf(out, "</text>\n");
}

static void put_bar(FILE *out, const char *kind, int y, int height, double width) {
  fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" height=\"%d\" width=\"%.1f\" rx=\"1.5\"/>\n",
          kind, BAR_BEGIN, y, height, width);
}

static void put_line(FILE *out, const char *kind, double x, int from, int to) {
  fprintf(out, "<path class=\"%s\" d=\"M%.1f %dV%d\"/>\n", kind, x, from, to);
}

static void draw_ratio(FILE *out, const cJSON *row, int y, double most) {
  char text[64];
  double ratio = median(row, "ratio");
  put_text(out, "what", LABEL_END, y + 15, word(row, "what"));
  put_bar(out, word(row, "verdict"), y + 5, 13, across(ratio, most));
  put_line(out, "target", BAR_BEGIN + across(target(row), most), y + 2, y + 21);
  snprintf(text, sizeof text, "%.2f", ratio);
  put_text(out, "head", BAR_BEGIN + BAR_SPACE + 10, y + 15, text);
  snprintf(text, sizeof text, "target: at %s %.2f", is_rate(row) ? "least" : "most", target(row));
  put_text(out, "beside", BAR_BEGIN + BAR_SPACE + 48, y + 15, text);
}

static void draw_latency(FILE *out, const cJSON *row, int y, double most) {
  char text[64];
  double ours = median(row, "ours"), ceiling = median(row, "ceiling");
  put_text(out, "what", LABEL_END, y + 15, word(row, "what"));
  put_bar(out, word(row, "verdict"), y + 4, 8, across(ours, most));
  snprintf(text, sizeof text, "%.2f ms", ours);
  put_text(out, "head", BAR_BEGIN + BAR_SPACE + 10, y + 15, text);
  if (ceiling < 0)
    return;
  put_bar(out, "ceiling", y + 13, 6, across(ceiling, most));
  snprintf(text, sizeof text, "ceiling: %.2f ms", ceiling);
  put_text(out, "beside", BAR_BEGIN + BAR_SPACE + 70, y + 15, text);
}

static const struct group groups[] = {
    {"Rate", "of the ceiling's; more is better", is_rate, draw_ratio, NULL, "the ceiling"},
    {"Cost", "of the ceiling's; less is better", is_cost, draw_ratio, NULL, "the ceiling"},
    {"Latency", "and the ceiling's below it", is_latency, draw_latency, "ours", NULL},
};

enum { GROUPS = sizeof groups / sizeof *groups };

static int count_rows(const struct group *group, const cJSON *rows) {
  int count = 0;
  const cJSON *row;
  cJSON_ArrayForEach(row, rows) count += group->has(row);
  return count;
}

static double scale(const struct group *group, const cJSON *rows) {
  double most = group->figure == NULL ? RATIO_MAX : 0;
  const cJSON *row;
  cJSON_ArrayForEach(row, rows) {
    if (group->figure != NULL && group->has(row))
      most = fmax(most, fmax(median(row, group->figure), median(row, "ceiling")));
  }
  return most > 0 ? most : 1;
}

/* Returns where the next one begins. */
static int draw_group(FILE *out, const struct group *group, const cJSON *rows, int y) {
  int count = count_rows(group, rows);
  if (count == 0)
    return y;
  double most = scale(group, rows);
  put_text(out, "head what", LABEL_END, y + 20, group->head);
  put_text(out, "note", BAR_BEGIN, y + 20, group->note);
  y += HEAD;
  int first = y;
  const cJSON *row;
  cJSON_ArrayForEach(row, rows) {
    if (!group->has(row))
      continue;
    group->draw(out, row, y, most);
    y += ROW_HEIGHT;
  }
  if (group->guide != NULL) {
    put_line(out, "line", BAR_BEGIN + across(1, most), first - 6, y);
    put_text(out, "note", BAR_BEGIN + (int)across(1, most) + 5, first - 14, group->guide);
  }
  return y;
}

static void draw(FILE *out, const cJSON *rows) {
  int height = 8;
  for (size_t i = 0; i < GROUPS; i++) {
    int count = count_rows(&groups[i], rows);
    height += count == 0 ? 0 : HEAD + count * ROW_HEIGHT;
  }
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
          "height=\"%d\" role=\"img\" aria-label=\"figures of make bench\">\n<style>%s</style>\n",
          WIDTH, height, WIDTH, height, style);
  int y = 0;
  for (size_t i = 0; i < GROUPS; i++)
    y = draw_group(out, &groups[i], rows, y);
  fprintf(out, "</svg>\n");
}

static cJSON *read_json(const char *path) {
  FILE *file = fopen(path, "re");
  char *text = NULL;
  size_t size = 0;
  cJSON *json = NULL;
  if (file == NULL)
    return NULL;
  if (getdelim(&text, &size, '\0', file) > 0)
    json = cJSON_Parse(text);
  free(text);
  fclose(file);
  return json;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s BENCH.JSON PICTURE.SVG\n", argv[0]);
    return 64;
  }
  cJSON *json = read_json(argv[1]);
  if (json == NULL) {
    fprintf(stderr, "%s: %s holds no figures\n", argv[0], argv[1]);
    return 1;
  }
  FILE *out = fopen(argv[2], "we");
  if (out == NULL) {
    perror(argv[2]);
    cJSON_Delete(json);
    return 1;
  }
  draw(out, cJSON_GetObjectItem(json, "rows"));
  cJSON_Delete(json);
  if (fclose(out) != 0) {
    perror(argv[2]);
    return 1;
  }
  return 0;
}
