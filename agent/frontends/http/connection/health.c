/* The routes that all modes have: GET /health and GET /metrics. */
#include <string.h>
#include <unistd.h>

#include "agent/frontends/http/connection/server_state.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "wire/features.h"
#include "wire/step.h"
#include "wire/step_report.h"
#include "wire/version.h"

#define METRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* --- health ----------------------------------------------------------------------------------- */

/* Features that only mean something with Redis. */
static bool depends_on_redis(const char *feature) {
  return strcmp(feature, FEATURE_CONTROL) == 0 || strcmp(feature, FEATURE_REPLY_TO) == 0 ||
         strcmp(feature, FEATURE_FLOW_CONTROL) == 0;
}

static void add_features(struct buffer *json) {
  const char *separator = "";
  buffer_add_string(json, ",\"features\":[");
  for (size_t i = 0; protocol_features[i] != NULL; i++) {
    if (depends_on_redis(protocol_features[i]))
      continue;
    buffer_add_format(json, "%s\"%s\"", separator, protocol_features[i]);
    separator = ",";
  }
  buffer_add_string(json, "]");
}

static void add_members(const struct http_server *self, struct buffer *json) {
  const char *job = self->options.http->job_id;
  buffer_add_format(json, ",\"mode\":\"%s\",\"version\":\"%s\",\"protocol\":%d,\"protocolMin\":%d",
                    self->options.mode, SANDBOX_VERSION, STEP_VERSION_NEWEST, STEP_VERSION_OLDEST);
  add_features(json);
  buffer_add_format(json, ",\"instance\":\"%s\"", self->instance);
  if (job != NULL) {
    buffer_add_string(json, ",\"job\":");
    buffer_add_json(json, job, strlen(job));
  }
  buffer_add_format(json, ",\"pid\":%d,\"uptimeSeconds\":%lld", (int)getpid(),
                    (long long)(clock_monotonic_ms() - self->started_ms) / 1000);
  self->type->health(self->owner, json);
}

void server_serve_health(void *server, struct http_exchange *exchange) {
  const struct http_server *self = server;
  struct buffer json = {0};
  buffer_add_format(&json, "{\"status\":\"%s\"", self->is_ending ? "ending" : "ok");
  if (exchange->is_authorized)
    add_members(self, &json);
  buffer_add_string(&json, "}\n");
  http_respond(exchange, self->is_ending ? 503 : 200, "application/json", NULL, &json);
}

/* --- metrics ---------------------------------------------------------------------------------- */

void http_metric_begin(struct buffer *text, const char *name, const char *type, const char *unit,
                       const char *help) {
  buffer_add_format(text, "# TYPE %s %s\n", name, type);
  if (unit != NULL)
    buffer_add_format(text, "# UNIT %s %s\n", name, unit);
  buffer_add_format(text, "# HELP %s %s\n", name, help);
}

void http_metric_add(struct buffer *text, const char *name, uint64_t value) {
  buffer_add_format(text, "%s %llu\n", name, (unsigned long long)value);
}

static void add_gauge(struct buffer *text, const char *name, const char *unit, const char *help,
                      int64_t value) {
  if (value < 0)
    return;
  http_metric_begin(text, name, "gauge", unit, help);
  http_metric_add(text, name, (uint64_t)value);
}

static void add_seconds(struct buffer *text, const char *sample, int64_t milliseconds) {
  char seconds[STEP_RESULT_SECONDS_SIZE];
  step_result_seconds(seconds, milliseconds);
  buffer_add_format(text, "%s %s\n", sample, seconds);
}

static void add_container(struct buffer *text) {
  const struct cgroup *container = cgroup_own();
  const int64_t cpu_us = cgroup_cpu_us(container);
  add_gauge(text, "sandbox_container_memory_bytes", "bytes", "Memory that the container uses.",
            cgroup_memory(container));
  add_gauge(text, "sandbox_container_memory_limit_bytes", "bytes", "Memory limit of the container.",
            cgroup_memory_limit(container));
  if (cpu_us < 0)
    return;
  http_metric_begin(text, "sandbox_container_cpu_seconds", "counter", "seconds",
                    "Processor time that the container has used.");
  add_seconds(text, "sandbox_container_cpu_seconds_total", cpu_us / 1000);
}

void server_serve_metrics(void *server, struct http_exchange *exchange) {
  const struct http_server *self = server;
  struct buffer text = {0};
  http_metric_begin(&text, "sandbox_agent", "info", NULL, "The version of the agent.");
  buffer_add_format(&text, "sandbox_agent_info{version=\"%s\",mode=\"%s\"} 1\n", SANDBOX_VERSION,
                    self->options.mode);
  http_metric_begin(&text, "sandbox_uptime_seconds", "gauge", "seconds",
                    "Time since the agent was started.");
  add_seconds(&text, "sandbox_uptime_seconds", clock_monotonic_ms() - self->started_ms);
  add_gauge(&text, "sandbox_http_connections", NULL, "Open connections.",
            (int64_t)self->connection_count);
  http_metric_begin(&text, "sandbox_http_requests", "counter", NULL, "Requests that are over.");
  http_metric_add(&text, "sandbox_http_requests_total", self->counts.requests);
  http_metric_begin(&text, "sandbox_http_refused_requests", "counter", NULL,
                    "Requests without the right key, origin or host, or above a limit.");
  http_metric_add(&text, "sandbox_http_refused_requests_total", self->counts.refused);
  http_metric_begin(&text, "sandbox_http_received_bytes", "counter", "bytes",
                    "Bytes received from clients.");
  http_metric_add(&text, "sandbox_http_received_bytes_total", self->counts.received_bytes);
  http_metric_begin(&text, "sandbox_http_sent_bytes", "counter", "bytes", "Bytes sent to clients.");
  http_metric_add(&text, "sandbox_http_sent_bytes_total", self->counts.sent_bytes);
  if (self->type->metrics != NULL)
    self->type->metrics(self->owner, &text);
  add_container(&text);
  buffer_add_string(&text, "# EOF\n");
  http_respond(exchange, 200, METRICS_TYPE, NULL, &text);
}
