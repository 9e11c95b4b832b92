/* A client of `agent --http` that reads slowly, but never stops: a minute. */

#include <poll.h>
#include <sys/socket.h>

#include "tests/support/http_steps.h"
#include "tests/test.h"

/* Less than 15 KiB in a second: what the agent has written to the connection at once lasts longer
   than the 15 seconds after which it breaks the silence of a stream. */
enum { LINES = 14, LINE_BYTES = 50000, PAUSE_MS = 4500 };

/* Limits what the client's kernel takes before the client reads it. */
static void limit_receive_buffer(struct http_client *client) {
  static const int size = 32 * 1024;
  assert_return_code(setsockopt(http_client_fd(client), SOL_SOCKET, SO_RCVBUF, &size, sizeof size),
                     0);
}

HTTP_TEST(a_slow_reader_stays_connected_and_gets_whole_lines) {
  http_agent_start_tcp(http, NULL, NULL);
  struct http_client *client = http_client_connect(http->address);
  limit_receive_buffer(client);
  http_client_send_request(
      client, "PUT", "/steps/1", HTTP_NDJSON,
      http_steps_script(
          formatted("while :; do head -c %d /dev/zero | tr '\\\\000' a; echo; done", LINE_BYTES)));
  struct http_stream *stream = http_stream_of(http, client);
  for (int i = 0; i < LINES; i++) {
    assert_non_null(http_stream_next(stream));
    (void)poll(NULL, 0, PAUSE_MS);
  }
  assert_int_equal(http_stream_missing(stream), 0);
  assert_int_equal(http_steps_metric(http, "sandbox_http_connections"), 2);
  http_stream_free(stream);
}
