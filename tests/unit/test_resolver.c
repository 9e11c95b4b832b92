#include <arpa/inet.h>
#include <netinet/in.h>
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

SCENE_TEST(an_address_resolves_to_itself) {
  look_up(scene, "192.0.2.7");
  assert_non_null(scene->addresses);
  assert_null(scene->addresses->ai_next);
  const struct sockaddr_in *found = (const struct sockaddr_in *)(void *)scene->addresses->ai_addr;
  assert_int_equal(found->sin_family, AF_INET);
  assert_int_equal(ntohl(found->sin_addr.s_addr), 0xC0000207);
  assert_int_equal(ntohs(found->sin_port), 6380);
}

SCENE_TEST(so_is_an_address_of_version_6) {
  look_up(scene, "2001:db8::7");
  assert_non_null(scene->addresses);
  const struct sockaddr_in6 *found = (const struct sockaddr_in6 *)(void *)scene->addresses->ai_addr;
  char text[INET6_ADDRSTRLEN];
  assert_int_equal(found->sin6_family, AF_INET6);
  assert_string_equal(inet_ntop(AF_INET6, &found->sin6_addr, text, sizeof text), "2001:db8::7");
  assert_int_equal(ntohs(found->sin6_port), 6380);
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
