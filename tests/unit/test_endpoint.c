#include "agent/frontends/redis/connection/endpoint.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/wait.h"
#include "tests/test.h"

#define QUERY "SENTINEL GET-MASTER-ADDR-BY-NAME pipes"
#define KNOWS "" /* the address of the last server */

enum { SERVERS = 4, HOSTS = 2, SENTINELS = 3 };

/* A sentinel with its replies in order; the last one repeats. */
struct scripted_sentinel {
  const char *answers[4];
  size_t count;
  const char *master; /* its reply if it knows the master */
};

struct scene {
  struct loop loop;
  struct fake_redis *servers[SERVERS];
  char names[SERVERS][32];               /* "host:port" */
  struct redis_url url;                  /* that of the first server, or of the hosts below */
  struct redis_address hosts[SENTINELS]; /* the first servers, if the URL has several hosts */
  struct scripted_sentinel sentinels[SENTINELS];
  struct endpoint *endpoint;
  int done;                    /* number of calls */
  struct transport *transport; /* NULL: none */
  char why[200];
  char answer[64];
};

static int set_up(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  loop_init(&scene->loop);
  for (size_t i = 0; i < SERVERS; i++) {
    scene->servers[i] = fake_redis_new(scene->loop.base, true);
    (void)redis_address_name(fake_redis_url(scene->servers[i]).hosts, scene->names[i],
                             sizeof scene->names[i]);
  }
  scene->url = fake_redis_url(scene->servers[0]);
  scene->endpoint = endpoint_new(scene->loop.base, &scene->url);
  *state = scene;
  return 0;
}

static int set_up_hosts(void **state) {
  set_up(state);
  struct scene *scene = *state;
  for (size_t i = 0; i < SENTINELS; i++)
    scene->hosts[i] = fake_redis_url(scene->servers[i]).hosts[0];
  scene->url = (struct redis_url){.hosts = scene->hosts, .host_count = HOSTS};
  endpoint_free(scene->endpoint);
  scene->endpoint = endpoint_new(scene->loop.base, &scene->url);
  return 0;
}

static const char *answer_as_scripted(void *owner, const char *command) {
  (void)command;
  struct scripted_sentinel *self = owner;
  const char *text = self->answers[self->count];
  if (self->count < 3 && self->answers[self->count + 1] != NULL)
    self->count++;
  return text != NULL && text[0] == '\0' ? self->master : text;
}

static void say_master(struct scene *scene, int server) {
  (void)snprintf(scene->answer, sizeof scene->answer, "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n%05u\r\n",
                 fake_redis_url(scene->servers[server]).hosts->port);
}

static int set_up_sentinels(void **state) {
  static char name[] = "pipes";
  set_up_hosts(state);
  struct scene *scene = *state;
  say_master(scene, SERVERS - 1);
  for (size_t i = 0; i < SENTINELS; i++) {
    scene->sentinels[i] = (struct scripted_sentinel){.answers = {KNOWS}, .master = scene->answer};
    fake_redis_answer_with(scene->servers[i], answer_as_scripted, &scene->sentinels[i]);
  }
  scene->url.host_count = SENTINELS;
  scene->url.master = name;
  endpoint_free(scene->endpoint);
  scene->endpoint = endpoint_new(scene->loop.base, &scene->url);
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  endpoint_free(scene->endpoint);
  for (size_t i = 0; i < SERVERS; i++)
    fake_redis_free(scene->servers[i]);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static void on_done(void *owner, struct transport *transport, struct connection_error why) {
  struct scene *scene = owner;
  scene->done++;
  scene->transport = transport;
  assert_true((why.text == NULL) == (transport != NULL));
  (void)snprintf(scene->why, sizeof scene->why, "%s", why.text != NULL ? why.text : "");
}

static void dial(struct scene *scene) {
  scene->done = 0;
  endpoint_dial(scene->endpoint, on_done, scene);
  assert_int_equal(scene->done, 0); /* only from the loop */
  loop_await(&scene->loop, &scene->done, 1);
  if (scene->transport != NULL)
    scene->transport->type->free(scene->transport);
  loop_settle(&scene->loop);
}

static void expect_name(const struct scene *scene, const char *expected) {
  char name[64];
  endpoint_name(scene->endpoint, name, sizeof name);
  assert_string_equal(name, expected);
}

static void connects_to(struct scene *scene, int server) {
  int before = fake_redis_connections(scene->servers[server]);
  dial(scene);
  assert_string_equal(scene->why, "");
  assert_int_equal(fake_redis_connections(scene->servers[server]), before + 1);
  expect_name(scene, scene->names[server]);
}

static void fails_to_connect(struct scene *scene, const char *why) {
  dial(scene);
  assert_null(scene->transport);
  assert_non_null(strstr(scene->why, why));
}

SCENE_TEST(a_redirection_without_a_host_is_to_the_same_one) {
  connects_to(scene, 0);
  assert_true(endpoint_redirect(scene->endpoint, strrchr(scene->names[1], ':')));
  connects_to(scene, 1);
  assert_true(endpoint_redirect(scene->endpoint, strrchr(scene->names[2], ':')));
  connects_to(scene, 2);
}

/* The path of a socket is not a host. */
SCENE_TEST(a_redirection_without_a_host_is_not_followed_from_a_socket) {
  fake_redis_free(scene->servers[0]);
  scene->servers[0] = fake_redis_new(scene->loop.base, false);
  scene->url = fake_redis_url(scene->servers[0]);
  (void)snprintf(scene->names[0], sizeof scene->names[0], "%s", scene->url.hosts[0].host);
  connects_to(scene, 0);
  assert_false(endpoint_redirect(scene->endpoint, strrchr(scene->names[1], ':')));
  connects_to(scene, 0);
}

SCENE_TEST(a_node_that_is_not_there_is_dropped) {
  fake_redis_refuse(scene->servers[1]);
  assert_true(endpoint_redirect(scene->endpoint, scene->names[1]));
  fails_to_connect(scene, "refused");
  expect_name(scene, scene->names[1]);
  connects_to(scene, 0);
}

SCENE_TEST(a_node_that_is_lost_is_tried_once) {
  assert_true(endpoint_redirect(scene->endpoint, scene->names[1]));
  connects_to(scene, 1);
  endpoint_mark_healthy(scene->endpoint);
  fake_redis_refuse(scene->servers[1]);
  fails_to_connect(scene, "refused");
  connects_to(scene, 0);
}

SCENE_TEST(a_circle_of_redirections_ends) {
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < ENDPOINT_REDIRECTS_MAX; i++) {
      assert_true(endpoint_redirect(scene->endpoint, scene->names[1 + i % 2]));
      connects_to(scene, 1 + i % 2);
    }
    assert_false(endpoint_redirect(scene->endpoint, scene->names[1]));
    connects_to(scene, 0);
  }
  /* An address that works ends a circle, too. */
  for (int i = 0; i < 3 * ENDPOINT_REDIRECTS_MAX; i++) {
    assert_true(endpoint_redirect(scene->endpoint, scene->names[1]));
    endpoint_mark_healthy(scene->endpoint);
  }
}

