#include "agent/doors/redis/net/address.h"
#include "tests/test.h"

/* What connection strings may hold is in test_url.c. */
TEST(no_more_than_its_bytes_are_read) {
  struct redis_address address;
  struct error error;
  assert_int_equal(redis_address_parse(&address, "host:12,next:3", 7, 1, &error), 0);
  assert_string_equal(address.host, "host");
  assert_int_equal(address.port, 12);
  redis_address_release(&address);
  assert_null(address.host);
  assert_int_equal(redis_address_parse(&address, "[::1]:12", 5, 7, &error), 0);
  assert_string_equal(address.host, "::1");
  assert_int_equal(address.port, 7);
  redis_address_release(&address);
  redis_address_release(&address);
}

TEST(a_redirection_names_a_node) {
  static const struct {
    const char *text;
    const char *host;
    unsigned port;
  } rows[] = {
      {"127.0.0.1:6381", "127.0.0.1", 6381},
      {"node-1.example:1", "node-1.example", 1},
      {"2001:db8::1:6381", "2001:db8::1", 6381},
      {":65535", "same", 65535},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct redis_address address;
    assert_int_equal(redis_address_parse_redirect(&address, rows[i].text, "same"), 0);
    assert_string_equal(address.host, rows[i].host);
    assert_int_equal(address.port, rows[i].port);
    redis_address_release(&address);
  }
}

TEST(a_redirection_may_be_of_no_use) {
  static const char *const texts[] = {"",        ":",     "h",     "h:",    "h:0",
                                      "h:65536", "h:x",   "h:1 ",  "h :1",  "h:-1",
                                      "?:6379",  "a,b:1", "h\n:1", "a@b:1", "h:123456789012"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct redis_address address;
    if (redis_address_parse_redirect(&address, texts[i], "same") != -1)
      fail_msg("taken: %s", texts[i]);
  }
  struct redis_address address;
  assert_int_equal(redis_address_parse_redirect(&address, ":6379", NULL), -1);
}

TEST(a_name_for_people) {
  char name[32];
  assert_int_equal(redis_address_name("h", 1, name, sizeof name), 3);
  assert_string_equal(name, "h:1");
  assert_int_equal(redis_address_name("::1", 6379, name, sizeof name), 10);
  assert_string_equal(name, "[::1]:6379");
}
