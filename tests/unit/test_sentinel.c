#include <unistd.h>

#include "agent/doors/redis/link/endpoint.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define QUERY "SENTINEL GET-MASTER-ADDR-BY-NAME pipes"
#define KNOWS "" /* the address of the master */

enum { SENTINELS = 3 };

/* A sentinel with its replies in order; the last one is repeated. */
struct scripted_sentinel {
  struct fake_redis *server;
  const char *answers[4];
  size_t count;
  const char *master;
};

struct scene {
  struct loop loop;
  struct scripted_sentinel sentinels[SENTINELS];
  struct redis_address addresses[SENTINELS];
  struct redis_url url;
  struct fake_redis *master;
  char master_answer[64];
  struct endpoint *endpoint;
  int done; /* calls */
  char why[200];
};

static const char *answer(void *owner, const char *command) {
  (void)command;
  struct scripted_sentinel *self = owner;
  const char *text = self->answers[self->count];
  if (self->count < 3 && self->answers[self->count + 1] != NULL)
    self->count++;
  return text != NULL && text[0] == '\0' ? self->master : text;
}

static int set_up(void **state) {
  static char name[] = "pipes";
  struct scene *scene = calloc(1, sizeof *scene);
  loop_init(&scene->loop);
  scene->master = fake_redis_new(scene->loop.base, true);
  (void)snprintf(scene->master_answer, sizeof scene->master_answer,
                 "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n%05u\r\n",
                 fake_redis_url(scene->master).hosts->port);
  for (size_t i = 0; i < SENTINELS; i++) {
    struct scripted_sentinel *scripted = &scene->sentinels[i];
    scripted->master = scene->master_answer;
    scripted->server = fake_redis_new(scene->loop.base, true);
    scripted->answers[0] = KNOWS;
    fake_redis_answer_with(scripted->server, answer, scripted);
    scene->addresses[i] = fake_redis_url(scripted->server).hosts[0];
  }
  scene->url =
      (struct redis_url){.master = name, .hosts = scene->addresses, .host_count = SENTINELS};
  scene->endpoint = endpoint_new(scene->loop.base, &scene->url);
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  endpoint_free(scene->endpoint);
  fake_redis_free(scene->master);
  for (size_t i = 0; i < SENTINELS; i++)
    fake_redis_free(scene->sentinels[i].server);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static void on_done(void *owner, struct transport *transport, const char *why) {
  struct scene *scene = owner;
  scene->done++;
  (void)snprintf(scene->why, sizeof scene->why, "%s", why != NULL ? why : "");
  if (transport != NULL)
    transport->type->free(transport);
}

static void ask(struct scene *scene) {
  endpoint_dial(scene->endpoint, on_done, scene);
  assert_int_equal(scene->done, 0); /* not from inside */
  loop_await_once(&scene->loop, &scene->done);
}

/* Its master does not work: a sentinel that knows no other is asked last. */
static void finds_it(struct scene *scene) {
  char name[64], expected[64];
  ask(scene);
  assert_string_equal(scene->why, "");
  endpoint_name(scene->endpoint, name, sizeof name);
  (void)redis_address_name(fake_redis_url(scene->master).hosts, expected, sizeof expected);
  assert_string_equal(name, expected);
}

static void finds_it_well(struct scene *scene) {
  finds_it(scene);
  endpoint_mark_healthy(scene->endpoint);
}

/* How many connections each one has had so far. */
static void were_asked(const struct scene *scene, int first, int second, int third) {
  assert_int_equal(fake_redis_connections(scene->sentinels[0].server), first);
  assert_int_equal(fake_redis_connections(scene->sentinels[1].server), second);
  assert_int_equal(fake_redis_connections(scene->sentinels[2].server), third);
}

SCENE_TEST(the_first_is_asked) {
  finds_it(scene);
  were_asked(scene, 1, 0, 0);
  assert_string_equal(fake_redis_command(scene->sentinels[0].server, 0), QUERY);
  assert_int_equal(fake_redis_commands(scene->sentinels[0].server), 1);
  assert_false(fake_redis_is_connected(scene->sentinels[0].server));
}

SCENE_TEST(the_one_that_knew_is_asked_first) {
  fake_redis_refuse(scene->sentinels[0].server);
  finds_it_well(scene);
  fake_redis_accept(scene->sentinels[0].server);
  finds_it_well(scene);
  were_asked(scene, 0, 2, 0);
  fake_redis_refuse(scene->sentinels[1].server);
  fake_redis_refuse(scene->sentinels[2].server);
  finds_it_well(scene);
  were_asked(scene, 1, 2, 0);
}

SCENE_TEST(one_whose_master_does_not_work_is_asked_last) {
  finds_it(scene);
  finds_it(scene);
  were_asked(scene, 1, 1, 0);
  finds_it(scene);
  finds_it(scene);
  were_asked(scene, 2, 1, 1);
}

SCENE_TEST(an_unusable_reply_leads_to_the_next) {
  static char large[100100];
  static const char *const answers[] = {
      "-ERR unknown command 'SENTINEL', with args beginning with: \r\n",
      "-LOADING Redis is loading\r\n",
      "*-1\r\n",
      "$-1\r\n",
      "+OK\r\n",
      ":1\r\n",
      "*0\r\n",
      "*1\r\n$1\r\na\r\n",
      "*2\r\n$0\r\n\r\n$1\r\n1\r\n",
      "*2\r\n$1\r\na\r\n$1\r\n0\r\n",
      "*2\r\n$1\r\na\r\n$1\r\nx\r\n",
      "*2\r\n$1\r\na\r\n:1\r\n",
      "*2\r\n:1\r\n:1\r\n",
      "HTTP/1.1 400 Bad Request\r\n",
      large,
  };
  (void)memset(large + sprintf(large, "$100000\r\n"), 'x', 100000);
  (void)strcat(large, "\r\n");
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    endpoint_free(scene->endpoint);
    scene->endpoint = endpoint_new(scene->loop.base, &scene->url);
    scene->sentinels[0].answers[0] = answers[i];
    finds_it(scene);
    were_asked(scene, (int)i + 1, (int)i + 1, 0);
  }
}