SCENE_TEST(a_malformed_redirection_leads_back) {
  assert_true(endpoint_redirect(scene->endpoint, scene->names[1]));
  connects_to(scene, 1);
  endpoint_mark_healthy(scene->endpoint);
  assert_false(endpoint_redirect(scene->endpoint, "?:6379"));
  connects_to(scene, 0);
}

#define HOSTS_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up_hosts, tear_down)

HOSTS_TEST(a_redirection_does_not_count_as_a_host) {
  connects_to(scene, 0);
  assert_true(endpoint_redirect(scene->endpoint, scene->names[2]));
  connects_to(scene, 2);
  assert_true(endpoint_has_untried(scene->endpoint));
  connects_to(scene, 1);
  assert_false(endpoint_has_untried(scene->endpoint));
}

/* --- sentinels ------------------------------------------------------------------------------- */

#define SENTINELS_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up_sentinels, tear_down)

static void finds_it(struct scene *scene) {
  connects_to(scene, SERVERS - 1);
}

static void finds_it_well(struct scene *scene) {
  finds_it(scene);
  endpoint_mark_healthy(scene->endpoint);
}

/* The number of connections that each sentinel has had. */
static void were_asked(const struct scene *scene, int first, int second, int third) {
  assert_int_equal(fake_redis_connections(scene->servers[0]), first);
  assert_int_equal(fake_redis_connections(scene->servers[1]), second);
  assert_int_equal(fake_redis_connections(scene->servers[2]), third);
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

SENTINELS_TEST(a_sentinel_whose_master_does_not_work_is_asked_last) {
  finds_it(scene);
  finds_it(scene);
  were_asked(scene, 1, 1, 0);
  finds_it(scene);
  finds_it(scene);
  were_asked(scene, 2, 1, 1);
}

SENTINELS_TEST(an_unusable_reply_leads_to_the_next) {
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

/* The first sentinel gets the query and does not answer. */
static void ask_silent(struct scene *scene) {
  scene->sentinels[0].answers[0] = NULL;
  endpoint_dial(scene->endpoint, on_done, scene);
  LOOP_UNTIL(&scene->loop, fake_redis_commands(scene->servers[0]) != 0);
}

/* Expects the reason of this sentinel. */
static void fails(struct scene *scene, size_t sentinel, const char *why) {
  char expected[128];
  (void)snprintf(expected, sizeof expected, "sentinel 127.0.0.1:%u: %s",
                 scene->hosts[sentinel].port, why);
  dial(scene);
  assert_string_equal(scene->why, expected);
}

/* The reason does not depend on which one is asked first. */
SENTINELS_TEST(an_unknown_master_is_the_reason) {
  fake_redis_refuse(scene->servers[0]);
  scene->sentinels[1].answers[0] = scene->sentinels[2].answers[0] = "*-1\r\n";
  for (int i = 0; i < SENTINELS; i++)
    fails(scene, 1, "it knows no master 'pipes'");
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

SENTINELS_TEST(a_wrong_password_leads_to_the_next) {
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
    assert_memory_equal(strstr(scene->why, ": ") + 2, answers[i] + 1, 8);
    assert_null(strstr(scene->why, "s3cret"));
  }
}

SENTINELS_TEST(a_cancelled_query_is_not_reported) {
  endpoint_dial(scene->endpoint, on_done, scene);
  endpoint_cancel(scene->endpoint);
  loop_settle(&scene->loop);
  endpoint_mark_healthy(scene->endpoint); /* the first is asked again */
  ask_silent(scene);
  endpoint_cancel(scene->endpoint);
  fake_redis_send(scene->servers[0], scene->answer);
  loop_settle(&scene->loop);
  assert_int_equal(scene->done, 0);
  assert_int_equal(fake_redis_connections(scene->servers[SERVERS - 1]), 0);
  scene->sentinels[0].answers[0] = KNOWS;
  finds_it(scene);
}
