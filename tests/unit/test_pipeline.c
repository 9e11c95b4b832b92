#include "agent/doors/redis/net/command.h"
#include "agent/doors/redis/out/pipeline.h"
#include "tests/test.h"

#define COMMITTED "sandbox:j:committed"
#define PROBE "WATCH " COMMITTED "\nGET " COMMITTED "\n"

struct trial {
  struct keys keys;
  struct pipeline pipeline;
  struct query query;
  char *queued[2]; /* two batches of one command each */
  char bytes[4096];
  size_t length;
  size_t room; /* what is taken from now on */
  size_t calls;
  bool stutters; /* of two calls one takes a byte, the other nothing */
};

static struct trial trial;

/* These stand before the program's own. */
size_t client_write(struct client *self, const struct iovec *pieces, int count) {
  assert_null(self);
  size_t before = trial.length;
  if (trial.stutters)
    trial.room = trial.calls++ % 2;
  for (int i = 0; i < count; i++) {
    size_t taken = pieces[i].iov_len < trial.room ? pieces[i].iov_len : trial.room;
    memcpy(trial.bytes + trial.length, pieces[i].iov_base, taken);
    trial.length += taken;
    trial.room -= taken;
  }
  return trial.length - before;
}

static int set_up(void **state) {
  trial = (struct trial){.room = SIZE_MAX};
  keys_init(&trial.keys, "j");
  pipeline_init(&trial.pipeline, &trial.keys, 0);
  for (size_t i = 0; i < 2; i++)
    trial.queued[i] = command_new((const char *[]){"LPUSH", "results", i == 0 ? "one" : "two"}, 3);
  *state = &trial;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  for (size_t i = 0; i < 2; i++)
    free(trial.queued[i]);
  query_release(&trial.query);
  pipeline_release(&trial.pipeline);
  keys_release(&trial.keys);
  return 0;
}

static void open_transaction(size_t number) {
  char *queued = trial.queued[number - 1];
  char value[OWNERSHIP_TEXT_SIZE];
  (void)snprintf(value, sizeof value, "1:2:%zu", number);
  struct batch batch = {
      .pieces = {{.iov_base = queued, .iov_len = strlen(queued)}}, .count = 1, .commands = 1};
  pipeline_open(&trial.pipeline, &batch, value);
}

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  (void)reply;
  assert_true(whole);
  ++*(int *)owner;
}

static void ask(int *answers) {
  static const char *const commands[][COMMAND_LIST_WORDS] = {{"LLEN", "in"}, {"PING"}};
  query_put(&trial.query, command_list_new(commands, 2), on_answer, answers);
}

/* What was sent since the last time is these whole commands, one line each. */
static void expect_sent(const char *commands) {
  char text[2048] = "";
  struct command_word words[6];
  pipeline_send(&trial.pipeline, NULL);
  const char *at = trial.bytes, *end = trial.bytes + trial.length;
  while (at < end) {
    memset(words, 0, sizeof words);
    assert_true(command_read(&at, end, words, 6));
    for (size_t i = 0; i < 6 && words[i].length > 0; i++) {
      size_t length = strlen(text);
      (void)snprintf(text + length, sizeof text - length, "%s%.*s", i > 0 ? " " : "",
                     (int)words[i].length, words[i].text);
    }
    strcat(text, "\n");
  }
  assert_string_equal(text, commands);
  trial.length = 0;
}

static enum pipeline_reply take(int type, const char *text, bool expected_last) {
  redisReply reply = {.type = type, .str = (char *)(uintptr_t)text, .len = strlen(text)};
  bool last;
  enum pipeline_reply answer = pipeline_take(&trial.pipeline, &reply, &last);
  assert_int_equal(last, expected_last);
  return answer;
}

/* The replies of a transaction with one command, up to its EXEC. */
static void take_queued(void) {
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "QUEUED", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "QUEUED", false), PIPELINE_PROGRESS);
}

/* Its EXEC and the probe, but for the value. */
static void take_executed(void) {
  assert_int_equal(take(REDIS_REPLY_ARRAY, "", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK", false), PIPELINE_PROGRESS);
}

TEST(a_request_is_one_transaction_and_a_probe, set_up, tear_down) {
  assert_false(pipeline_is_open(&trial.pipeline));
  open_transaction(1);
  assert_true(pipeline_is_open(&trial.pipeline));
  pipeline_execute(&trial.pipeline, &trial.query);
  assert_false(pipeline_is_open(&trial.pipeline));
  expect_sent("MULTI\nLPUSH results one\nSET " COMMITTED " 1:2:1\nEXEC\n" PROBE);
  take_queued();
  take_executed();
  assert_true(trial.pipeline.is_busy);
  assert_int_equal(take(REDIS_REPLY_STRING, "1:2:1", true), PIPELINE_COMMITTED);
  assert_true(trial.pipeline.now.executed);
  assert_true(trial.pipeline.is_busy);
  pipeline_settle(&trial.pipeline);
  assert_false(trial.pipeline.is_busy);
}

TEST(the_committed_key_may_expire, set_up, tear_down) {
  pipeline_release(&trial.pipeline);
  pipeline_init(&trial.pipeline, &trial.keys, 60);
  open_transaction(1);
  pipeline_execute(&trial.pipeline, NULL);
  expect_sent("MULTI\nLPUSH results one\nSET " COMMITTED " 1:2:1 EX 60\nEXEC\n" PROBE);
}

TEST(a_query_leaves_with_the_probe, set_up, tear_down) {
  int answers = 0;
  ask(&answers);
  pipeline_probe(&trial.pipeline, NULL);
  expect_sent(PROBE);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_NIL, "", true), PIPELINE_COMMITTED);
  assert_false(trial.pipeline.now.executed);
  pipeline_settle(&trial.pipeline);
  pipeline_probe(&trial.pipeline, &trial.query);
  expect_sent(PROBE "LLEN in\nPING\n");
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_NIL, "", false), PIPELINE_COMMITTED);
  pipeline_settle(&trial.pipeline);
  assert_true(trial.pipeline.is_busy);
  assert_int_equal(take(REDIS_REPLY_INTEGER, "", false), PIPELINE_QUERY);
  assert_int_equal(take(REDIS_REPLY_STATUS, "PONG", true), PIPELINE_QUERY);
  pipeline_settle(&trial.pipeline);
  assert_false(trial.pipeline.is_busy);
  assert_int_equal(answers, 0); /* that is the owner's */
}