/* The first one gets the query, and does not answer by itself. */
static void ask_silent(struct scene *scene) {
  scene->sentinels[0].answers[0] = NULL;
  endpoint_dial(scene->endpoint, on_done, scene);
  LOOP_UNTIL(&scene->loop, fake_redis_commands(scene->sentinels[0].server) != 0);
}

SCENE_TEST(a_silent_one_is_skipped) {
  scene->sentinels[0].answers[0] = NULL;
  int64_t start_ms = wait_now_ms();
  finds_it(scene);
  assert_in_range(wait_now_ms() - start_ms, ENDPOINT_SENTINEL_MS - 100,
                  ENDPOINT_SENTINEL_MS + 2000);
  were_asked(scene, 1, 1, 0);
}

SCENE_TEST(one_that_disconnects_is_skipped) {
  ask_silent(scene);
  fake_redis_close_connection(scene->sentinels[0].server);
  loop_await(&scene->loop, &scene->done, 1);
  assert_string_equal(scene->why, "");
}

/* The reason is that of this one. */
static void fails(struct scene *scene, size_t sentinel, const char *why) {
  char expected[128];
  (void)snprintf(expected, sizeof expected, "sentinel 127.0.0.1:%u: %s",
                 scene->addresses[sentinel].port, why);
  ask(scene);
  assert_string_equal(scene->why, expected);
}

SCENE_TEST(a_name_that_one_does_not_know_is_the_reason) {
  fake_redis_refuse(scene->sentinels[0].server);
  scene->sentinels[1].answers[0] = "*-1\r\n";
  fake_redis_refuse(scene->sentinels[2].server);
  fails(scene, 1, "it knows no master 'pipes'");
}

SCENE_TEST(all_of_them_may_refuse) {
  for (size_t i = 0; i < SENTINELS; i++)
    fake_redis_refuse(scene->sentinels[i].server);
  for (int i = 0; i < SENTINELS; i++)
    fails(scene, 0, "Connection refused");
}

/* Whichever is asked first: the reason is the same each time. */
SCENE_TEST(none_may_know_the_name) {
  fake_redis_refuse(scene->sentinels[0].server);
  scene->sentinels[1].answers[0] = scene->sentinels[2].answers[0] = "*-1\r\n";
  for (int i = 0; i < SENTINELS; i++)
    fails(scene, 1, "it knows no master 'pipes'");
}

SCENE_TEST(a_password_is_sent_when_it_is_required) {
  char user[] = "smith";
  char password[] = "s3cret";
  scene->url.user = user;
  scene->url.password = password;
  finds_it_well(scene);
  assert_int_equal(fake_redis_commands(scene->sentinels[0].server), 1);

  struct scripted_sentinel *scripted = &scene->sentinels[0];
  scripted->answers[0] = "-NOAUTH Authentication required.\r\n";
  scripted->answers[1] = "+OK\r\n";
  scripted->answers[2] = KNOWS;
  finds_it(scene);
  were_asked(scene, 2, 0, 0);
  assert_string_equal(fake_redis_command(scripted->server, 1), QUERY);
  assert_string_equal(fake_redis_command(scripted->server, 2), "AUTH s3cret");
  assert_string_equal(fake_redis_command(scripted->server, 3), QUERY);
}

SCENE_TEST(a_wrong_password_leads_to_the_next) {
  static const char *const answers[] = {
      "-WRONGPASS invalid\r\n", "-NOAUTH again\r\n",
      "-ERR unknown command 'AUTH', with args beginning with: 's3cret' \r\n",
      "-WRONGPASS s3cret is none\r\n"};
  char password[] = "s3cret";
  scene->url.password = password;
  fake_redis_refuse(scene->sentinels[1].server);
  fake_redis_refuse(scene->sentinels[2].server);
  scene->url.host_count = 1;
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    scene->sentinels[0].count = 0;
    scene->sentinels[0].answers[0] = "-NOAUTH Authentication required.\r\n";
    scene->sentinels[0].answers[1] = answers[i];
    ask(scene);
    assert_memory_equal(strstr(scene->why, ": ") + 2, answers[i] + 1, 8);
    assert_null(strstr(scene->why, "s3cret"));
  }
}

SCENE_TEST(without_a_password_it_is_an_error) {
  scene->sentinels[0].answers[0] = "-NOAUTH Authentication required.\r\n";
  finds_it(scene);
  were_asked(scene, 1, 1, 0);
}

SCENE_TEST(a_cancelled_query_is_not_reported) {
  endpoint_dial(scene->endpoint, on_done, scene);
  endpoint_cancel(scene->endpoint);
  loop_settle(&scene->loop);
  ask_silent(scene);
  endpoint_cancel(scene->endpoint);
  fake_redis_send(scene->sentinels[0].server, KNOWS);
  loop_settle(&scene->loop);
  assert_int_equal(scene->done, 0);
  assert_int_equal(fake_redis_connections(scene->master), 0);
  scene->sentinels[0].answers[0] = KNOWS;
  finds_it(scene);
}
