/* A server that is none, or means harm: whatever it answers, the agent neither dies nor grows, and
   asks in pauses. */

#include "tests/support/agent_process.h"
#include "tests/support/proc.h"
#include "tests/support/redis_store.h"
#include "tests/test.h"

/* What an idle agent takes is below 1 MiB, and what a reply may take is 1 MiB beside the longest
   step. */
enum { HELD_KIB_MAX = 8 * 1024, DEPTH = 260000 };

/* In half a second: some handshakes, of some 30 commands each. */
enum { ASKED_MAX = 300 };

/* The server has its turns until this comes true. */
#define UNTIL(BASE, CONDITION)                                                                     \
  do {                                                                                             \
    for (int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS; !(CONDITION); pass_ms((BASE), 5))         \
      if (wait_now_ms() > end_ms)                                                                  \
        fail_msg("it never came to this: %s", #CONDITION);                                         \
  } while (0)

static void pass_ms(struct event_base *base, int milliseconds) {
  const struct timeval time = {.tv_usec = (suseconds_t)milliseconds * 1000};
  event_base_loopexit(base, &time);
  event_base_dispatch(base);
}

struct scene {
  struct event_base *base;
  struct redis_store *store;
  char url[128];
  struct agent_process *agent;
};

static int set_up(void **state) {
  struct scene *self = calloc(1, sizeof *self);
  assert_non_null(self);
  self->base = event_base_new();
  assert_non_null(self->base);
  self->store = redis_store_new(self->base);
  (void)snprintf(self->url, sizeof self->url, "unix://%s",
                 redis_store_url(self->store).hosts[0].host);
  *state = self;
  return 0;
}

static void end_agent(struct scene *self) {
  agent_process_free(self->agent);
  self->agent = NULL;
}

static int tear_down(void **state) {
  struct scene *self = *state;
  end_agent(self);
  redis_store_free(self->store);
  event_base_free(self->base);
  free(self);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

/* The server gives this answer instead, and then `endless` again and again. */
static void answers(struct scene *self, const char *command, const char *bytes,
                    const char *endless) {
  redis_store_inject(self->store, (struct redis_store_fault){.command = command,
                                                             .effect = REDIS_STORE_ANSWERS,
                                                             .text = bytes,
                                                             .endless = endless});
}

static void start_agent(struct scene *self) {
  const char *const arguments[] = {"--redis-url", self->url, "--job-id", "j", NULL};
  self->agent = agent_process_start(&(struct agent_setup){.arguments = arguments});
}

static void logs(struct scene *self, const char *text) {
  int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS;
  while (agent_process_count_log(self->agent, text) == 0) {
    if (wait_now_ms() > end_ms)
      agent_process_fail(self->agent, "the log lacks '%s'", text);
    pass_ms(self->base, 5);
  }
}

/* It says why, lives, has not grown, and serves the job when the server is one again. */
static void withstands(struct scene *self, const char *why) {
  logs(self, why);
  int asked = redis_store_injected(self->store);
  pass_ms(self->base, 500);
  assert_true(redis_store_injected(self->store) - asked <= ASKED_MAX);
  assert_int_equal(agent_process_count_log(self->agent, why), 1);
  assert_true(agent_process_is_running(self->agent));
  if (agent_process_is_shipped())
    assert_in_range(proc_status_kib(agent_process_pid(self->agent), "VmHWM"), 1, HELD_KIB_MAX);
  redis_store_inject(self->store, (struct redis_store_fault){0});
  redis_store_do(self->store, 3, "LPUSH sandbox:j:in {\"stepId\":\"1\",\"command\":\"true\"}");
  UNTIL(self->base, redis_store_count(self->store, "sandbox:j:results") > 0);
  redis_store_do(self->store, 3, "LPUSH sandbox:j:in {\"stepId\":\"2\",\"kind\":\"shutdown\"}");
  UNTIL(self->base, !agent_process_is_running(self->agent));
  assert_int_equal(agent_process_wait(self->agent, 0), 0);
  end_agent(self);
  redis_store_do(self->store, 2, "DEL sandbox:j:results");
}

static char *nested(bool whole) {
  char *bytes = malloc((size_t)4 * DEPTH + 5);
  assert_non_null(bytes);
  for (size_t i = 0; i < DEPTH; i++)
    memcpy(bytes + 4 * i, "*1\r\n", 4);
  strcpy(bytes + (size_t)4 * DEPTH, whole ? ":1\r\n" : "");
  return bytes;
}

/* In the handshake, to the outbox, and to the consumer. */
static const char *const commands[] = {"CLIENT SETNAME", "LLEN", "EXEC", "BLMOVE"};
enum { COMMANDS = sizeof commands / sizeof *commands };

SCENE_TEST(replies_in_replies_are_refused_wherever_they_come) {
  for (size_t i = 0; i < COMMANDS; i++)
    for (int whole = 0; whole < 2; whole++) {
      char *bytes = nested(whole);
      answers(scene, commands[i], bytes, NULL);
      start_agent(scene);
      withstands(scene, "nested deeper");
      free(bytes);
    }
}

SCENE_TEST(what_a_server_sends_without_an_end_is_not_kept) {
  static const struct {
    const char *begin, *endless, *why;
  } rows[] = {
      {"*8000\r\n", "*8000\r\n+k\r\n", "more items"},
      {"%8000\r\n", "+k\r\n~8000\r\n", "RESP3"},
      {"+", "\n+", "does not end"},
      {"-", "ERR ", "a line without an end"},
  };
  for (size_t i = 0; i < COMMANDS; i++)
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
      print_message("%s: %s\n", commands[i], rows[row].why);
      answers(scene, commands[i], rows[row].begin, rows[row].endless);
      start_agent(scene);
      withstands(scene, rows[row].why);
    }
}

/* Neither a string nor its end is a reply: nothing is logged, and nothing kept. */
SCENE_TEST(a_string_without_an_end_is_not_kept) {
  static const char *const begins[] = {"$9000000000000000000\r\n", "*2\r\n$400000000\r\n"};
  for (size_t i = 0; i < 2; i++) {
    answers(scene, "BLMOVE", begins[i], "x");
    start_agent(scene);
    UNTIL(scene->base, redis_store_injected(scene->store) > 0);
    pass_ms(scene->base, 900);
    if (agent_process_is_shipped())
      assert_in_range(proc_status_kib(agent_process_pid(scene->agent), "VmHWM"), 1, HELD_KIB_MAX);
    assert_int_equal(kill(agent_process_pid(scene->agent), SIGTERM), 0);
    UNTIL(scene->base, !agent_process_is_running(scene->agent));
    assert_int_equal(agent_process_wait(scene->agent, 0), 128 + SIGTERM);
    end_agent(scene);
  }
}

SCENE_TEST(what_answers_in_another_way_than_redis_is_asked_in_pauses) {
  static const struct {
    const char *command, *answer, *why;
  } rows[] = {
      {"", "+OK\r\n", "a reply that redis does not give"},
      {"EXEC", "*-1\r\n", "EXEC does nothing"},
      {"BLMOVE", "$-1\r\n", "it does not wait for a step"},
      {"BLMOVE", "+OK\r\n", "a reply that redis does not give"},
      {"BLMOVE", "*1\r\n$1\r\n1\r\n", "a reply that redis does not give"},
      {"GET sandbox:j:committed", "$-1\r\n", "redis has lost what it had acknowledged"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    print_message("%s: %s\n", rows[i].command, rows[i].why);
    answers(scene, rows[i].command, rows[i].answer, NULL);
    start_agent(scene);
    withstands(scene, rows[i].why);
  }
}

TEST_OVERLAP(3)
