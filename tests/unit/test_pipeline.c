#include "agent/doors/redis/delivery/pipeline.h"
#include "agent/doors/redis/link/command.h"
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
  pipeline_init(&trial.pipeline, &trial.keys, false, 0);
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

static void execute(size_t number, struct query *query) {
  char *queued = trial.queued[number - 1];
  char value[OWNERSHIP_TEXT_SIZE];
  (void)snprintf(value, sizeof value, "1:2:%zu", number);
  struct batch batch = {
      .pieces = {{.iov_base = queued, .iov_len = strlen(queued)}}, .count = 1, .commands = 1};
  pipeline_execute(&trial.pipeline, &batch, value, query);
}

static void on_answer(void *owner, const redisReply *reply, bool whole) {
  (void)reply;
  assert_true(whole);
  ++*(int *)owner;
}

static char *ask_two(void *owner) {
  static const char *const commands[][COMMAND_LIST_WORDS] = {{"LLEN", "in"}, {"PING"}};
  (void)owner;
  return command_list_new(commands, 2);
}

static void ask(int *answers) {
  query_put(&trial.query, ask_two, on_answer, answers);
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

static enum pipeline_reply take(int type, const char *text) {
  redisReply reply = {.type = type, .str = (char *)(uintptr_t)text, .len = strlen(text)};
  return pipeline_take(&trial.pipeline, &reply);
}

/* The replies to a transaction with one command, and to the probe but for the value. */
static void take_executed(void) {
  assert_int_equal(take(REDIS_REPLY_STATUS, "QUEUED"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "QUEUED"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_ARRAY, ""), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_PROGRESS);
}

TEST(a_request_is_one_transaction_a_probe_and_the_next_multi, set_up, tear_down) {
  execute(1, &trial.query);
  expect_sent("LPUSH results one\nSET " COMMITTED " 1:2:1\nEXEC\n" PROBE "MULTI\n");
  take_executed();
  assert_int_equal(take(REDIS_REPLY_STRING, "1:2:1"), PIPELINE_COMMITTED);
  assert_true(trial.pipeline.now.executed);
  assert_true(trial.pipeline.is_busy);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_DONE);
  assert_false(trial.pipeline.is_busy);
  execute(2, NULL);
  expect_sent("LPUSH results two\nSET " COMMITTED " 1:2:2\nEXEC\n" PROBE "MULTI\n");
}

TEST(the_committed_key_may_expire, set_up, tear_down) {
  pipeline_release(&trial.pipeline);
  pipeline_init(&trial.pipeline, &trial.keys, false, 60);
  execute(1, NULL);
  expect_sent("LPUSH results one\nSET " COMMITTED " 1:2:1 EX 60\nEXEC\n" PROBE "MULTI\n");
}

TEST(a_probe_ends_the_open_transaction_and_opens_another, set_up, tear_down) {
  pipeline_probe(&trial.pipeline, NULL);
  expect_sent("DISCARD\n" PROBE "MULTI\n");
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_NIL, ""), PIPELINE_COMMITTED);
  assert_false(trial.pipeline.now.executed);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_DONE);
}

TEST(a_query_leaves_with_the_probe, set_up, tear_down) {
  int answers = 0;
  ask(&answers);
  pipeline_probe(&trial.pipeline, &trial.query);
  expect_sent("DISCARD\n" PROBE "LLEN in\nPING\nMULTI\n");
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_NIL, ""), PIPELINE_COMMITTED);
  assert_int_equal(take(REDIS_REPLY_INTEGER, ""), PIPELINE_QUERY);
  assert_int_equal(take(REDIS_REPLY_STATUS, "PONG"), PIPELINE_QUERY);
  assert_true(trial.pipeline.is_busy);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_DONE);
  assert_int_equal(answers, 0); /* that is the owner's */
}

TEST(what_the_socket_does_not_take_is_sent_later, set_up, tear_down) {
  trial.stutters = true;
  execute(1, NULL);
  for (size_t length = SIZE_MAX; length != trial.length;) {
    length = trial.length;
    pipeline_send(&trial.pipeline, NULL);
    pipeline_send(&trial.pipeline, NULL);
  }
  expect_sent("LPUSH results one\nSET " COMMITTED " 1:2:1\nEXEC\n" PROBE "MULTI\n");
}

/* Until the connection is closed nothing more is sent on it. */
TEST(a_refusal_is_returned_with_the_last_reply, set_up, tear_down) {
  execute(1, NULL);
  pipeline_send(&trial.pipeline, NULL);
  assert_int_equal(take(REDIS_REPLY_ERROR, "OOM"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "QUEUED"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_ERROR, "EXECABORT"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_NIL, ""), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_REFUSED);
  assert_string_equal(trial.pipeline.now.refusal, "OOM");
  assert_true(trial.pipeline.is_busy);
}

TEST(a_refused_multi_is_none, set_up, tear_down) {
  execute(1, NULL);
  pipeline_send(&trial.pipeline, NULL);
  take_executed();
  assert_int_equal(take(REDIS_REPLY_STRING, "1:2:1"), PIPELINE_COMMITTED);
  assert_int_equal(take(REDIS_REPLY_ERROR, "NOPERM"), PIPELINE_REFUSED);
  assert_true(trial.pipeline.now.executed);
  assert_true(trial.pipeline.is_busy);
}

