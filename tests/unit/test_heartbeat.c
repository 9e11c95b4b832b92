#include "agent/frontends/redis/heartbeat/heartbeat.h"
#include "base/loop.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define UNIX_OFFSET_MS INT64_C(1746439200000)

struct scene {
  struct loop loop;
  struct fake_redis *server;
  struct redis_url url;
  struct keys keys;
  struct outbox outbox; /* its delivery is the scene */
  struct control_messages control;
  struct heartbeat *heartbeat;
  struct event *turn;
  const char *to_wait; /* the reply to BLMOVE; NULL: it waits until its timeout */
  struct event *wait;
  struct buffer waiting; /* the commands after BLMOVE */
  bool is_waiting;
  const char *message; /* the reply to the next LINDEX; NULL: no message */
  int waits;
  const char *to_set; /* the reply to SET; NULL: no reply to this and the next commands */
  const char *to_expire;
  const char *to_get; /* the reply to GET committed */
  bool deaf;
  bool is_ours;
  int sets;
  int expires;
  int checks; /* calls of delivery_compare_committed */
  char committed[64];
  int fallbacks;
  char fallback[128];
  bool arrives; /* the values that the fallback writes are delivered */
  int silent;
  int failed;
  char error[256];
};

/* Returns the reply to a command, or NULL if there is none. */
static const char *execute(struct scene *scene, const char *command) {
  bool set = strncmp(command, "SET ", 4) == 0, expire = strncmp(command, "EXPIRE ", 7) == 0;
  scene->deaf |= set && scene->to_set == NULL;
  if (scene->deaf)
    return NULL;
  if (set)
    return scene->to_set;
  if (expire)
    return scene->to_expire;
  if (strncmp(command, "LINDEX ", 7) != 0)
    return scene->to_get;
  const char *message = scene->message != NULL ? scene->message : "$-1\r\n";
  scene->message = NULL;
  return message;
}

/* BLMOVE times out: Redis replies to it and to the commands after it. */
LOOP_CALLBACK(on_waited, struct scene *scene) {
  struct buffer out = {0};
  char *saved = NULL;
  buffer_add_string(&out, "*-1\r\n");
  buffer_add(&scene->waiting, "", 1);
  for (char *line = strtok_r(scene->waiting.bytes, "\n", &saved); line != NULL;
       line = strtok_r(NULL, "\n", &saved)) {
    const char *text = execute(scene, line);
    buffer_add_string(&out, text != NULL ? text : "");
    scene->sets += strncmp(line, "SET ", 4) == 0;
    scene->expires += strncmp(line, "EXPIRE ", 7) == 0;
  }
  buffer_add(&out, "", 1);
  buffer_release(&scene->waiting);
  scene->is_waiting = false;
  if (!scene->deaf)
    fake_redis_send(scene->server, out.bytes);
  buffer_release(&out);
}

static const char *answer(void *owner, const char *command) {
  struct scene *scene = owner;
  if (strncmp(command, "CLIENT ", 7) == 0) { /* a new connection */
    scene->deaf = scene->is_waiting = false;
    buffer_release(&scene->waiting);
    (void)evtimer_del(scene->wait);
    return "+OK\r\n";
  }
  if (strncmp(command, "BLMOVE ", 7) == 0) {
    scene->waits++;
    scene->is_waiting = scene->to_wait == NULL;
    if (scene->is_waiting)
      loop_timer_start(scene->wait, (int64_t)(atof(strrchr(command, ' ')) * 1000));
    return scene->to_wait;
  }
  if (scene->is_waiting) {
    buffer_add_format(&scene->waiting, "%s\n", command);
    return NULL;
  }
  scene->sets += strncmp(command, "SET ", 4) == 0;
  scene->expires += strncmp(command, "EXPIRE ", 7) == 0;
  return execute(scene, command);
}

/* --- in place of the delivery and the outbox --- */

bool delivery_compare_committed(struct delivery *self, const char *value, size_t length) {
  struct scene *scene = (void *)self;
  scene->checks++;
  snprintf(scene->committed, sizeof scene->committed, "%.*s", (int)length,
           value != NULL ? value : "none");
  if (value == NULL)
    strcpy(scene->committed, "none");
  return scene->is_ours;
}

void delivery_check_ownership(struct delivery *self) {
  ((struct scene *)(void *)self)->silent++;
}

bool delivery_is_unreachable(const struct delivery *self) {
  (void)self;
  return false;
}

bool outbox_set_heartbeat(struct outbox *self, const char *value, const char *seconds) {
  struct scene *scene = (void *)self->delivery;
  bool is_accepted = self->heartbeat_end == 0 || scene->arrives;
  self->heartbeat_end = 1;
  scene->fallbacks++;
  snprintf(scene->fallback, sizeof scene->fallback, "%s %s", value, seconds);
  return is_accepted;
}

