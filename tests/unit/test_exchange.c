#include "agent/doors/redis/delivery/exchange.h"
#include "agent/doors/redis/net/command.h"
#include "tests/test.h"

/* XADD events, LPUSH results; EXEC, GET committed, MULTI. */
struct trial {
  struct exchange request;
  char *events, *get; /* XADD and LPUSH; GET */
};

static const char multi[] = "*1\r\n$5\r\nMULTI\r\n";

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
  trial.events =
      join(command_new(event, 5), command_new((const char *[]){"LPUSH", "the:results", ""}, 3));
  trial.get = command_new((const char *[]){"GET", "the:committed"}, 2);
  exchange_init(&trial.request);
  exchange_add(&trial.request, trial.events, strlen(trial.events), 2);
  exchange_add_exec(&trial.request);
  exchange_add(&trial.request, trial.get, strlen(trial.get), 1);
  exchange_add(&trial.request, multi, sizeof multi - 1, 1);
  *state = &trial;
  return 0;
}

static int tear_down(void **state) {
  struct trial *trial = *state;
  free(trial->events);
  free(trial->get);
  return 0;
}

#define TRIAL_TEST(NAME) TEST_WITH(struct trial *trial, NAME, set_up, tear_down)

static bool take(struct trial *trial, int type, const char *text) {
  redisReply reply = {.type = type, .str = (char *)(uintptr_t)text, .len = strlen(text)};
  return exchange_take(&trial->request, &reply);
}

/* The reply to EXEC, for two commands: the text of an error, or NULL for success. */
static bool take_executed(struct trial *trial, const char *first, const char *second) {
  redisReply errors[2] = {{.type = REDIS_REPLY_ERROR, .str = (char *)(uintptr_t)first},
                          {.type = REDIS_REPLY_ERROR, .str = (char *)(uintptr_t)second}};
  redisReply *elements[2] = {first != NULL ? &errors[0] : NULL, second != NULL ? &errors[1] : NULL};
  redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = 2, .element = elements};
  return exchange_take(&trial->request, &reply);
}

/* A reply of a row: "-" before an error; "*" before what EXEC's has for the first command. */
static bool take_text(struct trial *trial, const char *text) {
  if (text[0] == '*')
    return text[1] == '\0' ? take_executed(trial, NULL, NULL)
                           : take_executed(trial, text + 1, "WRONGTYPE of the second");
  if (text[0] == '-')
    return take(trial, REDIS_REPLY_ERROR, text + 1);
  return take(trial, text[0] == '\0' ? REDIS_REPLY_NIL : REDIS_REPLY_STATUS, text);
}

TEST(the_last_reply_is_recognised_and_the_first_refusal_kept, set_up, tear_down) {
  static const struct {
    const char *name, *replies;
    bool executed;
    const char *explained; /* NULL: nothing was refused */
  } rows[] = {
      {"nothing is refused", "QUEUED;QUEUED;*;1:2:3;OK", true, NULL},
      {"what a watch prevented was not executed", "QUEUED;QUEUED;;1:2:3;OK", false, NULL},
      {"the first refusal", "QUEUED;-OOM not allowed;-EXECABORT discarded;1:2:3;OK", false,
       "redis refuses LPUSH the:results: OOM not allowed"},
      {"inside a transaction", "QUEUED;QUEUED;*WRONGTYPE of the first;1:2:3;OK", true,
       "redis refuses XADD the:events: WRONGTYPE of the first"},
      {"a command without a key is named alone", "QUEUED;QUEUED;*;1:2:3;-NOPERM", true,
       "redis refuses MULTI: NOPERM"},
      {"after the transaction", "QUEUED;QUEUED;*;-NOPERM;OK", true,
       "redis refuses GET the:committed: NOPERM"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct trial *trial = *state;
    char replies[128], *rest = strcpy(replies, rows[i].replies);
    print_message("%s\n", rows[i].name);
    for (const char *reply; (reply = strsep(&rest, ";")) != NULL;)
      assert_int_equal(take_text(trial, reply), rest == NULL);
    assert_int_equal(trial->request.executed, rows[i].executed);
    struct error error = {.text = ""};
    if (trial->request.refusal[0] != '\0')
      exchange_explain_refusal(&trial->request, trial->request.refusal, &error);
    assert_string_equal(error.text, rows[i].explained != NULL ? rows[i].explained : "");
    tear_down(state);
    set_up(state);
  }
}

/* The text of a query is gone with its answer. */
TRIAL_TEST(what_is_refused_is_named_without_what_stands_before_it) {
  char *query = command_new((const char *[]){"LLEN", "the:list"}, 2);
  struct error error;
  exchange_init(&trial->request);
  exchange_add(&trial->request, trial->get, strlen(trial->get), 1);
  exchange_add(&trial->request, query, strlen(query), 1);
  exchange_add(&trial->request, multi, sizeof multi - 1, 1);
  assert_false(take(trial, REDIS_REPLY_NIL, ""));
  assert_false(take(trial, REDIS_REPLY_INTEGER, ""));
  free(query);
  assert_true(take(trial, REDIS_REPLY_ERROR, "NOPERM"));
  exchange_explain_refusal(&trial->request, trial->request.refusal, &error);
  assert_string_equal(error.text, "redis refuses MULTI: NOPERM");
}

/* A batch in two pieces: its commands are counted with the first. */
TRIAL_TEST(a_refusal_in_a_later_piece_is_named) {
  char *two = command_new((const char *[]){"DEL", "the:key"}, 2);
  struct error error;
  exchange_init(&trial->request);
  exchange_add(&trial->request, trial->events, strlen(trial->events), 3);
  exchange_add(&trial->request, two, strlen(two), 0);
  exchange_add_exec(&trial->request);
  assert_false(take(trial, REDIS_REPLY_STATUS, "QUEUED"));
  assert_false(take(trial, REDIS_REPLY_STATUS, "QUEUED"));
  assert_false(take(trial, REDIS_REPLY_ERROR, "NOPERM"));
  assert_true(take(trial, REDIS_REPLY_ERROR, "EXECABORT"));
  exchange_explain_refusal(&trial->request, trial->request.refusal, &error);
  assert_string_equal(error.text, "redis refuses DEL the:key: NOPERM");
  free(two);
}

TRIAL_TEST(an_array_is_a_transaction_only_in_reply_to_exec) {
  exchange_init(&trial->request);
  exchange_add(&trial->request, multi, sizeof multi - 1, 1);
  assert_true(take_executed(trial, "ERR inside", NULL));
  assert_false(trial->request.executed);
  assert_string_equal(trial->request.refusal, "");
}

/* --- queries -----------------------------------------------------------------------------------
 */

struct query_trial {
  struct query query;
  struct exchange request;
  char replies[64]; /* each with a space after it; "-" before that: not whole */
  bool again;       /* put from inside the reply "last" */
};

static char *ask_two(void *owner) {
  (void)owner;
  return command_list_new(
      (const char *const[][COMMAND_LIST_WORDS]){{"LINDEX", "the:list\r\n*1", "-1"}, {"GET", "key"}},
      2);
}

static char *ask_one(void *owner) {
  (void)owner;
  return command_new((const char *[]){"PING"}, 1);
}

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  struct query_trial *trial = owner;
  size_t length = strlen(trial->replies);
  (void)snprintf(trial->replies + length, sizeof trial->replies - length, "%s%s ", reply->str,
                 whole ? "" : "-");
  if (trial->again && strcmp(reply->str, "last") == 0)
    query_put(&trial->query, ask_one, on_answer, trial);
}

