#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/out/exchange.h"
#include "tests/test.h"

/* MULTI; XADD events, LPUSH results; EXEC, GET committed. */
enum { MULTI, XADD, LPUSH, EXEC, GET };

struct trial {
  struct exchange request;
  char *pieces[3];
};

static char *join(char *first, char *second) {
  size_t length = strlen(first);
  first = realloc(first, length + strlen(second) + 1);
  assert_non_null(first);
  strcpy(first + length, second);
  free(second);
  return first;
}

static int set_up(void **state) {
  static struct trial trial;
  trial = (struct trial){0};
  const char *event[] = {"XADD", "the:events", "*", "data", "LPUSH\r\n$1"};
  trial.pieces[0] = command_new((const char *[]){"MULTI"}, 1);
  trial.pieces[1] =
      join(command_new(event, 5), command_new((const char *[]){"LPUSH", "the:results", ""}, 3));
  trial.pieces[2] = join(command_new((const char *[]){"EXEC"}, 1),
                         command_new((const char *[]){"GET", "the:committed"}, 2));
  exchange_init(&trial.request);
  exchange_add(&trial.request, trial.pieces[0], strlen(trial.pieces[0]), 1);
  exchange_add(&trial.request, trial.pieces[1], strlen(trial.pieces[1]), 2);
  exchange_add_exec(&trial.request, trial.pieces[2], strlen(trial.pieces[2]), 2);
  *state = &trial;
  return 0;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  for (size_t i = 0; i < 3; i++)
    free(trial->pieces[i]);
  return 0;
}

static bool take(struct trial *trial, int type, const char *text) {
  redisReply reply = {.type = type, .str = (char *)(uintptr_t)text, .len = strlen(text)};
  return exchange_take(&trial->request, &reply);
}

/* The answer to EXEC: of two commands; NULL is one that is well. */
static bool take_executed(struct trial *trial, const char *first, const char *second) {
  redisReply errors[2] = {{.type = REDIS_REPLY_ERROR, .str = (char *)(uintptr_t)first},
                          {.type = REDIS_REPLY_ERROR, .str = (char *)(uintptr_t)second}};
  redisReply *elements[2] = {first != NULL ? &errors[0] : NULL, second != NULL ? &errors[1] : NULL};
  redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = elements};
  return exchange_take(&trial->request, &reply);
}

static void take_queued(struct trial *trial) {
  for (int i = MULTI; i < EXEC; i++)
    assert_false(take(trial, REDIS_REPLY_STATUS, i == MULTI ? "OK" : "QUEUED"));
}

static void expect_explained(const struct trial *trial, const char *text) {
  struct error error;
  exchange_explain_refusal(&trial->request, &error);
  assert_string_equal(error.text, text);
}

TEST(the_last_answer_is_told, set_up, tear_down) {
  struct trial *trial = *state;
  take_queued(trial);
  assert_false(take_executed(trial, NULL, NULL));
  assert_true(take(trial, REDIS_REPLY_STRING, "1:2:3"));
  assert_true(trial->request.executed);
  assert_string_equal(trial->request.refusal, "");
}

TEST(what_somebody_else_prevented_was_not_executed, set_up, tear_down) {
  struct trial *trial = *state;
  take_queued(trial);
  assert_false(take(trial, REDIS_REPLY_NIL, ""));
  assert_true(take(trial, REDIS_REPLY_STRING, "1:2:3"));
  assert_false(trial->request.executed);
  assert_string_equal(trial->request.refusal, "");
}

TEST(the_first_refusal_counts, set_up, tear_down) {
  struct trial *trial = *state;
  assert_false(take(trial, REDIS_REPLY_STATUS, "OK"));
  assert_false(take(trial, REDIS_REPLY_STATUS, "QUEUED"));
  assert_false(take(trial, REDIS_REPLY_ERROR, "OOM command not allowed"));
  assert_false(take(trial, REDIS_REPLY_ERROR, "EXECABORT Transaction discarded"));
  assert_true(take(trial, REDIS_REPLY_STRING, "1:2:3"));
  assert_false(trial->request.executed);
  assert_int_equal(trial->request.refused, LPUSH);
  expect_explained(trial, "redis refuses LPUSH the:results: OOM command not allowed");
}

TEST(a_refusal_inside_a_transaction_is_that_of_its_command, set_up, tear_down) {
  struct trial *trial = *state;
  take_queued(trial);
  assert_false(take_executed(trial, "WRONGTYPE of the first", "WRONGTYPE of the second"));
  assert_true(trial->request.executed);
  expect_explained(trial, "redis refuses XADD the:events: WRONGTYPE of the first");
}

TEST(a_command_without_a_key_is_named_alone, set_up, tear_down) {
  struct trial *trial = *state;
  assert_false(take(trial, REDIS_REPLY_ERROR, "NOPERM"));
  expect_explained(trial, "redis refuses MULTI: NOPERM");
}

TEST(what_stands_behind_the_window_is_named_too, set_up, tear_down) {
  struct trial *trial = *state;
  take_queued(trial);
  assert_false(take_executed(trial, NULL, NULL));
  assert_true(take(trial, REDIS_REPLY_ERROR, "NOPERM"));
  expect_explained(trial, "redis refuses GET the:committed: NOPERM");
}

/* Of a transaction that is sent ahead only the first answers are due. */
TEST(what_is_added_later_is_waited_for, set_up, tear_down) {
  struct trial *trial = *state;
  exchange_init(&trial->request);
  exchange_add(&trial->request, trial->pieces[0], strlen(trial->pieces[0]), 1);
  exchange_add(&trial->request, trial->pieces[1], strlen(trial->pieces[1]), 2);
  assert_false(take(trial, REDIS_REPLY_STATUS, "OK"));
  assert_false(take(trial, REDIS_REPLY_STATUS, "QUEUED"));
  exchange_add_exec(&trial->request, trial->pieces[2], strlen(trial->pieces[2]), 2);
  assert_false(take(trial, REDIS_REPLY_STATUS, "QUEUED"));
  assert_false(take_executed(trial, NULL, NULL));
  assert_true(trial->request.executed);
  assert_true(take(trial, REDIS_REPLY_STRING, "1:2:3"));
}

TEST(an_array_elsewhere_is_no_transaction, set_up, tear_down) {
  struct trial *trial = *state;
  exchange_init(&trial->request);
  exchange_add(&trial->request, trial->pieces[0], strlen(trial->pieces[0]), 1);
  assert_true(take_executed(trial, "ERR inside", NULL));
  assert_false(trial->request.executed);
  assert_string_equal(trial->request.refusal, "");
}
