#include "tests/fault/trial.h"

#include <sys/prctl.h>

#include "tests/fault/checker.h"
#include "tests/fault/reader.h"
#include "tests/support/gate.h"
#include "tests/support/proc.h"
#include "tests/test.h"

void trial_name(const struct trial *self, char separator, char *out, size_t size) {
  static const char *const roles[RELAY_WORKERS] = {"in", "out"};
  const char *transport = self->certificates != NULL ? "tls-" : "";
  if (self->by_role)
    snprintf(out, size, "%s%s%c%s%c%ld", transport, self->family, separator, roles[self->role],
             separator, self->number);
  else
    snprintf(out, size, "%s%s%c%ld", transport, self->family, separator, self->number);
}

/* Appends the log of the current agent to those of the earlier ones. */
static void keep_log(struct trial *self) {
  char path[PATH_MAX + 16];
  if (self->job->agent == NULL || self->kept)
    return;
  self->kept = true;
  snprintf(path, sizeof path, "%s/agent.log", self->directory);
  FILE *file = fopen(path, "ae");
  assert_non_null(file);
  fprintf(file, "--- agent %d\n%s", (int)agent_process_pid(self->job->agent),
          agent_process_log(self->job->agent));
  fclose(file);
}

static void leave_evidence(int status, void *context) {
  struct trial *self = context;
  struct reader reader;
  if (status == 0 && tally_is_clean(self->tally))
    return;
  keep_log(self);
  reader_init(&reader, self->job->server, self->job->id, self->tally);
  reader_dump(&reader, self->directory);
  reader_release(&reader);
}

static void end_processes(int status, void *context) {
  struct trial *self = context;
  (void)status;
  proxy_stop(self->proxy);
  if (self->job->server != self->shared)
    redis_server_stop(self->job->server);
  proc_kill_children(getpid());
}

struct redis_server *trial_start_server(const struct trial *self, const char *const *extra) {
  return self->certificates != NULL ? redis_server_start_tls(self->certificates, extra)
                                    : redis_server_start(extra);
}

/* Returns the port that the agents use. */
static int server_port(const struct trial *self) {
  return self->certificates != NULL ? redis_server_tls_port(self->job->server)
                                    : redis_server_port(self->job->server);
}

static void use_port(struct trial *self, int port) {
  self->job->url =
      job_format(self->job, "%s://%s127.0.0.1:%d", self->certificates != NULL ? "rediss" : "redis",
                 redis_server_login(), port);
}

void trial_open(struct trial *self, struct redis_server *server) {
  self->job = job_new(server != NULL ? server : self->shared);
  use_port(self, server_port(self));
  /* All trials of a family have ids of the same length, because the length of the traffic depends
     on it. */
  snprintf(self->job->id, sizeof self->job->id, "{%s-%07ld}", self->family,
           self->number % 10000000);
  work_init(&self->work, self->job, self->directory);
  /* So that orphans of the agent are re-parented to this process, and end with it. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  assert_int_equal(on_exit(end_processes, self), 0);
  assert_int_equal(on_exit(leave_evidence, self), 0);
  if (server == NULL)
    trial_command(self, "FLUSHALL");
}

void trial_put_proxy(struct trial *self, const struct proxy_plan *plan) {
  self->proxy = proxy_start(server_port(self), plan);
  use_port(self, proxy_port(self->proxy));
}

long trial_reach(const struct trial *self, enum relay_direction direction, long bytes) {
  static const long handshake[RELAY_DIRECTIONS] = {[RELAY_REQUEST] = 400, [RELAY_REPLY] = 1500};
  return self->certificates != NULL ? handshake[direction] + bytes + bytes / 4 : bytes;
}

struct role_sought {
  struct trial *trial;
  enum relay_role role;
};

static bool server_knows_role(void *context) {
  static const char *const names[RELAY_ROLES] = {
      [RELAY_INTAKE] = ":in", [RELAY_OUTBOX] = ":out", [RELAY_HEARTBEAT] = ":heartbeat"};
  const struct role_sought *sought = context;
  struct trial *trial = sought->trial;
  int port = proxy_server_side_port(trial->proxy, sought->role);
  redisReply *reply = redisCommand(trial->job->redis, "CLIENT LIST");
  assert_true(reply != NULL && reply->type == REDIS_REPLY_STRING);
  const char *address = job_format(trial->job, " addr=127.0.0.1:%d ", port);
  const char *name =
      job_format(trial->job, " name=sandbox:%s%s ", trial->job->id, names[sought->role]);
  const char *client = strstr(reply->str, address);
  const char *at = client != NULL ? strstr(client, name) : NULL;
  bool knows = at != NULL && memchr(client, '\n', (size_t)(at - client)) == NULL;
  freeReplyObject(reply);
  return knows;
}

void trial_expect_role(struct trial *self, enum relay_role role) {
  if (!wait_until(server_knows_role, &(struct role_sought){self, role}, WAIT_BOUND_MS))
    tally_find(self->tally, TALLY_WRONG, 1, "the proxy takes another connection for role %d", role);
}

void trial_start_agent(struct trial *self) {
  const struct certificates *certificates = self->certificates;
  keep_log(self);
  job_start_agent(self->job, "--events-maxlen",
                  self->events_maxlen != NULL ? self->events_maxlen : "0",
                  certificates != NULL ? "--cacert" : NULL,
                  certificates != NULL ? certificates_path(certificates, "ca.pem") : NULL, NULL);
  self->kept = false;
}

struct agent_process *trial_supersede_agent(struct trial *self) {
  struct agent_process *first = self->job->agent;
  keep_log(self);
  self->job->agent = NULL;
  trial_start_agent(self);
  return first;
}

void trial_kill_agent(struct trial *self) {
  pid_t pid = agent_process_pid(self->job->agent);
  kill(pid, SIGSTOP); /* so that it neither notices the end of its children nor creates new ones */
  proc_kill_tree(pid);
  agent_process_wait(self->job->agent, WAIT_BOUND_MS);
}

