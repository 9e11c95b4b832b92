/* The client's parser of responses over HTTP: the same result wherever the bytes are split, and
   bounded memory whatever a server sends. */

#include "client/http/http_response.h"
#include "client/http/http_url.h"
#include "tests/test.h"

/* Parses the text in two pieces. Returns the body, to be freed. */
static char *parse(struct http_response *response, const char *text, size_t first) {
  struct buffer body = {0};
  size_t at = 0, end = first;
  for (int piece = 0; piece < 2; piece++, end = strlen(text))
    while (at < end && response->part < RESPONSE_WHOLE) {
      const char *bytes;
      size_t length;
      at += http_response_parse(response, text + at, end - at, &bytes, &length);
      buffer_add(&body, bytes, length);
    }
  buffer_add(&body, "", 1);
  return body.bytes;
}

TEST(a_response_is_read_wherever_it_is_split) {
  static const struct {
    const char *text, *body;
    int status;
    enum response_part part;
    bool closes;
  } rows[] = {
      {"HTTP/1.1 200 OK\r\nSandbox-Instance: ab12\r\nContent-Length: 3\r\n\r\nabc", "abc", 200,
       RESPONSE_WHOLE, false},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 "
       "A\r\ncontent-length:0\r\nSANDBOX-INSTANCE:ab12\r\n"
       "Connection: close\r\n\r\n",
       "", 202, RESPONSE_WHOLE, true},
      {"HTTP/1.1 200 OK\r\nSandbox-Instance: ab12\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
       "B;x=y\r\n0123456789\n\r\n0\r\nTrailer: x\r\n\r\n",
       "abc0123456789\n", 200, RESPONSE_WHOLE, false},
      {"HTTP/1.1 204 No Content\r\nSandbox-Instance: ab12\r\n\r\n", "", 204, RESPONSE_WHOLE, false},
      {"HTTP/1.0 200 OK\nSandbox-Instance: ab12\n\nabc", "abc", 200, RESPONSE_REST, true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t first = 0; first <= strlen(rows[i].text); first++) {
      struct http_response response = {0};
      char *body = parse(&response, rows[i].text, first);
      assert_string_equal(body, rows[i].body);
      assert_int_equal(response.status, rows[i].status);
      assert_int_equal(response.part, rows[i].part);
      assert_int_equal(response.closes, rows[i].closes);
      assert_string_equal(response.instance, "ab12");
      free(body);
      http_response_reset(&response);
    }
}

TEST(what_is_not_http_is_broken) {
  static const char *const texts[] = {
      "-ERR unknown command\r\n",
      "HTTP/2 200\r\n",
      "\r\n\r\n",
      "HTTP/1.1 99 X\r\n",
      "HTTP/1.1 200 OK\r\nno colon\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct http_response response = {0};
    free(parse(&response, texts[i], 0));
    if (response.part != RESPONSE_BROKEN)
      fail_msg("accepted: %s", texts[i]);
    http_response_reset(&response);
  }
}

TEST(an_endless_header_takes_bounded_memory) {
  struct http_response response = {0};
  const char *body;
  size_t length, count = 0;
  (void)http_response_parse(&response, "HTTP/1.1 200 OK\r\n", 17, &body, &length);
  while (response.part == RESPONSE_HEAD && count++ < 100000)
    (void)http_response_parse(&response, "A: b\r\n", 6, &body, &length);
  assert_int_equal(response.part, RESPONSE_BROKEN);
  assert_true(count < 10000);
  http_response_reset(&response);
}

TEST(a_url_has_a_host_and_a_port_or_a_path) {
  static const struct {
    const char *text, *host, *name;
    unsigned port;
  } rows[] = {
      {"http://127.0.0.1:28417", "127.0.0.1", "127.0.0.1:28417", 28417},
      {"http://agent.example:1/", "agent.example", "agent.example:1", 1},
      {"http://[::1]:80", "::1", "[::1]:80", 80},
      {"http+unix:///run/agent.sock", "/run/agent.sock", "/run/agent.sock", 0},
      {.text = "http://127.0.0.1"},
      {.text = "http://:80"},
      {.text = "http://"},
      {.text = "http://::1:80"},
      {.text = "http://[::1"},
      {.text = "http://a:0"},
      {.text = "http://a:70000"},
      {.text = "http://a:80/path"},
      {.text = "http://user:secret@a:80"},
      {.text = "http://a b:80"},
      {.text = "http://a\r\nX: y:80"},
      {.text = "http+unix://relative"},
      {.text = "https://a:443"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct http_url url;
    struct error error;
    const int result = http_url_parse(&url, rows[i].text, &error);
    assert_true(http_url_is_http(rows[i].text));
    if (result != (rows[i].host != NULL ? 0 : -1))
      fail_msg("%s: %d", rows[i].text, result);
    if (result == 0) {
      assert_string_equal(url.address.host, rows[i].host);
      assert_string_equal(url.name, rows[i].name);
      assert_int_equal(url.address.port, rows[i].port);
    } else {
      assert_null(strstr(error.text, "secret"));
    }
    http_url_release(&url);
  }
  assert_false(http_url_is_http("redis://127.0.0.1"));
}
