#include "agent/frontends/redis/intake/inflight_reader.h"
#include "tests/support/delivery_owner.h"
#include "tests/support/logged.h"
#include "tests/test.h"

#define KEY "sandbox:j:"

struct scene {
  struct delivery_owner *owner;
  struct inflight_reader reader;
  size_t seen;        /* of what was sent */
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

static void write_key(struct scene *self, int words, const char *command) {
  redis_store_do(self->owner->store, words, command);
}

/* Asserts that these were the questions since the last call, but for those of handshakes. */
static void has_asked(struct scene *self, const char *expected) {
  char asked[1024] = "";
  bool handshake = false;
  const char *all = delivery_owner_commands(self->owner);
  for (const char *line = all + self->seen, *end; *line != '\0'; line = end) {
    end = strchr(line, '\n') + 1;
    handshake = (handshake || strncmp(line, "CLIENT ", 7) == 0) && strncmp(line, "DISCARD", 7) != 0;
    bool question = strncmp(line, "LINDEX ", 7) == 0 || strncmp(line, "XREVRANGE ", 10) == 0 ||
                    strncmp(line, "GET " KEY "started", 4 + sizeof KEY + 6) == 0;
    assert_true(strlen(asked) + (size_t)(end - line) < sizeof asked);
    if (question && !handshake)
      strncat(asked, line, (size_t)(end - line));
  }
  self->seen = strlen(all);
  assert_string_equal(asked, expected);
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
  has_asked(self, queries);
  self->said[0] = '\0';
  self->place = 1;
}

/* The last one is the oldest. */
static void has_inflight(struct scene *self, const char *payload) {
  char command[64];
  (void)snprintf(command, sizeof command, "LPUSH " KEY "inflight %s", payload);
  write_key(self, 3, command);
}

static void has_one_and_two(struct scene *self) {
  has_inflight(self, "one");
  has_inflight(self, "two");
}

#define LINDEX(POSITION) "LINDEX " KEY "inflight -" #POSITION "\n"
#define FIRST_QUESTIONS "GET " KEY "started\nXREVRANGE " KEY "events + - COUNT 1\n" LINDEX(1)

static void boot(struct scene *self) {
  self->reader.boot_due = 2;
  inflight_reader_read(&self->reader, 1);
}

SCENE_TEST(at_boot_what_was_started_is_asked_first) {
  has_one_and_two(scene);
  boot(scene);
  assert_string_equal(scene->said, ""); /* nothing comes from inside */
  ends(scene, "one two complete ", FIRST_QUESTIONS LINDEX(2) LINDEX(3));
  assert_null(scene->reader.started);
}

SCENE_TEST(a_started_step_comes_with_its_last_event) {
  write_key(scene, 3, "SET " KEY "started the id");
  write_key(scene, 5,
            "XADD " KEY "events * data {\"schemaVersion\":2,\"stepId\":\"the id\","
            "\"kind\":\"stdout\",\"line\":\"x\",\"timestamp\":\"2026-05-05T10:00:00.123+00:00\","
            "\"seq\":17}");
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
    write_key(scene, 3, "SET " KEY "started the id");
    redis_store_inject(scene->owner->store,
                       (struct redis_store_fault){.command = "XREVRANGE",
                                                  .effect = REDIS_STORE_ANSWERS,
                                                  .text = answers[i]});
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
  for (size_t i = 1; i < 1000; i++)
    write_key(scene, 3, "RPUSH " KEY "inflight older");
  scene->place = 1000;
  inflight_reader_read(&scene->reader, 3); /* as many as are known to be small */
  ends(scene, "one two complete ", LINDEX(1000) LINDEX(1001) LINDEX(1002));
}

SCENE_TEST(it_ends_when_no_more_is_wanted) {
  scene->most = 2;
  for (size_t i = 0; i < 4; i++)
    has_inflight(scene, "one");
  inflight_reader_read(&scene->reader, 1);
  ends(scene, "one one stopped ", LINDEX(1) LINDEX(2) LINDEX(3));
}

/* 1, 2, 4, … and never more than INFLIGHT_READER_COMMANDS. */
SCENE_TEST(small_ones_share_a_round_trip) {
  int before = logged_count_in(delivery_owner_commands(scene->owner), "\nLINDEX ");
  for (size_t i = 0; i < 300; i++)
    has_inflight(scene, "x");
  scene->most = 255 + 10;
  inflight_reader_read(&scene->reader, 1);
  loop_await(&scene->owner->loop, &scene->ended, 1);
  int after = logged_count_in(delivery_owner_commands(scene->owner), "\nLINDEX ");
  assert_int_equal(after - before, 255 + INFLIGHT_READER_COMMANDS);
}

/* And a large one does not share its round trip with the next. */
SCENE_TEST(of_a_step_that_is_too_large_the_beginning_comes) {
  static const char push[] = "LPUSH " KEY "inflight ";
  size_t length = 64 * 1024 * 1024 + 32768;
  char *command = malloc(sizeof push + length);
  assert_non_null(command);
  memcpy(command, push, sizeof push - 1);
  memset(command + sizeof push - 1, 'x', length);
  command[sizeof push - 1 + length] = '\0';
  write_key(scene, 3, command);
  free(command);
  inflight_reader_read(&scene->reader, 1);
  ends(scene, "xxxxxxxxxxxxxxxxxxxx(cut) complete ", LINDEX(1) LINDEX(2));
}

/* Output does not wait until all is read; and where a page begins is said when it is known what has
   left the list. */
SCENE_TEST(a_batch_goes_between_two_pages) {
  has_one_and_two(scene);
  has_inflight(scene, "three");
  scene->result = "one";
  inflight_reader_read(&scene->reader, 1);
  ends(scene, "one two three complete ",
       LINDEX(1) LINDEX(1) LINDEX(2) LINDEX(3) LINDEX(4) LINDEX(5) LINDEX(6));
  assert_int_equal(delivery_owner_done(scene->owner, "LPUSH " KEY "results {"), 1);
}

/* What was not answered is asked again. */
SCENE_TEST(a_lost_connection_does_not_make_it_begin_again) {
  struct redis_store *store = scene->owner->store;
  has_one_and_two(scene);
  has_inflight(scene, "three");
  redis_store_inject(store, (struct redis_store_fault){.command = "LINDEX " KEY "inflight -3",
                                                       .effect = REDIS_STORE_HOLDS,
                                                       .times = 1});
  inflight_reader_read(&scene->reader, 1);
  LOOP_UNTIL(&scene->owner->loop, redis_store_injected(store) > 0);
  loop_settle(&scene->owner->loop);
  redis_store_lose(store, "out", false);
  ends(scene, "one two three complete ",
       LINDEX(1) LINDEX(2) LINDEX(3) LINDEX(3) LINDEX(4) LINDEX(5) LINDEX(6) LINDEX(7));
}
