/* The test replaces getaddrinfo(3): its own one returns the addresses that a test chooses, or does
   not answer. Timers may be some milliseconds early, because the clock of the loop is coarse. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/frontends/redis/connection/dialer.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop.h"
#include "tests/support/proc.h"
#include "tests/test.h"

static atomic_int lookups;  /* of names */
static atomic_bool is_over; /* look-ups that do not answer end */

struct scene {
  struct loop loop;
  struct fake_redis *server;
  char host[64]; /* for the resolver: addresses with a space between them, "never" or "nobody" */
  struct redis_address to;
  int done;                    /* calls */
  struct transport *transport; /* NULL: none */
  int fd;                      /* its socket, or -1 */
  char why[128];
  int full_fd; /* a port that drops packets, or -1; its queue is filled by the next two */
  int fill_fd[2];
};

/* Returns the address, or NULL if the text is none. */
static struct addrinfo *make_address(const char *text, in_port_t port) {
  struct entry {
    struct addrinfo info;
    struct sockaddr_in6 address;
  } *entry = calloc(1, sizeof *entry);
  assert_non_null(entry);
  struct sockaddr_in *v4 = (struct sockaddr_in *)&entry->address;
  entry->info.ai_addr = (struct sockaddr *)&entry->address;
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    entry->info.ai_addrlen = sizeof *v4;
  } else if (inet_pton(AF_INET6, text, &entry->address.sin6_addr) == 1) {
    entry->address.sin6_family = AF_INET6;
    entry->address.sin6_port = htons(port);
    entry->info.ai_addrlen = sizeof entry->address;
  } else {
    free(entry);
    return NULL;
  }
  return &entry->info;
}

void freeaddrinfo(struct addrinfo *list) {
  for (struct addrinfo *next; list != NULL; list = next) {
    next = list->ai_next;
    free(list);
  }
}

/* A name is a list of addresses, separated by spaces, or "never" or "nobody". An address without a
   port gets that of the service. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **list) {
  struct addrinfo **end = list;
  char words[64], *rest = words;
  *list = NULL;
  (void)snprintf(words, sizeof words, "%s", name);
  bool is_number = (hints->ai_flags & AI_NUMERICHOST) != 0;
  lookups += !is_number;
  if (strcmp(name, "nobody") == 0 && !is_number)
    return EAI_FAIL;
  while (strcmp(name, "never") == 0 && !is_number && !is_over)
    usleep(1000);
  for (char *word; (word = strsep(&rest, " ")) != NULL; end = &(*end)->ai_next) {
    char *port = strchr(word, '.') != NULL ? strchr(word, ':') : NULL;
    if (port != NULL && !is_number)
      *port++ = '\0';
    *end = make_address(word, (in_port_t)strtoul(port != NULL ? port : service, NULL, 10));
    if (*end == NULL)
      return EAI_NONAME;
  }
  return 0;
}

/* Waits until no look-up runs. */
static void await_lookups(void) {
  is_over = true;
  for (bool runs = true; runs; usleep(1000)) {
    int threads = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;)
      threads += task->d_name[0] != '.';
    closedir(tasks);
    runs = threads > 1;
  }
}

static int set_up(void **state) {
  struct scene *scene = calloc(1, sizeof *scene);
  loop_init(&scene->loop);
  is_over = false;
  scene->fd = scene->full_fd = scene->fill_fd[0] = scene->fill_fd[1] = -1;
  *state = scene;
  return 0;
}

static int tear_down(void **state) {
  struct scene *scene = *state;
  await_lookups();
  const int fds[] = {scene->full_fd, scene->fill_fd[0], scene->fill_fd[1]};
  if (scene->transport != NULL)
    scene->transport->type->free(scene->transport);
  for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
    if (fds[i] >= 0)
      close(fds[i]);
  if (scene->server != NULL)
    fake_redis_free(scene->server);
  loop_release(&scene->loop);
  free(scene);
  return 0;
}

#define SCENE_TEST(NAME) TEST_WITH(struct scene *scene, NAME, set_up, tear_down)

static void on_done(void *owner, struct transport *transport, struct connection_error why) {
  struct scene *scene = owner;
  scene->done++;
  scene->transport = transport;
  scene->fd = transport != NULL ? transport->fd : -1;
  assert_true((why.text == NULL) == (transport != NULL));
  if (why.text != NULL)
    strncpy(scene->why, why.text, sizeof scene->why - 1);
}

static void serve(struct scene *scene, bool tcp) {
  scene->server = fake_redis_new(scene->loop.base, tcp);
  scene->to = fake_redis_url(scene->server).hosts[0];
}

static void at(struct scene *scene, const char *host) {
  strcpy(scene->host, host);
  scene->to.host = scene->host;
  if (scene->to.port == 0)
    scene->to.port = 1;
}

static struct dialer *start(struct scene *scene) {
  struct dialer *dialer = dialer_start(scene->loop.base, &scene->to, NULL, on_done, scene);
  assert_int_equal(scene->done, 0); /* only from the loop */
  return dialer;
}

static void dial(struct scene *scene) {
  (void)start(scene);
  loop_await_once(&scene->loop, &scene->done);
}

static void expect_connected(struct scene *scene) {
  assert_string_equal(scene->why, "");
  assert_true(scene->fd >= 0);
  assert_true(fcntl(scene->fd, F_GETFL) & O_NONBLOCK);
  assert_true(fcntl(scene->fd, F_GETFD) & FD_CLOEXEC);
  assert_int_equal(fake_redis_connections(scene->server), 1);
  assert_int_equal(send(scene->fd, "*1\r\n$4\r\nPING\r\n", 14, MSG_NOSIGNAL), 14);
  LOOP_UNTIL(&scene->loop, fake_redis_commands(scene->server) != 0);
}

