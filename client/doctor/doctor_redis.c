/* Checks the connection, TLS, memory and clocks. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/frontends/redis/connection/connection_error.h"
#include "agent/frontends/redis/connection/error_reply.h"
#include "base/clock.h"
#include "client/doctor/doctor.h"
#include "client/redis/redis_info.h"
#include "client/screen/figure.h"

static double now_ms(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void name_server(const struct redis_url *url, char *out, size_t size) {
  char hosts[256];
  redis_url_name(url, hosts, sizeof hosts);
  if (url->hosts[0].port == 0)
    (void)snprintf(out, size, "unix://%s", hosts);
  else
    (void)snprintf(out, size, "redis%s%s://%s", url->secure ? "s" : "",
                   url->master != NULL ? "+sentinel" : "", hosts);
}

/* docs/redis.md explains each fix. */
static const char *find_fix(const struct redis_url *url, int code) {
  static const struct {
    int code;
    const char *fix;
  } fixes[] = {
      {ECONNREFUSED, "start redis-server there, or -u another URL"},
      {ENOENT, "start redis-server there, or -u another URL"},
      {CONNECTION_ERROR_UNRESOLVED,
       "-u another host, or an entry in /etc/hosts; or check the name servers"},
      {CONNECTION_ERROR_CLOSED, "-u rediss://…"},
      {CONNECTION_ERROR_NOT_REDIS, "-u another URL: this is not Redis"},
      {CONNECTION_ERROR_REPLICA, "-u redis://MASTER…"},
      {CONNECTION_ERROR_NO_MASTER, "-u redis+sentinel://…/NAME, which SENTINEL MASTERS lists"},
      {CONNECTION_ERROR_WRONG_PASSWORD,
       "-u redis://USER:PASSWORD@…, or ACL SETUSER USER on '>PASSWORD'"},
      {CONNECTION_ERROR_NO_PASSWORD, "-u redis://USER:PASSWORD@…"},
      {CONNECTION_ERROR_NEEDLESS_PASSWORD,
       "-u without a password, or CONFIG SET requirepass PASSWORD"},
      {CONNECTION_ERROR_NO_RIGHT, "ACL SETUSER USER …, with the rights in docs/redis.md"},
      {CONNECTION_ERROR_LOADING, "wait until Redis has loaded its data"},
      {CONNECTION_ERROR_SPEAKS_TLS, "-u rediss://…"},
      {CONNECTION_ERROR_SPEAKS_NO_TLS, "-u redis://…, or the TLS port"},
      {CONNECTION_ERROR_UNTRUSTED, "--cacert FILE"},
      {CONNECTION_ERROR_OTHER_NAME, "--sni NAME, or connect to a name in the certificate"},
      {CONNECTION_ERROR_EXPIRED, "renew the server's certificate"},
      {CONNECTION_ERROR_NOT_YET_VALID, "set the clock of this machine"},
      {CONNECTION_ERROR_UNKNOWN_NAME, "--sni NAME"},
      {CONNECTION_ERROR_WANTS_CERTIFICATE, "--cert FILE --key FILE"},
      {CONNECTION_ERROR_CERTIFICATE_REFUSED,
       "--cert FILE --key FILE, signed by the server's authority"}};
  for (size_t i = 0; i < sizeof fixes / sizeof *fixes; i++)
    if (fixes[i].code == code)
      return fixes[i].fix;
  if (code != CONNECTION_ERROR_NO_ANSWER)
    return "-u another URL; or check the network and its policies";
  return url->secure ? "-u redis://…, if the port does not speak TLS"
                     : "-u rediss://…, if the port speaks TLS; or check the network";
}

void doctor_report_no_connection(struct doctor *self, const struct error *error) {
  const struct redis_url *url = &self->program->url;
  doctor_report(self, FINDING_PROBLEM, find_fix(url, error->code), "%s",
                error_reply_explain(error->text, url).text);
  self->is_gone = true;
}

static void read_user(struct doctor *self) {
  const char *user = self->program->url.user;
  char *name = NULL;
  (void)doctor_query(self, WORDS("ACL", "WHOAMI"), reply_to_text, &name);
  (void)snprintf(self->user, sizeof self->user, "%s",
                 name != NULL   ? name
                 : user != NULL ? user
                                : "default");
  free(name);
}

