#include "agent/doors/redis/intake/inflight_reader.h"
#include "tests/support/delivery_owner.h"
#include "tests/test.h"

#define KEY "sandbox:j:"

struct scene {
  struct delivery_owner *owner;
  struct inflight_reader reader;
  const char *answers[400]; /* to the questions, in order; then nil. "": none from there on */
  size_t asked;
  char queries[1024]; /* one line each, the first of them */
  size_t place;       /* of the next payload, if nothing is removed */
  int most;           /* payloads that are wanted; 0: all */
  const char *result; /* is put at the first payload */
  int ended;
  char said[512]; /* what came, one space behind each */
};

static void say(struct scene *self, const char *text) {
  if (strlen(self->said) + strlen(text) + 2 < sizeof self->said)
    strcat(strcat(self->said, text), " ");
}

static const char *answer(void *owner, const char *command) {
  struct scene *self = owner;
  bool query = strncmp(command, "LINDEX", 6) == 0 || strncmp(command, "XREVRANGE", 9) == 0 ||
               strcmp(command, "GET " KEY "started") == 0;
  if (!query || !self->owner->redis.logged_in)
    return redis_model_answer(&self->owner->redis, command);
  if (strlen(self->queries) + strlen(command) + 2 < sizeof self->queries)
    strcat(strcat(self->queries, command), "\n");
  const char *text = self->asked < 400 ? self->answers[self->asked++] : NULL;
  if (text != NULL && text[0] == '\0')
    self->owner->redis.deaf_from = "";
  return text != NULL ? text : "$-1\r\n";
}

/* A result removes a step that was read before. */
static size_t on_place(void *owner) {
  const struct scene *self = owner;
  return self->place - (size_t)delivery_owner_done(self->owner, "LPUSH " KEY "results {");
}

static bool on_payload(void *owner, const struct claimed *claimed) {
  struct scene *self = owner;
  char text[64];
  snprintf(text, sizeof text, "%.20s%s", claimed->payload, claimed->truncated ? "(cut)" : "");
  say(self, text);
  self->place++;
  if (self->result != NULL) {
    delivery_owner_put_result(self->owner, self->result);
    outbox_flush(self->owner->outbox);
    self->result = NULL;
  }
  return self->most == 0 || --self->most > 0;
}

static void on_end(void *owner, bool complete) {
  struct scene *self = owner;
  say(self, complete ? "complete" : "stopped");
  self->ended++;
}

static int set_up(void **state) {
  static const struct inflight_reader_handler handler = {
      .place = on_place, .payload = on_payload, .end = on_end};
  struct scene *self = calloc(1, sizeof *self);
  void *owner;
  delivery_owner_set_up(&owner);
  self->owner = owner;
  fake_redis_answer_with(self->owner->server, answer, self);
  delivery_owner_start_outbox(self->owner, 0, 1000000);
  self->reader = (struct inflight_reader){.outbox = self->owner->outbox,
                                          .keys = &self->owner->keys,
                                          .handler = &handler,
                                          .owner = self,
                                          .started_version = 1,
                                          .commands = 1};
  self->place = 1;
  *state = self;
  return 0;
}

static int tear_down(void **state) {
  struct scene *self = *state;
  void *owner = self->owner;
  free(self->reader.started);
  delivery_owner_tear_down(&owner);
  free(self);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

/* Runs it; what came, and what it asked. */
static void ends(struct scene *self, const char *said, const char *queries) {
  assert_true(self->reader.is_running);
  loop_await_once(&self->owner->loop, &self->ended);
  assert_false(self->reader.is_running);
  assert_string_equal(self->said, said);
  assert_string_equal(self->queries, queries);
  self->said[0] = self->queries[0] = '\0';
  self->place = 1;
  self->asked = 0;
}

static void has_one_and_two(struct scene *self) {
  self->answers[0] = "$3\r\none\r\n";
  self->answers[1] = "$3\r\ntwo\r\n";
}

#define LINDEX(POSITION) "LINDEX " KEY "inflight -" #POSITION "\n"
#define FIRST_QUESTIONS "GET " KEY "started\nXREVRANGE " KEY "events + - COUNT 1\n" LINDEX(1)

static void boot(struct scene *self) {
  self->reader.boot_due = 2;
  inflight_reader_read(&self->reader, 1);
}

SCENE_TEST(at_boot_what_was_started_is_asked_first) {
  scene->answers[2] = "$3\r\none\r\n";
  scene->answers[3] = "$3\r\ntwo\r\n";
  boot(scene);
  assert_string_equal(scene->said, ""); /* nothing comes from inside */
  ends(scene, "one two complete ", FIRST_QUESTIONS LINDEX(2) LINDEX(3));
  assert_null(scene->reader.started);
}

SCENE_TEST(a_started_step_comes_with_its_last_event) {
  static const char event[] = "{\"schemaVersion\":2,\"stepId\":\"the id\",\"kind\":\"stdout\","
                              "\"line\":\"x\",\"timestamp\":\"2026-05-05T10:00:00.123+00:00\","
                              "\"seq\":17}";
  char answer[512];
  scene->answers[0] = "$6\r\nthe id\r\n";
  scene->answers[1] = answer;
  snprintf(answer, sizeof answer, "*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$4\r\ndata\r\n$%zu\r\n%s\r\n",
           sizeof event - 1, event);
  boot(scene);
  ends(scene, "complete ", FIRST_QUESTIONS);
  assert_string_equal(scene->reader.started, "the id");
  assert_int_equal(scene->reader.started_events, 17);
  assert_int_equal(scene->reader.started_version, 2);
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
    boot(scene);
    ends(scene, "complete ", FIRST_QUESTIONS);
    assert_string_equal(scene->reader.started, "the id");
    assert_int_equal(scene->reader.started_events, -1);
    tear_down(state);
    set_up(state);
  }
}