struct work_step *trial_push_gated(struct trial *self, long before, const char *script, long more) {
  return work_push_script(&self->work, before + more, "", 0,
                          job_format(self->job, "%s; " GATE("'%s/gate'") "seq %ld %ld", script,
                                     self->directory, self->directory, before + 1, before + more));
}

void trial_open_gate(struct trial *self) {
  gate_open(job_format(self->job, "%s/gate", self->directory));
}

struct watch {
  struct trial *trial;
  struct reader reader;
  long events; /* the number of events at the last check */
};

static bool watch_agent_end(void *context) {
  struct watch *watch = context;
  reader_glance(&watch->reader);
  return !agent_process_is_running(watch->trial->job->agent);
}

static bool count_more_events(struct watch *watch) {
  long before = watch->events;
  watch->events = reader_event_count(&watch->reader);
  return watch->events != before;
}

void trial_finish(struct trial *self, int bound_ms) {
  struct watch watch = {.trial = self};
  reader_init(&watch.reader, self->job->server, self->job->id, self->tally);
  bool has_ended;
  do
    has_ended = wait_until(watch_agent_end, &watch, bound_ms);
  while (!has_ended && count_more_events(&watch));
  if (!has_ended)
    tally_find(self->tally, TALLY_WRONG, 1, "the agent still runs, and nothing came in %d ms",
               bound_ms);
  else if (agent_process_wait(self->job->agent, 0) != 0)
    tally_find(self->tally, TALLY_WRONG, 1, "the agent left with %d",
               agent_process_wait(self->job->agent, 0));
  checker_check(&self->work, &watch.reader, self->tally);
  reader_release(&watch.reader);
  if (self->proxy != NULL)
    self->tally->cuts += proxy_cuts(self->proxy);
}

struct expected {
  struct trial *trial;
  long results;
};

static bool has_results(void *context) {
  const struct expected *expected = context;
  return trial_command(expected->trial, "LLEN sandbox:%s:results", expected->trial->job->id) >=
         expected->results;
}

bool trial_wait_results(struct trial *self, long results, int bound_ms) {
  return wait_until(has_results, &(struct expected){self, results}, bound_ms);
}

long trial_random(struct trial *self, long count) {
  return nrand48(self->random) % count;
}

static bool never(void *context) {
  (void)context;
  return false;
}

void trial_let_pass(int milliseconds) {
  wait_until(never, NULL, milliseconds);
}

long long trial_command(struct trial *self, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = redisvCommand(self->job->redis, format, arguments);
  va_end(arguments);
  if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
    job_fail(self->job, "%s: %s", format, reply == NULL ? self->job->redis->errstr : reply->str);
  long long integer = reply->integer;
  freeReplyObject(reply);
  return integer;
}

void trial_expect_log(struct trial *self, const char *text, int least, int most) {
  int count = agent_process_count_log(self->job->agent, text);
  if (count < least || count > most)
    tally_find(self->tally, TALLY_WRONG, 1, "the log says %s %d times, not %d to %d", text, count,
               least, most);
}
