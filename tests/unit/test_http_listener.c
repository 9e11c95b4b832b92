#include "agent/frontends/http/connection/listener.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "tests/support/directory.h"
#include "tests/test.h"

static struct http_address parse(const char *text) {
  struct http_address address;
  struct error error;
  if (http_address_parse(&address, text, &error) != 0)
    fail_msg("%s: %s", text, error.text);
  return address;
}

/* Returns 0 or the errno of a connect(2). */
static int connect_to(const struct http_address *address, size_t i) {
  const union http_socket_address *to = &address->sockets[i];
  socklen_t size = to->any.sa_family == AF_INET    ? sizeof to->ipv4
                   : to->any.sa_family == AF_INET6 ? sizeof to->ipv6
                                                   : sizeof to->file;
  int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  int result = connect(fd, &to->any, size) == 0 ? 0 : errno;
  close(fd);
  return result;
}

/* A port that was free a moment ago. */
static int free_port(void) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

/* Some containers have no address of IPv6. */
static bool has_ipv6(void) {
  const struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
  if (fd >= 0)
    close(fd);
  return has;
}

static struct http_address with_port(const char *host) {
  char text[100];
  (void)snprintf(text, sizeof text, "%s:%d", host, free_port());
  return parse(text);
}

static struct http_listener bind_to(const struct http_address *address) {
  struct http_listener listener;
  struct error error;
  if (http_listener_bind(&listener, address, &error) != 0)
    fail_msg("%s", error.text);
  return listener;
}

static void listen_on(const struct http_listener *listener) {
  struct error error;
  if (http_listener_listen(listener, &error) != 0)
    fail_msg("%s", error.text);
}

static void expect_refusal(const struct http_address *address, const char *why) {
  struct http_listener listener;
  struct error error;
  char expected[256];
  (void)snprintf(expected, sizeof expected, "cannot listen on %s: %s", address->text, why);
  assert_int_equal(http_listener_bind(&listener, address, &error), -1);
  assert_string_equal(error.text, expected);
}

TEST(connections_are_refused_until_the_listener_listens) {
  static const char *const hosts[] = {"127.0.0.1", "0.0.0.0", "[::1]", "localhost", "", "[::]"};
  for (size_t i = 0; i < (has_ipv6() ? 6 : 2); i++) {
    struct http_address address = with_port(hosts[i]);
    struct http_listener listener = bind_to(&address);
    assert_int_equal(listener.count, address.count);
    for (size_t j = 0; j < address.count; j++)
      assert_int_equal(connect_to(&address, j), ECONNREFUSED);
    listen_on(&listener);
    for (size_t j = 0; j < address.count; j++)
      assert_int_equal(connect_to(&address, j), 0);
    http_listener_close(&listener);
    for (size_t j = 0; j < address.count; j++)
      assert_int_equal(connect_to(&address, j), ECONNREFUSED);
  }
}

TEST_IF(has_ipv6(), all_of_ipv6_is_also_all_of_ipv4) {
  struct http_address address = with_port("[::]");
  struct http_listener listener = bind_to(&address);
  struct http_address ipv4 = parse("127.0.0.1:1");
  ipv4.sockets[0].ipv4.sin_port = address.sockets[0].ipv6.sin6_port;
  listen_on(&listener);
  assert_int_equal(connect_to(&ipv4, 0), 0);
  http_listener_close(&listener);
}

TEST(the_sockets_do_not_block_and_are_closed_on_exec) {
  struct http_address address = with_port("localhost");
  struct http_listener listener = bind_to(&address);
  int reuse_port = 1;
  socklen_t size = sizeof reuse_port;
  for (size_t i = 0; i < listener.count; i++) {
    assert_true((fcntl(listener.fds[i], F_GETFL) & O_NONBLOCK) != 0);
    assert_int_equal(fcntl(listener.fds[i], F_GETFD), FD_CLOEXEC);
    assert_int_equal(getsockopt(listener.fds[i], SOL_SOCKET, SO_REUSEPORT, &reuse_port, &size), 0);
    assert_int_equal(reuse_port, 0);
  }
  http_listener_close(&listener);
}

TEST(a_port_that_another_process_has_cannot_be_bound) {
  struct http_address address = with_port("localhost");
  struct http_address one = address;
  struct http_listener first, second;
  one.sockets[0] = address.sockets[has_ipv6()]; /* so that the first one was bound already */
  one.count = 1;
  first = bind_to(&one);
  listen_on(&first);
  expect_refusal(&address, "Address already in use");
  http_listener_close(&first);
  second = bind_to(&address);
  http_listener_close(&second);
}

/* Both may bind, because of SO_REUSEADDR. */
TEST(of_two_that_bound_a_port_one_can_listen) {
  struct http_address address = with_port("127.0.0.1");
  struct http_listener first = bind_to(&address), second = bind_to(&address);
  struct error error;
  listen_on(&first);
  assert_int_equal(http_listener_listen(&second, &error), -1);
  assert_non_null(strstr(error.text, "Address already in use"));
  http_listener_close(&second);
  assert_int_equal(connect_to(&address, 0), 0);
  http_listener_close(&first);
}

/* The server closes first, so that its end of the connection waits in TIME_WAIT. */
TEST(a_restart_need_not_wait_for_old_connections) {
  struct http_address address = with_port("127.0.0.1");
  struct http_listener listener = bind_to(&address);
  listen_on(&listener);
  int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(client, &address.sockets[0].any, sizeof(struct sockaddr_in)), 0);
  int served = accept4(listener.fds[0], NULL, NULL, SOCK_CLOEXEC);
  assert_true(served >= 0);
  close(served);
  char byte;
  assert_int_equal(read(client, &byte, 1), 0);
  close(client);
  http_listener_close(&listener);
  listener = bind_to(&address);
  listen_on(&listener);
  http_listener_close(&listener);
}

