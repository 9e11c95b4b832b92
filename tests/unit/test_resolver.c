#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/frontends/redis/connection/resolver.h"
#include "tests/support/directory.h"
#include "tests/support/loop.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

struct scene {
  struct loop loop;
  int done; /* calls */
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
  assert_int_equal(scene->done, 0); /* not from inside */
  loop_await_once(&scene->loop, &scene->done);
}

TEST(an_address_resolves_to_itself, set_up, tear_down) {
  static const char *const hosts[] = {"192.0.2.7", "2001:db8::7"};
  for (size_t i = 0; i < 2; i++) {
    struct scene *scene = *state;
    look_up(scene, hosts[i]);
    const struct addrinfo *found = scene->addresses;
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
  static const char *const names[] = {"localhost", "localhost.", "LocalHost."};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    look_up(scene, names[i]);
    assert_non_null(scene->addresses);
    assert_true(scene->addresses->ai_family == AF_INET || scene->addresses->ai_family == AF_INET6);
    freeaddrinfo(scene->addresses);
    scene->addresses = NULL;
  }
}

/* No server is asked for a label of more than 63 bytes: it is invalid. */
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

TEST(the_name_servers_of_a_file_are_named) {
  struct directory directory;
  char text[48];
  directory_init(&directory);
  const char *path = directory_path(&directory, "resolv.conf");
  resolver_name_servers(path, text, sizeof text);
  assert_string_equal(text, "");
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fputs("# nameserver 192.0.2.9\nsearch a.example\nnameserver 192.0.2.1\nnameserver\t2001:db8::7\n"
        "nameserver fe80::1%eth0\noptions ndots:5\nnameserver 192.0.2.200\n",
        file);
  fclose(file);
  resolver_name_servers(path, text, sizeof text);
  assert_string_equal(text, "192.0.2.1, 2001:db8::7, fe80::1%eth0"); /* the rest has no room */
  directory_release(&directory);
}

TEST(a_name_is_found_in_a_hosts_file_with_and_without_its_dot) {
  static const struct {
    const char *name, *found; /* NULL: it is not there */
  } rows[] = {{"redis.local.", "redis.local"},
              {"redis.local", "redis.local"},
              {"REDIS.local.", "redis.local"},
              {"second.", "Second"},
              {"third", "third"},
              {"fourth.local.", "fourth.local"}, /* at the end of a long line */
              {"redis.local..", NULL},
              {"redis.", NULL},
              {"local.", NULL},
              {"comment.", NULL},
              {"127.0.0.7.", NULL}, /* that is the address */
              {".", NULL}};
  struct directory directory;
  directory_init(&directory);
  const char *path = directory_path(&directory, "hosts");
  char name[32] = "redis.local.";
  assert_false(resolver_find_in_hosts(path, name));
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fputs("# 127.0.0.9 comment\n\n127.0.0.7\tredis.local  Second # comment\n", file);
  fprintf(file, "127.0.0.8 %0*d fourth.local\n::1 third", 498, 0);
  fclose(file);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    (void)strcpy(name, rows[i].name);
    assert_int_equal(resolver_find_in_hosts(path, name), rows[i].found != NULL);
    assert_string_equal(name, rows[i].found != NULL ? rows[i].found : rows[i].name);
  }
  directory_release(&directory);
}