/* --- the owner --- */

static void on_describe(void *owner, struct buffer *out) {
  (void)owner;
  buffer_add_string(out, ",\"More\":1");
}

static void on_checked(void *owner, int64_t began_ms, bool is_first) {
  (void)owner;
  (void)began_ms;
  (void)is_first;
}

static void on_message(void *owner, const struct payload *payload) {
  (void)control_messages_add(&((struct scene *)owner)->control, payload);
}

LOOP_CALLBACK(on_turn, struct scene *scene) {
  heartbeat_advance(scene->heartbeat);
}

static void on_changed(void *owner) {
  event_active(((struct scene *)owner)->turn, 0, 0);
}

static void on_failed(void *owner, const struct error *error) {
  struct scene *scene = owner;
  scene->failed++;
  strcpy(scene->error, error->text);
}

static int set_up(void **state) {
  static const struct heartbeat_handler handler = {.describe = on_describe,
                                                   .changed = on_changed,
                                                   .message = on_message,
                                                   .checked = on_checked,
                                                   .failed = on_failed};
  struct scene *scene = calloc(1, sizeof *scene);
  assert_non_null(scene);
  loop_init(&scene->loop);
  scene->server = fake_redis_new(scene->loop.base, true);
  fake_redis_answer_with(scene->server, answer, scene);
  scene->url = fake_redis_url(scene->server);
  scene->turn = loop_timer_new(scene->loop.base, on_turn, scene);
  scene->wait = loop_timer_new(scene->loop.base, on_waited, scene);
  scene->to_set = "+OK\r\n";
  scene->to_get = "$5\r\n1:2:3\r\n";
  scene->is_ours = true;
  scene->to_expire = ":1\r\n";
  virtual_unix_offset_ms = UNIX_OFFSET_MS;
  keys_init(&scene->keys, "j");
  scene->outbox.delivery = (void *)scene;
  scene->heartbeat =
      heartbeat_new(scene->loop.base, &scene->loop.log, &scene->url, &scene->keys,
                    "sandbox:j:heartbeat", &scene->outbox, &scene->control, &handler, scene);
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  heartbeat_free(scene->heartbeat);
  event_free(scene->turn);
  event_free(scene->wait);
  buffer_release(&scene->waiting);
  control_messages_release(&scene->control);
  fake_redis_free(scene->server);
  keys_release(&scene->keys);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static void await(struct scene *scene, const int *counter, int value) {
  loop_await(&scene->loop, counter, value);
}

static void start(struct scene *scene) {
  heartbeat_start(scene->heartbeat);
  await(scene, &scene->sets, 1);
}

static int set_up_running(void **state) {
  set_up(state);
  start(*state);
  return 0;
}

#define RUNNING_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up_running, tear_down)

static void await_more_sets(struct scene *scene, int more) {
  loop_await(&scene->loop, &scene->sets, scene->sets + more);
}

static const char *command_from_end(const struct scene *scene, size_t back) {
  return fake_redis_command(scene->server, fake_redis_commands(scene->server) - 1 - back);
}

RUNNING_TEST(each_value_of_committed_is_reported) {
  static const char *const values[] = {"1:2:4", "2:2:1", "1:2:33", "1:2:3", "1:2:3"};
  char text[32];
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(values[i]), values[i]);
    scene->to_get = text;
    await_more_sets(scene, 3);
    assert_string_equal(scene->committed, values[i]);
  }
  scene->to_get = "$5\r\n1:2:3\r\n";
  int checks = scene->checks;
  await_more_sets(scene, 3);
  assert_in_range(scene->checks, checks + 3, checks + 4);
}

SCENE_TEST(a_value_that_is_not_a_token_is_reported) {
  char value[300] = "", text[400];
  memset(value, 'x', sizeof value - 1);
  snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(value), value);
  scene->to_get = text;
  start(scene);
  await(scene, &scene->sets, 4);
  assert_string_equal(scene->committed, value + strlen(value) - sizeof scene->committed + 1);
  assert_int_equal(fake_redis_connections(scene->server), 1);
  scene->to_get = "$0\r\n\r\n";
  await(scene, &scene->sets, 7);
  assert_string_equal(scene->committed, "");
  scene->to_get = "$-1\r\n"; /* the key does not exist */
  await(scene, &scene->sets, 10);
  assert_string_equal(scene->committed, "none");
}

#define NOT_VISIBLE "WARN  redis heartbeat: not visible for 10 s"
#define VISIBLE_AGAIN "INFO  redis heartbeat: visible again after "

static void lose_connection(struct scene *scene) {
  fake_redis_refuse(scene->server);
  fake_redis_close_connection(scene->server);
}