TEST(an_address_of_another_machine_cannot_be_bound) {
  struct http_address address = with_port("192.0.2.1"); /* RFC 5737: no machine has it */
  struct http_listener listener;
  struct error error;
  assert_int_equal(http_listener_bind(&listener, &address, &error), -1);
  assert_non_null(strstr(error.text, "cannot listen on 192.0.2.1:"));
}

/* Without ::1 the second of two sockets fails like this one. */
TEST(of_two_sockets_the_missing_one_is_left_out) {
  struct http_address address = with_port("127.0.0.1");
  const struct http_address other = parse("192.0.2.1:1");
  address.sockets[1] = address.sockets[0];
  address.sockets[1].ipv4.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  address.count = 2;
  for (size_t i = 0; i < 2; i++) {
    struct http_address half = address;
    half.sockets[i] = other.sockets[0];
    struct http_listener listener = bind_to(&half);
    assert_int_equal(listener.count, 1);
    listen_on(&listener);
    assert_int_equal(connect_to(&half, 1 - i), 0);
    http_listener_close(&listener);
  }
  address.sockets[0] = address.sockets[1] = other.sockets[0];
  struct http_listener listener;
  struct error error;
  assert_int_equal(http_listener_bind(&listener, &address, &error), -1);
}

/* --- socket files ----------------------------------------------------------------------------- */

struct socket_file {
  struct directory directory;
  struct http_address address;
  const char *path;
};

static int set_up(void **state) {
  static struct socket_file file;
  char text[120];
  directory_init(&file.directory);
  (void)snprintf(text, sizeof text, "unix:%s", directory_path(&file.directory, "agent.sock"));
  file.address = parse(text);
  file.path = file.address.sockets[0].file.sun_path;
  *state = &file;
  return 0;
}

static int tear_down(void **state) {
  struct socket_file *file = *state;
  directory_release(&file->directory);
  return 0;
}

#define FILE_TEST(NAME) TEST_WITH(struct socket_file *file, NAME, set_up, tear_down)

static bool exists(const struct socket_file *file) {
  struct stat stat_buffer;
  return lstat(file->path, &stat_buffer) == 0;
}

FILE_TEST(a_socket_file_is_only_for_its_user) {
  static const mode_t masks[] = {0, 022, 077, 0777};
  for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
    struct stat stat_buffer;
    mode_t before = umask(masks[i]);
    struct http_listener listener = bind_to(&file->address);
    assert_int_equal(umask(before), masks[i]);
    assert_int_equal(lstat(file->path, &stat_buffer), 0);
    assert_int_equal(stat_buffer.st_mode, S_IFSOCK | 0600);
    assert_int_equal(connect_to(&file->address, 0), ECONNREFUSED);
    listen_on(&listener);
    assert_int_equal(connect_to(&file->address, 0), 0);
    http_listener_close(&listener);
    assert_false(exists(file));
  }
}

FILE_TEST(a_stale_socket_file_is_replaced) {
  struct http_listener killed = bind_to(&file->address);
  listen_on(&killed);
  close(killed.fds[0]);
  struct http_listener listener = bind_to(&file->address);
  listen_on(&listener);
  assert_int_equal(connect_to(&file->address, 0), 0);
  http_listener_close(&listener);
}

FILE_TEST(the_socket_file_of_another_agent_stays) {
  struct http_listener listener = bind_to(&file->address);
  expect_refusal(&file->address, "Address already in use"); /* although it does not listen yet */
  listen_on(&listener);
  expect_refusal(&file->address, "Address already in use");
  int fd = accept4(listener.fds[0], NULL, NULL, SOCK_CLOEXEC);
  assert_true(fd < 0 && errno == EAGAIN); /* nobody has connected to find that out */
  assert_int_equal(connect_to(&file->address, 0), 0);
  http_listener_close(&listener);
}

FILE_TEST(a_datagram_socket_of_another_process_stays) {
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, &file->address.sockets[0].any, sizeof(struct sockaddr_un)), 0);
  expect_refusal(&file->address, "Address already in use");
  assert_true(exists(file));
  close(fd);
}

FILE_TEST(anything_else_with_the_name_stays) {
  static const char why[] = "the file exists and is not a socket";
  struct stat stat_buffer;
  directory_touch(&file->directory, "agent.sock");
  expect_refusal(&file->address, why);
  assert_int_equal(unlink(file->path), 0);
  assert_int_equal(mkdir(file->path, 0700), 0);
  expect_refusal(&file->address, why);
  assert_int_equal(rmdir(file->path), 0);
  assert_int_equal(symlink("nowhere", file->path), 0);
  expect_refusal(&file->address, why);
  assert_int_equal(lstat(file->path, &stat_buffer), 0);
  assert_true(S_ISLNK(stat_buffer.st_mode));
}

FILE_TEST(a_missing_directory_is_named) {
  strcat(file->address.text, "/s");
  strcat(file->address.sockets[0].file.sun_path, "/s");
  expect_refusal(&file->address, "No such file or directory");
}

FILE_TEST(the_socket_file_of_a_later_agent_stays) {
  struct http_listener listener = bind_to(&file->address);
  assert_int_equal(unlink(file->path), 0);
  struct http_listener later = bind_to(&file->address);
  http_listener_close(&listener);
  assert_true(exists(file));
  http_listener_close(&later);
  assert_false(exists(file));
}
