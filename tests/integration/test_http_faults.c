/* Untrusted and careless clients of `agent --http`: each test is about a way in which one client
   could harm another one, or the program. */

#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/http_steps.h"
#include "tests/support/proc.h"
#include "tests/support/wait.h"
#include "tests/test.h"

TEST_OVERLAP(4)

#define KEY "1c6b1d0e-4f5a-4a55"
#define WITH_KEY "Authorization: Bearer " KEY "\r\n"
#define JSON "Content-Type: application/json\r\n"
#define TRUE_STEP "{\"command\":\"true\"}"

static const char *const with_key[] = {"SANDBOX_HTTP_KEY=" KEY, NULL};

/* --- clients that do not read ----------------------------------------------------------------- */

enum { CONNECTIONS_MAX = 64 };

/* Sends requests that need no key as long as the kernel takes them. */
static void send_requests(struct http_client *client) {
  static const char request[] = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
  char text[64 * (sizeof request - 1)];
  for (size_t i = 0; i < sizeof text; i += sizeof request - 1)
    memcpy(text + i, request, sizeof request - 1);
  /* A request that is cut is refused, which ends the connection, so only whole ones are sent. */
  while (send(http_client_fd(client), text, sizeof text, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         (ssize_t)sizeof text)
    continue;
}

static bool has_unread_requests(struct http_client *client) {
  int unread = 0;
  assert_return_code(ioctl(http_client_fd(client), SIOCOUTQ, &unread), 0);
  return unread > 0;
}

static bool sleeps(struct http_agent *http) {
  const pid_t pid = agent_process_pid(http->process);
  return proc_sleeps_in(pid, SYS_epoll_wait) || proc_sleeps_in(pid, SYS_epoll_pwait);
}

/* The agent sleeps although it has not read all requests: it waits for clients that read. */
static bool are_all_stuck(void *context) {
  struct http_agent *http = context;
  for (int i = 0; i < http->client_count; i++)
    send_requests(http->clients[i]);
  for (int i = 0; i < http->client_count; i++)
    if (!has_unread_requests(http->clients[i]))
      return false;
  return sleeps(http);
}

HTTP_TEST(clients_without_the_key_do_not_lock_others_out) {
  http_agent_start(http, NULL, with_key);
  for (int i = 0; i < CONNECTIONS_MAX; i++)
    (void)http_agent_connect(http);
  assert_true(wait_until(are_all_stuck, http, WAIT_BOUND_MS));
  struct http_client *client = http_agent_connect(http);
  http_agent_expect_status(http, http_client_request(client, "GET", "/steps", WITH_KEY, NULL), 200);
}

/* --- clients that leave ----------------------------------------------------------------------- */

static void send_call(struct http_client *client) {
  http_client_send_request(client, "POST", "/execute", JSON,
                           "{\"params\":{\"command\":\"sleep 1000\"}}");
}

static void expect_cancelled(struct http_agent *http, struct http_client *client) {
  const struct http_response *response = http_client_response(client);
  http_agent_expect_status(http, response, 200);
  assert_non_null(strstr(response->body, "cancelled"));
}

HTTP_TEST(closing_the_sending_side_cancels_every_call_that_was_pipelined) {
  static const char *const arguments[] = {"--stdio", NULL};
  http_agent_start(http, arguments, NULL);
  struct http_client *client = http_agent_connect(http);
  for (int i = 0; i < 3; i++)
    send_call(client);
  http_client_end_input(client);
  for (int i = 0; i < 3; i++)
    expect_cancelled(http, client);
}

static bool has_one_connection(void *context) {
  return http_steps_metric(context, "sandbox_http_connections") == 1;
}

static bool was_all_received(void *context) {
  return !has_unread_requests(context);
}

/* Only what is behind the request stays unread. */
HTTP_TEST(a_reset_connection_is_closed_although_bytes_of_it_are_unread) {
  http_agent_start_tcp(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  struct http_client *client = http_client_connect(http->address);
  http_client_send_request(client, "GET", "/steps/1?wait=60", NULL, NULL);
  while (http_steps_metric(http, "sandbox_http_connections") != 2)
    continue;
  http_client_send_request(client, "GET", "/health", NULL, NULL);
  assert_true(wait_until(was_all_received, client, WAIT_BOUND_MS));
  http_client_reset(client);
  http_client_free(client);
  assert_true(wait_until(has_one_connection, http, WAIT_BOUND_MS / 2));
  http_agent_open_gate(http, "1");
}

HTTP_TEST(a_connection_that_was_reset_before_its_request_was_read_is_closed) {
  http_agent_start_tcp(http, NULL, NULL);
  const pid_t agent = agent_process_pid(http->process);
  http_steps_hold(http, "1", ":");
  struct http_client *client = http_client_connect(http->address);
  while (http_steps_metric(http, "sandbox_http_connections") != 2)
    continue;
  assert_return_code(kill(agent, SIGSTOP), 0);
  http_client_send_request(client, "GET", "/steps/1?wait=60", NULL, NULL);
  http_client_reset(client);
  http_client_free(client);
  assert_return_code(kill(agent, SIGCONT), 0);
  assert_true(wait_until(has_one_connection, http, WAIT_BOUND_MS / 2));
  http_agent_open_gate(http, "1");
}

/* --- requests that are refused ---------------------------------------------------------------- */

/* The client has read a stream of an agent that was replaced. */
HTTP_TEST(a_new_step_is_not_run_if_its_stream_begins_after_an_event) {
  static const char *const fields[] = {HTTP_NDJSON, HTTP_SSE, HTTP_SSE "Last-Event-ID: 3\r\n"};
  static const char *const targets[] = {"/steps/1?after=3", "/steps/1?after=3", "/steps/1"};
  http_agent_start(http, NULL, NULL);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    struct http_client *client = http_agent_connect(http);
    const struct http_response *response =
        http_client_request(client, "PUT", targets[i], fields[i], TRUE_STEP);
    http_agent_expect_error(http, response, 409, "ahead");
  }
  http_steps_expect_error(http, 404, "not_found", "GET", "/steps/1", NULL);
  http_agent_expect_no_step(http);
}

/* --- the end of the program ------------------------------------------------------------------- */

HTTP_TEST(a_client_that_waits_for_a_shutdown_does_not_delay_it) {
  http_agent_start(http, NULL, NULL);
  http_steps_hold(http, "1", ":");
  (void)http_steps_put(http, "end", "{\"kind\":\"shutdown\"}");
  struct http_client *client = http_agent_connect(http);
  http_client_send_request(client, "GET", "/steps/end?wait=60", NULL, NULL);
  struct http_client *other = http_agent_connect(http);
  http_client_send_request(other, "GET", "/steps/1?wait=60", NULL, NULL);
  http_agent_open_gate(http, "1");
  http_agent_expect_status(http, http_client_response(other), 200);
  assert_int_equal(agent_process_wait(http->process, WAIT_BOUND_MS), 0);
  assert_int_equal(agent_process_count_log(http->process, "not read all responses"), 0);
}

/* --- the key ---------------------------------------------------------------------------------- */

/* Counts the key in the writable memory of the process. Needs root. */
static int count_key_in_memory(pid_t pid) {
  unsigned long from, to;
  int found = 0;
  char *maps = proc_read(pid, "maps", NULL);
  const int memory = open(formatted("/proc/%d/mem", (int)pid), O_RDONLY | O_CLOEXEC);
  assert_non_null(maps);
  assert_true(memory >= 0);
  for (const char *line = strtok(maps, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    if (sscanf(line, "%lx-%lx rw-p", &from, &to) != 2 || strstr(line, " rw-p ") == NULL)
      continue;
    char *bytes = malloc(to - from), *at = bytes;
    const ssize_t length = pread(memory, bytes, to - from, (off_t)from);
    while (length > 0 && (at = memmem(at, (size_t)(bytes + length - at), KEY, strlen(KEY))) != NULL)
      found += at++ != NULL;
    free(bytes);
  }
  (void)close(memory);
  free(maps);
  return found;
}

/* Requests with the key in each field, two of which arrive together. */
static void send_keys(struct http_agent *http) {
  static const char requests[] =
      "GET /steps HTTP/1.1\r\nHost: a\r\nX-Sandbox-Key: " KEY "\r\n\r\n"
      "GET /health HTTP/1.1\r\nHost: a\r\nX-Padding: 0123456789\r\n" WITH_KEY "\r\n";
  struct http_client *client = http_agent_connect(http);
  http_client_send(client, requests);
  http_agent_expect_status(http, http_client_response(client), 200);
  http_agent_expect_status(http, http_client_response(client), 200);
}

/* The step's supervisor stays with the process that it leaves behind; the next step gets a new
   one. */
static void leave_process(struct http_agent *http, const char *id) {
  const char *path = formatted("/steps/%s", id);
  (void)http_steps_ask(http, 202, "PUT", path, WITH_KEY,
                       http_steps_script("sleep 1000 >/dev/null 2>&1 &"));
  (void)http_steps_ask(http, 200, "GET", formatted("%s?wait=60", path), WITH_KEY, NULL);
}

/* A supervisor begins as a copy of the agent, and forgets its keys before it reads a file. A
   sanitizer keeps freed memory. */
TEST_WITH_IF(agent_process_is_shipped() && geteuid() == 0, struct http_agent *http,
             a_supervisor_that_reads_files_does_not_have_the_key_of_a_request, http_agent_set_up,
             http_agent_tear_down) {
  http_agent_start(http, NULL, with_key);
  const pid_t agent = agent_process_pid(http->process);
  send_keys(http);
  leave_process(http, "1");
  send_keys(http);
  leave_process(http, "2");
  (void)http_steps_ask(http, 202, "PUT", "/steps/3", WITH_KEY,
                       "{\"kind\":\"readFile\",\"path\":\"/dev/null\"}");
  (void)http_steps_ask(http, 200, "GET", "/steps/3?wait=60", WITH_KEY, NULL);
  assert_true(count_key_in_memory(agent) > 0);
  int forgotten = 0; /* only by the supervisor of the last step */
  for (int i = 0; proc_child_of(agent, i) != 0; i++)
    forgotten += count_key_in_memory(proc_child_of(agent, i)) == 0;
  assert_int_equal(forgotten, 1);
}
