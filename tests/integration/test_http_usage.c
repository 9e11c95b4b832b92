/* The flags of HTTP: wrong usage, and addresses on which the agent cannot listen. */

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/agent_process.h"
#include "tests/support/directory.h"
#include "tests/test.h"

#define KEY "SANDBOX_HTTP_KEY=0123456789abcdef"

/* Fails unless the agent ends with this code, and its log has the text. */
static void expect_end(const char *const *arguments, const char *const *environment, int code,
                       const char *text) {
  struct agent_process *agent = agent_process_start(
      &(struct agent_setup){.arguments = arguments, .environment = environment});
  int ended = agent_process_wait(agent, WAIT_BOUND_MS);
  if (ended != code)
    agent_process_fail(agent, "%s %s: exit code %d, not %d", arguments[0], text, ended, code);
  if (strstr(agent_process_log(agent), text) == NULL)
    agent_process_fail(agent, "the log lacks `%s`", text);
  assert_null(strstr(agent_process_log(agent), "s3cret"));
  assert_string_equal(agent_process_output(agent), "");
  agent_process_free(agent);
}

TEST(wrong_usage_of_http_exits_with_64) {
  static const char address[] = "agent: --http 0.0.0.0:28417: others can reach this address. Set "
                                "SANDBOX_HTTP_KEY (16 characters or more), or use --http-open";
  static const struct {
    const char *text;
    const char *arguments[6], *environment[2];
  } rows[] = {
      {address, {"--http", "0.0.0.0:28417"}, {NULL}},
      {address, {"--mcp", "--http", "0.0.0.0:28417"}, {NULL}},
      {"agent: --http: expected an IP address or localhost before the port, got 'sandbox'",
       {"--http", "sandbox:28417"},
       {NULL}},
      {"agent: --http: expected a port from 1 to 65535, got '0'", {"--http", ":0"}, {NULL}},
      {"agent: --http cannot be used with --once", {"--once", "--http", ":1"}, {NULL}},
      {"agent: --http cannot be used with --ipc", {"--ipc", "--http", ":1"}, {NULL}},
      {"agent: --redis-url cannot be used with --http, which needs no Redis",
       {"--http", "localhost:1", "--redis-url", "redis://:s3cret@h"},
       {NULL}},
      {"agent: --http-path needs --stdio or --mcp",
       {"--http", "localhost:1", "--http-path", "/predict"},
       {NULL}},
      {"agent: --http-open needs --http", {"--mcp", "--http-open"}, {NULL}},
      {"agent: --http-open cannot be used with a key (SANDBOX_HTTP_KEY)",
       {"--http", ":1", "--http-open"},
       {KEY}},
      {"agent: --http-key-file cannot be used with SANDBOX_HTTP_KEY",
       {"--http", ":1", "--http-key-file", "/k"},
       {KEY}},
      {"agent: SANDBOX_HTTP_KEY: a key has 16 to 256 characters",
       {"--http", ":1"},
       {"SANDBOX_HTTP_KEY=s3cret"}},
      {"agent: SANDBOX_HTTP_KEY: a key has only visible ASCII characters, and no spaces",
       {"--http", ":1"},
       {"SANDBOX_HTTP_KEY=s3cret with spaces"}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_end(rows[i].arguments, rows[i].environment, 64, rows[i].text);
}

TEST(a_key_file_that_cannot_be_read_is_an_error) {
  expect_end((const char *const[]){"--http", ":1", "--http-key-file", "/nonexistent", NULL}, NULL,
             3, "agent: cannot read the key file /nonexistent: No such file or directory");
}

/* Listens on a free port of this address, and returns the port. */
static int listen_on(int *fd) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(*fd, (struct sockaddr *)&address, size), 0);
  assert_int_equal(listen(*fd, 1), 0);
  assert_int_equal(getsockname(*fd, (struct sockaddr *)&address, &size), 0);
  return ntohs(address.sin_port);
}

/* In each mode, and with each form of address that includes the port. */
TEST(a_port_that_is_in_use_is_an_error) {
  static const char *const modes[] = {NULL, "--stdio", "--mcp"};
  static const char *const hosts[] = {"127.0.0.1", "localhost", "0.0.0.0", "[::]", ""};
  int fd, port = listen_on(&fd);
  for (size_t i = 0; i < 3 * sizeof hosts / sizeof *hosts; i++) {
    const char *address = formatted("%s:%d", hosts[i / 3], port);
    const char *const arguments[] = {"--http", address, modes[i % 3], NULL};
    expect_end(arguments, (const char *const[]){KEY, NULL}, 3,
               formatted("cannot listen on %s: Address already in use", address));
  }
  close(fd);
}

TEST(an_address_of_another_machine_is_an_error) {
  expect_end((const char *const[]){"--http", "192.0.2.1:28417", "--http-open", NULL}, NULL, 3,
             "cannot listen on 192.0.2.1:28417: ");
}

TEST(only_a_stale_socket_file_is_replaced) {
  struct directory directory;
  directory_init(&directory);
  const char *path = directory_path(&directory, "s");
  const char *const arguments[] = {"--http", formatted("unix:%s", path), NULL};
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
  expect_end(arguments, NULL, 3,
             formatted("cannot listen on unix:%s: Address already in use", path));
  assert_true(directory_has(&directory, "s"));
  close(fd);
  assert_int_equal(unlink(path), 0);
  directory_touch(&directory, "s");
  expect_end(arguments, NULL, 3,
             formatted("cannot listen on unix:%s: the file exists and is not a socket", path));
  assert_true(directory_has(&directory, "s"));
  directory_release(&directory);
}
