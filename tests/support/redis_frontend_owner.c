#include "tests/support/redis_frontend_owner.h"
#include "agent/kinds/kind.h"
#include "tests/support/gate.h"

#include <sys/resource.h>

#include "agent/engine/lines.h"
#include "agent/exit_code.h"
#include "tests/support/logged.h"
#include "tests/test.h"

#define KEY "sandbox:j:"

static void reap(void *owner) {
  struct redis_frontend_owner *self = owner;
  if (self->engine != NULL)
    engine_reap(self->engine);
}

int frontend_owner_set_up(void **state) {
  struct redis_frontend_owner *self = calloc(1, sizeof *self);
  assert_non_null(self);
  loop_init(&self->loop);
  self->loop.reap = reap;
  self->loop.owner = self;
  self->store = redis_store_new(self->loop.base);
  self->url = redis_store_url(self->store);
  self->options = (struct redis_frontend_options){
      .delivery = {.url = &self->url, .events_maxlen = 10000, .hold_bytes = 1 << 20},
      .job_id = "j"};
  *state = self;
  return 0;
}

int frontend_owner_tear_down(void **state) {
  struct redis_frontend_owner *self = *state;
  if (self->engine != NULL) {
    engine_free(self->engine);
    self->frontend->type->free(self->frontend);
  }
  self->engine = NULL;
  secrets_release(&self->secrets);
  confinement_free(self->confinement);
  redis_store_free(self->store);
  loop_release(&self->loop);
  free(self);
  return 0;
}

void frontend_owner_make(struct redis_frontend_owner *self) {
  static const struct confinement_options no_policy;
  struct error error;
  if (self->confinement == NULL)
    self->confinement = confinement_new(&no_policy, &error);
  struct engine_options options = {
      .base = self->loop.base,
      .log = &self->loop.log,
      .secrets = &self->secrets,
      .supervisor = {.work = kinds_work, .stdin_fd = self->loop.stdin_fd},
      .signal_fd = -1,
      .idle_limit_ms = self->idle_limit_ms,
      .line_bytes = LINE_BYTES_DEFAULT,
      .job_id = "j",
      .kind = {
          .environment = self->loop.environment, .known = kinds, .confinement = self->confinement}};
  getrlimit(RLIMIT_NOFILE, &options.supervisor.open_files);
  self->engine = engine_new(&options);
  self->frontend = redis_frontend_new(self->loop.base, &self->loop.log, &self->options);
  engine_set_frontend(self->engine, self->frontend);
  engine_touch(self->frontend); /* as engine_run does */
  self->frontend->type->want(self->frontend, self->frontend->terms.executions);
}

void frontend_owner_begin(struct redis_frontend_owner *self) {
  frontend_owner_make(self);
  LOOP_UNTIL(&self->loop,
             strstr(redis_store_executed(self->store), "PERSIST " KEY "started") != NULL &&
                 redis_store_connections(self->store, "in") == 1);
  loop_settle(&self->loop);
  redis_store_forget_executed(self->store);
}

int frontend_owner_set_up_begun(void **state) {
  frontend_owner_set_up(state);
  frontend_owner_begin(*state);
  return 0;
}

void frontend_owner_push(struct redis_frontend_owner *self, const char *step) {
  char command[4096];
  assert_true(snprintf(command, sizeof command, "LPUSH " KEY "in %s", quoted(step)) <
              (int)sizeof command);
  redis_store_do(self->store, 3, command);
}

void frontend_owner_push_cancel(struct redis_frontend_owner *self, const char *id) {
  char command[256];
  snprintf(command, sizeof command, "LPUSH " KEY "control {\"kind\":\"cancel\",\"stepId\":\"%s\"}",
           id);
  redis_store_do(self->store, 3, command);
}

void frontend_owner_push_script(struct redis_frontend_owner *self, const char *id,
                                const char *script) {
  char step[2048];
  int n = snprintf(step, sizeof step,
                   "{'schemaVersion':1,'stepId':'%s','command':'sh','args':['-c','%s'],"
                   "'workingDirectory':'%s','timeoutSeconds':1000000}",
                   id, script, self->loop.directory.path);
  assert_true(n > 0 && n < (int)sizeof step);
  frontend_owner_push(self, step);
}

