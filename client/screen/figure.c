#include "client/screen/figure.h"

#include <stdio.h>
#include <string.h>

#define MINUTE 60
#define HOUR 3600
#define DAY 86400

struct figure figure_duration(int64_t seconds) {
  struct figure self;
  const long long s = seconds > 0 ? seconds : 0;
  if (s < MINUTE)
    (void)snprintf(self.text, sizeof self.text, "%llds", s);
  else if (s < 10 * MINUTE)
    (void)snprintf(self.text, sizeof self.text, "%lldm%02llds", s / MINUTE, s % MINUTE);
  else if (s < HOUR)
    (void)snprintf(self.text, sizeof self.text, "%lldm", s / MINUTE);
  else if (s < DAY)
    (void)snprintf(self.text, sizeof self.text, "%lldh%02lldm", s / HOUR, s % HOUR / MINUTE);
  else
    (void)snprintf(self.text, sizeof self.text, "%lldd%02lldh", s / DAY, s % DAY / HOUR);
  return self;
}

struct figure figure_elapsed(double seconds) {
  struct figure self;
  if (seconds >= MINUTE)
    return figure_duration((int64_t)seconds);
  (void)snprintf(self.text, sizeof self.text, "%.1fs", seconds);
  return self;
}

/* Writes the number and returns its unit. */
static char scale(double bytes, char *out, size_t size) {
  static const char units[] = "BKMGTP";
  size_t unit = 0;
  while (bytes >= 1000 && units[unit + 1] != '\0') {
    bytes /= 1024;
    unit++;
  }
  (void)snprintf(out, size, unit > 0 && bytes < 10 ? "%.1f" : "%.0f", bytes);
  return units[unit];
}

struct figure figure_memory(double bytes, double limit) {
  struct figure self;
  char used[12], most[12];
  if (bytes < 0) {
    (void)snprintf(self.text, sizeof self.text, "-");
    return self;
  }
  const char unit = scale(bytes, used, sizeof used);
  const char limit_unit = limit >= 0 ? scale(limit, most, sizeof most) : unit;
  if (limit < 0)
    (void)snprintf(self.text, sizeof self.text, "%s%c", used, unit);
  else if (unit == limit_unit)
    (void)snprintf(self.text, sizeof self.text, "%s/%s%c", used, most, unit);
  else
    (void)snprintf(self.text, sizeof self.text, "%s%c/%s%c", used, unit, most, limit_unit);
  return self;
}

struct figure figure_count(int64_t count) {
  struct figure self;
  char digits[24];
  const size_t length =
      (size_t)snprintf(digits, sizeof digits, "%lld", count > 0 ? (long long)count : 0);
  size_t at = 0;
  for (size_t i = 0; i < length; i++) {
    if (i > 0 && (length - i) % 3 == 0)
      self.text[at++] = ',';
    self.text[at++] = digits[i];
  }
  self.text[at] = '\0';
  return self;
}

static void add_name(struct buffer *json, const char *name) {
  if (json->length > 0 && json->bytes[json->length - 1] != '{')
    buffer_add_string(json, ",");
  buffer_add_format(json, "\"%s\":", name);
}

void figure_add_json(struct buffer *json, const char *name, double number) {
  char text[64];
  add_name(json, name);
  if (number < 0) {
    buffer_add_string(json, "null");
    return;
  }
  size_t length = (size_t)snprintf(text, sizeof text, "%.3f", number);
  while (text[length - 1] == '0')
    length--;
  buffer_add(json, text, text[length - 1] == '.' ? length - 1 : length);
}

void figure_add_json_text(struct buffer *json, const char *name, const char *text) {
  add_name(json, name);
  if (text == NULL)
    buffer_add_string(json, "null");
  else
    buffer_add_json(json, text, strlen(text));
}
