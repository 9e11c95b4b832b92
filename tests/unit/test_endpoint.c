#include <unistd.h>

#include "agent/doors/redis/link/endpoint.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/test.h"

enum { SERVERS = 3 };

struct scene {
  struct loop loop;
  struct fake_redis *servers[SERVERS];
  char names[SERVERS][32]; /* "host:port" */
  struct redis_url url;    /* of the first; its sentinels, where there are any, are the second */
  struct redis_address hosts[SERVERS - 1]; /* where the url has several: all but the last */
  struct endpoint *endpoint;
  int done;                    /* calls */
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

static const char *answer(void *owner, const char *command) {
  const struct scene *scene = owner;
  assert_memory_equal(command, "SENTINEL ", 9);
  return scene->answer;
}

static int set_up_sentinel(void **state) {
  static char name[] = "pipes";
  set_up(state);
  struct scene *scene = *state;
  fake_redis_answer_with(scene->servers[1], answer, scene);
  scene->url = fake_redis_url(scene->servers[1]);
  scene->url.master = name;
  endpoint_free(scene->endpoint);
  scene->endpoint = endpoint_new(scene->loop.base, &scene->url);
  return 0;
}

static int set_up_hosts(void **state) {
  set_up(state);
  struct scene *scene = *state;
  for (size_t i = 0; i < SERVERS - 1; i++)
    scene->hosts[i] = fake_redis_url(scene->servers[i]).hosts[0];
  scene->url = (struct redis_url){.hosts = scene->hosts, .host_count = SERVERS - 1};
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

static void on_done(void *owner, struct transport *transport, const char *why) {
  struct scene *scene = owner;
  scene->done++;
  scene->transport = transport;
  assert_true((why == NULL) == (transport != NULL));
  (void)snprintf(scene->why, sizeof scene->why, "%s", why != NULL ? why : "");
}

static void dial(struct scene *scene) {
  scene->done = 0;
  endpoint_dial(scene->endpoint, on_done, scene);
  assert_int_equal(scene->done, 0); /* not from inside */
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

SCENE_TEST(it_connects_to_the_url) {
  expect_name(scene, scene->names[0]);
  connects_to(scene, 0);
  connects_to(scene, 0);
  endpoint_mark_healthy(scene->endpoint);
  connects_to(scene, 0);
}

SCENE_TEST(a_redirection_is_followed) {
  connects_to(scene, 0);
  assert_true(endpoint_redirect(scene->endpoint, scene->names[1]));
  connects_to(scene, 1);
  assert_true(endpoint_redirect(scene->endpoint, scene->names[2]));
  connects_to(scene, 2);
  /* An address that works is kept. */
  endpoint_mark_healthy(scene->endpoint);
  connects_to(scene, 2);
}

SCENE_TEST(a_redirection_without_a_host_is_to_the_same_one) {
  connects_to(scene, 0);
  assert_true(endpoint_redirect(scene->endpoint, strrchr(scene->names[1], ':')));
  connects_to(scene, 1);
  assert_true(endpoint_redirect(scene->endpoint, strrchr(scene->names[2], ':')));
  connects_to(scene, 2);
}

SCENE_TEST(a_node_that_is_not_there_is_dropped) {
  fake_redis_refuse(scene->servers[1]);
  assert_true(endpoint_redirect(scene->endpoint, scene->names[1]));
  fails_to_connect(scene, "refused");
  expect_name(scene, scene->names[1]);
  connects_to(scene, 0);
}

SCENE_TEST(a_node_that_never_worked_is_dropped) {
  assert_true(endpoint_redirect(scene->endpoint, scene->names[1]));
  connects_to(scene, 1);
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
  /* So does an address that works. */
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

HOSTS_TEST(each_of_several_hosts_is_tried_once_in_a_round) {
  for (int round = 0; round < 2; round++) {
    connects_to(scene, 0);
    assert_true(endpoint_has_untried(scene->endpoint));
    connects_to(scene, 1);
    assert_false(endpoint_has_untried(scene->endpoint));
  }
}

HOSTS_TEST(a_redirection_is_no_try_of_a_host) {
  connects_to(scene, 0);
  assert_true(endpoint_redirect(scene->endpoint, scene->names[2]));
  connects_to(scene, 2);
  assert_true(endpoint_has_untried(scene->endpoint));
  connects_to(scene, 1);
  assert_false(endpoint_has_untried(scene->endpoint));
}

HOSTS_TEST(a_node_that_is_lost_leads_to_the_hosts) {
  connects_to(scene, 0);
  assert_true(endpoint_redirect(scene->endpoint, scene->names[2]));
  connects_to(scene, 2);
  endpoint_mark_healthy(scene->endpoint);
  fake_redis_refuse(scene->servers[2]);
  fails_to_connect(scene, "refused");
  assert_true(endpoint_has_untried(scene->endpoint));
}

TEST_WITH(struct scene *scene, sentinels_are_asked_at_each_dial, set_up_sentinel, tear_down) {
  char expected[64];
  (void)snprintf(expected, sizeof expected, "pipes at %s", scene->names[1]);
  expect_name(scene, expected);
  for (int server = 0; server < SERVERS; server += 2) {
    unsigned port = fake_redis_url(scene->servers[server]).hosts->port;
    (void)snprintf(scene->answer, sizeof scene->answer, "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n%05u\r\n",
                   port);
    connects_to(scene, server);
    endpoint_mark_healthy(scene->endpoint);
    connects_to(scene, server);
  }
  assert_int_equal(fake_redis_connections(scene->servers[1]), 4);
  assert_false(
      endpoint_redirect(scene->endpoint, scene->names[2])); /* only sentinels name the master */
  strcpy(scene->answer, "*-1\r\n");
  fails_to_connect(scene, "it knows no master 'pipes'");
  expect_name(scene, expected);
}

TEST_WITH(struct scene *scene, a_cancelled_dial_is_not_reported, set_up_sentinel, tear_down) {
  endpoint_dial(scene->endpoint, on_done, scene);
  endpoint_cancel(scene->endpoint);
  endpoint_cancel(scene->endpoint);
  loop_settle(&scene->loop);
  assert_int_equal(scene->done, 0);
}