bool doctor_check_connection(struct doctor *self) {
  struct program *program = self->program;
  char server[300], version[64], *pong = NULL;
  double took_ms = 0;
  for (int i = 0; i < 2; i++) { /* the first PING waits for the connection */
    const double before_ms = now_ms();
    if (doctor_query(self, WORDS("PING"), reply_to_text, &pong) == PIPELINE_REFUSED &&
        !doctor_is_denied(self)) {
      doctor_report(self, FINDING_PROBLEM, "see the log of Redis, or -u another URL",
                    "redis answers every command with an error: %s",
                    error_reply_explain(self->refusal, &program->url).text);
      self->is_gone = true;
    }
    if (self->is_gone)
      return false;
    took_ms = now_ms() - before_ms;
    free(pong);
    pong = NULL;
  }
  (void)doctor_query_optional(self, WORDS("INFO"), reply_to_text, &self->info);
  read_user(self);
  name_server(&program->url, server, sizeof server);
  const bool has_version = redis_info_version(self->info, version, sizeof version);
  doctor_report(self, FINDING_OK, NULL, "%s answers in %.*f ms, %s%suser %s", server,
                took_ms < 0.1 ? 2 : 1, took_ms, has_version ? version : "", has_version ? ", " : "",
                self->user);
  return !self->is_gone;
}

/* Whether no byte leaves this machine. */
static bool is_local(const struct redis_url *url) {
  for (size_t i = 0; i < url->host_count; i++) {
    const char *host = url->hosts[i].host;
    if (url->hosts[i].port != 0 && strcmp(host, "localhost") != 0 && strcmp(host, "::1") != 0 &&
        strncmp(host, "127.", 4) != 0)
      return false;
  }
  return true;
}

static void check_tls(struct doctor *self) {
  const struct program *program = self->program;
  if (program->url.secure && program->tls.insecure)
    doctor_report(self, FINDING_WARNING, "--cacert FILE",
                  "TLS: with --insecure, no certificate is checked");
  else if (program->url.secure)
    doctor_report(self, FINDING_OK, NULL, "TLS: the server's certificate is valid");
  else if (is_local(&program->url))
    doctor_report(self, FINDING_OK, NULL, "no TLS, and none is needed: Redis is on this machine");
  else if (program->url.password != NULL)
    doctor_report(self, FINDING_WARNING, "-u rediss://…",
                  "no TLS: the network can read the password");
  else
    doctor_report(self, FINDING_OK, NULL, "no TLS, and no password to protect");
}

static double info_number(const struct doctor *self, const char *name) {
  char text[32];
  return redis_info_field(self->info, name, text, sizeof text) ? strtod(text, NULL) : -1;
}

static void check_policy(struct doctor *self) {
  static const char fix[] = "CONFIG SET maxmemory-policy noeviction";
  const double most = info_number(self, "maxmemory");
  char policy[32];
  if (!redis_info_field(self->info, "maxmemory_policy", policy, sizeof policy))
    return;
  if (strcmp(policy, "noeviction") == 0)
    doctor_report(self, FINDING_OK, NULL, "maxmemory-policy noeviction");
  else if (most > 0)
    doctor_report(self, FINDING_PROBLEM, fix,
                  "maxmemory-policy %s: if Redis is full, it deletes keys of jobs", policy);
  else
    doctor_report(self, FINDING_WARNING, fix,
                  "maxmemory-policy %s: with a maxmemory, Redis would delete keys of jobs", policy);
}

static void check_memory(struct doctor *self) {
  const double most = info_number(self, "maxmemory"), used = info_number(self, "used_memory");
  char fix[64];
  if (most <= 0 || used < 0.9 * most)
    return;
  (void)snprintf(fix, sizeof fix, "CONFIG SET maxmemory %.0f", 2 * most);
  doctor_report(self, used >= most ? FINDING_PROBLEM : FINDING_WARNING, fix,
                "memory: %s, and agents wait while redis is full", figure_memory(used, most).text);
}

static void check_role(struct doctor *self) {
  char role[16];
  if (redis_info_field(self->info, "role", role, sizeof role) && strcmp(role, "slave") == 0)
    doctor_report(self, FINDING_PROBLEM, "-u redis://MASTER…, or redis+sentinel://…",
                  "this Redis is a replica: agents cannot write to it");
}

int64_t doctor_redis_ms(struct doctor *self) {
  int64_t ms;
  return doctor_query_optional(self, WORDS("TIME"), reply_to_time, &ms) ? ms : -1;
}

static void check_clock(struct doctor *self) {
  const int64_t before_ms = clock_unix_ms(), redis_ms = doctor_redis_ms(self);
  const int64_t ahead_ms = (before_ms + clock_unix_ms()) / 2 - redis_ms;
  struct buffer text = {0};
  if (redis_ms < 0)
    return;
  const bool is_far = doctor_add_clock(&text, "this machine's", ahead_ms);
  doctor_report(self, is_far ? FINDING_WARNING : FINDING_OK,
                is_far ? "timedatectl set-ntp true, on both machines" : NULL, "%.*s",
                (int)text.length, text.bytes);
  buffer_release(&text);
}

void doctor_check_redis(struct doctor *self) {
  check_tls(self);
  check_role(self);
  check_policy(self);
  check_memory(self);
  check_clock(self);
}
