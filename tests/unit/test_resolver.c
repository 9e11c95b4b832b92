#include <netdb.h>
#include <sys/socket.h>

#include "agent/frontends/redis/connection/resolver.h"
#include "tests/support/loop.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

struct scene {
  struct loop loop;
  int done; /* number of calls */
  struct addrinfo *addresses;
  char why[128];
};

static int set_up(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  loop_init(&scene->loop);
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  if (scene->addresses != NULL)
    freeaddrinfo(scene->addresses);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static void on_done(void *owner, struct addrinfo *addresses, const char *why) {
  struct scene *scene = owner;
  scene->done++;
  scene->addresses = addresses;
  if (why != NULL)
    strncpy(scene->why, why, sizeof scene->why - 1);
}

static void look_up(struct scene *scene, const char *host) {
  (void)resolver_start(scene->loop.base, host, 6380, on_done, scene);
  assert_int_equal(scene->done, 0); /* only from the loop */
  loop_await_once(&scene->loop, &scene->done);
}

SCENE_TEST(a_name_of_this_machine_needs_no_server) {
  static const char *const names[] = {"localhost", "localhost.", "LocalHost."};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    look_up(scene, names[i]);
    assert_non_null(scene->addresses);
    assert_true(scene->addresses->ai_family == AF_INET || scene->addresses->ai_family == AF_INET6);
    freeaddrinfo(scene->addresses);
    scene->addresses = NULL;
  }
}

/* A label of more than 63 bytes is invalid, so no server is asked. */
static const char invalid[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

SCENE_TEST(a_failure_has_a_reason) {
  look_up(scene, invalid);
  assert_null(scene->addresses);
  assert_true(strlen(scene->why) > 0);
}

static bool is_alone(void *context) {
  (void)context;
  return proc_status_kib(getpid(), "Threads") == 1;
}

SCENE_TEST(a_cancelled_look_up_is_not_reported) {
  const char *const hosts[] = {"192.0.2.7", "localhost", invalid};
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
    struct resolver *resolver = resolver_start(scene->loop.base, hosts[i], 1, on_done, scene);
    if (i == 1)
      assert_true(wait_until(is_alone, NULL, WAIT_BOUND_MS)); /* the answer waits for the loop */
    resolver_cancel(resolver);
    loop_settle(&scene->loop);
  }
  assert_true(wait_until(is_alone, NULL, WAIT_BOUND_MS));
  assert_int_equal(scene->done, 0);
}
