/* sandbox and an untrusted Redis: the client exits, perhaps after a signal, and does not crash. */

#include "base/buffer.h"
#include "tests/support/agent_process.h"
#include "tests/support/fake_redis.h"
#include "tests/test.h"

/* Long enough for all pages on a busy machine. */
#define PAGES_BOUND_MS 200000

/* The size of the client's pages. */
#define PAGE 500

struct scene {
  struct event_base *base;
  struct fake_redis *server;
  struct agent_process *client;
  struct buffer page;        /* PAGE elements */
  const char *scan, *events; /* replies to SCAN and XREAD */
  bool has_agent, refuses_steps, loses_pushes, is_broken;
  struct buffer event, result; /* of the step that was pushed */
  int pages, removals, pushes; /* LRANGE and SCAN; unanswered LREM; refused or lost LPUSH */
};

static void add_bulk(struct buffer *out, const char *text) {
  buffer_add_format(out, "$%zu\r\n%s\r\n", strlen(text), text);
}

/* Makes the event and the result of the step. */
static void take_step(struct scene *self, const char *command) {
  const char *id = strstr(command, "\"stepId\":\"");
  char json[512];
  assert_non_null(id);
  id += strlen("\"stepId\":\"");
  (void)snprintf(json, sizeof json,
                 "{\"stepId\":\"%.36s\",\"kind\":\"completed\",\"line\":\"exit=0 "
                 "timedOut=False\",\"seq\":1}",
                 id);
  buffer_add_string(&self->event,
                    "*1\r\n*2\r\n$1\r\nk\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$4\r\ndata\r\n");
  add_bulk(&self->event, json);
  buffer_add(&self->event, "", 1);
  (void)snprintf(json, sizeof json, "{\"stepId\":\"%.36s\",\"exitCode\":0}", id);
  buffer_add_string(&self->result, "*1\r\n");
  add_bulk(&self->result, json);
  buffer_add(&self->result, "", 1);
}

static const char *answer(void *owner, const char *command) {
  struct scene *self = owner;
  const struct {
    const char *command, *reply;
  } others[] = {{"ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"},
                {"GET", "$-1\r\n"},
                {"LINDEX", "$-1\r\n"},
                {"XREVRANGE", "*1\r\n*2\r\n:1\r\n:2\r\n"},
                {"XREAD", self->events},
                {"LLEN", ":4611686018427387904\r\n"}};
  if (self->is_broken)
    return "-ERR out of order\r\n";
  bool is_list = strncmp(command, "LRANGE", 6) == 0, is_scan = strncmp(command, "SCAN", 4) == 0;
  self->pages += is_list || is_scan;
  if (strncmp(command, "LPUSH", 5) == 0 && self->refuses_steps) {
    self->pushes++;
    return "-LOADING again and again\r\n";
  }
  if (strncmp(command, "LPUSH", 5) == 0 && self->loses_pushes) {
    self->pushes++;
    return NULL;
  }
  if (strncmp(command, "LPUSH", 5) == 0) {
    take_step(self, command);
    return ":1\r\n";
  }
  if (strncmp(command, "LREM", 4) == 0 && self->result.length > 0) {
    self->removals++;
    return NULL;
  }
  if (self->result.length > 0 && is_list)
    return self->result.bytes;
  if (self->event.length > 0 && strncmp(command, "XREAD", 5) == 0)
    return self->event.bytes;
  if (self->has_agent && strstr(command, "GET sandbox:j:heartbeat") != NULL)
    return "$2\r\n{}\r\n";
  if (is_list && self->refuses_steps)
    return "*0\r\n";
  if (is_scan || (is_list && strstr(command, " 1 0") == NULL))
    return is_scan ? self->scan : self->page.bytes;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strncmp(command, others[i].command, strlen(others[i].command)) == 0)
      return others[i].reply;
  return "+OK\r\n";
}

