#include "agent/frontends/http/figures.h"

#include <stdlib.h>
#include <string.h>

#include "agent/frontends/http/connection/server.h"
#include "agent/kinds/kind.h"
#include "base/utf8.h"

/* A path that is not UTF-8 is omitted. */
static void add_directory(struct buffer *json) {
  char *path = kind_default_directory();
  const size_t length = path != NULL ? strlen(path) : 0;
  if (length > 0 && utf8_valid_prefix(path, length) == length) {
    buffer_add_string(json, ",\"workingDirectory\":");
    buffer_add_json(json, path, length);
  }
  free(path);
}

void figures_add_health(const struct steps *steps, struct buffer *json) {
  const struct http_step *running = steps->running;
  buffer_add_string(json, ",\"stepInFlight\":");
  if (running != NULL)
    buffer_add_json(json, running->id, strlen(running->id));
  else
    buffer_add_string(json, "null");
  buffer_add_format(json, ",\"waiting\":%zu,\"unread\":%zu", steps->waiting_count,
                    steps_unread(steps));
  add_directory(json);
}

static void add_gauge(struct buffer *text, const char *name, const char *help, uint64_t value) {
  http_metric_begin(text, name, "gauge", NULL, help);
  http_metric_add(text, name, value);
}

void figures_add_metrics(const struct steps *steps, const struct step_counts *counts,
                         struct buffer *text) {
  http_metric_begin(text, "sandbox_steps", "counter", NULL, "Steps that are over, by outcome.");
  http_metric_add(text, "sandbox_steps_total{outcome=\"ok\"}", counts->ok);
  http_metric_add(text, "sandbox_steps_total{outcome=\"failed\"}", counts->failed);
  http_metric_add(text, "sandbox_steps_total{outcome=\"timed_out\"}", counts->timed_out);
  http_metric_add(text, "sandbox_steps_total{outcome=\"cancelled\"}", counts->cancelled);
  add_gauge(text, "sandbox_steps_running", "Steps that run.", steps->running != NULL);
  add_gauge(text, "sandbox_steps_waiting", "Steps that wait.", steps->waiting_count);
  add_gauge(text, "sandbox_results_held", "Results that are held.", steps->finished_count);
  add_gauge(text, "sandbox_results_unread", "Results that nobody has read.", steps_unread(steps));
  add_gauge(text, "sandbox_events_held", "Events that are held.", steps->store.count);
}