static int query_set_up(void **state) {
  static struct query_trial trial;
  trial = (struct query_trial){0};
  exchange_init(&trial.request);
  query_put(&trial.query, ask_two, on_answer, &trial);
  *state = &trial;
  return 0;
}

static int query_tear_down(void **state) {
  struct query_trial *trial = *state;
  query_release(&trial->query);
  return 0;
}

#define QUERY_TEST(NAME) TEST_WITH(struct query_trial *trial, NAME, query_set_up, query_tear_down)

static void take_reply(struct query_trial *trial, const char *text, bool whole) {
  redisReply reply = {
      .type = REDIS_REPLY_STRING, .str = (char *)(uintptr_t)text, .len = strlen(text)};
  query_take(&trial->query, &reply, whole);
}

static void expect_asked(struct query_trial *trial, const char *text, size_t commands) {
  exchange_init(&trial->request);
  query_add(&trial->query, &trial->request);
  assert_int_equal(trial->request.count, 1);
  assert_int_equal(trial->request.commands, commands);
  assert_int_equal(trial->request.pieces[0].iov_len, strlen(text));
  assert_memory_equal(trial->request.pieces[0].iov_base, text, strlen(text));
}

QUERY_TEST(each_reply_reaches_the_owner_in_order) {
  char *all = ask_two(NULL);
  expect_asked(trial, all, 2);
  free(all);
  take_reply(trial, "one", false);
  assert_non_null(trial->query.ask);
  take_reply(trial, "two", true);
  assert_null(trial->query.ask);
  assert_string_equal(trial->replies, "one- two ");
}

QUERY_TEST(commands_without_a_reply_are_sent_again) {
  char *all = ask_two(NULL), *second = command_new((const char *[]){"GET", "key"}, 2);
  expect_asked(trial, all, 2);
  free(all);
  take_reply(trial, "one", true);
  expect_asked(trial, second, 1);
  expect_asked(trial, second, 1); /* as often as it takes */
  free(second);
  take_reply(trial, "two", true);
  assert_null(trial->query.ask);
  assert_string_equal(trial->replies, "one two ");
}

QUERY_TEST(the_next_query_may_be_put_in_the_last_reply) {
  char *all = ask_two(NULL), *next = ask_one(NULL);
  trial->again = true;
  expect_asked(trial, all, 2);
  free(all);
  take_reply(trial, "one", true);
  take_reply(trial, "last", true);
  assert_non_null(trial->query.ask);
  expect_asked(trial, next, 1);
  free(next);
  take_reply(trial, "three", true);
  assert_null(trial->query.ask);
  assert_string_equal(trial->replies, "one last three ");
}

QUERY_TEST(a_query_replaces_the_one_before) {
  char *all = ask_two(NULL), *next = ask_one(NULL);
  expect_asked(trial, all, 2);
  free(all);
  take_reply(trial, "one", true);
  query_put(&trial->query, ask_one, on_answer, trial);
  expect_asked(trial, next, 1);
  free(next);
  query_release(&trial->query);
  assert_null(trial->query.ask);
}
