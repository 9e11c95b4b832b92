#include "agent/doors/redis/in/recovery.h"
#include "tests/support/outbox_owner.h"
#include "tests/test.h"

#define KEY "sandbox:j:"

struct scene {
  struct outbox_owner *owner;
  struct recovery recovery;
  const char *answers[8]; /* to the questions, in order; then nil */
  size_t asked;
  char queries[1024];  /* one line each */
  int most;            /* steps that are wanted; 0: all */
  bool look_meanwhile; /* from inside each step */
  const char *result;  /* at the first step: is answered, this payload's result is put */
  int done;
  char said[512]; /* what the recovery said, one space behind each */
};

static void say(struct scene *self, const char *text) {
  strncat(strcat(self->said, text), " ", 2);
}

static const char *answer(void *owner, const char *command) {
  struct scene *self = owner;
  bool query = strncmp(command, "LINDEX", 6) == 0 || strncmp(command, "XREVRANGE", 9) == 0 ||
               strcmp(command, "GET " KEY "started") == 0;
  if (!query || !self->owner->redis.logged_in)
    return redis_model_answer(&self->owner->redis, command);
  strcat(strcat(self->queries, command), "\n");
  const char *text = self->asked < 8 ? self->answers[self->asked++] : NULL;
  return text != NULL ? text : "$-1\r\n";
}

static void on_interrupted(void *owner, const char *step_id, int64_t events) {
  char text[128];
  snprintf(text, sizeof text, "interrupted:%s:%lld", step_id, (long long)events);
  say(owner, text);
}

static bool on_step(void *owner, const struct claimed *claimed) {
  struct scene *self = owner;
  char text[64];
  snprintf(text, sizeof text, "%.20s%s", claimed->payload, claimed->truncated ? "(cut)" : "");
  say(self, text);
  if (self->result != NULL) {
    outbox_owner_put_result(self->owner, self->result);
    outbox_flush(self->owner->outbox);
    self->result = NULL;
  }
  if (self->look_meanwhile)
    recovery_scan(&self->recovery);
  return self->most == 0 || --self->most > 0;
}

static void on_done(void *owner) {
  struct scene *self = owner;
  self->done++;
  say(self, "done");
}

static int set_up(void **state) {
  static const struct recovery_handler handler = {
      .interrupted = on_interrupted, .step = on_step, .done = on_done};
  struct scene *self = calloc(1, sizeof *self);
  void *owner;
  outbox_owner_set_up(&owner);
  self->owner = owner;
  fake_redis_answer_with(self->owner->server, answer, self);
  outbox_owner_start(self->owner, 0, 1000000);
  recovery_init(&self->recovery, self->owner->outbox, &self->owner->keys, &handler, self);
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct scene *self = *state;
  void *owner = self->owner;
  recovery_release(&self->recovery);
  outbox_owner_tear_down(&owner);
  free(self);
  return 0;
}

/* Runs it; what it said, and what it asked. */
static void ends(struct scene *self, const char *said, const char *queries) {
  assert_true(self->recovery.running);
  assert_true(loop_until(&self->owner->loop, loop_is_counted, &self->done));
  loop_settle(&self->owner->loop);
  assert_int_equal(self->done, 1);
  assert_false(self->recovery.running);
  assert_string_equal(self->said, said);
  assert_string_equal(self->queries, queries);
  self->done = 0;
  self->said[0] = self->queries[0] = '\0';
  self->asked = 0;
}

#define FIRST_QUESTIONS                                                                            \
  "GET " KEY "started\nXREVRANGE " KEY "events + - COUNT 1\nLINDEX " KEY "inflight -1\n"

TEST(at_boot_what_was_started_is_asked_first, set_up, tear_down) {
  struct scene *scene = *state;
  scene->answers[2] = "$3\r\none\r\n";
  scene->answers[3] = "$3\r\ntwo\r\n";
  recovery_begin(&scene->recovery);
  assert_string_equal(scene->said, ""); /* nothing comes from inside */
  ends(scene, "one two done ",
       FIRST_QUESTIONS "LINDEX " KEY "inflight -2\nLINDEX " KEY "inflight -3\n");
}

