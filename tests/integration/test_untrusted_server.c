/* A server that is not Redis, or is malicious: regardless of its replies, the agent does not exit,
   its memory does not grow, and it pauses between attempts. */

#include "tests/support/proc.h"
#include "tests/support/store_agent.h"

/* An idle agent uses less than 1 MiB, and a reply may use 1 MiB in addition to the longest step. */
enum { HELD_KIB_MAX = 8 * 1024, DEPTH = 260000 };

/* Per half a second: a few handshakes of about 30 commands each. */
enum { ASKED_MAX = 300 };

static void logs(struct store_agent *self, const char *text) {
  int64_t end_ms = wait_now_ms() + WAIT_BOUND_MS;
  while (agent_process_count_log(self->agent, text) == 0) {
    if (wait_now_ms() > end_ms)
      agent_process_fail(self->agent, "the log lacks '%s'", text);
    store_agent_pass_ms(self, 5);
  }
}

/* The agent logs the reason, stays small, and serves the job when the server works again. */
static void withstands(struct store_agent *self, const char *why) {
  logs(self, why);
  int asked = redis_store_injected(self->store);
  store_agent_pass_ms(self, 500);
  assert_true(redis_store_injected(self->store) - asked <= ASKED_MAX);
  assert_int_equal(agent_process_count_log(self->agent, why), 1);
  assert_true(agent_process_is_running(self->agent));
  if (agent_process_is_shipped())
    assert_in_range(proc_status_kib(agent_process_pid(self->agent), "VmHWM"), 1, HELD_KIB_MAX);
  redis_store_inject(self->store, (struct redis_store_fault){0});
  redis_store_do(self->store, 3, "LPUSH sandbox:j:in {\"stepId\":\"1\",\"command\":\"true\"}");
  STORE_UNTIL(self, redis_store_count(self->store, "sandbox:j:results") > 0);
  redis_store_do(self->store, 3, "LPUSH sandbox:j:in {\"stepId\":\"2\",\"kind\":\"shutdown\"}");
  STORE_UNTIL(self, !agent_process_is_running(self->agent));
  assert_int_equal(agent_process_wait(self->agent, 0), 0);
  store_agent_end(self);
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

/* The reply arrives in the handshake, on the connection of the outbox, or on the one of the
   consumer. */
static const char *const commands[] = {"CLIENT SETNAME", "LLEN", "EXEC", "BLMOVE sandbox:j:in",
                                       "BLMOVE sandbox:j:control"};
enum { COMMANDS = sizeof commands / sizeof *commands };

STORE_TEST(deeply_nested_replies_are_rejected) {
  for (size_t i = 0; i < COMMANDS; i++)
    for (int whole = 0; whole < 2; whole++) {
      char *bytes = nested(whole);
      store_agent_answer(scene, commands[i], bytes, NULL);
      store_agent_start(scene);
      withstands(scene, "nested deeper");
      free(bytes);
    }
}

STORE_TEST(an_endless_reply_is_not_kept_in_memory) {
  static const struct {
    const char *begin, *endless, *why;
  } rows[] = {
      {"*8000\r\n", "*8000\r\n+k\r\n", "nested deeper"},
      {"%8000\r\n", "+k\r\n~8000\r\n", "RESP3"},
      {"+", "\n+", "does not end"},
      {"-", "ERR ", "a line of a reply is too long"},
  };
  for (size_t i = 0; i < COMMANDS; i++)
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
      print_message("%s: %s\n", commands[i], rows[row].why);
      store_agent_answer(scene, commands[i], rows[row].begin, rows[row].endless);
      store_agent_start(scene);
      withstands(scene, rows[row].why);
    }
}

/* What has not ended is not a reply: nothing is logged or kept. */
STORE_TEST(endless_strings_and_arrays_are_not_kept_in_memory) {
  static const char *const rows[][2] = {
      {"$9000000000000000000\r\n", "x"},
      {"*2\r\n$400000000\r\n", "x"},
      {"*9000000000000000000\r\n", "+k\r\n"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    store_agent_answer(scene, "BLMOVE", rows[i][0], rows[i][1]);
    store_agent_start(scene);
    STORE_UNTIL(scene, redis_store_injected(scene->store) > 0);
    store_agent_pass_ms(scene, 900);
    if (agent_process_is_shipped())
      assert_in_range(proc_status_kib(agent_process_pid(scene->agent), "VmHWM"), 1, HELD_KIB_MAX);
    assert_int_equal(kill(agent_process_pid(scene->agent), SIGTERM), 0);
    STORE_UNTIL(scene, !agent_process_is_running(scene->agent));
    assert_int_equal(agent_process_wait(scene->agent, 0), 128 + SIGTERM);
    store_agent_end(scene);
  }
}

STORE_TEST(the_agent_pauses_between_attempts_after_invalid_replies) {
  static const struct {
    const char *command, *answer, *why;
  } rows[] = {
      {"", "+OK\r\n", "the reply does not fit the request"},
      {"EXEC", "*-1\r\n", "EXEC was aborted"},
      {"BLMOVE sandbox:j:in", "$-1\r\n", "it answers at once instead of waiting for a step"},
      {"BLMOVE sandbox:j:in", "+OK\r\n", "the reply does not fit the request"},
      {"BLMOVE sandbox:j:in", "*1\r\n$1\r\n1\r\n", "the reply does not fit the request"},
      {"GET sandbox:j:committed", "$-1\r\n", "redis has lost acknowledged data"},
      {"GET sandbox:j:started", "$1\r\nX\r\n", "interrupted: the agent ended"},
      {"LLEN sandbox:j:inflight", ":1000\r\n", "started: pid"},
      {"LINDEX sandbox:j:inflight", "$31\r\n{\"stepId\":\"0\",\"command\":\"true\"}\r\n",
       "started: pid"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    print_message("%s: %s\n", rows[i].command, rows[i].why);
    store_agent_answer(scene, rows[i].command, rows[i].answer, NULL);
    store_agent_start(scene);
    withstands(scene, rows[i].why);
  }
}

TEST_OVERLAP(3)