TEST(the_next_transaction_waits_for_its_exec, set_up, tear_down) {
  assert_false(pipeline_has_room(&trial.pipeline)); /* nothing is under way */
  open_transaction(1);
  pipeline_execute(&trial.pipeline, NULL);
  assert_true(pipeline_has_room(&trial.pipeline));
  open_transaction(2);
  assert_false(pipeline_has_room(&trial.pipeline)); /* one is enough */
  expect_sent("MULTI\nLPUSH results one\nSET " COMMITTED " 1:2:1\nEXEC\n" PROBE
              "MULTI\nLPUSH results two\nSET " COMMITTED " 1:2:2\n");
  take_queued();
  take_executed();
  assert_int_equal(take(REDIS_REPLY_STRING, "1:2:1", true), PIPELINE_COMMITTED);
  pipeline_settle(&trial.pipeline);
  assert_true(pipeline_is_open(&trial.pipeline));
  pipeline_execute(&trial.pipeline, NULL);
  expect_sent("EXEC\n" PROBE);
  take_queued();
  take_executed();
  assert_int_equal(take(REDIS_REPLY_STRING, "1:2:2", true), PIPELINE_COMMITTED);
}

TEST(after_the_reply_there_is_no_room, set_up, tear_down) {
  pipeline_probe(&trial.pipeline, NULL);
  expect_sent(PROBE);
  assert_false(pipeline_has_room(&trial.pipeline)); /* nor after a probe */
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_NIL, "", true), PIPELINE_COMMITTED);
  pipeline_settle(&trial.pipeline);
  int answers = 0;
  ask(&answers);
  open_transaction(1);
  pipeline_execute(&trial.pipeline, &trial.query);
  pipeline_send(&trial.pipeline, NULL);
  take_queued();
  take_executed();
  assert_true(pipeline_has_room(&trial.pipeline));
  assert_int_equal(take(REDIS_REPLY_STRING, "1:2:1", false), PIPELINE_COMMITTED);
  assert_false(pipeline_has_room(&trial.pipeline));
}

/* The next transaction does not overtake the rest of the first. */
TEST(what_the_socket_does_not_take_is_sent_later, set_up, tear_down) {
  trial.stutters = true;
  open_transaction(1);
  pipeline_execute(&trial.pipeline, NULL);
  open_transaction(2);
  for (size_t length = SIZE_MAX; length != trial.length;) {
    length = trial.length;
    pipeline_send(&trial.pipeline, NULL);
    pipeline_send(&trial.pipeline, NULL);
  }
  expect_sent("MULTI\nLPUSH results one\nSET " COMMITTED " 1:2:1\nEXEC\n" PROBE
              "MULTI\nLPUSH results two\nSET " COMMITTED " 1:2:2\n");
}

TEST(a_refusal_is_returned_with_the_last_reply, set_up, tear_down) {
  open_transaction(1);
  pipeline_execute(&trial.pipeline, NULL);
  pipeline_send(&trial.pipeline, NULL);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_ERROR, "OOM", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "QUEUED", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_ERROR, "EXECABORT", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_NIL, "", true), PIPELINE_REFUSED);
  assert_string_equal(trial.pipeline.now.refusal, "OOM");
}

TEST(a_reply_that_is_not_due_is_unexpected, set_up, tear_down) {
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK", false), PIPELINE_UNEXPECTED);
  trial.room = 10;
  pipeline_probe(&trial.pipeline, NULL);
  pipeline_send(&trial.pipeline, NULL);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK", false), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_NIL, "", true), PIPELINE_UNEXPECTED);
}

TEST(a_reset_drops_both_requests, set_up, tear_down) {
  open_transaction(1);
  pipeline_execute(&trial.pipeline, NULL);
  open_transaction(2);
  trial.room = 30;
  pipeline_send(&trial.pipeline, NULL);
  pipeline_reset(&trial.pipeline);
  assert_false(trial.pipeline.is_busy);
  assert_false(pipeline_is_open(&trial.pipeline));
  trial.room = SIZE_MAX;
  trial.length = 0;
  expect_sent("");
  open_transaction(1); /* from its beginning again */
  pipeline_execute(&trial.pipeline, NULL);
  expect_sent("MULTI\nLPUSH results one\nSET " COMMITTED " 1:2:1\nEXEC\n" PROBE);
}
