#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/out/query.h"
#include "tests/test.h"

struct trial {
  struct query query;
  struct exchange request;
  char said[64]; /* the answers, one space behind each; "-" behind what is not whole */
  char *next;    /* put from inside the answer "last" */
};

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  struct trial *trial = owner;
  size_t length = strlen(trial->said);
  (void)snprintf(trial->said + length, sizeof trial->said - length, "%s%s ", reply->str,
                 whole ? "" : "-");
  if (trial->next == NULL || strcmp(reply->str, "last") != 0)
    return;
  query_put(&trial->query, trial->next, on_answer, trial);
  trial->next = NULL;
}

static char *two_commands(void) {
  return command_list_new(
      (const char *const[][COMMAND_LIST_WORDS]){{"LINDEX", "the:list\r\n*1", "-1"}, {"GET", "key"}},
      2);
}

static int set_up(void **state) {
  static struct trial trial;
  trial = (struct trial){0};
  exchange_init(&trial.request);
  query_put(&trial.query, two_commands(), on_answer, &trial);
  *state = &trial;
  return 0;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  query_release(&trial->query);
  free(trial->next);
  return 0;
}

static void take(struct trial *trial, const char *text, bool whole) {
  redisReply reply = {
      .type = REDIS_REPLY_STRING, .str = (char *)(uintptr_t)text, .len = strlen(text)};
  query_take(&trial->query, &reply, whole);
}

static void asks(struct trial *trial, const char *text, size_t commands) {
  exchange_init(&trial->request);
  query_add(&trial->query, &trial->request);
  assert_int_equal(trial->request.count, 1);
  assert_int_equal(trial->request.commands, commands);
  assert_int_equal(trial->request.pieces[0].iov_len, strlen(text));
  assert_memory_equal(trial->request.pieces[0].iov_base, text, strlen(text));
}

TEST(every_command_is_answered_in_order, set_up, tear_down) {
  struct trial *trial = *state;
  char *all = two_commands();
  asks(trial, all, 2);
  free(all);
  take(trial, "one", false);
  assert_non_null(trial->query.commands);
  take(trial, "two", true);
  assert_null(trial->query.commands);
  assert_string_equal(trial->said, "one- two ");
}

TEST(what_is_not_answered_is_asked_again, set_up, tear_down) {
  struct trial *trial = *state;
  char *second = command_new((const char *[]){"GET", "key"}, 2);
  take(trial, "one", true);
  asks(trial, second, 1);
  asks(trial, second, 1); /* as often as it takes */
  free(second);
  take(trial, "two", true);
  assert_null(trial->query.commands);
  assert_string_equal(trial->said, "one two ");
}

TEST(the_next_one_may_be_put_in_the_last_answer, set_up, tear_down) {
  struct trial *trial = *state;
  char *next = command_new((const char *[]){"PING"}, 1);
  trial->next = command_new((const char *[]){"PING"}, 1);
  take(trial, "one", true);
  take(trial, "last", true);
  assert_non_null(trial->query.commands);
  asks(trial, next, 1);
  free(next);
  take(trial, "three", true);
  assert_null(trial->query.commands);
  assert_string_equal(trial->said, "one last three ");
}

TEST(one_that_is_put_replaces_what_was_there, set_up, tear_down) {
  struct trial *trial = *state;
  char *next = command_new((const char *[]){"PING"}, 1);
  take(trial, "one", true);
  query_put(&trial->query, command_new((const char *[]){"PING"}, 1), on_answer, trial);
  asks(trial, next, 1);
  free(next);
  query_release(&trial->query);
  assert_null(trial->query.commands);
}