SCENE_TEST(later_only_the_list_is_read_from_anywhere_on) {
  has_one_and_two(scene);
  for (int times = 0; times < 2; times++) {
    inflight_reader_read(&scene->reader, 1);
    ends(scene, "one two complete ", LINDEX(1) LINDEX(2) LINDEX(3));
  }
  scene->place = 1000;
  inflight_reader_read(&scene->reader, 3); /* as many as are known to be small */
  ends(scene, "one two complete ", LINDEX(1000) LINDEX(1001) LINDEX(1002));
}

SCENE_TEST(it_ends_when_no_more_is_wanted) {
  scene->most = 2;
  for (size_t i = 0; i < 4; i++)
    scene->answers[i] = "$3\r\none\r\n";
  inflight_reader_read(&scene->reader, 1);
  ends(scene, "one one stopped ", LINDEX(1) LINDEX(2) LINDEX(3));
}

/* 1, 2, 4, … and never more than INFLIGHT_READER_COMMANDS. */
SCENE_TEST(small_ones_share_a_round_trip) {
  for (size_t i = 0; i < 300; i++)
    scene->answers[i] = "$1\r\nx\r\n";
  scene->most = 255 + 10;
  inflight_reader_read(&scene->reader, 1);
  loop_await(&scene->owner->loop, &scene->ended, 1);
  assert_int_equal(scene->asked, 255 + INFLIGHT_READER_COMMANDS);
}

/* And a large one does not share its round trip with the next. */
SCENE_TEST(of_a_step_that_is_too_large_the_beginning_comes) {
  static char bytes[32769];
  char head[64];
  memset(bytes, 'x', sizeof bytes - 1);
  size_t sent = 64 * 1024 * 1024 + sizeof bytes - 1;
  snprintf(head, sizeof head, "$%zu\r\n", sent);
  scene->answers[0] = head;
  delivery_owner_drain(scene->owner);
  loop_settle(&scene->owner->loop);
  scene->owner->redis.silent_from = "MULTI"; /* which comes behind it */
  inflight_reader_read(&scene->reader, 1);
  LOOP_UNTIL(&scene->owner->loop, scene->asked != 0);
  for (; sent > 0; sent -= sizeof bytes - 1) {
    fake_redis_send(scene->owner->server, bytes);
    event_base_loop(scene->owner->loop.base, EVLOOP_NONBLOCK);
  }
  fake_redis_send(scene->owner->server, "\r\n");
  scene->owner->redis.silent_from = NULL;
  delivery_owner_let_reply(scene->owner);
  ends(scene, "xxxxxxxxxxxxxxxxxxxx(cut) complete ", LINDEX(1) LINDEX(2));
}

/* Output does not wait until all is read; and where a page begins is said when it is known what has
   left the list. */
SCENE_TEST(a_batch_goes_between_two_pages) {
  has_one_and_two(scene);
  scene->answers[2] = "$5\r\nthree\r\n";
  scene->result = "one";
  inflight_reader_read(&scene->reader, 1);
  ends(scene, "one two three complete ",
       LINDEX(1) LINDEX(1) LINDEX(2) LINDEX(3) LINDEX(4) LINDEX(5) LINDEX(6));
  assert_int_equal(delivery_owner_done(scene->owner, "LPUSH " KEY "results {"), 1);
}

/* What was not answered is asked again. */
SCENE_TEST(a_lost_connection_does_not_make_it_begin_again) {
  has_one_and_two(scene);
  scene->answers[2] = "";
  inflight_reader_read(&scene->reader, 1);
  LOOP_UNTIL(&scene->owner->loop, scene->asked >= 3);
  loop_settle(&scene->owner->loop);
  scene->answers[3] = "$5\r\nthree\r\n";
  scene->owner->redis.deaf_from = NULL;
  fake_redis_close_connection(scene->owner->server);
  ends(scene, "one two three complete ",
       LINDEX(1) LINDEX(2) LINDEX(3) LINDEX(3) LINDEX(4) LINDEX(5) LINDEX(6) LINDEX(7));
}