SCENE_TEST(without_a_connection_the_fallback_is_used) {
  scene->arrives = true;
  start(scene);
  await(scene, &scene->sets, 2);
  assert_int_equal(scene->fallbacks, 0);
  heartbeat_set_in_flight(scene->heartbeat, true);
  lose_connection(scene);
  int64_t start_ms = virtual_time_ms;
  await(scene, &scene->fallbacks, 8);
  assert_in_range(virtual_time_ms - start_ms, 7 * HEARTBEAT_MS, 12 * HEARTBEAT_MS);
  long long ts;
  char rest[64];
  assert_int_equal(sscanf(scene->fallback, "{\"Ts\":%lld,%63[^\n]", &ts, rest), 2);
  assert_true(ts > 1700000000000);
  assert_non_null(strstr(rest, "\"StepInFlight\":true,\"More\":1} 10"));
  fake_redis_accept(scene->server);
  await(scene, &scene->sets, 5);
  int fallbacks = scene->fallbacks;
  await(scene, &scene->sets, 8);
  assert_int_equal(scene->fallbacks, fallbacks);
  assert_int_equal(loop_logged(&scene->loop, NOT_VISIBLE), 0);
  assert_int_equal(scene->failed, 0);
}

SCENE_TEST(the_fallback_is_not_used_before_the_start_or_after_the_stop) {
  fake_redis_refuse(scene->server);
  virtual_time_pass(&scene->loop, 3 * HEARTBEAT_MS);
  assert_int_equal(scene->fallbacks, 0);
  heartbeat_start(scene->heartbeat);
  await(scene, &scene->fallbacks, 2);
  int fallbacks = scene->fallbacks;
  heartbeat_stop(scene->heartbeat);
  virtual_time_pass(&scene->loop, 3 * HEARTBEAT_MS);
  assert_int_equal(scene->fallbacks, fallbacks);
}

/* The log also says how long the key was not visible. */
RUNNING_TEST(a_key_that_is_not_visible_is_logged_once) {
  await(scene, &scene->sets, 2);
  int64_t visible_ms = virtual_time_ms; /* the reply to the first SET was read */
  lose_connection(scene);
  await(scene, &scene->fallbacks, 4);
  assert_int_equal(loop_logged(&scene->loop, NOT_VISIBLE), 0);
  await(scene, &scene->fallbacks, 12);
  assert_int_equal(loop_logged(&scene->loop, NOT_VISIBLE "\n"), 1);
  assert_int_equal(loop_logged(&scene->loop, VISIBLE_AGAIN), 0);
  fake_redis_accept(scene->server);
  await_more_sets(scene, 2);
  double shortest = (double)(virtual_time_ms - visible_ms) / 1000 - 4.2, seconds;
  char log[65536] = "";
  assert_true(pread(scene->loop.log.fd, log, sizeof log - 1, 0) > 0);
  const char *line = strstr(log, VISIBLE_AGAIN);
  assert_non_null(line);
  assert_int_equal(sscanf(line + strlen(VISIBLE_AGAIN), "%lf s", &seconds), 1);
  assert_true(seconds >= shortest && seconds <= shortest + 4.5);
  assert_true(seconds > HEARTBEAT_SECONDS);
  await_more_sets(scene, 2);
  assert_int_equal(loop_logged(&scene->loop, VISIBLE_AGAIN), 1);
  assert_int_equal(loop_logged(&scene->loop, NOT_VISIBLE), 1);
}

RUNNING_TEST(a_delivered_fallback_makes_the_key_visible_again) {
  lose_connection(scene);
  await(scene, &scene->fallbacks, 9);
  assert_int_equal(loop_logged(&scene->loop, NOT_VISIBLE), 1);
  scene->arrives = true;
  await(scene, &scene->fallbacks, 18);
  assert_int_equal(loop_logged(&scene->loop, VISIBLE_AGAIN), 1);
  assert_int_equal(loop_logged(&scene->loop, NOT_VISIBLE), 1);
}

RUNNING_TEST(a_missing_reply_is_reported_and_ends_the_connection) {
  await(scene, &scene->sets, 2);
  scene->to_set = NULL;
  int64_t start_ms = virtual_time_ms;
  await(scene, &scene->silent, 1);
  assert_true(virtual_time_ms - start_ms <= 2 * HEARTBEAT_MS + 1000);
  assert_int_equal(fake_redis_connections(scene->server), 1);
  loop_settle(&scene->loop); /* everything that was sent has arrived */
  scene->to_set = "+OK\r\n";
  await_more_sets(scene, 2);
  assert_int_equal(fake_redis_connections(scene->server), 2);
  assert_true(virtual_time_ms - start_ms <= 4 * HEARTBEAT_MS + 1000);
  assert_int_equal(scene->silent, 1);
}

