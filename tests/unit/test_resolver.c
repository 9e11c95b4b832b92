#include <netdb.h>
#include <sys/socket.h>

#include "agent/doors/redis/net/resolver.h"
#include "tests/support/loop.h"
#include "tests/test.h"

struct scene {
  struct loop loop;
  int done; /* calls */
  struct evutil_addrinfo *addresses;
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
    evutil_freeaddrinfo(scene->addresses);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static void on_done(void *owner, struct evutil_addrinfo *addresses, const char *why) {
  struct scene *scene = owner;
  scene->done++;
  scene->addresses = addresses;
  if (why != NULL)
    strncpy(scene->why, why, sizeof scene->why - 1);
}

static void look_up(struct scene *scene, const char *host) {
  (void)resolver_start(scene->loop.base, host, 6380, on_done, scene);
  assert_int_equal(scene->done, 0); /* not from inside */
  loop_await_once(&scene->loop, &scene->done);
}

TEST(an_address_resolves_to_itself, set_up, tear_down) {
  static const char *const hosts[] = {"192.0.2.7", "2001:db8::7"};
  for (size_t i = 0; i < 2; i++) {
    struct scene *scene = *state;
    look_up(scene, hosts[i]);
    const struct evutil_addrinfo *found = scene->addresses;
    char host[64], port[8];
    assert_non_null(found);
    assert_null(found->ai_next);
    assert_int_equal(getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, port,
                                 sizeof port, NI_NUMERICHOST | NI_NUMERICSERV),
                     0);
    assert_string_equal(host, hosts[i]);
    assert_string_equal(port, "6380");
    tear_down(state);
    set_up(state);
  }
}

SCENE_TEST(a_name_of_this_machine_needs_no_server) {
  look_up(scene, "localhost");
  assert_non_null(scene->addresses);
  assert_true(scene->addresses->ai_family == AF_INET || scene->addresses->ai_family == AF_INET6);
}

/* No server is asked for a label of more than 63 bytes: it is invalid. */
SCENE_TEST(a_failure_has_a_reason) {
  char host[101];
  memset(host, 'a', 100);
  host[100] = '\0';
  look_up(scene, host);
  assert_null(scene->addresses);
  assert_true(strlen(scene->why) > 0);
}

SCENE_TEST(a_cancelled_look_up_is_not_reported) {
  const char *const hosts[] = {"192.0.2.7", "localhost", "no-such-host.invalid"};
  for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
    resolver_cancel(resolver_start(scene->loop.base, hosts[i], 1, on_done, scene));
    loop_settle(&scene->loop);
  }
  struct resolver *under_way =
      resolver_start(scene->loop.base, "no-such-host.invalid", 1, on_done, scene);
  event_base_loop(scene->loop.base, EVLOOP_NONBLOCK);
  if (scene->done == 0) /* else a name server has answered at once */
    resolver_cancel(under_way);
  loop_settle(&scene->loop);
  assert_null(scene->addresses);
}