static int option(int fd, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  assert_int_equal(getsockopt(fd, level, name, &value, &size), 0);
  return value;
}

SCENE_TEST(the_kernel_detects_a_dead_peer_of_a_tcp_connection) {
  serve(scene, true);
  dial(scene);
  expect_connected(scene);
  assert_int_equal(option(scene->fd, IPPROTO_TCP, TCP_NODELAY), 1);
  assert_int_equal(option(scene->fd, SOL_SOCKET, SO_KEEPALIVE), 1);
  assert_true(option(scene->fd, IPPROTO_TCP, TCP_KEEPIDLE) +
                  option(scene->fd, IPPROTO_TCP, TCP_KEEPINTVL) *
                      option(scene->fd, IPPROTO_TCP, TCP_KEEPCNT) <=
              15);
  assert_int_equal(option(scene->fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 15000);
}

/* So a numeric host works in a container without /etc/hosts and /etc/resolv.conf. */
SCENE_TEST(a_numeric_host_is_not_resolved) {
  static char *const numbers[] = {"127.0.0.1", "::1"};
  for (size_t i = 0; i < 2; i++) {
    scene->to = (struct redis_address){.host = numbers[i], .port = 1};
    lookups = 0;
    dial(scene);
    assert_int_equal(scene->fd, -1);
    assert_true(strcmp(scene->why, strerror(ECONNREFUSED)) == 0 ||
                strcmp(scene->why, strerror(EAFNOSUPPORT)) == 0 ||
                strcmp(scene->why, strerror(EADDRNOTAVAIL)) == 0);
    assert_int_equal(lookups, 0);
  }
  at(scene, "nobody");
  dial(scene);
  assert_int_equal(lookups, 1);
}

static void fails(struct scene *scene, const char *why) {
  dial(scene);
  assert_int_equal(scene->fd, -1);
  assert_string_equal(scene->why, why);
}

SCENE_TEST(a_socket_path_that_is_too_long_is_an_error) {
  struct sockaddr_un address;
  char path[sizeof address.sun_path + 1];
  memset(path, 'x', sizeof path);
  path[sizeof address.sun_path] = '\0';
  scene->to.host = path;
  fails(scene, "the path is too long for a socket");
  path[sizeof address.sun_path - 1] = '\0'; /* the longest path that fits */
  fails(scene, "No such file or directory");
}

SCENE_TEST(the_next_address_is_tried_until_one_answers) {
  serve(scene, true);
  /* The first address refuses connections; connect() fails immediately for the second one. */
  at(scene, "127.0.0.2 255.255.255.255 127.0.0.1 127.0.0.3");
  dial(scene);
  expect_connected(scene);
}

/* Returns the address of a port whose queue is full. It is as silent as a host that is switched
   off. */
static const char *silent_address(struct scene *scene, char *text, size_t size) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  scene->full_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(scene->full_fd, (struct sockaddr *)&address, length), 0);
  assert_int_equal(listen(scene->full_fd, 0), 0);
  assert_int_equal(getsockname(scene->full_fd, (struct sockaddr *)&address, &length), 0);
  for (int i = 0; i < 2; i++) {
    scene->fill_fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)connect(scene->fill_fd[i], (struct sockaddr *)&address, length);
  }
  (void)snprintf(text, size, "127.0.0.1:%u", ntohs(address.sin_port));
  return text;
}

SCENE_TEST(the_next_address_is_tried_after_a_deadline) {
  serve(scene, true);
  char hosts[64];
  silent_address(scene, hosts, sizeof hosts);
  at(scene, strcat(hosts, " 127.0.0.1"));
  int64_t start_ms = wait_now_ms();
  dial(scene);
  expect_connected(scene);
  assert_true(wait_now_ms() - start_ms >= DIALER_ADDRESS_MS - 10);
}

SCENE_TEST(a_silent_address_is_an_error_at_the_deadline) {
  char host[64];
  at(scene, silent_address(scene, host, sizeof host));
  fails(scene, "no answer in time");
}

SCENE_TEST(silent_name_servers_are_an_error_at_the_deadline) {
  at(scene, "never");
  int64_t start_ms = wait_now_ms();
  fails(scene, "the name servers do not answer");
  assert_true(wait_now_ms() - start_ms >= DIALER_RESOLVE_MS - 10);
}

/* Cancels before the first turn of the loop, while resolving, and while connecting. */
SCENE_TEST(a_cancelled_attempt_is_not_reported) {
  char silent[64];
  silent_address(scene, silent, sizeof silent);
  serve(scene, false);
  dialer_cancel(start(scene));
  at(scene, silent);
  dialer_cancel(start(scene));
  at(scene, "never");
  struct dialer *dialer = start(scene);
  loop_settle(&scene->loop);
  dialer_cancel(dialer);
  char number[] = "127.0.0.1";
  scene->to = (struct redis_address){.host = number,
                                     .port = (unsigned)strtoul(strchr(silent, ':') + 1, NULL, 10)};
  await_lookups();
  int open = proc_fd_count(getpid());
  dialer = start(scene);
  loop_settle(&scene->loop);
  assert_int_equal(proc_fd_count(getpid()), open + 1);
  dialer_cancel(dialer);
  assert_int_equal(proc_fd_count(getpid()), open);
  loop_settle(&scene->loop);
  assert_int_equal(scene->done, 0);
  assert_false(fake_redis_is_connected(scene->server));
}
