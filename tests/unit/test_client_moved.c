/* A link whose server says that it is another one. */

#include "agent/doors/redis/client/backoff.h"
#include "agent/doors/redis/net/endpoint.h"
#include "tests/support/client_owner.h"
#include "tests/support/wait.h"
#include "tests/test.h"

/* The owner's own server and another node. */
struct scene {
  struct client_owner *owner;
  struct fake_redis *other;
  char moved[64];        /* "MOVED <slot> <the other>" */
  char moved_answer[80]; /* the same as it is sent */
};

static int set_up(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  assert_non_null(scene);
  void *owner;
  assert_int_equal(client_owner_set_up(&owner), 0);
  scene->owner = owner;
  scene->other = fake_redis_new(scene->owner->loop.base, true);
  (void)snprintf(scene->moved, sizeof scene->moved, "MOVED 3999 127.0.0.1:%u",
                 fake_redis_url(scene->other).port);
  (void)snprintf(scene->moved_answer, sizeof scene->moved_answer, "-%s\r\n", scene->moved);
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  fake_redis_free(scene->other);
  void *owner = scene->owner;
  int result = client_owner_tear_down(&owner);
  free(scene);
  return result;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static void expect_connections(const struct scene *scene, int own, int other) {
  assert_int_equal(fake_redis_connections(scene->owner->server), own);
  assert_int_equal(fake_redis_connections(scene->other), other);
}

/* What the client does on an error reply, until it is ready again. */
static void reconnects_on(struct scene *scene, const char *text) {
  recorder_reset(&scene->owner->recorder);
  assert_true(client_recover(scene->owner->client, text));
  assert_false(client_is_ready(scene->owner->client));
  client_owner_expect(scene->owner, "lost connected ready");
}

SCENE_TEST(a_handshake_is_redirected) {
  scene->owner->handshake_answers[0] = scene->moved_answer;
  int64_t start_ms = wait_now_ms();
  client_owner_start(scene->owner, SIZE_MAX);
  client_owner_expect(scene->owner, "connected connected ready");
  assert_true(wait_now_ms() - start_ms < BACKOFF_BOOT_PAUSE_MS);
  expect_connections(scene, 1, 1);
}

SCENE_TEST(an_error_reply_redirects) {
  client_owner_becomes_ready(scene->owner);
  reconnects_on(scene, scene->moved);
  assert_false(client_is_unreachable(scene->owner->client));
  expect_connections(scene, 1, 1);
}

SCENE_TEST(it_goes_back_when_the_node_is_not_there) {
  fake_redis_refuse(scene->other);
  client_owner_becomes_ready(scene->owner);
  assert_true(client_recover(scene->owner->client, scene->moved));
  client_owner_expect(scene->owner, "connected ready lost unreachable connected ready");
  expect_connections(scene, 2, 0);
}

/* Two nodes redirect to each other. */
SCENE_TEST(a_circle_ends_with_a_pause) {
  client_owner_becomes_ready(scene->owner);
  for (int i = 0; i < ENDPOINT_REDIRECTS_MAX; i++) {
    reconnects_on(scene, scene->moved);
  }
  expect_connections(scene, 1, ENDPOINT_REDIRECTS_MAX);
  int64_t start_ms = wait_now_ms();
  reconnects_on(scene, scene->moved);
  assert_true(wait_now_ms() - start_ms >= BACKOFF_PAUSE_MIN_MS / 2 - 10);
  expect_connections(scene, 2, ENDPOINT_REDIRECTS_MAX);
}

SCENE_TEST(it_reconnects_on_a_transient_error) {
  static const char *const texts[] = {"ASK 3999 127.0.0.1:1", "TRYAGAIN Multiple keys request",
                                      "CLUSTERDOWN The cluster is down", "MOVED nowhere"};
  client_owner_becomes_ready(scene->owner);
  for (int i = 0; i < 4; i++) {
    reconnects_on(scene, texts[i]);
    expect_connections(scene, i + 2, 0);
  }
}

SCENE_TEST(it_does_nothing_on_any_other_error) {
  client_owner_becomes_ready(scene->owner);
  assert_false(client_recover(scene->owner->client, "CROSSSLOT Keys in request"));
  assert_false(client_recover(scene->owner->client, "WRONGTYPE Operation"));
  assert_true(client_is_ready(scene->owner->client));
  assert_string_equal(recorder_text(&scene->owner->recorder), "connected ready");
}

SCENE_TEST(keys_in_several_slots_come_with_advice) {
  scene->owner->handshake_answers[0] = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";
  client_owner_fails(scene->owner);
  assert_non_null(strstr(scene->owner->error, "put the job id in braces, like {pipe-42}"));
  expect_connections(scene, 1, 0);
}