static size_t first_command(const struct scene *self, const char *beginning) {
  size_t number = 0;
  const char *command;
  while ((command = fake_redis_command(self->owner->server, number)) != NULL &&
         strncmp(command, beginning, strlen(beginning)) != 0)
    number++;
  assert_non_null(command);
  return number;
}

/* Then it goes with the claim. */
TEST(it_may_begin_before_the_outbox_is_ready, set_up, tear_down) {
  struct scene *scene = *state;
  void *owner = scene->owner;
  outbox_owner_tear_down(&owner);
  outbox_owner_set_up(&owner);
  scene->owner = owner;
  fake_redis_answer_with(scene->owner->server, answer, scene);
  outbox_owner_make(scene->owner, 0, 1000000);
  scene->recovery.outbox = scene->owner->outbox;
  scene->recovery.keys = &scene->owner->keys;
  scene->answers[2] = "$3\r\none\r\n";
  recovery_begin(&scene->recovery);
  outbox_start(scene->owner->outbox);
  ends(scene, "one done ", FIRST_QUESTIONS "LINDEX " KEY "inflight -2\n");
  assert_int_equal(scene->owner->ready, 1);
  /* EXEC WATCH GET, and no round trip between */
  assert_string_equal(fake_redis_command(scene->owner->server, first_command(scene, "EXEC") + 3),
                      "GET " KEY "started");
}

TEST(a_started_step_comes_with_its_last_event, set_up, tear_down) {
  struct scene *scene = *state;
  static const char event[] = "{\"schemaVersion\":1,\"stepId\":\"the id\",\"kind\":\"stdout\","
                              "\"line\":\"x\",\"timestamp\":\"2026-05-05T10:00:00.123+00:00\","
                              "\"seq\":17}";
  char answer[512];
  scene->answers[0] = "$6\r\nthe id\r\n";
  scene->answers[1] = answer;
  snprintf(answer, sizeof answer, "*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$4\r\ndata\r\n$%zu\r\n%s\r\n",
           sizeof event - 1, event);
  recovery_begin(&scene->recovery);
  ends(scene, "interrupted:the id:17 done ", FIRST_QUESTIONS);
}

TEST(where_that_is_not_known_it_is_said, set_up, tear_down) {
  static const char *const answers[] = {
      "*0\r\n",
      "$-1\r\n",
      "*1\r\n*0\r\n",
      "*1\r\n*2\r\n$3\r\n1-1\r\n*0\r\n",
      "*1\r\n*2\r\n$3\r\n1-1\r\n$-1\r\n",
      "*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$4\r\ndata\r\n:5\r\n",
      "*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$4\r\ndata\r\n$2\r\n{}\r\n",
      "*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$4\r\ndata\r\n$26\r\n{\"stepId\":\"other\",\"seq\":9}\r\n",
  };
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    struct scene *scene = *state;
    scene->answers[0] = "$6\r\nthe id\r\n";
    scene->answers[1] = answers[i];
    recovery_begin(&scene->recovery);
    ends(scene, "interrupted:the id:-1 done ", FIRST_QUESTIONS);
    tear_down(state);
    set_up(state);
  }
}

TEST(later_only_the_list_is_looked_at, set_up, tear_down) {
  struct scene *scene = *state;
  scene->look_meanwhile = true; /* is the same, while it is running */
  for (int times = 0; times < 2; times++) {
    scene->answers[0] = "$3\r\none\r\n";
    scene->answers[1] = "$3\r\ntwo\r\n";
    recovery_scan(&scene->recovery);
    ends(scene, "one two done ",
         "LINDEX " KEY "inflight -1\nLINDEX " KEY "inflight -2\nLINDEX " KEY "inflight -3\n");
  }
}

TEST(it_ends_when_no_more_is_wanted, set_up, tear_down) {
  struct scene *scene = *state;
  scene->most = 2;
  for (size_t i = 0; i < 4; i++)
    scene->answers[i] = "$3\r\none\r\n";
  recovery_scan(&scene->recovery);
  ends(scene, "one one done ", "LINDEX " KEY "inflight -1\nLINDEX " KEY "inflight -2\n");
}

