#include "agent/frontends/http/connection/access.h"

#include "tests/test.h"
#include "wire/http_key.h"

#define KEY "0123456789abcdef"

static enum http_access_result check(struct http_access access, bool is_tcp,
                                     struct http_access_fields fields) {
  return http_access_check(&access, is_tcp, &fields);
}

TEST(a_request_needs_the_key) {
  static const struct {
    enum http_access_result result;
    const char *authorization, *sandbox_key;
  } rows[] = {
      {HTTP_ACCESS_ALLOWED, "Bearer " KEY, NULL},
      {HTTP_ACCESS_ALLOWED, "bearer   " KEY, NULL},
      {HTTP_ACCESS_ALLOWED, NULL, KEY},
      {HTTP_ACCESS_NO_KEY_SENT, NULL, NULL},
      {HTTP_ACCESS_UNAUTHORIZED, KEY, NULL},
      {HTTP_ACCESS_UNAUTHORIZED, "Bearer", NULL},
      {HTTP_ACCESS_UNAUTHORIZED, "Bearer ", NULL},
      {HTTP_ACCESS_UNAUTHORIZED, "Bearer" KEY, NULL},
      {HTTP_ACCESS_UNAUTHORIZED, "Basic " KEY, NULL},
      {HTTP_ACCESS_UNAUTHORIZED, "", NULL},
      {HTTP_ACCESS_UNAUTHORIZED, NULL, ""},
      {HTTP_ACCESS_UNAUTHORIZED, NULL, "Bearer " KEY},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (check((struct http_access){.key = KEY}, true,
              (struct http_access_fields){.host = "h",
                                          .authorization = rows[i].authorization,
                                          .sandbox_key = rows[i].sandbox_key}) != rows[i].result)
      fail_msg("row %zu: '%s', '%s'", i, rows[i].authorization, rows[i].sandbox_key);
}

TEST(every_character_of_the_key_counts) {
  for (size_t length = HTTP_KEY_MIN; length <= HTTP_KEY_MAX; length += 48) {
    char key[HTTP_KEY_MAX + 1] = {0}, sent[HTTP_KEY_MAX + 2] = {0};
    const struct http_access access = {.key = key};
    const struct http_access_fields fields = {.host = "h", .sandbox_key = sent};
    memset(key, 'k', length);
    memcpy(sent, key, length);
    assert_int_equal(http_access_check(&access, true, &fields), HTTP_ACCESS_ALLOWED);
    for (size_t i = 0; i < length; i++) {
      sent[i] ^= 1;
      assert_int_equal(http_access_check(&access, true, &fields), HTTP_ACCESS_UNAUTHORIZED);
      sent[i] ^= 1;
    }
    sent[length] = 'k';
    assert_int_equal(http_access_check(&access, true, &fields), HTTP_ACCESS_UNAUTHORIZED);
    sent[length - 1] = sent[length] = '\0';
    assert_int_equal(http_access_check(&access, true, &fields), HTTP_ACCESS_UNAUTHORIZED);
  }
}

TEST(beside_the_second_field_authorization_does_not_count) {
  static const struct http_access access = {.key = KEY};
  assert_int_equal(
      check(access, true,
            (struct http_access_fields){
                .host = "h", .authorization = "Bearer another-key-of-a-proxy", .sandbox_key = KEY}),
      HTTP_ACCESS_ALLOWED);
  assert_int_equal(check(access, true,
                         (struct http_access_fields){.host = "h",
                                                     .authorization = "Bearer " KEY,
                                                     .sandbox_key = "another-key-of-a-proxy"}),
                   HTTP_ACCESS_UNAUTHORIZED);
}

TEST(without_a_key_every_request_is_authorized) {
  static const struct http_access_fields none = {.host = "localhost"},
                                         some = {.host = "localhost", .sandbox_key = KEY};
  assert_int_equal(check((struct http_access){0}, true, none), HTTP_ACCESS_ALLOWED);
  assert_int_equal(check((struct http_access){0}, true, some), HTTP_ACCESS_ALLOWED);
}

TEST(web_pages_are_rejected_except_local_ones_with_mcp) {
  static const struct {
    const char *origin;
    bool is_local;
  } rows[] = {
      {"http://localhost", true},
      {"https://localhost:8443", true},
      {"HTTP://LocalHost:1", true},
      {"http://127.0.0.1:6274", true},
      {"https://[::1]", true},
      {"http://[::1]:65535", true},
      {"", false},
      {"null", false},
      {"http://", false},
      {"http://localhost.example.com", false},
      {"http://localhost@example.com", false},
      {"http://localhost:1@example.com", false},
      {"http://localhost:x", false},
      {"http://localhost/", false},
      {"http://localhost, http://example.com", false},
      {"http://127.0.0.2", false},
      {"http://127.0.0.1.example.com", false},
      {"http://[::2]", false},
      {"http://[::1]x", false},
      {"https://example.com", false},
      {"file://localhost", false},
      {"localhost", false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct http_access_fields fields = {
        .host = "localhost", .origin = rows[i].origin, .sandbox_key = KEY};
    assert_int_equal(check((struct http_access){0}, true, fields), HTTP_ACCESS_ORIGIN);
    assert_int_equal(check((struct http_access){.key = KEY}, false, fields), HTTP_ACCESS_ORIGIN);
    if (check((struct http_access){.accepts_local_origins = true}, true, fields) !=
        (rows[i].is_local ? HTTP_ACCESS_ALLOWED : HTTP_ACCESS_ORIGIN))
      fail_msg("%s: it does not count as %s", rows[i].origin,
               rows[i].is_local ? "local" : "foreign");
  }
}

TEST(without_a_key_the_host_must_be_of_this_machine) {
  static const struct {
    const char *host;
    bool is_own;
  } rows[] = {
      {"localhost", true},
      {"LOCALHOST:28417", true},
      {"localhost:", true},
      {"127.0.0.1", true},
      {"10.1.2.3:28417", true},
      {"[::1]", true},
      {"[fe80::1]:28417", true},
      {"sandbox", true},
      {"Sandbox:8081", true},
      {"agent.default.svc", true},
      {"", false},
      {"sandbo", false},
      {"sandboxx", false},
      {"sandbox,agent.default.svc", false},
      {"default.svc", false},
      {"localhost.", false},
      {"localhost.example.com", false},
      {"127.0.0.1.example.com:80", false},
      {"0x7f.1", false},
      {"2130706433", false},
      {"::1", false},
      {"[::1", false},
      {"[]", false},
      {"[::1]x", false},
      {"localhost:x", false},
      {"example.com:28417", false},
  };
  static const char names[] = "sandbox,agent.default.svc";
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct http_access_fields fields = {.host = rows[i].host, .sandbox_key = KEY};
    if (check((struct http_access){.names = names}, true, fields) !=
        (rows[i].is_own ? HTTP_ACCESS_ALLOWED : HTTP_ACCESS_HOST))
      fail_msg("%s: it does not count as %s", rows[i].host, rows[i].is_own ? "own" : "foreign");
    assert_int_equal(check((struct http_access){.names = names}, false, fields),
                     HTTP_ACCESS_ALLOWED);
    assert_int_equal(check((struct http_access){.key = KEY}, true, fields), HTTP_ACCESS_ALLOWED);
  }
  assert_int_equal(check((struct http_access){0}, true, (struct http_access_fields){0}),
                   HTTP_ACCESS_ALLOWED); /* HTTP/1.0 */
}

TEST(the_origin_is_checked_before_the_host_and_the_host_before_the_key) {
  static const struct http_access_fields fields = {.host = "h", .origin = "http://h"},
                                         without_origin = {.host = "h"};
  assert_int_equal(check((struct http_access){.key = KEY}, true, fields), HTTP_ACCESS_ORIGIN);
  assert_int_equal(check((struct http_access){0}, true, fields), HTTP_ACCESS_ORIGIN);
  assert_int_equal(check((struct http_access){0}, true, without_origin), HTTP_ACCESS_HOST);
}

TEST(a_key_has_16_to_256_visible_characters) {
  struct error error;
  char key[HTTP_KEY_MAX + 2];
  for (size_t length = 0; length < sizeof key; length++) {
    memset(key, '~', length);
    key[length] = '\0';
    assert_int_equal(http_key_check(key, &error),
                     length >= HTTP_KEY_MIN && length <= HTTP_KEY_MAX ? 0 : -1);
  }
  for (int byte = 1; byte < 256; byte++) {
    strcpy(key, KEY);
    key[7] = (char)byte;
    assert_int_equal(http_key_check(key, &error), byte > ' ' && byte < 127 ? 0 : -1);
    if (byte <= ' ' || byte >= 127)
      assert_null(strstr(error.text, "89abcdef"));
  }
}

TEST(the_names_of_a_host_are_a_list) {
  static const char *const valid[] = {"a", "a,b", "a-1.b_c.svc,127.0.0.1"};
  static const char *const invalid[] = {"", ",", "a,", ",a", "a,,b", "a b", "a, b", "a:1", "*.a"};
  struct error error;
  for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
    assert_int_equal(http_access_check_names(valid[i], &error), 0);
  for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
    assert_int_equal(http_access_check_names(invalid[i], &error), -1);
}
