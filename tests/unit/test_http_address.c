#include "agent/frontends/http/connection/address.h"

#include <arpa/inet.h>

#include "tests/test.h"

/* Writes "127.0.0.1:1 [::1]:1" for two sockets. */
static void describe(const struct http_address *address, char *out, size_t size) {
  char host[INET6_ADDRSTRLEN];
  size_t length = 0;
  out[0] = '\0';
  for (size_t i = 0; i < address->count; i++) {
    const union http_socket_address *at = &address->sockets[i];
    const char *space = i > 0 ? " " : "";
    if (at->any.sa_family == AF_UNIX)
      length += (size_t)snprintf(out + length, size - length, "%s", at->file.sun_path);
    else if (at->any.sa_family == AF_INET)
      length += (size_t)snprintf(out + length, size - length, "%s%s:%d", space,
                                 inet_ntop(AF_INET, &at->ipv4.sin_addr, host, sizeof host),
                                 ntohs(at->ipv4.sin_port));
    else
      length += (size_t)snprintf(out + length, size - length, "%s[%s]:%d", space,
                                 inet_ntop(AF_INET6, &at->ipv6.sin6_addr, host, sizeof host),
                                 ntohs(at->ipv6.sin6_port));
  }
}

TEST(each_form_of_an_address_is_accepted) {
  static const struct {
    bool is_local;
    const char *text, *sockets;
  } rows[] = {
      {true, "127.0.0.1:28417", "127.0.0.1:28417"},
      {true, "127.1.2.3:1", "127.1.2.3:1"},
      {true, "[::1]:28417", "[::1]:28417"},
      {true, "localhost:28417", "127.0.0.1:28417 [::1]:28417"},
      {true, "LocalHost:65535", "127.0.0.1:65535 [::1]:65535"},
      {true, "[::ffff:127.0.0.1]:1", "127.0.0.1:1"},
      {true, "unix:/run/agent.sock", "/run/agent.sock"},
      {true, "unix:/a:b c", "/a:b c"},
      {false, "10.0.0.7:28417", "10.0.0.7:28417"},
      {false, "0.0.0.0:28417", "0.0.0.0:28417"},
      {false, "[::]:28417", "[::]:28417"},
      {false, "[fe80::7]:1", "[fe80::7]:1"},
      {false, "[::ffff:10.0.0.7]:1", "10.0.0.7:1"},
      {false, "[::127.0.0.1]:1", "[::127.0.0.1]:1"},
      {false, ":28417", "0.0.0.0:28417 [::]:28417"},
      {false, ":007", "0.0.0.0:7 [::]:7"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct http_address address;
    struct error error;
    char sockets[200];
    if (http_address_parse(&address, rows[i].text, &error) != 0)
      fail_msg("%s: %s", rows[i].text, error.text);
    describe(&address, sockets, sizeof sockets);
    assert_string_equal(sockets, rows[i].sockets);
    assert_string_equal(address.text, rows[i].text);
    if (http_address_is_local(&address) != rows[i].is_local)
      fail_msg("%s: the address counts as %s", rows[i].text, rows[i].is_local ? "open" : "local");
    assert_int_equal(http_address_is_file(&address), rows[i].text[0] == 'u');
  }
}

TEST(an_address_of_another_form_is_named) {
  static const char form[] = "expected IP:PORT, localhost:PORT, :PORT or unix:/PATH, got";
  static const char port[] = "expected a port from 1 to 65535, got";
  static const char host[] = "expected an IP address or localhost before the port, got";
  static const struct {
    const char *text, *why;
  } rows[] = {
      {"", form},
      {"28417", form},
      {"localhost", form},
      {"10.0.0.7", form},
      {"[::1]", form},
      {":", port},
      {":0", port},
      {":65536", port},
      {":000080", port},
      {":-1", port},
      {":+1", port},
      {":1x", port},
      {": 1", port},
      {"127.0.0.1:http", port},
      {"example.com:28417", host},
      {"localhost.:28417", host},
      {"127.1:28417", host},
      {"0x7f.0.0.1:28417", host},
      {" 127.0.0.1:28417", host},
      {"*:28417", host},
      {"[]:28417", host},
      {"[127.0.0.1]:28417", host},
      {"[::1:28417", host},
      {"[fe80::1%eth0]:28417", host},
      {"http://127.0.0.1:28417", host},
      {"::1:28417", "an IPv6 address needs brackets: '[::1]'"},
      {"unix:", "expected an absolute path after unix:, got ''"},
      {"unix:agent.sock", "expected an absolute path after unix:, got 'agent.sock'"},
      {"unix:@agent", "expected an absolute path after unix:, got '@agent'"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct http_address address;
    struct error error;
    if (http_address_parse(&address, rows[i].text, &error) == 0)
      fail_msg("%s: the address is accepted", rows[i].text);
    if (strncmp(error.text, rows[i].why, strlen(rows[i].why)) != 0)
      fail_msg("%s: %s", rows[i].text, error.text);
  }
}

TEST(a_path_must_fit_into_the_address_of_a_socket) {
  char text[200] = "unix:/";
  struct http_address address;
  struct error error;
  memset(text + strlen(text), 'a', 106);
  assert_int_equal(http_address_parse(&address, text, &error), 0);
  assert_string_equal(address.text, text);
  strcat(text, "a");
  assert_int_equal(http_address_parse(&address, text, &error), -1);
  assert_non_null(strstr(error.text, "the path of a socket has at most 107 bytes"));
  memset(text, '1', sizeof text);
  memcpy(text + sizeof text - 4, ":1\0", 4);
  assert_int_equal(http_address_parse(&address, text, &error), -1);
}