TEST(of_a_step_that_is_too_large_the_beginning_comes, set_up, tear_down) {
  struct scene *scene = *state;
  static char bytes[32769];
  char head[64];
  memset(bytes, 'x', sizeof bytes - 1);
  size_t sent = 64 * 1024 * 1024 + sizeof bytes - 1;
  snprintf(head, sizeof head, "$%zu\r\n", sent);
  scene->answers[0] = head;
  recovery_scan(&scene->recovery);
  while (scene->asked == 0)
    event_base_loop(scene->owner->loop.base, EVLOOP_ONCE);
  for (; sent > 0; sent -= sizeof bytes - 1) {
    fake_redis_send(scene->owner->server, bytes);
    event_base_loop(scene->owner->loop.base, EVLOOP_NONBLOCK);
  }
  fake_redis_send(scene->owner->server, "\r\n");
  ends(scene, "xxxxxxxxxxxxxxxxxxxx(cut) done ",
       "LINDEX " KEY "inflight -1\nLINDEX " KEY "inflight -2\n");
}

/* It is answered, but that has not arrived: it is not a step that was forgotten. */
TEST(what_is_being_removed_is_passed_over, set_up, tear_down) {
  struct scene *scene = *state;
  scene->answers[0] = "$3\r\none\r\n";
  scene->answers[1] = "$3\r\ntwo\r\n";
  outbox_owner_put_result(scene->owner, "one");
  recovery_scan(&scene->recovery);
  ends(scene, "two done ",
       "LINDEX " KEY "inflight -1\nLINDEX " KEY "inflight -2\nLINDEX " KEY "inflight -3\n");
}

/* A removal is of one of them, the oldest. */
TEST(of_those_that_are_alike_as_many_as_are_removed, set_up, tear_down) {
  struct scene *scene = *state;
  for (size_t i = 0; i < 4; i++)
    scene->answers[i] = i == 1 ? "$5\r\nother\r\n" : "$3\r\none\r\n";
  struct claimed one = {.payload = "one", .length = 3, .truncated = false};
  for (int times = 0; times < 2; times++) {
    outbox_owner_put_result(scene->owner, "one");
    outbox_owner_put_result(scene->owner, "other");
    outbox_removal(scene->owner->outbox, &one);
    recovery_scan(&scene->recovery);
    ends(scene, "one done ",
         "LINDEX " KEY "inflight -1\nLINDEX " KEY "inflight -2\nLINDEX " KEY "inflight -3\n"
         "LINDEX " KEY "inflight -4\nLINDEX " KEY "inflight -5\n");
    outbox_owner_delivers(scene->owner);
  }
}

/* An answer that is given meanwhile would move what is behind the step up by one. */
TEST(nothing_is_removed_while_it_reads, set_up, tear_down) {
  struct scene *scene = *state;
  scene->answers[0] = "$3\r\none\r\n";
  scene->answers[1] = "$3\r\ntwo\r\n";
  scene->result = "one";
  recovery_scan(&scene->recovery);
  ends(scene, "one two done ",
       "LINDEX " KEY "inflight -1\nLINDEX " KEY "inflight -2\nLINDEX " KEY "inflight -3\n");
  outbox_owner_delivers(scene->owner);
  assert_true(first_command(scene, "LPUSH " KEY "results {") >
              first_command(scene, "LINDEX " KEY "inflight -3"));
}

TEST(a_lost_connection_does_not_make_it_begin_again, set_up, tear_down) {
  struct scene *scene = *state;
  scene->answers[0] = "$3\r\none\r\n";
  scene->answers[1] = "";
  recovery_scan(&scene->recovery);
  while (scene->asked < 2)
    event_base_loop(scene->owner->loop.base, EVLOOP_ONCE);
  scene->answers[2] = "$3\r\ntwo\r\n";
  fake_redis_close_connection(scene->owner->server);
  ends(scene, "one two done ",
       "LINDEX " KEY "inflight -1\nLINDEX " KEY "inflight -2\nLINDEX " KEY "inflight -2\n"
       "LINDEX " KEY "inflight -3\n");
}