RUNNING_TEST(the_heartbeat_stops_if_another_agent_owns_the_job) {
  await(scene, &scene->sets, 2);
  scene->is_ours = false;
  int checks = scene->checks;
  await(scene, &scene->checks, checks + 1);
  int sets = scene->sets;
  virtual_time_pass(&scene->loop, 5 * HEARTBEAT_MS);
  assert_int_equal(scene->sets, sets);
  assert_int_equal(scene->failed, 0);
}

RUNNING_TEST(after_an_outage_the_owner_is_checked_before_the_key_is_set) {
  scene->is_ours = false;
  int checks = scene->checks;
  fake_redis_close_connection(scene->server);
  await(scene, &scene->checks, checks + 1);
  virtual_time_pass(&scene->loop, 3 * HEARTBEAT_MS);
  assert_int_equal(scene->sets, 1);
}

/* EXPIRE needs no memory. */
RUNNING_TEST(a_redis_without_memory_keeps_the_key) {
  scene->to_set = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
  await(scene, &scene->expires, 3);
  assert_string_equal(command_from_end(scene, command_from_end(scene, 0)[0] == 'E' ? 0 : 1),
                      "EXPIRE sandbox:j:heartbeat 10");
  assert_int_equal(fake_redis_connections(scene->server), 1);
  scene->to_set = "+OK\r\n";
  await_more_sets(scene, 3);
  int expires = scene->expires;
  await_more_sets(scene, 3);
  assert_int_equal(scene->expires, expires);
  assert_int_equal(scene->failed, 0);
}

RUNNING_TEST(a_redis_without_memory_and_without_the_key_is_logged) {
  scene->to_set = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
  await(scene, &scene->expires, 5);
  assert_int_equal(loop_logged(&scene->loop, NOT_VISIBLE), 0);
  scene->to_expire = ":0\r\n";
  await(scene, &scene->expires, 12);
  assert_int_equal(loop_logged(&scene->loop, NOT_VISIBLE ": redis is out of memory\n"), 1);
  assert_int_equal(loop_logged(&scene->loop, NOT_VISIBLE), 1);
  scene->to_set = "+OK\r\n";
  await_more_sets(scene, 3);
  assert_int_equal(loop_logged(&scene->loop, VISIBLE_AGAIN), 1);
}

RUNNING_TEST(after_a_transient_error_the_heartbeat_continues) {
  scene->to_set = "-READONLY You can't write against a read only replica.\r\n";
  await(scene, &scene->sets, 4);
  assert_true(fake_redis_connections(scene->server) > 1);
  scene->to_set = "+OK\r\n";
  await_more_sets(scene, 3);
  assert_int_equal(scene->failed, 0);
}

RUNNING_TEST(a_permanent_error_names_the_key_that_was_read) {
  scene->to_get = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
  await(scene, &scene->failed, 1);
  assert_non_null(strstr(scene->error, "redis refuses GET sandbox:j:committed: WRONGTYPE"));
}

/* --- control messages --- */

/* All replies arrive together when BLMOVE times out, so the agent wakes up once per round. */
RUNNING_TEST(the_next_set_is_sent_together_with_blmove) {
  await_more_sets(scene, 2);
  loop_settle(&scene->loop);
  assert_string_equal(command_from_end(scene, 3),
                      "BLMOVE sandbox:j:control sandbox:j:control RIGHT RIGHT 2.000");
  assert_string_equal(command_from_end(scene, 2), "LINDEX sandbox:j:control -1");
}

RUNNING_TEST(blmove_is_not_sent_while_a_known_message_is_in_the_list) {
  scene->message = "$7\r\nmessage\r\n";
  LOOP_UNTIL(&scene->loop, scene->control.count == 1);
  int waits = scene->waits;
  await_more_sets(scene, 3);
  assert_int_equal(scene->waits, waits);
  assert_string_equal(command_from_end(scene, 2), "LINDEX sandbox:j:control -2");
  control_messages_begin_removal(&scene->control, scene->control.oldest, 1);
  control_messages_free_removed(&scene->control, 1);
  await_more_sets(scene, 2);
  assert_true(scene->waits > waits);
}

RUNNING_TEST(without_permission_for_blmove_the_heartbeat_continues) {
  scene->to_wait = "-NOPERM this user has no permissions to run the 'blmove' command\r\n";
  await_more_sets(scene, 5);
  assert_int_equal(loop_logged(&scene->loop, "sandbox:j:control: NOPERM"), 1);
  assert_int_equal(scene->failed, 0);
  assert_int_equal(fake_redis_connections(scene->server), 1);
}

/* The agent has deleted the key, or Redis has lost it. */
RUNNING_TEST(only_the_fallback_creates_a_missing_key) {
  scene->to_set = "$-1\r\n";
  await_more_sets(scene, 3);
  assert_true(scene->fallbacks > 0);
}