static int set_up(void **state) {
  struct scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->base = event_base_new();
  assert_non_null(self->base);
  self->server = fake_redis_new(self->base, false);
  fake_redis_answer_with(self->server, answer, self);
  self->events = "*-1\r\n";
  self->scan = "*2\r\n$1\r\n7\r\n*0\r\n";
  buffer_add_format(&self->page, "*%d\r\n", PAGE);
  for (int i = 0; i < PAGE; i++)
    add_bulk(&self->page, "x");
  buffer_add(&self->page, "", 1);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct scene *self = *state;
  agent_process_free(self->client);
  fake_redis_free(self->server);
  event_base_free(self->base);
  buffer_release(&self->page);
  buffer_release(&self->event);
  buffer_release(&self->result);
  free(self);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

/* The words of the command end with NULL. */
static void start(struct scene *self, const char *job, const char *const *words) {
  const char *program = getenv("SANDBOX");
  char url[160];
  (void)snprintf(url, sizeof url, "unix://%s", fake_redis_url(self->server).hosts[0].host);
  const char *arguments[16] = {"-u", url};
  size_t count = 2;
  if (job != NULL) {
    arguments[count++] = "-j";
    arguments[count++] = job;
  }
  while (*words != NULL)
    arguments[count++] = *words++;
  self->client = agent_process_start(&(struct agent_setup){
      .program = program != NULL ? program : "build/sandbox", .arguments = arguments});
}
#define START(SCENE, JOB, ...) start((SCENE), (JOB), (const char *const[]){__VA_ARGS__, NULL})

/* Serves until the condition is true. */
#define UNTIL(SCENE, CONDITION)                                                                    \
  do {                                                                                             \
    for (int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS; !(CONDITION); pass_ms((SCENE), 5))        \
      if (wait_now_ms() > end_ms)                                                                  \
        agent_process_fail((SCENE)->client, "it never came to this: %s", #CONDITION);              \
  } while (0)

static void pass_ms(struct scene *self, int milliseconds) {
  const struct timeval time = {.tv_usec = (suseconds_t)milliseconds * 1000};
  event_base_loopexit(self->base, &time);
  event_base_dispatch(self->base);
}

static void expect_exit(struct scene *self, int code, int bound_ms) {
  for (int64_t end_ms = wait_now_ms() + bound_ms; agent_process_is_running(self->client);) {
    pass_ms(self, 5);
    if (wait_now_ms() > end_ms)
      agent_process_fail(self->client, "it does not end");
  }
  assert_int_equal(agent_process_wait(self->client, 0), code);
}

static void expect_signal_to_end_it(struct scene *self, int signal_number) {
  UNTIL(self, self->pages > 100);
  assert_int_equal(kill(agent_process_pid(self->client), signal_number), 0);
  expect_exit(self, 128 + signal_number, WAIT_BOUND_MS);
}

SCENE_TEST(a_signal_ends_an_endless_list) {
  START(scene, "j", "run", "--", "true");
  expect_signal_to_end_it(scene, SIGTERM);
}

SCENE_TEST(an_interrupt_ends_an_endless_list) {
  START(scene, "j", "run", "--", "true");
  expect_signal_to_end_it(scene, SIGINT);
}

SCENE_TEST(an_endless_list_is_an_error) {
  START(scene, "j", "ps");
  expect_exit(scene, 125, PAGES_BOUND_MS);
  assert_string_equal(agent_process_log(scene->client),
                      "sandbox: redis does not come to the end of LRANGE: gave up after 4096 "
                      "replies\n");
}

SCENE_TEST(an_endless_scan_is_an_error) {
  START(scene, NULL, "jobs");
  expect_exit(scene, 125, PAGES_BOUND_MS);
  assert_string_equal(agent_process_log(scene->client),
                      "sandbox: redis does not come to the end of SCAN: gave up after 16384 "
                      "replies\n");
}

/* Whether the last command begins like this. */
static bool is_asked(const struct scene *self, const char *command) {
  const size_t count = fake_redis_commands(self->server);
  return count > 0 &&
         strncmp(fake_redis_command(self->server, count - 1), command, strlen(command)) == 0;
}

SCENE_TEST(numbers_instead_of_texts_are_harmless) {
  scene->scan = "*2\r\n:0\r\n*2\r\n:1\r\n*0\r\n";
  START(scene, NULL, "jobs");
  expect_exit(scene, 0, WAIT_BOUND_MS);
  agent_process_free(scene->client);
  START(scene, "j", "follow", "-n", "1");
  UNTIL(scene, is_asked(scene, "XREAD"));
  assert_int_equal(kill(agent_process_pid(scene->client), SIGINT), 0);
  expect_exit(scene, 130, WAIT_BOUND_MS);
}

/* The server has one connection at a time and closes the other one, which may be reported, too. */
SCENE_TEST(an_error_instead_of_events_is_shown) {
  scene->events = "-ERR that is not for you\r\n";
  START(scene, "j", "follow", "-n", "1");
  expect_exit(scene, 125, WAIT_BOUND_MS);
  assert_non_null(strstr(agent_process_log(scene->client),
                         "sandbox: cannot read the events: ERR that is not for you\n"));
}

SCENE_TEST(doctor_finds_that_every_answer_is_an_error) {
  scene->is_broken = true;
  START(scene, "j", "doctor");
  expect_exit(scene, 1, WAIT_BOUND_MS);
  assert_string_equal(agent_process_output(scene->client),
                      "✗ redis answers every command with an error: ERR out of order   → see the "
                      "log of Redis, or -u another URL\n1 problem\n");
}

/* The step is over, and its result has to be removed. */
SCENE_TEST(a_signal_ends_the_wait_for_an_unanswered_removal) {
  scene->has_agent = true;
  START(scene, "j", "run", "--", "true");
  UNTIL(scene, scene->removals > 0);
  assert_int_equal(kill(agent_process_pid(scene->client), SIGTERM), 0);
  expect_exit(scene, 0, 10000);
}

/* A second one would stop the next agent of the job. */
SCENE_TEST(a_shutdown_is_not_pushed_twice) {
  scene->has_agent = scene->loses_pushes = true;
  START(scene, "j", "shutdown");
  UNTIL(scene, scene->pushes == 1);
  fake_redis_close_connection(scene->server);
  expect_exit(scene, 125, WAIT_BOUND_MS);
  assert_int_equal(scene->pushes, 1);
  assert_string_equal(agent_process_log(scene->client),
                      "sandbox: the connection to redis was lost; sandbox ps shows whether the "
                      "shutdown waits, and whether the agent is gone\n");
}

SCENE_TEST(a_signal_ends_a_push_that_is_repeated) {
  scene->has_agent = scene->refuses_steps = true;
  START(scene, "j", "run", "--", "true");
  UNTIL(scene, scene->pushes > 1);
  assert_int_equal(kill(agent_process_pid(scene->client), SIGTERM), 0);
  const int pushes = scene->pushes;
  expect_exit(scene, 128 + SIGTERM, WAIT_BOUND_MS);
  assert_in_range(scene->pushes, pushes, pushes + 1);
}