TEST(a_reply_that_is_not_due_is_unexpected, set_up, tear_down) {
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_UNEXPECTED);
  trial.room = 10;
  pipeline_probe(&trial.pipeline, NULL);
  pipeline_send(&trial.pipeline, NULL);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_NIL, ""), PIPELINE_UNEXPECTED);
  pipeline_reset(&trial.pipeline);
  pipeline_probe(&trial.pipeline, NULL);
  trial.room = trial.pipeline.now.probe_length;
  pipeline_send(&trial.pipeline, NULL);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_PROGRESS);
  assert_int_equal(take(REDIS_REPLY_NIL, ""), PIPELINE_COMMITTED);
  assert_int_equal(take(REDIS_REPLY_STATUS, "OK"), PIPELINE_UNEXPECTED);
}

TEST(a_reset_drops_the_request, set_up, tear_down) {
  execute(1, NULL);
  trial.room = 30;
  pipeline_send(&trial.pipeline, NULL);
  pipeline_reset(&trial.pipeline);
  assert_false(trial.pipeline.is_busy);
  trial.room = SIZE_MAX;
  trial.length = 0;
  expect_sent("");
  execute(1, NULL); /* from its beginning again */
  expect_sent("LPUSH results one\nSET " COMMITTED " 1:2:1\nEXEC\n" PROBE "MULTI\n");
}

/* Of a batch in two pieces, "XADD the:events" and "LPUSH results" and "DEL the:key". The replies, each
   with ';' before the next: '-' before an error, '*' before the first one inside of EXEC's. */
static void expect_named(const char *texts, bool executed, const char *explained) {
  static const char *const first[][COMMAND_LIST_WORDS] = {
      {"XADD", "the:events", "*", "data", "LPUSH\r\n$1"}, {"LPUSH", "results", ""}};
  char *pieces[] = {command_list_new(first, 2), command_new((const char *[]){"DEL", "the:key"}, 2)};
  struct batch batch = {.pieces = {{.iov_base = pieces[0], .iov_len = strlen(pieces[0])},
                                   {.iov_base = pieces[1], .iov_len = strlen(pieces[1])}},
                        .count = 2,
                        .commands = 3};
  char replies[160], *rest = strcpy(replies, texts);
  struct error error = {.text = ""};
  pipeline_reset(&trial.pipeline);
  pipeline_execute(&trial.pipeline, &batch, "1:2:3", NULL);
  pipeline_send(&trial.pipeline, NULL);
  for (const char *text; (text = strsep(&rest, ";")) != NULL;) {
    bool inside = text[0] == '*';
    redisReply refused = {.type = REDIS_REPLY_ERROR, .str = (char *)(uintptr_t)(text + 1)};
    redisReply *elements[] = {inside && text[1] != '\0' ? &refused : NULL, NULL};
    redisReply reply = {.type = inside            ? REDIS_REPLY_ARRAY
                                : text[0] == '-'  ? REDIS_REPLY_ERROR
                                : text[0] == '$'  ? REDIS_REPLY_STRING
                                : text[0] == '\0' ? REDIS_REPLY_NIL
                                                  : REDIS_REPLY_STATUS,
                        .str = (char *)(uintptr_t)(text + (text[0] == '-')),
                        .elements = inside ? 2 : 0,
                        .element = elements};
    (void)pipeline_take(&trial.pipeline, &reply);
  }
  assert_int_equal(trial.pipeline.now.executed, executed);
  if (trial.pipeline.now.refusal[0] != '\0')
    pipeline_explain_refusal(&trial.pipeline, trial.pipeline.now.refusal, &error);
  assert_string_equal(error.text, explained);
  trial.length = 0;
  free(pieces[0]);
  free(pieces[1]);
}

TEST(a_refusal_is_named_by_its_command, set_up, tear_down) {
  expect_named("QUEUED;QUEUED;QUEUED;QUEUED;*;OK;$1:2:3;OK", true, "");
  expect_named("QUEUED;QUEUED;QUEUED;QUEUED;;OK;$1:2:3;OK", false, ""); /* the watch prevented it */
  expect_named("QUEUED;-OOM not allowed;QUEUED;QUEUED;-EXECABORT;OK;$1:2:3;OK", false,
               "redis refuses LPUSH results: OOM not allowed");
  expect_named("QUEUED;QUEUED;-NOPERM;QUEUED;-EXECABORT;OK;$1:2:3;OK", false,
               "redis refuses DEL the:key: NOPERM");
  expect_named("QUEUED;QUEUED;QUEUED;QUEUED;*WRONGTYPE of it;OK;$1:2:3;OK", true,
               "redis refuses XADD the:events: WRONGTYPE of it");
  expect_named("QUEUED;QUEUED;QUEUED;QUEUED;*;OK;-NOPERM;OK", true,
               "redis refuses GET " COMMITTED ": NOPERM");
  expect_named("QUEUED;QUEUED;QUEUED;QUEUED;*;OK;$1:2:3;-NOPERM", true,
               "redis refuses MULTI: NOPERM");
}
