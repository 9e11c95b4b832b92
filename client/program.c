#include "client/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/utf8.h"
#include "client/exit_code.h"
#include "client/http/http_job.h"
#include "client/redis/redis_job.h"

#define TURN_MS 200

static int read_url(struct program *self, struct error *error) {
  const char *const *texts = self->texts;
  self->tls.ca_file = texts[PROGRAM_CACERT];
  self->tls.ca_directory = texts[PROGRAM_CACERTDIR];
  self->tls.certificate = texts[PROGRAM_CERT];
  self->tls.key = texts[PROGRAM_KEY];
  self->tls.name = texts[PROGRAM_SNI];
  if (redis_url_parse(&self->url, texts[PROGRAM_URL], error) != 0)
    return -1;
  if (self->url.secure)
    self->url.tls = tls_new(&self->tls, error);
  return !self->url.secure || self->url.tls != NULL ? 0 : -1;
}

void program_say_away(void *program, const struct error *why) {
  struct program *self = program;
  terminal_say(&self->terminal, COLOR_YELLOW, "%s; retrying for up to %d s", why->text,
               ACCESS_TIMEOUT_MS / 1000);
}

bool program_is_http(const struct program *self) {
  const char *url = self->texts[PROGRAM_URL];
  return url != NULL && http_url_is_http(url);
}

static int begin_http(struct program *self) {
  struct error error;
  self->base = loop_event_base_new();
  self->access = &http_access;
  if (http_job_begin(self, self->texts[PROGRAM_URL], &error) == 0)
    return 0;
  terminal_error(&self->terminal, "%s", error.text);
  return EXIT_USAGE;
}

int program_begin_redis(struct program *self) {
  if (!program_is_http(self))
    return program_begin(self);
  terminal_error(&self->terminal, "%s needs Redis, and does not work over HTTP", self->command);
  return EXIT_USAGE;
}

int program_begin(struct program *self) {
  struct error error;
  char name[64];
  const char *job = self->job = self->texts[PROGRAM_JOB];
  if (self->texts[PROGRAM_URL] == NULL) {
    terminal_error(&self->terminal, "no Redis URL: pass -u URL, or set REDIS_URL");
    return EXIT_USAGE;
  }
  if (program_is_http(self))
    return begin_http(self);
  if (job != NULL && utf8_valid_prefix(job, strlen(job)) != strlen(job)) {
    terminal_error(&self->terminal, "-j is not UTF-8: %s", job);
    return EXIT_CLIENT;
  }
  if (read_url(self, &error) != 0)
    return terminal_fail(&self->terminal, &error);
  (void)snprintf(name, sizeof name, "sandbox-%s", self->command);
  self->base = loop_event_base_new();
  self->redis = pipeline_new(self->base, &self->url, name);
  pipeline_on_away(self->redis, program_say_away, self);
  pipeline_stop_on(self->redis, &self->signal);
  self->access = &redis_access;
  return 0;
}

int program_begin_job(struct program *self) {
  struct error error;
  int code = program_begin(self);
  if (code == 0 && self->access->choose(self, &error) != 0)
    code = terminal_fail(&self->terminal, &error);
  return code;
}

void program_turn(struct program *self) {
  loop_turn(self->base, TURN_MS);
}

bool program_wait_for_start(struct program *self, int64_t end_ms) {
  program_turn(self);
  return clock_monotonic_ms() < end_ms && self->signal == 0;
}

void program_end(struct program *self) {
  pipeline_free(self->redis);
  http_job_end(self->http);
  if (self->base != NULL)
    event_base_free(self->base);
  if (self->has_keys)
    keys_release(&self->keys);
  free(self->found_job);
  tls_free(self->url.tls);
  redis_url_release(&self->url);
  free(self->given_url);
  if (self->key != NULL)
    explicit_bzero(self->key, strlen(self->key));
  free(self->key);
}