int frontend_owner_count(const struct redis_frontend_owner *self, const char *key,
                         const char *text) {
  char name[64];
  snprintf(name, sizeof name, KEY "%s", key);
  return logged_count_in(redis_store_value(self->store, name), text);
}

void frontend_owner_has_once(const struct redis_frontend_owner *self, const char *key,
                             const char *text) {
  if (frontend_owner_count(self, key, text) != 1)
    fail_msg("not %s once in %s", text, key);
}

void frontend_owner_lacks(const struct redis_frontend_owner *self, const char *key) {
  assert_int_equal(frontend_owner_count(self, key, "\n"), 0);
}

struct awaited {
  const struct redis_frontend_owner *owner;
  const char *key, *text;
  int count;
};

static bool is_there(void *context) {
  const struct awaited *awaited = context;
  return frontend_owner_count(awaited->owner, awaited->key, awaited->text) >= awaited->count;
}

void frontend_owner_await_results(struct redis_frontend_owner *self, int number) {
  struct awaited awaited = {self, "results", "\n", number};
  if (!loop_until(&self->loop, is_there, &awaited))
    fail_msg("results: %s", redis_store_value(self->store, KEY "results"));
  loop_settle(&self->loop);
  assert_int_equal(frontend_owner_count(self, "results", "\n"), number);
}

void frontend_owner_await(struct redis_frontend_owner *self, const char *key, const char *text) {
  struct awaited awaited = {self, key, text, 1};
  if (!loop_until(&self->loop, is_there, &awaited))
    fail_msg("no %s in %s; done: %s", text, key, redis_store_executed(self->store));
}

/* Turns a line of executed commands into a word, or NULL if it is omitted. */
static const char *short_word(const char *line) {
  static const struct {
    const char *beginning, *word;
  } words[] = {{"out MULTI", "("},
               {"out EXEC", ")"},
               {"out LPUSH " KEY "results", "result"},
               {"out SET " KEY "started", "+started"},
               {"out DEL " KEY "started", "-started"},
               {"out LREM " KEY "inflight", "-inflight"},
               {"out RPUSH " KEY "inflight", "+inflight"},
               {"out SET " KEY "heartbeat", "beat"},
               {"out DEL " KEY "heartbeat", "-heartbeat"}};
  static const char *const names[] = {"started", "stdout", "stderr", "completed"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strncmp(line, words[i].beginning, strlen(words[i].beginning)) == 0)
      return words[i].word;
  if (strncmp(line, "out XADD ", 9) != 0)
    return NULL;
  const char *kind = strstr(line, "\"kind\":\"");
  assert_non_null(kind);
  for (size_t i = 0; i < 4; i++)
    if (strncmp(kind + strlen("\"kind\":\""), names[i], strlen(names[i])) == 0)
      return names[i];
  return "?";
}

const char *frontend_owner_story(const struct redis_frontend_owner *self) {
  static char text[16384];
  size_t length = 0;
  text[0] = '\0';
  for (const char *line = redis_store_executed(self->store); *line != '\0';
       line = strchr(line, '\n') + 1) {
    const char *word = short_word(line);
    if (word == NULL)
      continue;
    length +=
        (size_t)snprintf(text + length, sizeof text - length, "%s%s", length > 0 ? " " : "", word);
    assert_true(length < sizeof text);
  }
  return text;
}

int frontend_owner_exit_code(struct redis_frontend_owner *self) {
  LOOP_UNTIL(&self->loop, engine_leaving(self->frontend) != NULL);
  return engine_run(self->engine);
}

void frontend_owner_logged_once(const struct redis_frontend_owner *self, const char *text) {
  if (loop_logged(&self->loop, text) != 1)
    fail_msg("not once in the log: %s", text);
}

void frontend_owner_leave_without_redis(struct redis_frontend_owner *self) {
  frontend_owner_begin(self);
  frontend_owner_push_script(self, "s-1", "echo ready; " GATE("$D/go") "exit 5");
  frontend_owner_await(self, "events", "ready");
  loop_settle(&self->loop);
  redis_store_go_away(self->store);
  loop_open_gate(&self->loop, "go");
  loop_await_log(&self->loop, "exit=5 in ");
  engine_leave(self->frontend, AGENT_EXIT_SHUTDOWN, "shutdown step");
}
