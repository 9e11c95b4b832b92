/* How a connection asks sentinels for the master. */

#include "agent/frontends/redis/connection/redis_connection.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/virtual_time.h"
#include "tests/test.h"

#define QUERY "SENTINEL GET-MASTER-ADDR-BY-NAME pipes"
#define KNOWS "" /* the address of the last server */

enum { SERVERS = 4, SENTINELS = 3 };

/* A sentinel with its replies in order; the last one repeats. */
struct scripted_sentinel {
  const char *answers[4];
  size_t count;
  const char *master; /* its reply if it knows the master */
};

/* The last server is the master; the others are sentinels. */
struct scene {
  struct loop loop;
  struct fake_redis *servers[SERVERS];
  struct redis_url url;
  struct redis_address hosts[SENTINELS];
  struct scripted_sentinel sentinels[SENTINELS];
  struct redis_connection *connection;
  int done; /* attempts */
  char why[400];
  char answer[64];
};

static const char *answer_as_scripted(void *owner, const char *command) {
  (void)command;
  struct scripted_sentinel *self = owner;
  const char *text = self->answers[self->count];
  if (self->count < 3 && self->answers[self->count + 1] != NULL)
    self->count++;
  return text != NULL && text[0] == '\0' ? self->master : text;
}

static void on_ready(void *owner, const struct reply *value) {
  (void)value;
  ((struct scene *)owner)->done++;
}

/* The next attempt would have the same outcome. */
static void on_unreachable(void *owner) {
  struct scene *scene = owner;
  struct error error;
  redis_connection_error(scene->connection, &error);
  (void)snprintf(scene->why, sizeof scene->why, "%s", error.text);
  scene->done++;
  redis_connection_stop(scene->connection);
}

static void on_reply(void *owner, const struct reply *reply) {
  (void)owner;
  fail_msg("a reply: %s", reply->str);
}

static void on_failed(void *owner, const struct error *error) {
  (void)owner;
  fail_msg("%s", error->text);
}

static void renew_connection(struct scene *scene) {
  static const struct redis_connection_handler handler = {
      .ready = on_ready, .reply = on_reply, .unreachable = on_unreachable, .failed = on_failed};
  struct redis_connection_options options = {.url = &scene->url, .role = "test", .name = "test"};
  if (scene->connection != NULL)
    redis_connection_free(scene->connection);
  scene->connection =
      redis_connection_new(scene->loop.base, &scene->loop.log, &options, &handler, scene);
}

static int set_up(void **state) {
  static char name[] = "pipes";
  struct scene *scene = calloc(1, sizeof *scene);
  loop_init(&scene->loop);
  for (size_t i = 0; i < SERVERS; i++)
    scene->servers[i] = fake_redis_new(scene->loop.base, true);
  (void)snprintf(scene->answer, sizeof scene->answer, "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n%05u\r\n",
                 fake_redis_url(scene->servers[SERVERS - 1]).hosts->port);
  for (size_t i = 0; i < SENTINELS; i++) {
    scene->hosts[i] = fake_redis_url(scene->servers[i]).hosts[0];
    scene->sentinels[i] = (struct scripted_sentinel){.answers = {KNOWS}, .master = scene->answer};
    fake_redis_answer_with(scene->servers[i], answer_as_scripted, &scene->sentinels[i]);
  }
  scene->url = (struct redis_url){.hosts = scene->hosts, .host_count = SENTINELS, .master = name};
  renew_connection(scene);
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  redis_connection_free(scene->connection);
  for (size_t i = 0; i < SERVERS; i++)
    fake_redis_free(scene->servers[i]);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

static void dial(struct scene *scene) {
  scene->done = 0;
  scene->why[0] = '\0';
  if (redis_connection_start(scene->connection))
    redis_connection_reconnect(scene->connection, "the test wants it");
  assert_int_equal(scene->done, 0); /* only from the loop */
  loop_await(&scene->loop, &scene->done, 1);
  loop_settle(&scene->loop);
}

static void finds_it(struct scene *scene) {
  const struct fake_redis *master = scene->servers[SERVERS - 1];
  int before = fake_redis_connections(master);
  dial(scene);
  assert_string_equal(scene->why, "");
  assert_int_equal(fake_redis_connections(master), before + 1);
}

#define SENTINELS_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

/* The number of connections that each sentinel has had. */
static void were_asked(const struct scene *scene, int first, int second, int third) {
  assert_int_equal(fake_redis_connections(scene->servers[0]), first);
  assert_int_equal(fake_redis_connections(scene->servers[1]), second);
  assert_int_equal(fake_redis_connections(scene->servers[2]), third);
}

static void finds_it_well(struct scene *scene) {
  finds_it(scene);
  redis_connection_mark_healthy(scene->connection);
}

SENTINELS_TEST(the_sentinel_that_knew_the_master_is_asked_first) {
  fake_redis_refuse(scene->servers[0]);
  finds_it_well(scene);
  fake_redis_accept(scene->servers[0]);
  finds_it_well(scene);
  were_asked(scene, 0, 2, 0);
  fake_redis_refuse(scene->servers[1]);
  fake_redis_refuse(scene->servers[2]);
  finds_it_well(scene);
  were_asked(scene, 1, 2, 0);
}

SENTINELS_TEST(after_an_unusable_reply_the_next_sentinel_is_asked) {
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
    renew_connection(scene);
    scene->sentinels[0].answers[0] = answers[i];
    finds_it(scene);
    were_asked(scene, (int)i + 1, (int)i + 1, 0);
  }
}

SENTINELS_TEST(a_password_is_sent_when_it_is_required) {
  char user[] = "smith";
  char password[] = "s3cret";
  scene->url.user = user;
  scene->url.password = password;
  finds_it_well(scene);
  assert_int_equal(fake_redis_commands(scene->servers[0]), 1);

  struct scripted_sentinel *scripted = &scene->sentinels[0];
  scripted->answers[0] = "-NOAUTH Authentication required.\r\n";
  scripted->answers[1] = "+OK\r\n";
  scripted->answers[2] = KNOWS;
  finds_it(scene);
  were_asked(scene, 2, 0, 0);
  assert_string_equal(fake_redis_command(scene->servers[0], 1), QUERY);
  assert_string_equal(fake_redis_command(scene->servers[0], 2), "AUTH s3cret");
  assert_string_equal(fake_redis_command(scene->servers[0], 3), QUERY);
}

SENTINELS_TEST(after_a_wrong_password_the_next_sentinel_is_asked) {
  static const char *const answers[] = {
      "-WRONGPASS invalid\r\n", "-NOAUTH again\r\n",
      "-ERR unknown command 'AUTH', with args beginning with: 's3cret' \r\n",
      "-WRONGPASS s3cret is none\r\n"};
  char password[] = "s3cret";
  scene->url.password = password;
  fake_redis_refuse(scene->servers[1]);
  fake_redis_refuse(scene->servers[2]);
  scene->url.host_count = 1;
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
    scene->sentinels[0].count = 0;
    scene->sentinels[0].answers[0] = "-NOAUTH Authentication required.\r\n";
    scene->sentinels[0].answers[1] = answers[i];
    dial(scene);
    assert_memory_equal(strstr(strstr(scene->why, "sentinel "), ": ") + 2, answers[i] + 1, 8);
    assert_null(strstr(scene->why, "s3cret"));
  }
}
